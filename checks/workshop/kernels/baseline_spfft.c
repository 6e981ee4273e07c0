/* SpFFT, where it is installed: the same columns and planes, MPI_Alltoallv with compact buffers. */
#include "baseline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef BX_HAVE_SPFFT
#include <spfft/spfft.h>

typedef struct {
    bx_plan *plan;
    size_t elements;     /* of my columns */
    bx_complex *columns; /* [my_columns][nz] */
    SpfftGrid grid;
    SpfftTransform transform;
} state;

static void expect(SpfftError error)
{
    if (error == SPFFT_SUCCESS) return;
    fprintf(stderr, "SpFFT: error %d\n", (int)error);
    MPI_Abort(MPI_COMM_WORLD, BX_RESOURCES);
}

static double value(const state *self, size_t i)
{
    return bx_random_uniform(3 + (uint64_t)self->plan->rank, i);
}

static void begin(void *me)
{
    state *self = me;
    for (size_t i = 0; i < self->elements; i++) self->columns[i] = value(self, i);
}

static void *create(bx_plan *plan, unsigned planner)
{
    (void)planner; /* SpFFT chooses its own */
    const bx_geometry *g = plan->geometry;
    state *self = bx_memory_alloc(1, sizeof *self);
    self->plan = plan;
    self->elements = (size_t)plan->my_columns * (size_t)g->nz;
    self->columns = bx_buffer_create(self->elements);
    int *indices = bx_memory_alloc(3 * self->elements + 1, sizeof *indices), *at = indices;
    for (int s = 0; s < plan->my_columns; s++) {
        int xy = g->column_xy[g->column_first[plan->rank] + s];
        for (int z = 0; z < g->nz; z++) {
            *at++ = xy % g->nx;
            *at++ = xy / g->nx;
            *at++ = z;
        }
    }
    expect(spfft_grid_create_distributed(&self->grid, g->nx, g->ny, g->nz, plan->my_columns,
                                         plan->my_planes, SPFFT_PU_HOST, plan->threads, plan->team,
                                         SPFFT_EXCH_COMPACT_BUFFERED));
    expect(spfft_transform_create(&self->transform, self->grid, SPFFT_PU_HOST, SPFFT_TRANS_C2C,
                                  g->nx, g->ny, g->nz, plan->my_planes, (int)self->elements,
                                  SPFFT_INDEX_TRIPLETS, indices));
    free(indices);
    return self;
}

static void round_trip(state *self)
{
    expect(spfft_transform_backward(self->transform, (double *)self->columns, SPFFT_PU_HOST));
    expect(spfft_transform_forward(self->transform, SPFFT_PU_HOST, (double *)self->columns,
                                   SPFFT_NO_SCALING));
}

static void step(void *me)
{
    state *self = me;
    for (int band = 0; band < self->plan->bands; band++) round_trip(self);
}

static double error(void *me)
{
    state *self = me;
    double largest = 0, points = (double)bx_geometry_points(self->plan->geometry);
    begin(self);
    round_trip(self);
    for (size_t i = 0; i < self->elements; i++)
        largest = bx_verification_worse(largest, cabs(self->columns[i] / points - value(self, i)));
    return largest;
}

static void destroy(void *me)
{
    state *self = me;
    expect(spfft_transform_destroy(self->transform));
    expect(spfft_grid_destroy(self->grid));
    fftw_free(self->columns);
    free(self);
}
#endif

static bool applicable(const bx_plan *plan, int teams, char *why, size_t why_size)
{
#ifdef BX_HAVE_SPFFT
    if (plan->inner) snprintf(why, why_size, "has planes, not columns throughout");
    return !plan->inner;
#else
    snprintf(why, why_size, BX_BUILT_WITHOUT "SpFFT (Debian: libspfft-dev)");
    return false;
#endif
}

const bx_baseline bx_baseline_spfft = {
    .about = {.name = "spfft",
              .summary = "the SpFFT library on the same columns and planes, where installed",
              .baseline = true},
    .applicable = applicable, /* NULL functions below are not called */
#ifdef BX_HAVE_SPFFT
    .create = create,
    .begin = begin,
    .step = step,
    .error = error,
    .destroy = destroy,
#endif
};
