#include "plan.h"

#include "charge.h"
#include "comm_buffers.h"

#include <string.h>

enum { CACHED = 1024 }; /* elements of a group of planes, where several are so small: 16 KiB */

/* ---- memory ---- */

/* Planes of so many elements in a group. */
static int group_planes(double plane_size)
{
    return plane_size < CACHED ? (int)(CACHED / plane_size) : 1;
}

double bx_plan_field_bytes(const int shape[3], int columns, int planes, int bands, int threads)
{
    double line = shape[2], plane = (double)shape[0] * shape[1];
    double stages = threads * ((2 * group_planes(plane) + 2) * plane + BX_GROUP * line);
    return (line * columns * (bands + 2 * BX_SLOTS) + plane * planes * BX_SLOTS + stages) *
           sizeof(bx_complex);
}

/* Bands of an inner plan: what each direction has in each slot. */
enum { INNER_BANDS = 2 * BX_SLOTS };

double bx_plan_bytes(const bx_geometry *g, int rank, int bands, int threads)
{
    const int shape[3] = {g->plane_nx, g->plane_ny, g->length};
    double expected = (double)bx_plan_plane_elements(g, rank); /* to compare with */
    double tables = (double)(sizeof(size_t)) * g->plane_first[g->ranks] +
                    (double)(sizeof(int)) * (4.0 * g->columns + 16.0 * g->ranks);
    double inner = g->inner ? bx_plan_bytes(g->inner, rank, INNER_BANDS, threads) : 0;
    return bx_plan_field_bytes(shape, bx_geometry_columns(g, rank),
                               g->inner ? 0 : bx_geometry_planes(g, rank), bands, threads) +
           expected * sizeof(bx_complex) + tables + inner;
}

/* Each direction and slot has a half-transformed field. */
static size_t half_elements(const bx_geometry *g, int rank)
{
    return bx_plan_paged(bx_plan_column_elements(g, rank) * 2 * BX_SLOTS);
}

static void zero_halves(const bx_plan *plan)
{
    bx_complex *mine = plan->halves_of[plan->node_rank];
    size_t each = bx_plan_column_elements(plan->geometry, plan->rank);
    for (int i = 0; i < 2 * BX_SLOTS; i++)
        bx_plan_zero(plan, mine + (size_t)i * each, each, (size_t)plan->my_columns);
}

static void create_halves(bx_plan *plan)
{
    plan->halves.window = MPI_WIN_NULL;
    BX_ALLOC((size_t)bx_geometry_node_size(plan->geometry, plan->node_index), plan->halves_of);
    plan->halves_of[plan->node_rank] =
        bx_plan_buffer_create(half_elements(plan->geometry, plan->rank));
    zero_halves(plan);
}

static void free_halves(bx_plan *plan)
{
    if (plan->halves.window == MPI_WIN_NULL) bx_plan_buffer_free(plan->halves_of[plan->node_rank]);
    bx_shared_free(&plan->halves);
}

bool bx_plan_share_halves(bx_plan *plan)
{
    if (plan->halves.window != MPI_WIN_NULL) return true;
    const bx_geometry *g = plan->geometry;
    const int *ranks = bx_geometry_ranks(g, plan->node_index);
    int count = bx_geometry_node_size(g, plan->node_index);
    size_t total = 0;
    bx_shared shared;
    for (int i = 0; i < count; i++) total += half_elements(g, ranks[i]);
    if (!bx_shared_create(plan->run, plan->node, total * sizeof(bx_complex), &shared)) return false;
    free_halves(plan);
    plan->halves = shared;
    bx_complex *next = shared.base;
    for (int i = 0; i < count; next += half_elements(g, ranks[i++])) plan->halves_of[i] = next;
    zero_halves(plan);
    return true;
}

/* Elements of a slot's planes; of a plane for each thread, and of a group of columns. */
static size_t slot_elements(const bx_plan *plan)
{
    return plan->inner ? 0 : bx_plan_plane_elements(plan->geometry, plan->rank);
}

static size_t plane_stages(const bx_plan *plan)
{
    return plan->inner || plan->copied ? 0 : (size_t)plan->threads * plan->plane_size;
}

static size_t column_stages(const bx_plan *plan)
{
    return (size_t)plan->threads * BX_GROUP * (size_t)plan->geometry->length;
}

