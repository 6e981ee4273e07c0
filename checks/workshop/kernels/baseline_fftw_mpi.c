/* FFTW's own distributed transform of the dense grid in slabs, with transposed output. */
#include "baseline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef BX_HAVE_FFTW_MPI
#include <fftw3-mpi.h>

typedef struct {
    bx_plan *plan;
    size_t local, elements;
    ptrdiff_t first;
    bx_complex *grid;
    fftw_plan fft[2];
} state;

static double value(const state *self, size_t i)
{
    return bx_random_uniform(
        2, (uint64_t)self->first * (uint64_t)(self->plan->geometry->nx * self->plan->geometry->ny) +
               i);
}

static void begin(void *me)
{
    state *self = me;
    for (size_t i = 0; i < self->local; i++) self->grid[i] = value(self, i);
}

static void *create(bx_plan *plan, unsigned planner)
{
    const bx_geometry *g = plan->geometry;
    state *self = bx_memory_alloc(1, sizeof *self);
    ptrdiff_t planes, rows, first_row;
    self->plan = plan;
    fftw_plan_with_nthreads(plan->threads);
    ptrdiff_t total = fftw_mpi_local_size_3d_transposed(g->nz, g->ny, g->nx, plan->team, &planes,
                                                        &self->first, &rows, &first_row);
    self->grid = bx_buffer_create((size_t)total);
    self->elements = bx_geometry_points(g);
    self->local = (size_t)planes * (size_t)g->nx * (size_t)g->ny;
    self->fft[BX_FORWARD] =
        fftw_mpi_plan_dft_3d(g->nz, g->ny, g->nx, self->grid, self->grid, plan->team, FFTW_FORWARD,
                             planner | FFTW_MPI_TRANSPOSED_OUT);
    self->fft[BX_INVERSE] =
        fftw_mpi_plan_dft_3d(g->nz, g->ny, g->nx, self->grid, self->grid, plan->team, FFTW_BACKWARD,
                             planner | FFTW_MPI_TRANSPOSED_IN);
    return self;
}

static void step(void *me)
{
    state *self = me;
    for (int band = 0; band < self->plan->bands; band++) {
        fftw_execute(self->fft[BX_FORWARD]);
        fftw_execute(self->fft[BX_INVERSE]);
    }
}

static double error(void *me)
{
    state *self = me;
    double largest = 0;
    begin(self);
    fftw_execute(self->fft[BX_FORWARD]);
    fftw_execute(self->fft[BX_INVERSE]);
    for (size_t i = 0; i < self->local; i++)
        largest = bx_verification_worse(
            largest, cabs(self->grid[i] / (double)self->elements - value(self, i)));
    return largest;
}

static void destroy(void *me)
{
    state *self = me;
    fftw_destroy_plan(self->fft[0]);
    fftw_destroy_plan(self->fft[1]);
    fftw_free(self->grid);
    free(self);
}
#endif

static bool applicable(const bx_plan *plan, int teams, char *why, size_t why_size)
{
#ifndef BX_HAVE_FFTW_MPI
    snprintf(why, why_size, BX_BUILT_WITHOUT "FFTW's MPI library");
    return false;
#endif
    if (teams > 1) snprintf(why, why_size, "has no teams of ranks");
    return teams == 1;
}

const bx_baseline bx_baseline_fftw_mpi = {
    .about = {.name = "fftw-mpi",
              .summary = "FFTW's distributed transform of the dense grid, transposed output",
              .baseline = true},
    .applicable = applicable, /* NULL functions below are not called */
#ifdef BX_HAVE_FFTW_MPI
    .init = fftw_mpi_init, /* wisdom may be its own */
    .create = create,
    .begin = begin,
    .step = step,
    .error = error,
    .destroy = destroy,
#endif
};
