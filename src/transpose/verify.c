/* Verification by means that share nothing with the method under test. */
#include "verify.h"

#include "charge.h"
#include "comm_buffers.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

/* Up to this many points the reference is a serial transform of the dense grid, above it plane
 * waves, whose values are known in closed form. */
static const double SERIAL_LIMIT = 128.0 * 128 * 128;
enum { WAVES = 5 };

static double points(const bx_transpose_state *t)
{
    return (double)bx_geometry_points(t->geometry);
}
static bool by_serial(const bx_transpose_state *t) { return points(t) <= SERIAL_LIMIT; }

/* Growth of rounding errors in an FFT is O(eps log n) of the largest element, with a small constant
 * (Schatzman, SIAM J. Sci. Comput. 17, 1996); the margin covers the maximum over a grid. */
static double rounding(const bx_transpose_state *t)
{
    return 4 * DBL_EPSILON * (1 + log2(points(t)));
}

static size_t column_count(const bx_transpose_state *t)
{
    return (size_t)t->plan->my_columns * (size_t)t->geometry->nz;
}

/* Of real space. */
static size_t plane_count(const bx_transpose_state *t)
{
    const bx_plan *last = bx_plan_last(t->plan);
    return (size_t)last->my_planes * last->plane_size;
}

/* Real space is [z][y][x], with columns throughout [y][z][x], dealt in planes of the last plan.
 * Returns where a point is. */
static size_t point_at(const bx_geometry *g, int x, int y, int z)
{
    size_t row =
        g->inner ? (size_t)y * (size_t)g->nz + (size_t)z : (size_t)z * (size_t)g->ny + (size_t)y;
    return row * (size_t)g->nx + (size_t)x;
}

/* Returns where real space of a rank begins. */
static size_t first_point(const bx_transpose_state *t, int rank)
{
    const bx_plan *last = bx_plan_last(t->plan);
    return (size_t)last->geometry->plane_first[rank] * last->plane_size;
}

static bool same_bits(bx_complex a, bx_complex b) { return memcmp(&a, &b, sizeof a) == 0; }

/* ---- the exchange alone: every bit of every element ---- */

static double wrong_in_planes(const bx_transpose_state *t, int band, int slot)
{
    const bx_geometry *g = t->geometry;
    const bx_complex *planes =
        bx_comm_buffers_host(bx_plan_planes(bx_plan_last(t->plan), BX_FORWARD, slot));
    size_t first = first_point(t, t->plan->rank), count = plane_count(t);
    uint64_t field = bx_transpose_input_field(t, band);
    double wrong = 0;
    for (int s = 0; s < g->columns; s++)
        for (int z = 0; z < g->nz; z++) {
            size_t at = point_at(g, g->column_xy[s] % g->nx, g->column_xy[s] / g->nx, z);
            if (at >= first && at - first < count)
                wrong += !same_bits(planes[at - first], bx_transpose_input_value(t, field, s, z));
        }
    return wrong;
}

static double wrong_in_half(const bx_transpose_state *t, int method, int band, int slot)
{
    const bx_plan *plan = t->plan;
    bx_rows half = bx_transpose_input_rows(t, method, BX_INVERSE, slot);
    int64_t first = t->geometry->column_first[plan->rank];
    uint64_t field = bx_transpose_input_field(t, band);
    double wrong = 0;
    for (int z = 0; z < t->geometry->nz; z++)
        for (int s = 0; s < plan->my_columns; s++)
            wrong += !same_bits(*bx_rows_element(plan, half, s, z),
                                bx_transpose_input_value(t, field, first + s, z));
    return wrong;
}

/* Both ways, twice with different data, so that both slots and old buffers are tried; once where
 * data are not looked at. */