static void zero_fields(const bx_plan *plan)
{
    size_t columns = bx_plan_column_elements(plan->geometry, plan->rank),
           stages = plane_stages(plan);
    size_t group = (size_t)plan->plane_group, plane = plan->plane_size,
           staged = BX_GROUP * (size_t)plan->geometry->length;
    for (int band = 0; band < plan->bands; band++)
        bx_plan_zero(plan, bx_plan_columns(plan, band), columns, staged);
    bx_plan_zero(plan, plan->column_stage, column_stages(plan), staged);
    for (size_t slot = 0, each = slot_elements(plan); slot < BX_SLOTS; slot++)
        bx_plan_zero(plan, plan->planes + slot * each, each, group * plane);
    for (int way = 0; way < 2; way++)
        bx_plan_zero(plan, plan->plane_stage[way], group * stages, group * plane);
    bx_plan_zero(plan, plan->plane_between, stages, plane);
    bx_plan_zero(plan, plan->plane_work, stages, plane);
}

static void create_fields(bx_plan *plan)
{
    size_t stages = plane_stages(plan);
    plan->columns = bx_plan_buffer_create((size_t)plan->bands *
                                          bx_plan_column_elements(plan->geometry, plan->rank));
    plan->column_stage = bx_buffer_create(column_stages(plan));
    plan->planes = bx_plan_buffer_create(BX_SLOTS * slot_elements(plan));
    for (int way = 0; way < 2; way++)
        plan->plane_stage[way] = bx_buffer_create((size_t)plan->plane_group * stages);
    plan->plane_between = bx_buffer_create(stages);
    plan->plane_work = bx_buffer_create(stages);
    zero_fields(plan);
}

/* ---- plan ---- */

/* Which places of a plane have a column; to be freed. */
static bool *columns_in_plane(const bx_plan *plan)
{
    bool *has = bx_memory_alloc(plan->plane_size, sizeof *has);
    for (int s = 0; s < plan->geometry->columns; s++) has[plan->geometry->column_place[s]] = true;
    return has;
}

/* Rows whose columns are in more than two runs, or nearly everywhere, are transformed whole. */
static void find_x_runs(bx_plan *plan)
{
    const bx_geometry *g = plan->geometry;
    bool *has = columns_in_plane(plan),
         *x_has = bx_memory_alloc((size_t)g->plane_nx, sizeof *x_has);
    int used = 0, runs = 0;
    for (size_t i = 0; i < plan->plane_size; i++)
        if (has[i]) x_has[i % (size_t)g->plane_nx] = true;
    for (int x = 0; x < g->plane_nx; x++) {
        used += x_has[x];
        if (!x_has[x]) continue;
        if (x == 0 || !x_has[x - 1]) {
            if (runs < BX_X_RUNS) plan->x_first[runs] = x, plan->x_length[runs] = 0;
            runs++;
        }
        if (runs <= BX_X_RUNS) plan->x_length[runs - 1]++;
    }
    plan->x_runs = runs;
    if (runs == 0 || runs > BX_X_RUNS || 10 * used > 9 * g->plane_nx) {
        plan->x_runs = 1;
        plan->x_first[0] = 0;
        plan->x_length[0] = g->plane_nx;
    }
    BX_FREE(has, x_has);
}

/* A run does not leave its rank and batch. */
static void find_runs(bx_plan *plan)
{
    const bx_geometry *g = plan->geometry;
    BX_ALLOC((size_t)g->columns + 1, plan->run_left);
    for (int rank = g->column_ranks - 1; rank >= 0; rank--) {
        int last = g->column_first[rank + 1] - 1;
        for (int s = last; s >= g->column_first[rank]; s--) {
            bool adjoins = s < last && g->column_batch[s + 1] == g->column_batch[s] &&
                           g->column_place[s + 1] == g->column_place[s] + 1;
            plan->run_left[s] = 1 + (adjoins ? plan->run_left[s + 1] : 0);
        }
    }
}

/* Where the rows of my half-transformed field are, and what my planes are. */
static void find_rows(bx_plan *plan)
{
    const bx_geometry *g = plan->geometry;
    int planes = g->plane_first[g->ranks], mine = g->plane_first[plan->rank];
    size_t ends = (size_t)plan->my_planes + 1;
    BX_ALLOC(ends, plan->plane_point, plan->plane_batch);
    for (int z = 0; z <= plan->my_planes; z++) {
        plan->plane_point[z] = (mine + z) / g->batches;
        plan->plane_batch[z] = (mine + z) % g->batches;
    }
    BX_ALLOC((size_t)planes + 1, plan->row_at);
    for (int p = 0; p < planes; p++)
        plan->row_at[p] = (size_t)bx_geometry_elements(g, plan->rank, p);
    BX_ALLOC((size_t)plan->my_columns + 1, plan->row_left);
    for (int s = 0; s < plan->my_columns; s++) {
        int batch = g->column_batch[g->column_first[plan->rank] + s];
        plan->row_left[s] = bx_geometry_before(g, plan->rank, batch + 1) - s;
    }
}

