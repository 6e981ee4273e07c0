/* FFTs and copies in cache: columns by groups, planes one by one, each unpacked just before it is
 * transformed or packed just after, the same for every method that does not need whole fields. */
#include "transform.h"

#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

typedef struct {
    bx_plan *plan;
    const bx_method *method;
    void *self;
    bool ffts;
    const double *field; /* what planes are multiplied by, NULL: by nothing */
} job;

static size_t thread_number(void)
{
#ifdef _OPENMP
    return (size_t)omp_get_thread_num();
#else
    return 0;
#endif
}

/* The first thread's clock stands for all. */
static void lap(const job *j, size_t phase)
{
    if (thread_number() == 0) bx_lap(j->plan->run, phase);
}

/* ---- columns: between their field and the half-transformed one ---- */

/* `width` columns of stage [nz][width], from or to column `first` of a field [nz][my_columns]. */
static void stage_to_half(const bx_plan *plan, const bx_complex *stage, bx_complex *half, int first,
                          size_t width)
{
    size_t columns = (size_t)plan->my_columns;
    for (size_t z = 0; z < (size_t)plan->geometry->nz; z++)
        memcpy(half + z * columns + first, stage + z * width, width * sizeof *half);
}

static void half_to_stage(const bx_plan *plan, const bx_complex *half, int first, bx_complex *stage,
                          size_t width)
{
    size_t columns = (size_t)plan->my_columns;
    for (size_t z = 0; z < (size_t)plan->geometry->nz; z++)
        memcpy(stage + z * width, half + z * columns + first, width * sizeof *half);
}

static void columns_group(const job *j, bx_way way, int band, int slot, int first)
{
    const bx_plan *plan = j->plan;
    size_t nz = (size_t)plan->geometry->nz;
    int left = plan->my_columns - first, width = left < BX_GROUP ? left : BX_GROUP;
    fftw_plan fft = width == BX_GROUP ? plan->fft_group[way] : plan->fft_rest[way];
    bx_complex *field = bx_columns(plan, band) + (size_t)first * nz,
               *stage = plan->column_stage + thread_number() * BX_GROUP * nz,
               *half = bx_half(plan, way, slot, plan->rank);
    if (way == BX_FORWARD) {
        fftw_execute_dft(fft, field, stage);
        stage_to_half(plan, stage, half, first, (size_t)width);
    } else {
        half_to_stage(plan, half, first, stage, (size_t)width);
        fftw_execute_dft(fft, stage, field);
    }
}

static void columns(const job *j, bx_way way, int band, int slot)
{
    if (!j->ffts) return;
#pragma omp parallel for schedule(static) if (j->plan->threads > 1)
    for (int first = 0; first < j->plan->my_columns; first += BX_GROUP)
        columns_group(j, way, band, slot, first);
    lap(j, BX_PHASE_FFT1D);
}

/* ---- planes: between a stage and their field, so that the stage's zeros last ---- */

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
    fftw_execute_dft(plan->fft_x_in_place[BX_INVERSE], plane, plane);
    for (int run = 0; run < plan->x_runs; run++)
        fftw_execute_dft(plan->fft_y[BX_INVERSE][run], plane + plan->x_first[run],
                         stage + plan->x_first[run]);
}

static void plane_in_place(const bx_plan *plan, bx_way way, bx_complex *plane)
{
    for (int i = 0; way == BX_FORWARD && i < plan->empty_count; i++)
        memset(plane + plan->empty_runs[2 * i], 0,
               (size_t)plan->empty_runs[2 * i + 1] * sizeof *plane);
    if (way == BX_INVERSE) fftw_execute_dft(plan->fft_x_in_place[way], plane, plane);
    for (int run = 0; run < plan->x_runs; run++)
        fftw_execute_dft(plan->fft_y_in_place[way][run], plane + plan->x_first[run],
                         plane + plan->x_first[run]);
    if (way == BX_FORWARD) fftw_execute_dft(plan->fft_x_in_place[way], plane, plane);
}

static bx_complex *stage_of(const bx_plan *plan, bx_way way)
{
    return plan->plane_stage[way] + thread_number() * plan->plane_size;
}

static void one_plane(const job *j, bx_way way, int slot, int z)
{
    bx_plan *plan = j->plan;
    bx_complex *field = bx_planes(plan, slot) + (size_t)z * plan->plane_size;
    bx_complex *stage = stage_of(plan, way);
    const bx_part part = {slot, z, z + 1, j->ffts ? stage : field};
    if (!j->ffts) { /* copies alone are over too soon for a lap each */
        (way == BX_FORWARD ? j->method->unpack : j->method->pack)(j->self, &part);
    } else if (way == BX_FORWARD) {
        j->method->unpack(j->self, &part);
        lap(j, BX_PHASE_UNPACK);
        stage_to_plane(plan, stage, field);
        lap(j, BX_PHASE_FFT2D);
    } else {
        plane_to_stage(plan, field, stage);
        lap(j, BX_PHASE_FFT2D);
        j->method->pack(j->self, &part);
        lap(j, BX_PHASE_PACK);
    }
}

