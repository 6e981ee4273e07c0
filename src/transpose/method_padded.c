/* All blocks padded to the largest, so that MPI_Alltoall will do, which has a logarithmic algorithm
 * for short messages; real data first, padding last (Bethune 2010, section 4.2). */
#include "method.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    bx_plan *plan;
    bx_lengths lengths; /* real lengths; blocks at padded places */
    int block;          /* elements, the largest of all pairs */
    bx_complex *send, *receive;
} state;

static void *create(bx_plan *plan, int leaders)
{
    (void)leaders;
    state *self = malloc(sizeof *self);
    size_t ranks = (size_t)plan->geometry->ranks;
    self->plan = plan;
    self->block = (int)bx_largest_block(plan->geometry);
    self->lengths = bx_lengths_create(plan);
    for (int p = 0; p < plan->geometry->ranks; p++) self->lengths.plane_at[p] = self->block * p;
    self->send = bx_buffer((size_t)self->block * ranks);
    self->receive = bx_buffer((size_t)self->block * ranks);
    /* padding is sent, so it has a value */
    memset(self->send, 0, (size_t)self->block * ranks * sizeof *self->send);
    return self;
}

static void start(void *me, bx_way way, int slot)
{
    state *self = me;
    const bx_plan *plan = self->plan;
    const bx_lengths *l = &self->lengths;
    bx_complex *half = bx_half(plan, way, slot, plan->rank);
    for (int p = 0; way == BX_FORWARD && p < plan->geometry->ranks; p++)
        bx_copy(plan, self->send + l->plane_at[p], half + l->half_at[p], (size_t)l->half_length[p]);
    bx_lap(plan->run, BX_PHASE_PACK);
    MPI_Alltoall(self->send, self->block, MPI_C_DOUBLE_COMPLEX, self->receive, self->block,
                 MPI_C_DOUBLE_COMPLEX, plan->team);
    bx_lap(plan->run, BX_PHASE_EXCHANGE);
    for (int p = 0; way == BX_INVERSE && p < plan->geometry->ranks; p++)
        bx_copy(plan, half + l->half_at[p], self->receive + l->plane_at[p],
                (size_t)l->half_length[p]);
    bx_lap(plan->run, BX_PHASE_UNPACK);
}

static void unpack(void *me, const bx_part *part)
{
    const state *self = me;
    bx_unpack_all(self->plan, part, &self->lengths, self->receive);
}

static void pack(void *me, const bx_part *part)
{
    const state *self = me;
    bx_pack_all(self->plan, part, &self->lengths, self->send);
}

static void destroy(void *me)
{
    state *self = me;
    bx_lengths_free(&self->lengths);
    fftw_free(self->send);
    fftw_free(self->receive);
    free(self);
}

const bx_method bx_method_padded = {
    .about = {.name = "padded",
              .summary = "blocks padded to one size, MPI_Alltoall between all ranks",
              .wins = "ahead of alltoallv once blocks are under about 1 kB; pays for the padding"},
    .applicable = bx_padded_fit,
    .create = create,
    .start = start,
    .unpack = unpack,
    .pack = pack,
    .destroy = destroy,
    .count = bx_count_padded,
};
