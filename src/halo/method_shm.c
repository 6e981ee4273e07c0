/* Within a node each rank reads its neighbours' fields in their shared memory; only what goes to
 * other nodes is sent.  One barrier of the node is enough: it comes after the step that has written
 * what is read, and the copy that is read is written again only after the next barrier.
 *
 * Costs a barrier of the node and one copy per byte within it; between nodes as isend. */
#include "charge.h"
#include "method.h"

#include <stdlib.h>
#include <string.h>

enum { TAG = 6 };

typedef struct {
    const bx_halo *halo;
    void *packed;      /* state of the messages to other nodes */
    bx_region *theirs; /* [receives] what is read, as its owner counts; empty: on another node */
} shm_state;

static bool applicable(const bx_halo *halo, char *why, size_t why_size)
{
    snprintf(why, why_size, "%s", halo->unshared);
    return !*why;
}

static void *create(const bx_halo_messages *messages)
{
    const bx_halo *halo = messages->halo;
    shm_state *self = bx_memory_alloc(1, sizeof *self);
    MPI_Request *requests = bx_memory_alloc((size_t)halo->send_count, sizeof *requests);
    self->halo = halo;
    self->packed = bx_packed_create(messages);
    BX_ALLOC((size_t)halo->receive_count, self->theirs);
    for (int i = 0; i < halo->send_count; i++) {
        const bx_peer *peer = &halo->sends[i];
        bool near = bx_halo_on_node(halo, peer->rank);
        MPI_Isend(peer->places, (int)peer->count, MPI_INT64_T, near ? peer->rank : MPI_PROC_NULL,
                  TAG, halo->comm, &requests[i]);
    }
    for (int i = 0; i < halo->receive_count; i++) {
        const bx_peer *peer = &halo->receives[i];
        if (!bx_halo_on_node(halo, peer->rank)) continue;
        int64_t *places = bx_memory_alloc((size_t)peer->count, sizeof *places);
        MPI_Recv(places, (int)peer->count, MPI_INT64_T, peer->rank, TAG, halo->comm,
                 MPI_STATUS_IGNORE);
        for (int64_t k = 0; k < peer->count; k++)
            bx_region_add(&self->theirs[i], places[k] * halo->mesh->width, halo->mesh->width);
        free(places);
    }
    MPI_Waitall(halo->send_count, requests, MPI_STATUSES_IGNORE);
    free(requests);
    return self;
}

static void start(void *me, int copy)
{
    shm_state *self = me;
    bx_packed_start(self->packed, copy);
    bx_shared_sync(&self->halo->memory, self->halo->node);
}

static void finish(void *me, int copy)
{
    shm_state *self = me;
    const bx_halo *halo = self->halo;
    const bx_mesh *mesh = halo->mesh;
    for (int i = 0; i < halo->receive_count; i++) {
        const bx_peer *peer = &halo->receives[i];
        if (!bx_halo_on_node(halo, peer->rank)) continue;
        const double *from = peer->fields + copy % bx_halo_copies() * mesh->fields * peer->stride;
#pragma omp parallel for schedule(static)
        for (int f = 0; f < mesh->fields; f++)
            bx_region_copy(&self->theirs[i], &from[f * peer->stride], &peer->region,
                           &halo->fields[copy][f * mesh->stride]);
        bx_charge(BX_COPY, (double)peer->region.numbers * mesh->fields * (double)sizeof(double),
                  true);
    }
    bx_packed_finish(self->packed, copy);
}

static void destroy(void *me)
{
    shm_state *self = me;
    for (int i = 0; i < self->halo->receive_count; i++) bx_region_free(&self->theirs[i]);
    bx_packed_destroy(self->packed);
    BX_FREE(self->theirs, self);
}

const bx_halo_method bx_halo_method_shm = {
    .about = {.name = "shm",
              .summary =
                  "ranks of a node read their neighbours' fields; messages between nodes only",
              .wins = "one copy within a node, and no packing",
              .calls = BX_SYNC_CALLS " Isend Irecv Waitall"},
    .at_once = true,
    .between_nodes = true,
    .applicable = applicable,
    .create = create,
    .start = start,
    .finish = finish,
    .destroy = destroy,
};
