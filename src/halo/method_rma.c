/* Puts into the receivers' buffers: methods differ in how they synchronise.
 *
 * Costs a put per field and neighbour, each byte once, packed and unpacked; by
 * fences all ranks wait for all, by PSCW for their neighbours. */
#include "method.h"

#include <stdlib.h>

enum { TAG = 3 };

typedef struct {
    const bx_halo_messages *messages;
    MPI_Win window;     /* of the packed messages that come in */
    int64_t *targets;   /* [sends] places in the receivers' windows */
    MPI_Group to, from; /* the ranks that get, and that send, messages */
} rma_state;

static MPI_Group group_of(MPI_Comm comm, const bx_halo_message *messages, int count)
{
    int *ranks = bx_memory_alloc((size_t)count, sizeof *ranks), different = 0;
    for (int i = 0; i < count; i++)
        if (i == 0 || messages[i].rank != messages[i - 1].rank)
            ranks[different++] = messages[i].rank;
    MPI_Group all, group;
    MPI_Comm_group(comm, &all);
    MPI_Group_incl(all, different, ranks, &group);
    MPI_Group_free(&all);
    free(ranks);
    return group;
}

/* Gives each message's sender its place in the receiver's buffer. */
static void find_targets(rma_state *self)
{
    const bx_halo_messages *m = self->messages;
    MPI_Comm comm = m->halo->comm;
    MPI_Request *requests = bx_memory_alloc((size_t)m->count, sizeof *requests);
    BX_ALLOC((size_t)m->send_count, self->targets);
    for (int i = 0; i < m->send_count; i++)
        MPI_Irecv(&self->targets[i], 1, MPI_INT64_T, m->sends[i].rank, TAG, comm, &requests[i]);
    for (int i = 0; i < m->receive_count; i++)
        MPI_Isend(&m->receives[i].at, 1, MPI_INT64_T, m->receives[i].rank, TAG, comm,
                  &requests[m->send_count + i]);
    MPI_Waitall(m->count, requests, MPI_STATUSES_IGNORE);
    free(requests);
}

static void *create(const bx_halo_messages *messages)
{
    MPI_Comm comm = messages->halo->comm;
    int64_t numbers = 0;
    for (int i = 0; i < messages->receive_count; i++) numbers += messages->receives[i].numbers;
    MPI_Win window = bx_window_create(messages->halo->mesh->run, comm, messages->received,
                                      (size_t)numbers * sizeof(double), sizeof(double));
    if (window == MPI_WIN_NULL) return NULL;
    rma_state *self = bx_memory_alloc(1, sizeof *self);
    self->window = window;
    self->messages = messages;
    find_targets(self);
    self->to = group_of(comm, messages->sends, messages->send_count);
    self->from = group_of(comm, messages->receives, messages->receive_count);
    return self;
}

static void put_all(const rma_state *self)
{
    for (int i = 0; i < self->messages->send_count; i++) {
        const bx_halo_message *m = &self->messages->sends[i];
        MPI_Put(&self->messages->sent[m->at], (int)m->numbers, MPI_DOUBLE, m->rank,
                (MPI_Aint)self->targets[i], (int)m->numbers, MPI_DOUBLE, self->window);
    }
}

static void destroy(void *me)
{
    rma_state *self = me;
    MPI_Win_free(&self->window);
    MPI_Group_free(&self->to);
    MPI_Group_free(&self->from);
    BX_FREE(self->targets, self);
}

/* ---- between two fences, which hold all ranks together ---- */

static void start_fence(void *me, int copy)
{
    rma_state *self = me;
    bx_halo_messages_pack(self->messages, copy);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, self->window);
    put_all(self);
}

static void finish_fence(void *me, int copy)
{
    rma_state *self = me;
    MPI_Win_fence(MPI_MODE_NOSUCCEED, self->window);
    bx_halo_messages_unpack(self->messages, copy);
}

const bx_halo_method bx_halo_method_rma_fence = {
    .about = {.name = "rma-fence",
              .summary = "MPI_Put between two MPI_Win_fence",
              .wins = "no receiver has to match; but a fence holds all ranks together",
              .calls = "Put Win_fence"},
    .create = create,
    .start = start_fence,
    .finish = finish_fence,
    .destroy = destroy,
};

/* ---- synchronised with the neighbours alone: post, start, complete, wait ---- */

static void start_pscw(void *me, int copy)
{
    rma_state *self = me;
    MPI_Win_post(self->from, 0, self->window);
    bx_halo_messages_pack(self->messages, copy);
    MPI_Win_start(self->to, 0, self->window);
    put_all(self);
}

static void finish_pscw(void *me, int copy)
{
    rma_state *self = me;
    MPI_Win_complete(self->window);
    MPI_Win_wait(self->window);
    bx_halo_messages_unpack(self->messages, copy);
}

const bx_halo_method bx_halo_method_rma_pscw = {
    .about = {.name = "rma-pscw",
              .summary =
                  "MPI_Put, synchronised with the neighbours alone (post, start, complete, wait)",
              .wins = "as rma-fence, without holding all ranks together",
              .calls = "Put Win_post Win_start Win_complete Win_wait"},
    .create = create,
    .start = start_pscw,
    .finish = finish_pscw,
    .destroy = destroy,
};