static void verify_exchange(bx_transpose_state *t, int method, bx_verification *verification)
{
    double wrong = 0;
    for (int band = 0; band < (bx_charge_is_hollow() ? 1 : 2); band++) {
        int slot = band % bx_transform_slots(bx_transpose_methods[method]);
        bx_transpose_input_fill_nan(t, method);
        bx_transpose_input_fill_half(t, method, band, slot);
        bx_comm_buffers_bring();
        MPI_Barrier(t->team); /* neighbours may write my fields */
        bx_transform_one(t->methods[method], BX_FORWARD, band, slot, false);
        bx_comm_buffers_fetch();
        wrong += wrong_in_planes(t, band, slot);
        bx_transform_one(t->methods[method], BX_INVERSE, band, slot, false);
        bx_comm_buffers_fetch();
        wrong += wrong_in_half(t, method, band, slot);
        MPI_Barrier(t->team);
    }
    bx_verification_check(verification, "exchange", wrong, 0, "elements");
}

/* ---- the transform ---- */

typedef struct {
    int column, z;
    bx_complex amplitude;
} wave;

static wave nth_wave(const bx_transpose_state *t, int n)
{
    uint64_t seed = bx_random_hash(bx_run_seed(t->run), 77);
    return (wave){(int)(bx_random_hash(seed, 3 * (uint64_t)n) % (uint64_t)t->geometry->columns),
                  (int)(bx_random_hash(seed, 3 * (uint64_t)n + 1) % (uint64_t)t->geometry->nz),
                  CMPLX(1 + 0.1 * n, 0.5 * bx_random_uniform(seed, 3 * (uint64_t)n + 2))};
}

static bx_complex *roots_of_unity(int n, int frequency)
{
    bx_complex *roots = bx_memory_alloc((size_t)n, sizeof *roots);
    for (int x = 0; x < n; x++) {
        double turns = (double)((int64_t)frequency * x % n) / n;
        roots[x] = CMPLX(cos(2 * M_PI * turns), -sin(2 * M_PI * turns));
    }
    return roots;
}

/* planes += amplitude exp(-2 pi i (kx x/nx + ky y/ny + kz z/nz)) */
static void add_wave(const bx_transpose_state *t, wave w)
{
    const bx_geometry *g = t->geometry;
    int xy = g->column_xy[w.column];
    bx_complex *ex = roots_of_unity(g->nx, xy % g->nx), *ey = roots_of_unity(g->ny, xy / g->nx),
               *ez = roots_of_unity(g->nz, w.z);
    size_t nx = (size_t)g->nx, first = first_point(t, t->plan->rank) / nx,
           rows = plane_count(t) / nx, inner = (size_t)(g->inner ? g->nz : g->ny);
    const bx_complex *slow = g->inner ? ey : ez, *fast = g->inner ? ez : ey;
    for (size_t i = 0; i < rows; i++) {
        bx_complex row = w.amplitude * slow[(first + i) / inner] * fast[(first + i) % inner];
        for (size_t x = 0; x < nx; x++) t->expected[i * nx + x] += row * ex[x];
    }
    BX_FREE(ex, ey, ez);
}

static void expect_waves(bx_transpose_state *t)
{
    memset(t->expected, 0, plane_count(t) * sizeof *t->expected);
    for (int n = 0; n < WAVES; n++) add_wave(t, nth_wave(t, n));
}

/* The team's first rank gathers the columns into the dense grid, transforms it by itself, and deals
 * out the planes. */
