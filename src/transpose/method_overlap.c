/* Bands in a pipeline: while one band's MPI_Ialltoallv is under way, the next is transformed. */
#include "method.h"

#include <stdlib.h>

typedef struct {
    bx_plan *plan;
    bx_lengths lengths[2];
    bx_complex *send[2][BX_SLOTS], *receive[2][BX_SLOTS]; /* [bx_way][slot] */
    MPI_Request request[2][BX_SLOTS];
} state;

static void *create(bx_plan *plan, const bx_method_options *options)
{
    (void)options;
    state *self = malloc(sizeof *self);
    self->plan = plan;
    for (int way = 0; way < 2; way++) {
        self->lengths[way] = bx_lengths_create(plan, way);
        for (int slot = 0; slot < BX_SLOTS; slot++) {
            self->send[way][slot] = bx_buffer(self->lengths[way].send_total);
            self->receive[way][slot] = bx_buffer(self->lengths[way].receive_total);
            self->request[way][slot] = MPI_REQUEST_NULL;
        }
    }
    return self;
}

static void pack(void *me, bx_way way, int slot, const bx_part *part)
{
    state *self = me;
    bx_pack_all(self->plan, way, part, &self->lengths[way], self->send[way][slot]);
}

static void start(void *me, bx_way way, int band, int slot)
{
    state *self = me;
    const bx_lengths *l = &self->lengths[way];
    (void)band;
    MPI_Ialltoallv(self->send[way][slot], l->send, l->send_at, MPI_C_DOUBLE_COMPLEX,
                   self->receive[way][slot], l->receive, l->receive_at, MPI_C_DOUBLE_COMPLEX,
                   self->plan->team, &self->request[way][slot]);
}

static void finish(void *me, bx_way way, int slot)
{
    state *self = me;
    MPI_Wait(&self->request[way][slot], MPI_STATUS_IGNORE);
}

static void unpack(void *me, bx_way way, int slot, const bx_part *part)
{
    state *self = me;
    bx_unpack_all(self->plan, way, part, &self->lengths[way], self->receive[way][slot]);
}

static void destroy(void *me)
{
    state *self = me;
    for (int way = 0; way < 2; way++) {
        bx_lengths_free(&self->lengths[way]);
        for (int slot = 0; slot < BX_SLOTS; slot++) {
            fftw_free(self->send[way][slot]);
            fftw_free(self->receive[way][slot]);
        }
    }
    free(self);
}

static bx_counts count(const bx_geometry *g, bx_way way, const bx_method_options *options)
{
    (void)options;
    return bx_count_every_pair(g, way);
}

const bx_method bx_method_overlap = {
    .about = {.name = "overlap",
              .summary = "bands in a pipeline: MPI_Ialltoallv of one behind the FFTs of another",
              .wins = "hides the network where MPI progresses by itself; needs two bands or more"},
    .lag = 1,
    .create = create,
    .pack = pack,
    .start = start,
    .finish = finish,
    .unpack = unpack,
    .destroy = destroy,
    .count = count,
};
