/* One collective call over the graph of neighbours.
 *
 * Costs a message per neighbour, each byte once, packed and unpacked. */
#include "method.h"

#include <stdlib.h>

typedef struct {
    const bx_halo_messages *messages;
    MPI_Comm graph;
    int *ranks, *counts, *offsets; /* [receives, then sends] */
    MPI_Request request;
} neighbour_state;

static bool applicable(const bx_halo *halo, char *why, size_t why_size)
{
#ifdef BX_SIMULATED
    snprintf(why, why_size, "SimGrid's MPI has no neighbourhood collectives");
    return false;
#else
    return true;
#endif
}

static void *create(const bx_halo_messages *messages)
{
    neighbour_state *self = bx_memory_alloc(1, sizeof *self);
    int in = messages->receive_count, out = messages->send_count;
    self->messages = messages;
    BX_ALLOC(3 * (size_t)(in + out), self->ranks);
    self->counts = self->ranks + in + out;
    self->offsets = self->counts + in + out;
    for (int i = 0; i < in + out; i++) {
        const bx_halo_message *m = i < in ? &messages->receives[i] : &messages->sends[i - in];
        self->ranks[i] = m->rank;
        self->counts[i] = (int)m->numbers;
        self->offsets[i] = (int)m->at;
    }
    MPI_Dist_graph_create_adjacent(messages->halo->comm, in, self->ranks, self->counts, out,
                                   self->ranks + in, self->counts + in, MPI_INFO_NULL, 0,
                                   &self->graph);
    return self;
}

static void start(void *me, int copy)
{
    neighbour_state *self = me;
    const bx_halo_messages *m = self->messages;
    bx_halo_messages_pack(m, copy);
#ifndef BX_SIMULATED
    const int *counts = self->counts, *offsets = self->offsets;
    MPI_Ineighbor_alltoallv(m->sent, counts + m->receive_count, offsets + m->receive_count,
                            MPI_DOUBLE, m->received, counts, offsets, MPI_DOUBLE, self->graph,
                            &self->request);
#endif
}

static void finish(void *me, int copy)
{
    neighbour_state *self = me;
    MPI_Wait(&self->request, MPI_STATUS_IGNORE);
    bx_halo_messages_unpack(self->messages, copy);
}

static void destroy(void *me)
{
    neighbour_state *self = me;
    MPI_Comm_free(&self->graph);
    BX_FREE(self->ranks, self);
}

const bx_halo_method bx_halo_method_neighbour_collective = {
    .about = {.name = "neighbour-collective",
              .summary = "MPI_Ineighbor_alltoallv over the graph of neighbours, all fields at once",
              .wins = "where the library knows the topology of its network",
              .calls = "Ineighbor_alltoallv Wait"},
    .aggregated = true,
    .applicable = applicable,
    .create = create,
    .start = start,
    .finish = finish,
    .destroy = destroy,
};