static void expect_serial(bx_transpose_state *t)
{
    const bx_plan *plan = t->plan;
    const bx_geometry *g = t->geometry;
    int *counts = NULL, *at = NULL, *planes = NULL, *planes_at = NULL; /* on that rank alone */
    bx_complex *columns = NULL, *grid = NULL;
    if (plan->rank == 0) {
        BX_ALLOC((size_t)g->ranks, counts, at, planes, planes_at);
        for (int p = 0; p < g->ranks; p++) {
            counts[p] = bx_geometry_columns(g, p) * g->nz;
            at[p] = g->column_first[p] * g->nz;
            planes_at[p] = (int)first_point(t, p);
            planes[p] = (int)(first_point(t, p + 1) - first_point(t, p));
        }
        columns = bx_buffer_create((size_t)g->columns * (size_t)g->nz);
        grid = bx_buffer_create(bx_geometry_points(g));
    }
    MPI_Gatherv(bx_comm_buffers_host(plan->columns), plan->my_columns * g->nz, MPI_C_DOUBLE_COMPLEX,
                columns, counts, at, MPI_C_DOUBLE_COMPLEX, 0, t->team);
    if (plan->rank == 0) {
        fftw_plan_with_nthreads(1);
        int slow = g->inner ? g->ny : g->nz, fast = g->inner ? g->nz : g->ny;
        fftw_plan fft =
            fftw_plan_dft_3d(slow, fast, g->nx, grid, grid, FFTW_FORWARD, FFTW_ESTIMATE);
        memset(grid, 0, bx_geometry_points(g) * sizeof *grid);
        for (int s = 0; s < g->columns; s++)
            for (int z = 0; z < g->nz; z++)
                grid[point_at(g, g->column_xy[s] % g->nx, g->column_xy[s] / g->nx, z)] =
                    columns[(size_t)s * (size_t)g->nz + (size_t)z];
        fftw_execute(fft);
        fftw_destroy_plan(fft);
    }
    MPI_Scatterv(grid, planes, planes_at, MPI_C_DOUBLE_COMPLEX, t->expected, (int)plane_count(t),
                 MPI_C_DOUBLE_COMPLEX, 0, t->team);
    fftw_free(columns);
    fftw_free(grid);
    BX_FREE(counts, at, planes, planes_at);
}

static void fill_waves(bx_transpose_state *t)
{
    const bx_plan *plan = t->plan;
    bx_complex *columns = bx_comm_buffers_host(plan->columns);
    int first = t->geometry->column_first[plan->rank];
    memset(columns, 0, column_count(t) * sizeof *columns);
    for (int n = 0; n < WAVES; n++) {
        wave w = nth_wave(t, n);
        if (w.column >= first && w.column < first + plan->my_columns)
            columns[(size_t)(w.column - first) * (size_t)t->geometry->nz + (size_t)w.z] +=
                w.amplitude;
    }
}

static void fill_input(bx_transpose_state *t)
{
    if (by_serial(t))
        bx_transpose_input_fill_columns(t, 0);
    else
        fill_waves(t);
}

static double rms_of_team(const bx_transpose_state *t, const bx_complex *field, size_t count,
                          double total)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += creal(field[i] * conj(field[i]));
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, t->team);
    return sqrt(sum / total);
}

static double largest_difference(const bx_complex *a, const bx_complex *b, size_t count,
                                 double scale)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        largest = bx_verification_worse(largest, cabs(a[i] - b[i] * scale));
    }
    return largest;
}

static void verify_transform(bx_transpose_state *t, int method, bx_verification *verification)
{
    bx_plan *plan = t->plan;
    fill_input(t);
    if (!t->expected) {
        t->expected = bx_buffer_create(plane_count(t));
        if (by_serial(t))
            expect_serial(t);
        else
            expect_waves(t);
    }
    bx_complex *columns = bx_comm_buffers_host(plan->columns),
               *planes = bx_comm_buffers_host(bx_plan_planes(bx_plan_last(plan), BX_FORWARD, 0));
    bx_complex *input = bx_buffer_create(column_count(t));
    memcpy(input, columns, column_count(t) * sizeof *input);
    double planes_rms = rms_of_team(t, t->expected, plane_count(t), points(t));
    double input_rms =
        rms_of_team(t, input, column_count(t), (double)t->geometry->columns * t->geometry->nz);

    bx_transpose_input_fill_nan(t, method);
    bx_comm_buffers_bring();
    MPI_Barrier(t->team);
    bx_transform_one(t->methods[method], BX_FORWARD, 0, 0, true);
    bx_comm_buffers_fetch();
    bx_verification_check(verification, by_serial(t) ? "serial transform" : "plane waves",
                          largest_difference(planes, t->expected, plane_count(t), 1) / planes_rms,
                          rounding(t), "of rms");

    bx_buffer_fill_nan(columns, column_count(t));
    bx_comm_buffers_bring();
    bx_transform_one(t->methods[method], BX_INVERSE, 0, 0, true);
    bx_comm_buffers_fetch();
    /* a plane wave's round trip leaves rounding errors of the grid's rms in every empty column */
    double scale = by_serial(t) ? input_rms : planes_rms;
    bx_verification_check(verification, "inverse",
                          largest_difference(columns, input, column_count(t), points(t)) /
                              points(t) / scale,
                          rounding(t), "of rms");
    fftw_free(input);
    MPI_Barrier(t->team);
}