static void find_lengths(bx_plan *plan)
{
    const bx_geometry *g = plan->geometry;
    bx_lengths *l = &plan->lengths;
    BX_ALLOC((size_t)g->ranks, l->half_length, l->half_at, l->plane_length, l->plane_at);
    if (plan->my_columns == 0 && plan->my_planes == 0) return;
    for (int p = 0; p < g->ranks; p++) {
        l->half_at[p] = (int)bx_geometry_elements(g, plan->rank, g->plane_first[p]);
        l->plane_at[p] = (int)l->plane_total;
        if (p == plan->rank) continue;
        l->half_length[p] = (int)bx_geometry_block(g, BX_FORWARD, plan->rank, p);
        l->plane_length[p] = (int)bx_geometry_block(g, BX_FORWARD, p, plan->rank);
        l->plane_total += (size_t)l->plane_length[p];
    }
}

/* `count` columns between the field, [count][length], and the stage, [length][count]. */
static fftw_plan plan_columns(bx_plan *plan, int count, bx_direction way, unsigned planner)
{
    if (count == 0) return NULL;
    int n = plan->geometry->length;
    bx_complex *field = plan->columns, *stage = plan->column_stage;
    if (way == BX_FORWARD)
        return fftw_plan_many_dft(1, &n, count, field, NULL, 1, n, stage, NULL, count, 1,
                                  FFTW_FORWARD, planner);
    return fftw_plan_many_dft(1, &n, count, stage, NULL, count, 1, field, NULL, 1, n, FFTW_BACKWARD,
                              planner);
}

/* The x of one run along y; rows of a plane lie nx apart. */
static fftw_plan plan_y(const bx_plan *plan, int run, bx_complex *in, bx_complex *out, int sign,
                        unsigned planner)
{
    const bx_geometry *g = plan->geometry;
    int x = plan->x_first[run];
    return fftw_plan_many_dft(1, &g->plane_ny, plan->x_length[run], in + x, NULL, g->plane_nx, 1,
                              out + x, NULL, g->plane_nx, 1, sign, planner);
}

static fftw_plan plan_x(const bx_plan *plan, bx_complex *in, bx_complex *out, int sign,
                        unsigned planner)
{
    const bx_geometry *g = plan->geometry;
    return fftw_plan_many_dft(1, &g->plane_nx, g->plane_ny, in, NULL, 1, g->plane_nx, out, NULL, 1,
                              g->plane_nx, sign, planner);
}

/* Groups of columns and planes are shared out to the threads, each transformed by one; only where
 * planes are fewer than threads do FFTW's threads share a plane. */
static void plan_ffts(bx_plan *plan, unsigned planner)
{
    bx_complex *planes = plan->planes, *between = plan->plane_between;
    for (int way = 0; way < 2; way++) {
        fftw_plan_with_nthreads(1);
        if (plan->my_columns >= BX_GROUP)
            plan->fft_group[way] = plan_columns(plan, BX_GROUP, way, planner);
        plan->fft_rest[way] = plan_columns(plan, plan->my_columns % BX_GROUP, way, planner);
        if (plan->my_planes == 0 || plan->inner) continue;
        fftw_plan_with_nthreads(plan->my_planes < plan->threads ? plan->threads : 1);
        bx_complex *stage = plan->plane_stage[way];
        int sign = way == BX_FORWARD ? FFTW_FORWARD : FFTW_BACKWARD;
        for (int run = 0; run < plan->x_runs; run++)
            plan->fft_y[way][run] = way == BX_FORWARD
                                        ? plan_y(plan, run, stage, between, sign, planner)
                                        : plan_y(plan, run, planes, stage, sign, planner);
        if (way == BX_FORWARD)
            plan->fft_x = plan_x(plan, between, planes, sign, planner);
        else
            plan->fft_x_back = plan_x(plan, planes, planes, sign, planner);
    }
}

