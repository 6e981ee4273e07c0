/* FFTs and copies in cache: columns by groups, planes one by one, each unpacked just before it is
 * transformed or packed just after, the same for every method. */
#include "transform.h"

#include "charge.h"
#include "comm_buffers.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    bx_plan *plan; /* of one exchange */
    const bx_transpose_method *method;
    void *self;
    bool ffts;
    const double *field; /* factor of real space, NULL: 1 */
} job;

/* ---- a method, for all exchanges of a transform ---- */

bx_exchange *bx_exchange_create(bx_plan *plan, const bx_transpose_method *method, int leaders)
{
    void *self = method->create(plan, leaders);
    if (!self) return NULL;
    bx_exchange *x = bx_memory_alloc(1, sizeof *x);
    *x = (bx_exchange){method, plan, self, NULL};
    if (!plan->inner) return x;
    x->inner = bx_exchange_create(plan->inner, method, leaders);
    if (x->inner) return x;
    bx_exchange_free(x);
    return NULL;
}

void bx_exchange_free(bx_exchange *x)
{
    if (!x) return;
    bx_exchange_free(x->inner);
    x->method->destroy(x->self);
    free(x);
}

bool bx_exchange_applicable(const bx_run *run, const bx_geometry *g,
                            const bx_transpose_method *method, char *why, size_t why_size)
{
    int applicable = !(method->host_only && bx_comm_buffers_are_copied());
    snprintf(why, why_size, "%s", applicable ? "" : method->host_only);
    for (; applicable && method->applicable && g; g = g->inner)
        applicable = method->applicable(g, why, why_size);
    /* teams of other nodes may count other blocks; what follows is collective over all */
    MPI_Allreduce(MPI_IN_PLACE, &applicable, 1, MPI_INT, MPI_MIN, bx_run_comm(run));
    if (!applicable && !*why) snprintf(why, why_size, "other teams have too many bytes per node");
    return applicable;
}

bx_exchanged bx_transpose_method_exchanged(const bx_geometry *g, int rank)
{
    double own = (double)bx_geometry_block(g, BX_FORWARD, rank, rank);
    double all = (double)bx_geometry_columns(g, rank) * g->length, columns = all - own,
           planes = (double)bx_geometry_arriving(g, rank) - own;
    return (bx_exchanged){all, columns, planes, fmin(columns, bx_geometry_plane_ranks(g)),
                          fmin(planes, g->ranks)};
}

double bx_exchange_bytes(const bx_geometry *g, const bx_transpose_method *method, int rank,
                         bool published)
{
    double bytes = 0;
    for (; g; g = g->inner) bytes += method->bytes(g, rank, published);
    return bytes;
}

bx_counts bx_exchange_counts(const bx_geometry *g, const bx_transpose_method *method,
                             bx_direction way, int leaders)
{
    bx_counts sum = {0};
    for (; g; g = g->inner) {
        bx_counts counts = method->count(g, way, leaders);
        sum.messages += counts.messages;
        sum.off_node_messages += counts.off_node_messages;
        sum.bytes += counts.bytes;
        sum.off_node_bytes += counts.off_node_bytes;
        sum.padding_bytes += counts.padding_bytes;
    }
    return sum;
}

static size_t thread_number(void) { return (size_t)omp_get_thread_num(); }

/* Laps are those of the first thread. */
static void lap(const job *j, size_t phase)
{
    if (thread_number() == 0) bx_run_lap(j->plan->run, phase);
}

/* After what is computed or copied, which on a device is done then. */
static void lap_done(const job *j, size_t phase)
{
    if (j->plan->copied) bx_comm_buffers_sync();
    lap(j, phase);
}

/* ---- columns: between their field and the half-transformed one ---- */

bx_rows bx_transform_rows(const bx_plan *plan, const bx_transpose_method *method, void *self,
                          bx_direction way, int slot)
{
    if (method->rows) return method->rows(self, way, slot);
    return (bx_rows){bx_plan_half(plan, way, slot, plan->rank), plan->row_at};
}

/* How many of so many columns, from this one on, adjoin in the half-transformed field. */
static int run_length(const bx_plan *plan, int column, int most)
{
    return plan->row_left[column] < most ? plan->row_left[column] : most;
}

/* Columns first .. first + width - 1 between the stage, [length][width], and the half-transformed
 * field: to the field forward, from it inverse. */