static void planes(const job *j, bx_way way, int slot)
{
    const bx_plan *plan = j->plan;
    bool share = plan->threads > 1 && plan->my_planes >= plan->threads;
    bool whole = j->method->whole;
    const bx_part all = {slot, 0, plan->my_planes, bx_planes(plan, slot)};
    if (whole && way == BX_FORWARD) {
        j->method->unpack(j->self, &all);
        lap(j, BX_PHASE_UNPACK);
    }
#pragma omp parallel for schedule(static) if (share)
    for (int z = 0; z < plan->my_planes; z++) {
        if (!whole)
            one_plane(j, way, slot, z);
        else if (j->ffts)
            plane_in_place(j->plan, way,
                           bx_planes(j->plan, slot) + (size_t)z * j->plan->plane_size);
    }
    if (j->ffts)
        lap(j, BX_PHASE_FFT2D);
    else
        lap(j, way == BX_FORWARD ? BX_PHASE_UNPACK : BX_PHASE_PACK);
    if (whole && way == BX_INVERSE) {
        j->method->pack(j->self, &all);
        lap(j, BX_PHASE_PACK);
    }
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
    j->method->unpack(j->self, &part);
    lap(j, BX_PHASE_UNPACK);
    stage_to_plane(plan, part.planes, work);
    multiply(j, z, work);
    part.planes = stage_of(plan, BX_INVERSE);
    plane_to_stage(plan, work, part.planes);
    lap(j, BX_PHASE_FFT2D);
    j->method->pack(j->self, &part);
    lap(j, BX_PHASE_PACK);
}

static void there_and_back_in_place(const job *j, int slot, int z)
{
    bx_complex *plane = bx_planes(j->plan, slot) + (size_t)z * j->plan->plane_size;
    plane_in_place(j->plan, BX_FORWARD, plane);
    multiply(j, z, plane);
    plane_in_place(j->plan, BX_INVERSE, plane);
}

static void planes_there_and_back(const job *j, int slot)
{
    const bx_plan *plan = j->plan;
    bool share = plan->threads > 1 && plan->my_planes >= plan->threads;
    const bx_part all = {slot, 0, plan->my_planes, bx_planes(plan, slot)};
    if (j->method->whole) {
        j->method->unpack(j->self, &all);
        lap(j, BX_PHASE_UNPACK);
    }
#pragma omp parallel for schedule(static) if (share)
    for (int z = 0; z < plan->my_planes; z++) {
        if (j->method->whole)
            there_and_back_in_place(j, slot, z);
        else
            there_and_back(j, slot, z);
    }
    lap(j, BX_PHASE_FFT2D);
    if (j->method->whole) {
        j->method->pack(j->self, &all);
        lap(j, BX_PHASE_PACK);
    }
}

/* ---- transforms ---- */

static void start(const job *j, bx_way way, int slot)
{
    j->method->start(j->self, way, slot);
    lap(j, BX_PHASE_EXCHANGE);
}

static void finish(const job *j, bx_way way, int slot)
{
    if (j->method->finish) j->method->finish(j->self, way, slot);
    lap(j, BX_PHASE_EXCHANGE);
}

/* Neighbours may still read what is in shared memory: one way alone keeps them in step by a barrier
 * after all have read (forward), before any writes (inverse, whatever came before it).  There and
 * back, the other way's exchange does. */
void bx_transform(bx_plan *plan, const bx_method *method, void *self, bx_way way, int band,
                  int slot, bool ffts)
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

int bx_slots(const bx_method *method) { return method->lag + 1; }

/* Three stages a band, `lag` bands apart: from the columns, over the planes, to the columns.  With
 * lag 0 a band is finished before the next begins. */
static void pass(const job *j, int bands)
{
    int lag = j->method->lag, slots = bx_slots(j->method);
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
        }
    }
}

void bx_transform_bands(bx_plan *plan, const bx_method *method, void *self, bool ffts)
{
    const job j = {plan, method, self, ffts, NULL};
    pass(&j, plan->bands);
}

void bx_apply(bx_plan *plan, const bx_method *method, void *self, int count, const double *field)
{
    const job j = {plan, method, self, true, field};
    pass(&j, count);
}
