/* All blocks padded to the largest, so that MPI_Alltoall will do, which has a logarithmic algorithm
 * for short messages; real data first, padding last (Bethune 2010, section 4.2). */
#include "method.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    bx_plan *plan;
    size_t block;
    bx_complex *send, *receive;
} state;

static void *create(bx_plan *plan, const bx_method_options *options)
{
    (void)options;
    state *self = malloc(sizeof *self);
    self->plan = plan;
    self->block = (size_t)bx_largest_block(plan->geometry);
    size_t total = self->block * (size_t)plan->geometry->ranks;
    self->send = bx_buffer(total);
    self->receive = bx_buffer(total);
    memset(self->send, 0, total * sizeof *self->send); /* padding is sent, so it has a value */
    return self;
}

static void finish(void *me, bx_way way, int band, int slot)
{
    state *self = me;
    const bx_plan *plan = self->plan;
    for (int p = 0; p < plan->geometry->ranks; p++)
        if (p != plan->rank)
            bx_pack(plan, way, band, slot, p, self->send + self->block * (size_t)p);
    bx_lap(plan->run, BX_PHASE_PACK);
    MPI_Alltoall(self->send, (int)self->block, MPI_C_DOUBLE_COMPLEX, self->receive,
                 (int)self->block, MPI_C_DOUBLE_COMPLEX, plan->team);
    bx_lap(plan->run, BX_PHASE_EXCHANGE);
    bx_pull(plan, way, band, slot, plan->rank);
    for (int p = 0; p < plan->geometry->ranks; p++)
        if (p != plan->rank)
            bx_unpack(plan, way, band, slot, p, self->receive + self->block * (size_t)p);
    bx_lap(plan->run, BX_PHASE_UNPACK);
}

static void destroy(void *me)
{
    state *self = me;
    fftw_free(self->send);
    fftw_free(self->receive);
    free(self);
}

static bx_counts count(const bx_geometry *g, bx_way way, const bx_method_options *options)
{
    (void)options;
    return bx_count_padded(g, way);
}

const bx_method bx_method_padded = {
    .about = {.name = "padded",
              .summary = "blocks padded to one size, MPI_Alltoall between all ranks",
              .wins = "ahead of alltoallv once blocks are under about 1 kB; pays for the padding"},
    .create = create,
    .finish = finish,
    .destroy = destroy,
    .count = count,
};
