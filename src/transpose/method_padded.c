/* All blocks padded to the largest, so that MPI_Alltoall will do, which has a logarithmic algorithm
 * for short messages; real data first, padding last (Bethune 2010, section 4.2). */
#include "method.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    bx_plan *plan;
    int block;            /* elements, the largest of all pairs */
    bx_lengths lengths[2]; /* real lengths, at padded places */
    bx_complex *send, *receive;
} state;

static void *create(bx_plan *plan, const bx_method_options *options)
{
    (void)options;
    state *self = malloc(sizeof *self);
    self->plan = plan;
    self->block = (int)bx_largest_block(plan->geometry);
    size_t ranks = (size_t)plan->geometry->ranks, total = (size_t)self->block * ranks;
    for (int way = 0; way < 2; way++) {
        self->lengths[way] = bx_lengths_create(plan, way);
        for (int p = 0; p < plan->geometry->ranks; p++)
            self->lengths[way].send_at[p] = self->lengths[way].receive_at[p] = self->block * p;
    }
    self->send = bx_buffer(total);
    self->receive = bx_buffer(total);
    memset(self->send, 0, total * sizeof *self->send); /* padding is sent, so it has a value */
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
    (void)way, (void)band, (void)slot;
    MPI_Alltoall(self->send, self->block, MPI_C_DOUBLE_COMPLEX, self->receive, self->block,
                 MPI_C_DOUBLE_COMPLEX, self->plan->team);
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
    return bx_count_padded(g, way);
}

const bx_method bx_method_padded = {
    .about = {.name = "padded",
              .summary = "blocks padded to one size, MPI_Alltoall between all ranks",
              .wins = "ahead of alltoallv once blocks are under about 1 kB; pays for the padding"},
    .create = create,
    .pack = pack,
    .start = start,
    .unpack = unpack,
    .destroy = destroy,
    .count = count,
};
