/* bisection-transpose: the distributed 3D FFT of plane-wave codes, with all ways to transpose it.
 */
#include "verify.h"

#include "comm_buffers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- cases ---- */

typedef struct {
    bx_choice about;
    int64_t grid[3];
    double radius_squared; /* of the columns, in frequencies along x */
    int64_t kpoints;       /* each on a team of ranks of its own */
    int64_t exchanges;     /* per transform */
} transpose_case;

static const transpose_case CASES[] = {
#define CASE(id, text, nx, ny, nz, radius, kpoints, exchanges)                                     \
    {{.name = #id, .summary = text}, {nx, ny, nz}, radius, kpoints, exchanges},
    BX_CASES(CASE)};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

static bx_transpose_options options = {.bands = 4, .planner = "measure"};

enum { LARGEST_GRID = 16384 };

static const bx_option OPTIONS[] = {
    {"grid", "NX,NY,NZ", "grid of the FFT (default: the case's)", BX_GRID, 1, LARGEST_GRID,
     options.grid},
    {"radius", "R",
     "keep columns within R frequencies along x (with --grid; default: half the grid)", BX_REAL,
     1e-3, LARGEST_GRID, &options.radius},
    {"bands", "B", "transforms in one step, forward and inverse each", BX_INTEGER, 1, 4096,
     &options.bands},
    {"kpoints", "K", "grids, each on a team of ranks of its own (default: the case's)", BX_INTEGER,
     1, 4096, &options.kpoints},
    {"exchanges", "E",
     "exchanges per transform: 1, columns to planes; 2, columns throughout (default: the case's)",
     BX_INTEGER, 1, 2, &options.exchanges},
    {"leaders", "L",
     "exchanging ranks per node of method leaders (default: the root of a node's ranks)",
     BX_INTEGER, 1, 1024, &options.leaders},
    {"planner", "EFFORT", "FFTW's planner: estimate, measure or patient", BX_TEXT, 0, 0,
     &options.planner},
    {"wisdom", "FILE", "file of FFTW's plans, kept between launches", BX_TEXT, 0, 0,
     &options.wisdom},
    {"transpose-only", NULL, "measure the exchanges without FFTs", BX_FLAG, 0, 0,
     &options.transpose_only},
    {"published", NULL,
     "as Bethune (2010): blocks are packed on both sides, those of a node are exchanged, too",
     BX_FLAG, 0, 0, &options.published},
    BX_COMM_BUFFER_OPTIONS,
};

/* ---- setup ---- */

/* Sets options that are not given from the case; returns the radius squared. */
static double settle_case(bx_run *run)
{
    const transpose_case *chosen = &CASES[bx_run_case_index(run)];
    if (options.grid[0] == 0) {
        memcpy(options.grid, chosen->grid, sizeof options.grid);
        if (options.exchanges == 0) options.exchanges = chosen->exchanges;
        if (options.kpoints == 0) options.kpoints = chosen->kpoints;
        if (options.radius == 0) {
            options.radius = sqrt(chosen->radius_squared);
            return chosen->radius_squared;
        }
    } else {
        bx_run_set_case(run, "grid");
        if (options.kpoints == 0) options.kpoints = 1;
        if (options.exchanges == 0) options.exchanges = 1;
        if (options.radius == 0) options.radius = (double)options.grid[0] / 2;
    }
    return options.radius * options.radius;
}

/* Teams are runs of ranks: one per k-point, or fewer where ranks are few. */
static void split_teams(bx_transpose_state *t)
{
    int rank = bx_run_rank(t->run), size = bx_run_ranks(t->run);
    t->teams = options.kpoints < size ? (int)options.kpoints : size;
    t->my_team = 0;
    while (rank >= (int)((int64_t)size * (t->my_team + 1) / t->teams)) t->my_team++;
    MPI_Comm_split(bx_run_comm(t->run), t->my_team, rank, &t->team);
}

static bx_geometry *team_geometry(const bx_transpose_state *t, double radius_squared)
{
    int ranks, mine = bx_run_node_of(t->run)[bx_run_rank(t->run)];
    MPI_Comm_size(t->team, &ranks);
    int *node_of = bx_memory_alloc((size_t)ranks, sizeof *node_of);
    MPI_Allgather(&mine, 1, MPI_INT, node_of, 1, MPI_INT, t->team);
    bx_geometry *g =
        bx_geometry_create(options.grid, radius_squared, (int)options.exchanges, ranks, node_of, 0);
    free(node_of);
    return g;
}

static int count_baselines(const bx_run *run)
{
    int count = 0;
    for (int b = 0; b < bx_baseline_count; b++)
        count += bx_run_is_selected(run, bx_baselines[b]->about.name);
    return count;
}

static int count_selected(const bx_run *run)
{
    int count = count_baselines(run);
    for (int m = 0; m < bx_transpose_method_count; m++)
        count += bx_run_is_selected(run, bx_transpose_methods[m]->about.name);
    return count;
}

/* One step of each method: forward and inverse of each band at 5 n log2 n floating-point operations
 * (the FFTW authors' count) and a modest rate of a core; the serial baseline has it all alone. */
static double round_seconds(const bx_transpose_state *t, int bands)
{
    static const double RATE = 5e9; /* operations per second */
    const bx_geometry *g = t->geometry;
    double points = (double)bx_geometry_points(g);
    double alone = 2 * bands * 5 * points * log2(2 + points) / RATE;
    bool serial = bx_run_is_selected(t->run, bx_baseline_serial.about.name);
    double shared = alone / g->ranks / bx_run_threads(t->run);
    return (count_selected(t->run) - serial) * shared + serial * alone;
}

enum { NAMED = 3 }; /* methods that could be set up, in the reason why another is not */

/* The methods, from that which needs least. */
static void order_methods(const double *need, int *order)
{
    for (int m = 0, i; m < bx_transpose_method_count; m++) {
        for (i = m; i > 0 && need[order[i - 1]] > need[m]; i--) order[i] = order[i - 1];
        order[i] = m;
    }
}

/* Finds the selected methods that cannot be set up, as MPI cannot count their elements or a node
 * lacks memory.  Refuses a launch that is left with none.  `claimed`: bytes of this rank without
 * the methods', which are added.  Collective. */
static int settle_methods(bx_transpose_state *t, double *claimed)
{
    int rank, runs = 0, last = -1, *order;
    double *bytes, *need, all, left;
    BX_ALLOC((size_t)bx_transpose_method_count, order, bytes, need);
    MPI_Comm_rank(t->team, &rank);
    for (int m = 0; m < bx_transpose_method_count; m++)
        bytes[m] = bx_exchange_bytes(t->geometry, bx_transpose_methods[m], rank, options.published);
    bx_resources_by_node(t->run, bx_transpose_method_count, bytes, need);
    /* what is not applicable comes last, and no line names it */
    for (int m = 0; m < bx_transpose_method_count; m++)
        if (!bx_exchange_applicable(t->run, t->geometry, bx_transpose_methods[m], t->why[m],
                                    sizeof t->why[m]))
            need[m] = INFINITY;
    order_methods(need, order);
    for (int i = 0; i < bx_transpose_method_count; i++) {
        int m = order[i];
        char *why = t->why[m], *end = why + sizeof t->why[m];
        if (!bx_run_is_selected(t->run, bx_transpose_methods[m]->about.name)) continue;
        if (last < 0 || isfinite(need[m])) last = m;
        if (isinf(need[m])) continue;
        if (bx_resources_fits(t->run, *claimed, bytes[m], &all, &left)) {
            *claimed += bytes[m];
            runs++;
        } else {
            why +=
                snprintf(why, sizeof t->why[m], "%d ranks: needs %.3g GiB on a node, %.3g are left",
                         bx_run_ranks(t->run), all / 0x1p30, left / 0x1p30);
            for (int less = 0; less < NAMED && need[order[less]] <= left && why < end; less++)
                why += snprintf(why, (size_t)(end - why), "%s%s %.3g", less ? ", " : "; less: ",
                                bx_transpose_methods[order[less]]->about.name,
                                need[order[less]] / 0x1p30);
        }
    }
    if (last >= 0 && runs == 0)
        bx_run_refuse(t->run, BX_RESOURCES, "no method can run here: %s: %s",
                      bx_transpose_methods[last]->about.name, t->why[last]);
    BX_FREE(order, need, bytes);
    return bx_run_agree(t->run);
}

static int check_sizes(bx_transpose_state *t, int bands)
{
    const bx_geometry *g = t->geometry;
    double grid_bytes = 16.0 * (double)bx_geometry_points(g), largest = 0;
    for (const bx_geometry *e = g; e; e = e->inner) {
        double columns = (double)bx_geometry_columns(e, 0) * e->length;
        double planes = (double)bx_geometry_planes(e, 0) * e->plane_nx * e->plane_ny;
        largest = fmax(largest, fmax(columns, planes));
    }
    if (largest > bx_most_count)
        bx_run_refuse(
            t->run, BX_RESOURCES,
            "--grid %d,%d,%d: a rank's part is over MPI's count limit of 2^31 - 1 elements; "
            "use more ranks than %d",
            g->nx, g->ny, g->nz, g->ranks);
    if (bx_run_agree(t->run) != BX_OK) return bx_run_agree(t->run);
    int rank;
    MPI_Comm_rank(t->team, &rank);
    double need = bx_plan_bytes(g, rank, bands, bx_run_threads(t->run)) +
                  bx_transpose_method_buffers(4.0 * count_baselines(t->run), largest); /* at most */
    if (rank == 0) need += grid_bytes; /* the dense grid of the serial transform */
    char sized_by[96];
    snprintf(sized_by, sizeof sized_by, "--grid %d,%d,%d --bands %d", g->nx, g->ny, g->nz,
             (int)options.bands);
    if (bx_resources_claim_memory(t->run, need, sized_by) != BX_OK) return BX_RESOURCES;
    double fields = need;
    if (settle_methods(t, &need) != BX_OK) return BX_RESOURCES;
    /* Fields are claimed, but not on a device. */
    double copied = bx_plan_bytes(g, rank, bands, 1),
           ffts = options.transpose_only ? 0 : bx_plan_device_ffts_bytes(g, rank), /* there alone */
        beside = -copied - (bx_comm_buffers_are_staged() ? 2 : 1) * ffts;
    int code = bx_comm_buffers_open_moved(t->run, need - fields + copied + ffts, beside, sized_by);
    if (code != BX_OK) return code;
    return bx_resources_claim_time(t->run, 0, round_seconds(t, bands), sized_by);
}

static bool is_baseline_applicable(const bx_transpose_state *t, const bx_baseline *baseline,
                                   char *why, size_t why_size)
{
    snprintf(why, why_size, "it takes memory of the host");
    if (t->plan->copied) return false;
    return !baseline->applicable || baseline->applicable(t->plan, t->teams, why, why_size);
}

static void create_methods(bx_transpose_state *t, unsigned planner)
{
    for (int m = 0; m < bx_transpose_method_count; m++) {
        const bx_transpose_method *method = bx_transpose_methods[m];
        if (!bx_run_is_selected(t->run, method->about.name) || *t->why[m]) continue;
        t->methods[m] = bx_exchange_create(t->plan, method, t->leaders);
        if (!t->methods[m]) snprintf(t->why[m], sizeof t->why[m], "%s", bx_window_why());
    }
    for (int b = 0; b < bx_baseline_count; b++) {
        const bx_baseline *baseline = bx_baselines[b];
        char why[160];
        if (!bx_run_is_selected(t->run, baseline->about.name)) continue;
        if (!is_baseline_applicable(t, baseline, why, sizeof why)) continue;
        t->baselines[b] = baseline->create(t->plan, planner);
    }
}

/* Reads the plans of earlier runs.  A file that is no wisdom is refused, not replaced. */
static void read_wisdom(bx_run *run)
{
    char head[8] = "";
    FILE *file = fopen(options.wisdom, "r");
    if (!file) return;
    size_t length = fread(head, 1, sizeof head - 1, file);
    fclose(file);
    if (length > 0 && strncmp(head, "(fftw-", 6) != 0)
        bx_run_refuse(run, BX_USAGE, "--wisdom %s: exists and is no FFTW wisdom", options.wisdom);
    else
        fftw_import_wisdom_from_filename(options.wisdom); /* of another build: none of it fits */
}

/* Writes the plans of rank 0. */
static int write_wisdom(bx_run *run)
{
    FILE *file = bx_file_open(options.wisdom);
    int code = errno;
    if (file) {
        fftw_export_wisdom_to_file(file);
        code = bx_file_close(file, options.wisdom);
    }
    return code
               ? bx_run_refuse(run, BX_RESOURCES, "--wisdom %s: %s", options.wisdom, strerror(code))
               : BX_OK;
}

static int setup(bx_run *run, void **state)
{
    static const unsigned EFFORTS[] = {FFTW_ESTIMATE, FFTW_MEASURE, FFTW_PATIENT};
    int effort = bx_run_one_of(run, "planner", options.planner, "estimate, measure, patient");
    if (effort < 0) return BX_USAGE;
    unsigned planner = EFFORTS[effort];
    if (options.wisdom) bx_file_claim(run, "wisdom", options.wisdom, BX_FILE_UPDATED);
    if (bx_comm_buffers_are_copied() && options.published)
        bx_run_refuse(run, BX_USAGE,
                      "--buffers %s: only without --published, whose copies the "
                      "host makes",
                      bx_comm_buffer_options.place);
    if (bx_run_agree(run) != BX_OK) return BX_USAGE;
    double radius_squared = settle_case(run);
    int64_t columns = bx_geometry_count_columns(options.grid, radius_squared);
    if (columns == 0)
        return bx_run_refuse(run, BX_USAGE, "--radius %g: leaves no column", options.radius);
    char sized_by[96];
    snprintf(sized_by, sizeof sized_by, "--grid %d,%d,%d --radius %g", (int)options.grid[0],
             (int)options.grid[1], (int)options.grid[2], options.radius);
    if (bx_resources_claim_memory(run, 64.0 * (double)columns, sized_by) != BX_OK)
        return BX_RESOURCES;
    bx_transpose_state *t = bx_memory_alloc(1, sizeof *t);
    t->run = run;
    t->options = &options;
    t->leaders = (int)options.leaders;
    split_teams(t);
    t->geometry = team_geometry(t, radius_squared);
    int first = (int)(options.kpoints * t->my_team / t->teams);
    int last = (int)(options.kpoints * (t->my_team + 1) / t->teams);
    int bands = (int)options.bands * (last - first);
    *state = t;
    BX_ALLOC((size_t)bx_transpose_method_count, t->methods, t->why, t->planned);
    for (int m = 0; m < bx_transpose_method_count; m++) t->planned[m][0] = NAN;
    BX_ALLOC((size_t)bx_baseline_count, t->baselines);
    int code = check_sizes(t, bands);
    if (code != BX_OK) return code;
    fftw_init_threads();
    for (int b = 0; b < bx_baseline_count; b++)
        if (bx_baselines[b]->init) bx_baselines[b]->init();
    if (options.wisdom) read_wisdom(run);
    if (bx_run_agree(run) != BX_OK) return BX_USAGE;
    t->plan = bx_plan_create(run, t->team, t->geometry, bands, planner);
    for (bx_plan *plan = t->plan; plan; plan = plan->inner) plan->published = options.published;
    if (t->plan->copied && !options.transpose_only) code = bx_plan_create_device_ffts(t->plan);
    if (code != BX_OK) return code;
    MPI_Allreduce(&bands, &t->most_bands, 1, MPI_INT, MPI_MAX, bx_run_comm(run));
    create_methods(t, planner);
    return options.wisdom && bx_run_rank(run) == 0 ? write_wisdom(run) : BX_OK;
}

static void teardown(void *state)
{
    bx_transpose_state *t = state;
    for (int m = 0; m < bx_transpose_method_count; m++) bx_exchange_free(t->methods[m]);
    for (int b = 0; b < bx_baseline_count; b++)
        if (t->baselines[b]) bx_baselines[b]->destroy(t->baselines[b]);
    BX_FREE(t->methods, t->why, t->planned, t->baselines);
    fftw_free(t->expected);
    bx_plan_free(t->plan);
    bx_geometry_free(t->geometry);
    MPI_Comm_free(&t->team);
    free(t);
}

/* ---- measuring ---- */

static const bx_baseline *baseline_of(size_t index)
{
    return bx_baselines[index - (size_t)bx_transpose_method_count];
}

static bool applicable(void *state, size_t index, char *why, size_t why_size)
{
    const bx_transpose_state *t = state;
    if (!bx_transpose_is_method(index)) {
        return is_baseline_applicable(t, baseline_of(index), why, why_size);
    }
    if (t->methods[index]) return true;
    snprintf(why, why_size, "%s", t->why[index]);
    return false;
}

static void begin(void *state, size_t index, size_t point)
{
    bx_transpose_state *t = state;
    if (!bx_transpose_is_method(index)) {
        int b = (int)index - bx_transpose_method_count;
        bx_baselines[b]->begin(t->baselines[b]);
        return;
    }
    t->steps = 0;
    bx_transpose_input_fill_nan(t, (int)index);
    if (options.transpose_only)
        for (int slot = 0; slot < bx_transform_slots(bx_transpose_methods[index]); slot++)
            bx_transpose_input_fill_half(t, (int)index, 0, slot);
    else
        for (int band = 0; band < t->plan->bands; band++) bx_transpose_input_fill_columns(t, band);
    bx_comm_buffers_bring();
}

/* What transforms have left, times a factor. */
static void normalise_columns(const bx_transpose_state *t, bx_complex factor)
{
    const bx_plan *plan = t->plan;
    double points = (double)bx_geometry_points(t->geometry);
    size_t count = bx_plan_column_elements(t->geometry, plan->rank) * (size_t)plan->bands;
    bx_complex *columns = bx_transpose_input_fetch_columns(t);
    /* divided, not multiplied by an inverse that is itself rounded: a loop would show it */
    for (size_t i = 0; i < count; i++) {
        bx_complex normal = CMPLX(creal(columns[i]) / points, cimag(columns[i]) / points);
        columns[i] = bx_transpose_input_times(normal, factor);
    }
}

static void prepare(void *state, size_t index, size_t point)
{
    bx_transpose_state *t = state;
    const bx_plan *plan = t->plan;
    if (!bx_transpose_is_method(index)) {
        begin(state, index, point);
        return;
    }
    bx_complex factor = bx_transpose_input_phase(t->steps + 1) / bx_transpose_input_phase(t->steps);
    t->steps++;
    for (int slot = 0;
         options.transpose_only && slot < bx_transform_slots(bx_transpose_methods[index]); slot++) {
        bx_rows half = bx_transpose_input_rows(t, (int)index, BX_FORWARD, slot);
        for (int z = 0; z < t->geometry->nz; z++)
            for (int s = 0; s < plan->my_columns; s++) {
                bx_complex *element = bx_rows_element(plan, half, s, z);
                *element = bx_transpose_input_times(*element, factor);
            }
    }
    if (!options.transpose_only) normalise_columns(t, factor);
    bx_comm_buffers_bring();
}

static void step(void *state, size_t index, size_t point)
{
    bx_transpose_state *t = state;
    if (bx_transpose_is_method(index))
        bx_transform_bands(t->methods[index], !options.transpose_only);
    else
        baseline_of(index)->step(t->baselines[index - (size_t)bx_transpose_method_count]);
}

/* Transforms (or transposes) of the rank that has most, as a sample is the slowest rank's time; the
 * serial baseline is rank 0's own. */
static double items(void *state, size_t index, size_t point)
{
    const bx_transpose_state *t = state;
    bool serial = !bx_transpose_is_method(index) && baseline_of(index) == &bx_baseline_serial;
    return 2.0 * (serial ? t->plan->bands : t->most_bands);
}

/* Whole planes, or with two exchanges whole rows, of the rank that has most over the mean. */
static void metrics(void *state, size_t index, size_t point, bx_metrics *list)
{
    const bx_transpose_state *t = state;
    const bx_geometry *g = bx_plan_last(t->plan)->geometry;
    double mean = (double)g->plane_first[g->ranks] / g->ranks;
    bx_metrics_add(list, "imbalance", bx_geometry_planes(g, 0) / mean, "ratio", "lower");
}

/* ---- the kernel ---- */

const bx_kernel *bx_kernel_get(void)
{
    static const char *const phases[] = {"fft1d", "pack", "exchange", "unpack", "fft2d"};
    static const char *const ratios[] = {"alltoallv", "serial", "fftw-mpi", "spfft", "copy"};
    static bx_kernel kernel = {
        .name = "transpose",
        .summary = "distributed 3D FFT of plane-wave codes, by every transpose method",
        .options = BX_COUNTED(OPTIONS),
        .phases = BX_COUNTED(phases),
        .ratios = BX_COUNTED(ratios),
        .baselines = "serial",
        .setup = setup,
        .applicable = applicable,
        .verify = bx_transpose_verify,
        .begin = begin,
        .prepare = prepare,
        .inspect = bx_transpose_verify_exchanges,
        .end = bx_transpose_verify_loop,
        .promise = bx_transpose_verify_promise,
        .step = step,
        .items = items,
        .metrics = metrics,
        .report = bx_transpose_report,
        .teardown = teardown,
    };
    for (size_t i = 0; i < CASE_COUNT; i++) bx_kernel_add_case(&kernel, &CASES[i].about);
    for (int m = 0; m < bx_transpose_method_count; m++)
        bx_kernel_add_method(&kernel, &bx_transpose_methods[m]->about);
    for (int b = 0; b < bx_baseline_count; b++)
        bx_kernel_add_method(&kernel, &bx_baselines[b]->about);
    return &kernel;
}