static void copy_rows(const bx_plan *plan, bx_direction way, bx_complex *stage, bx_rows half,
                      int first, int width)
{
    size_t length = (size_t)plan->geometry->length, batches = (size_t)plan->geometry->batches;
    for (int i = 0, run; i < width; i += run) {
        run = run_length(plan, first + i, width - i);
        bx_rows rows = bx_rows_from(plan, half, first + i);
        for (size_t z = 0; z < length; z++) {
            bx_complex *staged = stage + z * (size_t)width + i,
                       *row = rows.base + rows.at[z * batches];
            memcpy(way == BX_FORWARD ? row : staged, way == BX_FORWARD ? staged : row,
                   (size_t)run * sizeof *stage);
        }
    }
}

/* Columns, [width][length], to the stage, [length][width], forward; back, inverse: by an FFT or as
 * they are. */
static void stage_columns(const job *j, bx_direction way, fftw_plan fft, bx_complex *field,
                          bx_complex *stage, int width)
{
    int length = j->plan->geometry->length;
    bool forward = way == BX_FORWARD;
    if (j->ffts) {
        fftw_execute_dft(fft, forward ? field : stage, forward ? stage : field);
        return;
    }
    for (int i = 0; i < width; i++)
        for (int z = 0; z < length; z++) {
            bx_complex *staged = &stage[z * width + i], *own = &field[i * length + z];
            *(forward ? staged : own) = *(forward ? own : staged);
        }
}

static void columns_group(const job *j, bx_direction way, int band, bx_rows half, int first)
{
    const bx_plan *plan = j->plan;
    size_t length = (size_t)plan->geometry->length;
    int left = plan->my_columns - first, width = left < BX_GROUP ? left : BX_GROUP;
    fftw_plan fft = width == BX_GROUP ? plan->fft_group[way] : plan->fft_rest[way];
    bx_complex *field = bx_plan_columns(plan, band) + (size_t)first * length,
               *stage = plan->column_stage + thread_number() * BX_GROUP * length;
    bx_charge(BX_COPY, (double)((size_t)width * length * sizeof *stage), true);
    if (way == BX_FORWARD) stage_columns(j, way, fft, field, stage, width);
    copy_rows(plan, way, stage, half, first, width);
    if (way == BX_INVERSE) stage_columns(j, way, fft, field, stage, width);
}

/* All columns of a band. */
static void columns(const job *j, bx_direction way, int band, int slot)
{
    bx_rows half = bx_transform_rows(j->plan, j->method, j->self, way, slot);
    if (j->plan->copied) {
        const struct bx_device_fft *fft = j->ffts ? j->plan->columns_fft : NULL;
        bx_complex *field = bx_plan_columns(j->plan, band);
        if (way == BX_FORWARD) bx_plan_fft_on_device(fft, way, field);
        bx_plan_move_columns(j->plan, way, field, half);
        if (way == BX_INVERSE) bx_plan_fft_on_device(fft, way, field);
        lap_done(j, BX_PHASE_FFT1D);
        return;
    }
    bx_charge_fork();
#pragma omp parallel for schedule(static) if (j->plan->threads > 1)
    for (int first = 0; first < j->plan->my_columns; first += BX_GROUP)
        columns_group(j, way, band, half, first);
    lap(j, BX_PHASE_FFT1D);
}

/* ---- planes: between a stage and real space, so that the stage's zeros last ---- */

/* A plane from its stage to real space; where no column arrives the stage is left as it is. */
static void stage_to_plane(const bx_plan *plan, bx_complex *stage, bx_complex *plane)
{
    bx_complex *between = plan->plane_between + thread_number() * plan->plane_size;
    for (int run = 0; run < plan->x_runs; run++)
        fftw_execute_dft(plan->fft_y[BX_FORWARD][run], stage + plan->x_first[run],
                         between + plan->x_first[run]);
    fftw_execute_dft(plan->fft_x, between, plane);
}

/* And back, as far as it has columns; the plane is used up. */
static void plane_to_stage(const bx_plan *plan, bx_complex *plane, bx_complex *stage)
{
    fftw_execute_dft(plan->fft_x_back, plane, plane);
    for (int run = 0; run < plan->x_runs; run++)
        fftw_execute_dft(plan->fft_y[BX_INVERSE][run], plane + plan->x_first[run],
                         stage + plan->x_first[run]);
}

/* A group of planes before their forward and after their inverse transform, in cache. */
static bx_complex *stage_of(const bx_plan *plan, bx_direction way)
{
    return plan->plane_stage[way] + thread_number() * (size_t)plan->plane_group * plan->plane_size;
}

/* Which planes are in the group that begins with this one. */
static bx_plane_part group_from(const bx_plan *plan, bx_direction way, int slot, int first,
                                bx_complex *planes)
{
    int left = plan->my_planes - first;
    int last = first + (left < plan->plane_group ? left : plan->plane_group);
    return (bx_plane_part){way, slot, first, last, planes};
}