void bx_transpose_verify(void *state, size_t index, size_t point, bx_verification *verification)
{
    bx_transpose_state *t = state;
    if (!bx_transpose_is_method(index)) {
        int b = (int)index - bx_transpose_method_count;
        bx_verification_check(verification, "round trip", bx_baselines[b]->error(t->baselines[b]),
                              rounding(t), "of largest");
        return;
    }
    verify_exchange(t, (int)index, verification);
    bool on_device = t->plan->copied; /* which has no FFTs where it only exchanges */
    if (!bx_charge_is_hollow() && !(on_device && t->options->transpose_only))
        verify_transform(t, (int)index, verification);
}

/* ---- the loop: what forward and inverse transforms have left (Bethune 2010, 3.1) ---- */

/* The exchanges alone, after each step, bit by bit.  What an exchange brings back is the input of
 * the next but one at most, so that a slot's two fields have every error since the last look. */
void bx_transpose_verify_exchanges(void *state, size_t index, size_t point,
                                   bx_verification *verification)
{
    const bx_transpose_state *t = state;
    if (!bx_transpose_is_method(index) || !t->options->transpose_only) return;
    const bx_plan *plan = t->plan;
    bx_comm_buffers_fetch();
    bx_complex factor = bx_transpose_input_phase(t->steps);
    int64_t first = t->geometry->column_first[plan->rank];
    uint64_t field = bx_transpose_input_field(t, 0);
    double wrong = 0;
    for (int slot = 0; slot < bx_transform_slots(bx_transpose_methods[index]) && slot < plan->bands;
         slot++)
        for (int z = 0; z < t->geometry->nz; z++)
            for (int s = 0; s < plan->my_columns; s++) {
                bx_complex expected = bx_transpose_input_times(
                    bx_transpose_input_value(t, field, first + s, z), factor);
                for (int way = 0; way < 2; way++) {
                    bx_rows half = bx_transpose_input_rows(t, (int)index, way, slot);
                    wrong += !same_bits(*bx_rows_element(plan, half, s, z), expected);
                }
            }
    bx_verification_check(verification, "loop", wrong, 0, "elements");
}

typedef struct {
    double largest, total, elements;
} loop_error;

static void add_error(loop_error *e, bx_complex value, bx_complex expected, double scale)
{
    double x = creal(value) - creal(expected), y = cimag(value) - cimag(expected);
    double error = sqrt(x * x + y * y) / scale;
    e->largest = bx_verification_worse(e->largest, error);
    e->total += error;
    e->elements++;
}