bx_plan *bx_plan_create(bx_run *run, MPI_Comm team, const bx_geometry *geometry, int bands,
                        unsigned planner)
{
    bx_plan *plan = bx_memory_alloc(1, sizeof *plan);
    plan->run = run;
    plan->team = team;
    plan->geometry = geometry;
    plan->bands = bands;
    plan->threads = bx_run_threads(run);
    plan->copied = bx_comm_buffers_are_copied();
    plan->staged = bx_comm_buffers_are_staged();
    plan->copies = plan->copied ? &bx_plan_on_device : &bx_plan_on_host;
    BX_ALLOC(1, plan->indices);
    if (geometry->inner)
        plan->inner = bx_plan_create(run, team, geometry->inner, INNER_BANDS, planner);
    MPI_Comm_rank(team, &plan->rank);
    plan->node_index = geometry->node_of[plan->rank];
    MPI_Comm_split(team, plan->node_index, plan->rank, &plan->node);
    MPI_Comm_rank(plan->node, &plan->node_rank);
    plan->my_columns = bx_geometry_columns(geometry, plan->rank);
    plan->my_planes = bx_geometry_planes(geometry, plan->rank);
    plan->plane_size = (size_t)geometry->plane_nx * (size_t)geometry->plane_ny;
    create_halves(plan);
    /* A device copies all planes at once. */
    int sharing = plan->copied ? 1 : plan->threads,
        share = (plan->my_planes + sharing - 1) / sharing;
    plan->plane_group = group_planes((double)plan->plane_size);
    if (plan->copied || plan->plane_group > share) plan->plane_group = share > 1 ? share : 1;
    create_fields(plan);
    find_rows(plan);
    find_runs(plan);
    find_lengths(plan);
    find_x_runs(plan);
    if (!plan->copied) plan_ffts(plan, planner);
    zero_fields(plan); /* planning has written over them */
    return plan;
}

void bx_buffer_fill_nan(bx_complex *field, size_t count)
{
    for (size_t i = 0; i < count; i++) field[i] = CMPLX(NAN, NAN);
}

/* Where columns arrive in one of my planes: the rest stays zero. */
static void poison_plane(const bx_plan *plan, int z, bx_complex *plane)
{
    for (int p = 0; p < plan->geometry->column_ranks; p++) {
        bx_columns crossing = bx_plan_crossing(plan, p, z);
        for (int s = crossing.first; s < crossing.last; s += plan->run_left[s])
            bx_buffer_fill_nan(plane + plan->geometry->column_place[s], (size_t)plan->run_left[s]);
    }
}

void bx_plan_fill_nan(bx_plan *plan)
{
    size_t columns = bx_plan_column_elements(plan->geometry, plan->rank);
    for (int slot = 0; slot < BX_SLOTS; slot++) {
        bx_buffer_fill_nan(bx_comm_buffers_host(bx_plan_half(plan, BX_INVERSE, slot, plan->rank)),
                           columns);
        bx_complex *planes = bx_comm_buffers_host(bx_plan_planes(plan, BX_FORWARD, slot));
        if (plan->inner)
            for (int z = 0; z < plan->my_planes; z++)
                poison_plane(plan, z, planes + (size_t)z * plan->plane_size);
    }
    if (plan->inner) {
        bx_plan_fill_nan(plan->inner);
        return;
    }
    bx_buffer_fill_nan(bx_comm_buffers_host(plan->planes),
                       BX_SLOTS * bx_plan_plane_elements(plan->geometry, plan->rank));
    for (int i = 0; plan->my_planes > 0 && !plan->copied && i < plan->threads * plan->plane_group;
         i++)
        poison_plane(plan, 0, plan->plane_stage[BX_FORWARD] + (size_t)i * plan->plane_size);
}

void bx_plan_free(bx_plan *plan)
{
    if (!plan) return;
    bx_plan_free(plan->inner);
    for (int way = 0; way < 2; way++) {
        fftw_destroy_plan(plan->fft_group[way]);
        fftw_destroy_plan(plan->fft_rest[way]);
        for (int run = 0; run < plan->x_runs; run++) fftw_destroy_plan(plan->fft_y[way][run]);
        fftw_free(plan->plane_stage[way]);
    }
    fftw_destroy_plan(plan->fft_x);
    fftw_destroy_plan(plan->fft_x_back);
    fftw_free(plan->plane_between);
    fftw_free(plan->plane_work);
    fftw_free(plan->column_stage);
    bx_plan_buffer_free(plan->columns);
    bx_plan_buffer_free(plan->planes);
    bx_plan_free_device(plan);
    bx_lengths *l = &plan->lengths;
    BX_FREE(l->half_length, l->half_at, l->plane_length, l->plane_at);
    BX_FREE(plan->row_at, plan->row_left, plan->plane_point, plan->plane_batch);
    free_halves(plan);
    MPI_Comm_free(&plan->node);
    BX_FREE(plan->halves_of, plan->run_left, plan->indices, plan);
}
