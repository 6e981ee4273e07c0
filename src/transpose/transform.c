/* FFTs and copies by groups: columns are packed just after, planes transformed just after they were
 * unpacked, while both are in cache, the same for every method that packs by groups. */
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
} job;

static int thread_number(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

/* The first thread's clock stands for all. */
static void lap(const job *j, size_t phase)
{
    if (thread_number() == 0) bx_lap(j->plan->run, phase);
}

static int groups(int things, int size) { return (things + size - 1) / size; }

static bx_part nth_part(int band, int things, int size, int n)
{
    int last = (n + 1) * size;
    return (bx_part){band, n * size, last < things ? last : things, NULL};
}

static void call(void (*pack)(void *, bx_way, int, const bx_part *), const job *j, bx_way way,
                 int slot, const bx_part *part)
{
    if (pack) pack(j->self, way, slot, part);
}

/* ---- columns ---- */

static void fft_columns(const job *j, bx_way way, const bx_part *part)
{
    const bx_plan *plan = j->plan;
    bx_complex *columns = bx_columns(plan, plan->rank, part->band) +
                          (size_t)part->first * (size_t)plan->geometry->nz;
    bool full = part->last - part->first == plan->group_columns;
    if (j->ffts) fftw_execute_dft(full ? plan->fft_group[way] : plan->fft_rest[way], columns, columns);
    lap(j, BX_PHASE_FFT1D);
}

static void columns_group(const job *j, bx_way way, int slot, const bx_part *part, bool by_groups)
{
    if (way == BX_FORWARD) fft_columns(j, way, part);
    if (by_groups) {
        call(way == BX_FORWARD ? j->method->pack : j->method->unpack, j, way, slot, part);
        lap(j, way == BX_FORWARD ? BX_PHASE_PACK : BX_PHASE_UNPACK);
    }
    if (way == BX_INVERSE) fft_columns(j, way, part);
}

static void columns(const job *j, bx_way way, int band, int slot)
{
    const bx_plan *plan = j->plan;
    int size = plan->group_columns, count = groups(plan->my_columns, size);
    bx_part all = {band, 0, plan->my_columns, NULL};
    if (j->method->whole && way == BX_INVERSE) {
        call(j->method->unpack, j, way, slot, &all);
        lap(j, BX_PHASE_UNPACK);
    }
#pragma omp parallel for schedule(static) if (plan->threads > 1)
    for (int n = 0; n < count; n++) {
        bx_part part = nth_part(band, plan->my_columns, size, n);
        columns_group(j, way, slot, &part, !j->method->whole);
    }
    if (j->method->whole && way == BX_FORWARD) {
        call(j->method->pack, j, way, slot, &all);
        lap(j, BX_PHASE_PACK);
    }
}

/* ---- planes ---- */

static void clear_empty(const bx_plan *plan, bx_complex *plane)
{
    for (int i = 0; i < plan->empty_count; i++)
        memset(plane + plan->empty_runs[2 * i], 0,
               (size_t)plan->empty_runs[2 * i + 1] * sizeof *plane);
}

/* Between the stage and the field, so that the stage's zeros last; without FFTs, the field alone. */
static void planes_group(const job *j, bx_way way, int slot, bx_part *part)
{
    bx_plan *plan = j->plan;
    size_t size = plan->plane_size;
    bx_complex *field = bx_planes(plan, slot) + (size_t)part->first * size;
    bx_complex *stage =
        plan->stage[way] + (size_t)thread_number() * BX_GROUP_PLANES * size;
    part->planes = j->ffts ? stage : field;
    if (way == BX_FORWARD) {
        call(j->method->unpack, j, way, slot, part);
        lap(j, BX_PHASE_UNPACK);
    }
    for (int z = 0; j->ffts && z < part->last - part->first; z++) {
        bx_complex *in_stage = stage + (size_t)z * size, *in_field = field + (size_t)z * size;
        if (way == BX_FORWARD)
            fftw_execute_dft(plan->fft_staged[way], in_stage, in_field);
        else
            fftw_execute_dft(plan->fft_staged[way], in_field, in_stage);
    }
    lap(j, BX_PHASE_FFT2D);
    if (way == BX_INVERSE) {
        call(j->method->pack, j, way, slot, part);
        lap(j, BX_PHASE_PACK);
    }
}

static void whole_plane(const job *j, bx_way way, int slot, int z)
{
    const bx_plan *plan = j->plan;
    bx_complex *plane = bx_planes(plan, slot) + (size_t)z * plan->plane_size;
    if (!j->ffts) return;
    if (way == BX_FORWARD) clear_empty(plan, plane);
    fftw_execute_dft(plan->fft_in_place[way], plane, plane);
}

static void planes(const job *j, bx_way way, int band, int slot)
{
    const bx_plan *plan = j->plan;
    bool share = plan->threads > 1 && plan->my_planes >= plan->threads;
    if (!j->method->whole) {
        /* groups no larger than leave every thread one */
        int size = share && plan->my_planes < plan->threads * BX_GROUP_PLANES
                       ? groups(plan->my_planes, plan->threads)
                       : BX_GROUP_PLANES;
        int count = groups(plan->my_planes, size);
#pragma omp parallel for schedule(static) if (share)
        for (int n = 0; n < count; n++) {
            bx_part part = nth_part(band, plan->my_planes, size, n);
            planes_group(j, way, slot, &part);
        }
        return;
    }
    bx_part all = {band, 0, plan->my_planes, bx_planes(plan, slot)};
    if (way == BX_FORWARD) {
        call(j->method->unpack, j, way, slot, &all);
        lap(j, BX_PHASE_UNPACK);
    }
#pragma omp parallel for schedule(static) if (share)
    for (int z = 0; z < plan->my_planes; z++) whole_plane(j, way, slot, z);
    lap(j, BX_PHASE_FFT2D);
    if (way == BX_INVERSE) {
        call(j->method->pack, j, way, slot, &all);
        lap(j, BX_PHASE_PACK);
    }
}

/* ---- transforms ---- */

static void start(const job *j, bx_way way, int band, int slot)
{
    j->method->start(j->self, way, band, slot);
    lap(j, BX_PHASE_EXCHANGE);
}

static void finish(const job *j, bx_way way, int slot)
{
    if (!j->method->finish) return;
    j->method->finish(j->self, way, slot);
    lap(j, BX_PHASE_EXCHANGE);
}

void bx_transform(bx_plan *plan, const bx_method *method, void *self, bx_way way, int band,
                  int slot, bool ffts)
{
    const job j = {plan, method, self, ffts};
    if (way == BX_FORWARD)
        columns(&j, way, band, slot);
    else
        planes(&j, way, band, slot);
    start(&j, way, band, slot);
    finish(&j, way, slot);
    if (way == BX_FORWARD)
        planes(&j, way, band, slot);
    else
        columns(&j, way, band, slot);
}

/* Three stages a band, `lag` bands apart: from the columns, over the planes, to the columns.  With lag
 * 0 a band is finished before the next begins. */
void bx_transform_bands(bx_plan *plan, const bx_method *method, void *self, bool ffts)
{
    const job j = {plan, method, self, ffts};
    int lag = method->lag, slots = lag + 1;
    for (int turn = 0; turn < plan->bands + 2 * lag; turn++) {
        int out = turn, over = turn - lag, back = turn - 2 * lag;
        if (out < plan->bands) {
            columns(&j, BX_FORWARD, out, out % slots);
            start(&j, BX_FORWARD, out, out % slots);
        }
        if (over >= 0 && over < plan->bands) {
            int slot = over % slots;
            finish(&j, BX_FORWARD, slot);
            planes(&j, BX_FORWARD, over, slot);
            planes(&j, BX_INVERSE, over, slot);
            start(&j, BX_INVERSE, over, slot);
        }
        if (back >= 0 && back < plan->bands) {
            finish(&j, BX_INVERSE, back % slots);
            columns(&j, BX_INVERSE, back, back % slots);
        }
    }
}
