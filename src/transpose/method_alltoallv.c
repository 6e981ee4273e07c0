/* The baseline: pack for all, one MPI_Alltoallv, unpack from all (Bethune 2010, section 4). */
#include "method.h"

#include <stdlib.h>

typedef struct {
    bx_plan *plan;
    bx_lengths lengths[2];
    bx_complex *send, *receive;
} state;

static void *create(bx_plan *plan, const bx_method_options *options)
{
    (void)options;
    state *self = malloc(sizeof *self);
    self->plan = plan;
    for (int way = 0; way < 2; way++) self->lengths[way] = bx_lengths_create(plan, way);
    /* what goes one way comes back the other */
    size_t a = self->lengths[0].send_total, b = self->lengths[0].receive_total;
    self->send = bx_buffer(a > b ? a : b);
    self->receive = bx_buffer(a > b ? a : b);
    return self;
}

static void pack(void *me, bx_way way, int slot, const bx_part *part)
{
    state *self = me;
    (void)slot;
    bx_pack_all(self->plan, way, part, &self->lengths[way], self->send);
}

static void start(void *me, bx_way way, int band, int slot)
{
    state *self = me;
    const bx_lengths *l = &self->lengths[way];
    (void)band, (void)slot;
    MPI_Alltoallv(self->send, l->send, l->send_at, MPI_C_DOUBLE_COMPLEX, self->receive, l->receive,
                  l->receive_at, MPI_C_DOUBLE_COMPLEX, self->plan->team);
}

static void unpack(void *me, bx_way way, int slot, const bx_part *part)
{
    state *self = me;
    (void)slot;
    bx_unpack_all(self->plan, way, part, &self->lengths[way], self->receive);
}

static void destroy(void *me)
{
    state *self = me;
    for (int way = 0; way < 2; way++) bx_lengths_free(&self->lengths[way]);
    fftw_free(self->send);
    fftw_free(self->receive);
    free(self);
}

static bx_counts count(const bx_geometry *g, bx_way way, const bx_method_options *options)
{
    (void)options;
    return bx_count_every_pair(g, way);
}

const bx_method bx_method_alltoallv = {
    .about = {.name = "alltoallv",
              .summary = "pack, MPI_Alltoallv between all ranks, unpack",
              .wins = "one message a pair of ranks: good on few ranks, message-bound on many"},
    .create = create,
    .pack = pack,
    .start = start,
    .unpack = unpack,
    .destroy = destroy,
    .count = count,
};
