/* FFTs and copies in cache: columns by groups, planes one by one, each unpacked just before it is
 * transformed or packed just after, the same for every method. */
#include "transform.h"

#include "charge.h"

#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

typedef struct {
    bx_plan *plan;
    const bx_method *method;
    void *self;
    bool ffts;
    const double *field; /* factor of the planes, NULL: 1 */
} job;

static size_t thread_number(void)
{
#ifdef _OPENMP
    return (size_t)omp_get_thread_num();
#else
    return 0;
#endif
}

/* Laps are those of the first thread. */
static void lap(const job *j, size_t phase)
{
    if (thread_number() == 0) bx_run_lap(j->plan->run, phase);
}

/* ---- columns: between their field and the half-transformed one ---- */

bx_rows bx_transform_rows(const bx_plan *plan, const bx_method *method, void *self,
                          bx_direction way, int slot)
{
    if (method->rows) return method->rows(self, way, slot);
    return (bx_rows){bx_plan_half(plan, way, slot, plan->rank), plan->row_at};
}

/* `width` columns of stage [nz][width], from or to column `first` of the half-transformed field. */
static void stage_to_half(const bx_plan *plan, const bx_complex *stage, bx_rows half, int first,
                          size_t width)
{
    for (size_t z = 0; z < (size_t)plan->geometry->nz; z++)
        memcpy(half.base + half.at[z] + first, stage + z * width, width * sizeof *stage);
}

static void half_to_stage(const bx_plan *plan, bx_rows half, int first, bx_complex *stage,
                          size_t width)
{
    for (size_t z = 0; z < (size_t)plan->geometry->nz; z++)
        memcpy(stage + z * width, half.base + half.at[z] + first, width * sizeof *stage);
}

static void columns_group(const job *j, bx_direction way, int band, bx_rows half, int first)
{
    const bx_plan *plan = j->plan;
    size_t nz = (size_t)plan->geometry->nz;
    int left = plan->my_columns - first, width = left < BX_GROUP ? left : BX_GROUP;
    fftw_plan fft = width == BX_GROUP ? plan->fft_group[way] : plan->fft_rest[way];
    bx_complex *field = bx_plan_columns(plan, band) + (size_t)first * nz,
               *stage = plan->column_stage + thread_number() * BX_GROUP * nz;
    bx_charge(BX_COPY, (double)((size_t)width * nz * sizeof *stage), true);
    if (way == BX_FORWARD) {
        fftw_execute_dft(fft, field, stage);
        stage_to_half(plan, stage, half, first, (size_t)width);
    } else {
        half_to_stage(plan, half, first, stage, (size_t)width);
        fftw_execute_dft(fft, stage, field);
    }
}