static void repack(const job *j, const bx_plane_part *part)
{
    j->method->repack(j->self, part);
    lap_done(j, part->way == BX_FORWARD ? BX_PHASE_UNPACK : BX_PHASE_PACK);
}

/* Not those that are the columns of a second exchange. */
static bool fft_planes(const job *j) { return j->ffts && !j->plan->inner; }

static void planes_group(const job *j, bx_direction way, int slot, int first)
{
    bx_plan *plan = j->plan;
    bx_complex *field = bx_plan_planes(plan, way, slot) + (size_t)first * plan->plane_size;
    bx_plane_part part = group_from(plan, way, slot, first, field);
    if (plan->copied && j->ffts && way == BX_FORWARD) bx_plan_clear_planes(plan, field);
    if (!fft_planes(j)) { /* copies alone are over too soon for a lap each */
        j->method->repack(j->self, &part);
        return;
    }
    if (!plan->copied) part.planes = stage_of(plan, way);
    if (way == BX_FORWARD) repack(j, &part);
    size_t elements = plan->copied ? 0 : (size_t)(part.last - first) * plan->plane_size;
    if (plan->copied) bx_plan_fft_on_device(plan->planes_fft, way, field);
    for (size_t at = 0; at < elements; at += plan->plane_size)
        if (way == BX_FORWARD)
            stage_to_plane(plan, part.planes + at, field + at);
        else
            plane_to_stage(plan, field + at, part.planes + at);
    lap_done(j, BX_PHASE_FFT2D);
    if (way == BX_INVERSE) repack(j, &part);
}

static void planes(const job *j, bx_direction way, int slot)
{
    const bx_plan *plan = j->plan;
    bool share = !plan->copied && plan->threads > 1 && plan->my_planes >= plan->threads;
    bx_charge_fork();
#pragma omp parallel for schedule(static) if (share)
    for (int z = 0; z < plan->my_planes; z += plan->plane_group) planes_group(j, way, slot, z);
    lap_done(j, fft_planes(j)       ? BX_PHASE_FFT2D
                : way == BX_FORWARD ? BX_PHASE_UNPACK
                                    : BX_PHASE_PACK);
}

static void multiply(const job *j, int z, bx_complex *plane)
{
    if (!j->field) return;
    const double *by = j->field + (size_t)z * j->plan->plane_size;
    for (size_t i = 0; i < j->plan->plane_size; i++) plane[i] *= by[i];
}

/* A group of planes out of the blocks, to real space, multiplied, and back into blocks, all in
 * cache. */
static void there_and_back(const job *j, int slot, int first)
{
    bx_plan *plan = j->plan;
    bx_complex *work = plan->plane_work + thread_number() * plan->plane_size,
               *back = stage_of(plan, BX_INVERSE);
    bx_plane_part part = group_from(plan, BX_FORWARD, slot, first, stage_of(plan, BX_FORWARD));
    repack(j, &part);
    for (int z = first; z < part.last; z++) {
        size_t at = (size_t)(z - first) * plan->plane_size;
        stage_to_plane(plan, part.planes + at, work);
        multiply(j, z, work);
        plane_to_stage(plan, work, back + at);
    }
    part.way = BX_INVERSE;
    part.planes = back;
    lap(j, BX_PHASE_FFT2D);
    repack(j, &part);
}

static void planes_there_and_back(const job *j, int slot)
{
    const bx_plan *plan = j->plan;
    bool share = plan->threads > 1 && plan->my_planes >= plan->threads;
    bx_charge_fork();
#pragma omp parallel for schedule(static) if (share)
    for (int z = 0; z < plan->my_planes; z += plan->plane_group) there_and_back(j, slot, z);
    lap(j, BX_PHASE_FFT2D);
}

/* ---- transforms ---- */

static void stage_half(const job *j, bx_direction way, int slot)
{
    bx_plan_stage_half(j->plan, way, bx_transform_rows(j->plan, j->method, j->self, way, slot));
}

static void start(const job *j, bx_direction way, int slot)
{
    if (j->plan->staged && way == BX_FORWARD) stage_half(j, way, slot);
    j->method->start(j->self, way, slot);
    lap(j, BX_PHASE_EXCHANGE);
}

static void finish(const job *j, bx_direction way, int slot)
{
    if (j->method->finish) j->method->finish(j->self, way, slot);
    if (j->plan->staged && way == BX_INVERSE) stage_half(j, way, slot);
    lap(j, BX_PHASE_EXCHANGE);
}

/* The exchanges of a transform, outermost first. */
enum { MOST_EXCHANGES = 2 };
typedef struct {
    job exchange[MOST_EXCHANGES];
    int count;
} chain;

