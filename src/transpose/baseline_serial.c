/* One rank, FFTW's own 3D transform of the dense grid, in place. */
#include "baseline.h"

#include <stdlib.h>

typedef struct {
    bx_plan *plan;
    size_t elements;
    bx_complex *grid; /* rank 0 */
    fftw_plan fft[2];
} serial_state;

static bool alone(const serial_state *self) { return bx_run_rank(self->plan->run) == 0; }

static void begin(void *me)
{
    serial_state *self = me;
    if (!alone(self)) return;
    for (size_t i = 0; i < self->elements; i++) self->grid[i] = bx_random_uniform(1, i);
}

static void *create(bx_plan *plan, unsigned planner)
{
    const bx_geometry *g = plan->geometry;
    serial_state *self = bx_memory_alloc(1, sizeof *self);
    self->plan = plan;
    self->elements = bx_geometry_points(g);
    if (!alone(self)) return self;
    self->grid = bx_buffer_create(self->elements);
    fftw_plan_with_nthreads(1);
    for (int way = 0; way < 2; way++)
        self->fft[way] =
            fftw_plan_dft_3d(g->nz, g->ny, g->nx, self->grid, self->grid,
                             way == BX_FORWARD ? FFTW_FORWARD : FFTW_BACKWARD, planner);
    return self;
}

static void step(void *me)
{
    serial_state *self = me;
    for (int band = 0; self->grid && band < self->plan->bands; band++) {
        fftw_execute(self->fft[BX_FORWARD]);
        fftw_execute(self->fft[BX_INVERSE]);
    }
}

static double error(void *me)
{
    serial_state *self = me;
    double largest = 0;
    if (!self->grid) return 0;
    begin(self);
    fftw_execute(self->fft[BX_FORWARD]);
    fftw_execute(self->fft[BX_INVERSE]);
    for (size_t i = 0; i < self->elements; i++)
        largest = bx_verification_worse(
            largest, cabs(self->grid[i] / (double)self->elements - bx_random_uniform(1, i)));
    return largest;
}

static void destroy(void *me)
{
    serial_state *self = me;
    if (self->grid) {
        fftw_destroy_plan(self->fft[0]);
        fftw_destroy_plan(self->fft[1]);
        fftw_free(self->grid);
    }
    free(self);
}

const bx_baseline bx_baseline_serial = {
    .about = {.name = "serial",
              .summary = "FFTW on the dense grid, on rank 0 with one thread",
              .baseline = true},
    .create = create,
    .begin = begin,
    .step = step,
    .error = error,
    .destroy = destroy,
};