/* With FFTs every step transforms what the step before has left: errors last to the block's end. */
void bx_transpose_verify_loop(void *state, size_t index, size_t point, int64_t steps,
                              bx_verification *verification)
{
    bx_transpose_state *t = state;
    const bx_plan *plan = t->plan;
    if (!bx_transpose_is_method(index) || t->options->transpose_only) return;
    bx_transpose_input_fetch_columns(t);
    /* the input is normalised before each step */
    bx_complex factor = bx_transpose_input_phase(steps);
    int64_t first = t->geometry->column_first[plan->rank], nz = t->geometry->nz;
    loop_error e = {0};
    for (int band = 0; band < plan->bands; band++) {
        const bx_complex *columns = bx_comm_buffers_host(bx_plan_columns(plan, band));
        uint64_t field = bx_transpose_input_field(t, band);
        for (int64_t s = 0; s < plan->my_columns; s++)
            for (int64_t z = 0; z < nz; z++)
                add_error(&e, columns[s * nz + z],
                          bx_transpose_input_times(bx_transpose_input_value(t, field, first + s, z),
                                                   factor),
                          cabs(factor));
    }
    double sums[2] = {e.total, e.elements};
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, bx_run_comm(t->run));
    /* a plan's rounding is the same every time, so the errors add up: serial FFTW's do too */
    double allowed = rounding(t) * (1 + 0.25 * (double)steps);
    bx_verification_check(verification, "loop", e.largest, allowed, "largest element error");
    bx_verification_check(verification, "loop total", sums[0], allowed * sums[1],
                          "sum of element errors");
}

/* ---- what the method's name promises ---- */

/* What a step sends, all teams together.  Collective. */
static void plan_step(const bx_transpose_state *t, size_t method, double sent[4])
{
    memset(sent, 0, 4 * sizeof *sent);
    for (int way = 0; way < 2 && t->plan->rank == 0; way++) {
        bx_counts c =
            bx_exchange_counts(t->geometry, bx_transpose_methods[method], way, t->leaders);
        double counts[4] = {c.messages, c.off_node_messages, c.bytes, c.off_node_bytes};
        for (int i = 0; i < 4; i++) sent[i] += t->plan->bands * counts[i];
    }
    MPI_Allreduce(MPI_IN_PLACE, sent, 4, MPI_DOUBLE, MPI_SUM, bx_run_comm(t->run));
}

/* Blocks that a rank sends to others and gets from them in one exchange. */
static double blocks_of(const bx_geometry *g, int rank)
{
    double blocks = 0;
    for (int p = 0; p < g->ranks; p++)
        if (p != rank)
            blocks += (bx_geometry_block(g, BX_FORWARD, rank, p) > 0) +
                      (bx_geometry_block(g, BX_FORWARD, p, rank) > 0);
    return blocks;
}

void bx_transpose_verify_promise(void *state, size_t index, size_t point, const bx_shown *shown,
                                 bx_verification *verification)
{
    bx_transpose_state *t = state;
    const bx_transpose_method *method = bx_transpose_methods[index];
    double sent[4], *planned = t->planned[index], largest = 0;
    if (isnan(planned[0])) plan_step(t, index, planned);
    bx_shown_sent(shown, sent);
    MPI_Allreduce(MPI_IN_PLACE, sent, 4, MPI_DOUBLE, MPI_SUM, bx_run_comm(t->run));
    bx_verification_sent(verification, sent, planned);
    if (method->at_once) {
        for (const bx_geometry *g = t->geometry; g; g = g->inner)
            largest = fmax(largest, blocks_of(g, t->plan->rank));
        bx_verification_count(verification, "messages under way at once", bx_shown_requests(shown),
                              largest, largest);
    }
    /* columns of all bands but the first on the way out, but the last on the way back */
    double behind = 0, last = t->plan->bands - 1;
    if (method->overlaps && t->geometry->ranks > 1 && !t->options->transpose_only)
        behind = 2 * last;
    bx_verification_count(verification, "FFTs along columns behind an exchange",
                          bx_shown_laps(shown, BX_PHASE_FFT1D), behind,
                          method->overlaps ? INFINITY : 0);
    if (!method->polls) return;
    double polls = 0; /* of the first thread, which has as many groups of planes as any */
    for (const bx_plan *plan = t->plan; plan; plan = plan->inner) {
        double groups = ceil((double)plan->my_planes / plan->plane_group);
        polls += 2 * t->plan->bands * ceil(groups / plan->threads);
    }
    bx_verification_count(verification, "polls", bx_shown_calls(shown, "Testall", NULL), polls,
                          INFINITY);
}