static chain link_exchanges(const bx_exchange *x, bool ffts, const double *field)
{
    chain c = {.count = 0};
    for (; x; x = x->inner) c.exchange[c.count++] = (job){x->plan, x->method, x->self, ffts, field};
    return c;
}

/* What exchange n takes its columns from, and brings them back to: the outermost, a band (without
 * FFTs, the half-transformed field itself); an inner one, the planes before it. */
static void columns_of(const chain *c, int n, bx_direction way, int band, int slot)
{
    const job *j = &c->exchange[n];
    if (n > 0) columns(j, way, way * BX_SLOTS + slot, slot);
    if (n == 0 && j->ffts) columns(j, way, band, slot);
}

/* After all ranks of the node have read the half-transformed fields that they share, before any
 * writes them. */
static void keep_in_step(const chain *c)
{
    MPI_Win windows[MOST_EXCHANGES];
    int count = 0;
    for (int i = 0; i < c->count; i++)
        if (c->exchange[i].plan->halves.window != MPI_WIN_NULL)
            windows[count++] = c->exchange[i].plan->halves.window;
    bx_window_sync(c->exchange[0].plan->node, windows, count);
}

/* Neighbours may still read what is in shared memory: one way alone keeps them in step after all
 * have read (forward), before any writes (inverse, whatever came before it).  There and back, the
 * other way's exchange does. */
void bx_transform_one(const bx_exchange *x, bx_direction way, int band, int slot, bool ffts)
{
    const chain c = link_exchanges(x, ffts, NULL);
    if (way == BX_INVERSE) keep_in_step(&c);
    for (int i = 0; i < c.count; i++) {
        int n = way == BX_FORWARD ? i : c.count - 1 - i;
        const job *j = &c.exchange[n];
        if (way == BX_FORWARD)
            columns_of(&c, n, way, band, slot);
        else
            planes(j, way, slot);
        start(j, way, slot);
        finish(j, way, slot);
        if (way == BX_FORWARD)
            planes(j, way, slot);
        else
            columns_of(&c, n, way, band, slot);
    }
    if (way == BX_FORWARD) keep_in_step(&c);
}

int bx_transform_slots(const bx_transpose_method *method) { return method->lag + 1; }

/* On the way out, before the last exchange: from the columns into exchange n. */
static void exchange_forward(const chain *c, int n, int band, int slot)
{
    if (n > 0) {
        finish(&c->exchange[n - 1], BX_FORWARD, slot);
        planes(&c->exchange[n - 1], BX_FORWARD, slot);
    }
    columns_of(c, n, BX_FORWARD, band, slot);
    start(&c->exchange[n], BX_FORWARD, slot);
}

/* Over real space. */
static void apply_in_real_space(const job *last, int slot)
{
    finish(last, BX_FORWARD, slot);
    if (last->ffts && !last->plan->copied) {
        planes_there_and_back(last, slot);
    } else {
        planes(last, BX_FORWARD, slot);
        planes(last, BX_INVERSE, slot);
    }
    start(last, BX_INVERSE, slot);
}

/* On the way back: from exchange n to the columns. */
static void exchange_inverse(const chain *c, int n, int band, int slot)
{
    finish(&c->exchange[n], BX_INVERSE, slot);
    columns_of(c, n, BX_INVERSE, band, slot);
    if (n > 0) {
        planes(&c->exchange[n - 1], BX_INVERSE, slot);
        start(&c->exchange[n - 1], BX_INVERSE, slot);
    } else if (!c->exchange[0].ffts) {
        bx_plan_swap(c->exchange[0].plan, slot);
    }
}

/* The stages of a band, `lag` bands apart: out through each exchange, over real space, and back
 * through each.  With lag 0 a band is finished before the next begins. */
static void run_pipeline(const chain *c, int bands)
{
    const bx_transpose_method *method = c->exchange[0].method;
    int slots = bx_transform_slots(method), stages = 2 * c->count + 1;
    for (int turn = 0; turn < bands + (stages - 1) * method->lag; turn++)
        for (int stage = 0; stage < stages; stage++) {
            int band = turn - stage * method->lag, slot = band % slots;
            if (band < 0 || band >= bands) continue;
            if (stage < c->count)
                exchange_forward(c, stage, band, slot);
            else if (stage == c->count)
                apply_in_real_space(&c->exchange[c->count - 1], slot);
            else
                exchange_inverse(c, 2 * c->count - stage, band, slot);
        }
}

void bx_transform_bands(const bx_exchange *x, bool ffts)
{
    const chain c = link_exchanges(x, ffts, NULL);
    run_pipeline(&c, x->plan->bands);
}

void bx_transform_apply(const bx_exchange *x, int count, const double *field)
{
    const chain c = link_exchanges(x, true, field);
    run_pipeline(&c, count);
}