static void columns(const job *j, bx_direction way, int band, int slot)
{
    if (!j->ffts) return;
    bx_rows half = bx_transform_rows(j->plan, j->method, j->self, way, slot);
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

/* A plane before its forward and after its inverse transform, in cache. */
static bx_complex *stage_of(const bx_plan *plan, bx_direction way)
{
    return plan->plane_stage[way] + thread_number() * plan->plane_size;
}

static void unpack(const job *j, const bx_part *part)
{
    j->method->unpack(j->self, part);
    lap(j, BX_PHASE_UNPACK);
}

static void pack(const job *j, const bx_part *part)
{
    j->method->pack(j->self, part);
    lap(j, BX_PHASE_PACK);
}

static void one_plane(const job *j, bx_direction way, int slot, int z)
{
    bx_plan *plan = j->plan;
    bx_complex *field = bx_plan_planes(plan, slot) + (size_t)z * plan->plane_size;
    bx_part part = {slot, z, z + 1, field};
    if (!j->ffts) { /* copies alone are over too soon for a lap each */
        (way == BX_FORWARD ? j->method->unpack : j->method->pack)(j->self, &part);
        return;
    }
    part.planes = stage_of(plan, way);
    if (way == BX_FORWARD) {
        unpack(j, &part);
        stage_to_plane(plan, part.planes, field);
    } else {
        plane_to_stage(plan, field, part.planes);
    }
    lap(j, BX_PHASE_FFT2D);
    if (way == BX_INVERSE) pack(j, &part);
}

static void planes(const job *j, bx_direction way, int slot)
{
    const bx_plan *plan = j->plan;
    bool share = plan->threads > 1 && plan->my_planes >= plan->threads;
    bx_charge_fork();
#pragma omp parallel for schedule(static) if (share)
    for (int z = 0; z < plan->my_planes; z++) one_plane(j, way, slot, z);
    lap(j, j->ffts ? BX_PHASE_FFT2D : way == BX_FORWARD ? BX_PHASE_UNPACK : BX_PHASE_PACK);
}

static void multiply(const job *j, int z, bx_complex *plane)
{
    if (!j->field) return;
    const double *by = j->field + (size_t)z * j->plan->plane_size;
    for (size_t i = 0; i < j->plan->plane_size; i++) plane[i] *= by[i];
}

/* A plane out of the blocks, to real space, multiplied, and back into blocks, all in cache. */
static void there_and_back(const job *j, int slot, int z)
{
    bx_plan *plan = j->plan;
    bx_complex *work = plan->plane_work + thread_number() * plan->plane_size;
    bx_part part = {slot, z, z + 1, stage_of(plan, BX_FORWARD)};
    unpack(j, &part);
    stage_to_plane(plan, part.planes, work);
    multiply(j, z, work);
    part.planes = stage_of(plan, BX_INVERSE);
    plane_to_stage(plan, work, part.planes);
    lap(j, BX_PHASE_FFT2D);
    pack(j, &part);
}

static void planes_there_and_back(const job *j, int slot)
{
    const bx_plan *plan = j->plan;
    bool share = plan->threads > 1 && plan->my_planes >= plan->threads;
    bx_charge_fork();
#pragma omp parallel for schedule(static) if (share)
    for (int z = 0; z < plan->my_planes; z++) there_and_back(j, slot, z);
    lap(j, BX_PHASE_FFT2D);
}

/* ---- transforms ---- */

static void start(const job *j, bx_direction way, int slot)
{
    j->method->start(j->self, way, slot);
    lap(j, BX_PHASE_EXCHANGE);
}

static void finish(const job *j, bx_direction way, int slot)
{
    if (j->method->finish) j->method->finish(j->self, way, slot);
    lap(j, BX_PHASE_EXCHANGE);
}

/* Neighbours may still read what is in shared memory: one way alone keeps them in step by a barrier
 * after all have read (forward), before any writes (inverse, whatever came before it).  There and
 * back, the other way's exchange does. */
void bx_transform_one(bx_plan *plan, const bx_method *method, void *self, bx_direction way,
                      int band, int slot, bool ffts)
{
    const job j = {plan, method, self, ffts, NULL};
    if (way == BX_FORWARD) {
        columns(&j, way, band, slot);
    } else {
        MPI_Barrier(plan->node);
        planes(&j, way, slot);
    }
    start(&j, way, slot);
    finish(&j, way, slot);
    if (way == BX_FORWARD) {
        planes(&j, way, slot);
        MPI_Barrier(plan->node);
    } else {
        columns(&j, way, band, slot);
    }
}

int bx_transform_slots(const bx_method *method) { return method->lag + 1; }

/* Three stages a band, `lag` bands apart: from the columns, over the planes, to the columns.  With
 * lag 0 a band is finished before the next begins. */
static void pass(const job *j, int bands)
{
    int lag = j->method->lag, slots = bx_transform_slots(j->method);
    for (int turn = 0; turn < bands + 2 * lag; turn++) {
        int out = turn, over = turn - lag, back = turn - 2 * lag;
        if (out < bands) {
            columns(j, BX_FORWARD, out, out % slots);
            start(j, BX_FORWARD, out % slots);
        }
        if (over >= 0 && over < bands) {
            int slot = over % slots;
            finish(j, BX_FORWARD, slot);
            if (j->ffts) {
                planes_there_and_back(j, slot);
            } else {
                planes(j, BX_FORWARD, slot);
                planes(j, BX_INVERSE, slot);
            }
            start(j, BX_INVERSE, slot);
        }
        if (back >= 0 && back < bands) {
            finish(j, BX_INVERSE, back % slots);
            columns(j, BX_INVERSE, back, back % slots);
            if (!j->ffts) bx_plan_swap(j->plan, back % slots);
        }
    }
}

void bx_transform_bands(bx_plan *plan, const bx_method *method, void *self, bool ffts)
{
    const job j = {plan, method, self, ffts, NULL};
    pass(&j, plan->bands);
}

void bx_transform_apply(bx_plan *plan, const bx_method *method, void *self, int count,
                        const double *field)
{
    const job j = {plan, method, self, true, field};
    pass(&j, count);
}
