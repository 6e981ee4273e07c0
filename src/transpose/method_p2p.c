/* Non-blocking point-to-point between the pairs of ranks that have data (Bethune 2010, section 4).
 * There it hides copies behind transfer (section 5.1.1); here copies are made in cache, plane by
 * plane, as for every method. */
#include "method.h"

#include <stdlib.h>

enum { TAG = 1 };

typedef struct {
    bx_plan *plan;
    bx_lengths lengths;
    bx_complex *blocks;    /* on the side of the planes */
    MPI_Request *requests; /* [2 * ranks] receives, then sends */
} state;

static void *create(bx_plan *plan, int leaders)
{
    (void)leaders;
    state *self = bx_memory_alloc(1, sizeof *self);
    self->plan = plan;
    self->lengths = bx_lengths_create(plan);
    self->blocks = bx_buffer_create(self->lengths.plane_total);
    self->requests = bx_memory_alloc(2 * (size_t)plan->geometry->ranks, sizeof *self->requests);
    return self;
}

/* Everything is under way at once; each rank begins with its neighbour, so that not all send to
 * one. */
static void start(void *me, bx_direction way, int slot)
{
    state *self = me;
    const bx_plan *plan = self->plan;
    const bx_lengths *l = &self->lengths;
    int ranks = plan->geometry->ranks;
    for (int i = 0; i < 2 * ranks; i++) {
        int p = (plan->rank + i) % ranks;
        bool receive = i < ranks, half_side = receive == (way == BX_INVERSE);
        bx_complex *block = half_side ? bx_plan_half_block(plan, way, slot, plan->rank, p)
                                      : self->blocks + l->plane_at[p];
        int length = half_side ? l->half_length[p] : l->plane_length[p];
        self->requests[i] = MPI_REQUEST_NULL;
        if (length == 0) continue;
        if (receive)
            MPI_Irecv(block, length, MPI_C_DOUBLE_COMPLEX, p, TAG, plan->team, &self->requests[i]);
        else
            MPI_Isend(block, length, MPI_C_DOUBLE_COMPLEX, p, TAG, plan->team, &self->requests[i]);
    }
}

static void finish(void *me, bx_direction way, int slot)
{
    state *self = me;
    (void)way, (void)slot;
    MPI_Waitall(2 * self->plan->geometry->ranks, self->requests, MPI_STATUSES_IGNORE);
}

static void unpack(void *me, const bx_part *part)
{
    const state *self = me;
    bx_plan_unpack_all(self->plan, part, &self->lengths, self->blocks);
}

static void pack(void *me, const bx_part *part)
{
    const state *self = me;
    bx_plan_pack_all(self->plan, part, &self->lengths, self->blocks);
}

static void destroy(void *me)
{
    state *self = me;
    bx_lengths_free(&self->lengths);
    fftw_free(self->blocks);
    free(self->requests);
    free(self);
}

const bx_method bx_method_p2p = {
    .about = {.name = "p2p",
              .summary = "MPI_Isend and MPI_Irecv between the pairs of ranks that have data",
              .wins = "no message without data: ahead of alltoallv on few ranks, or few columns"},
    .create = create,
    .start = start,
    .finish = finish,
    .unpack = unpack,
    .pack = pack,
    .destroy = destroy,
    .count = bx_count_nonempty_pairs,
};
