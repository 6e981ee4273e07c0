/* Bands in a pipeline: while one band's MPI_Ialltoallv is under way, the next is transformed.
 *
 * Costs messages, bytes and copies as alltoallv, and buffers for two bands.  MPI may move data only
 * inside of its calls, of which overlap has none during a transform; overlap-poll has one for each
 * group of planes of the first thread. */
#include "method.h"

#include <omp.h>
#include <stdlib.h>

typedef struct {
    bx_plan *plan;
    bx_complex *blocks[2][BX_SLOTS]; /* [bx_direction][slot] on the side of the planes */
    MPI_Request request[2][BX_SLOTS];
} overlap_state;

static double bytes(const bx_geometry *g, int rank, bool published)
{
    bx_exchanged x = bx_transpose_method_exchanged(g, rank);
    return bx_transpose_method_buffers(2 * BX_SLOTS, x.planes) +
           BX_SLOTS * bx_transpose_method_in_flight(g);
}

static void *create(bx_plan *plan, int leaders)
{
    overlap_state *self = bx_memory_alloc(1, sizeof *self);
    self->plan = plan;
    for (int way = 0; way < 2; way++)
        for (int slot = 0; slot < BX_SLOTS; slot++) {
            self->blocks[way][slot] = bx_plan_buffer_create(plan->lengths.plane_total);
            self->request[way][slot] = MPI_REQUEST_NULL;
        }
    return self;
}

static void start(void *me, bx_direction way, int slot)
{
    overlap_state *self = me;
    bx_plan_alltoallv(self->plan, way, bx_plan_half(self->plan, way, slot, self->plan->rank),
                      self->blocks[way][slot], &self->request[way][slot]);
}

static void finish(void *me, bx_direction way, int slot)
{
    overlap_state *self = me;
    MPI_Wait(&self->request[way][slot], MPI_STATUS_IGNORE);
}

static void repack(void *me, const bx_plane_part *part)
{
    const overlap_state *self = me;
    bx_plan_repack_all(self->plan, part, self->blocks[part->way][part->slot]);
}

static void repack_and_poll(void *me, const bx_plane_part *part)
{
    overlap_state *self = me;
    int done;
    repack(me, part);
    if (omp_get_thread_num() == 0)
        MPI_Testall(2 * BX_SLOTS, &self->request[0][0], &done, MPI_STATUSES_IGNORE);
}

static void destroy(void *me)
{
    overlap_state *self = me;
    for (int way = 0; way < 2; way++)
        for (int slot = 0; slot < BX_SLOTS; slot++) bx_plan_buffer_free(self->blocks[way][slot]);
    free(self);
}

#define PIPELINE                                                                                   \
    .lag = 1, .bytes = bytes, .create = create, .start = start, .finish = finish,                  \
    .destroy = destroy, .count = bx_count_every_pair, .overlaps = true

const bx_transpose_method bx_transpose_method_overlap = {
    .about = {.name = "overlap",
              .summary = "bands in a pipeline: MPI_Ialltoallv of one behind the FFTs of another",
              .wins = "hides the network where MPI progresses by itself; needs two bands or more",
              .calls = "Ialltoallv Wait"},
    PIPELINE,
    .repack = repack,
};

const bx_transpose_method bx_transpose_method_overlap_poll = {
    .about = {.name = "overlap-poll",
              .summary = "as overlap, with a call of MPI_Testall for each group of planes",
              .wins = "hides the network where MPI progresses in its calls alone",
              .calls = "Ialltoallv Testall Wait"},
    PIPELINE,
    .repack = repack_and_poll,
    .polls = true,
};
