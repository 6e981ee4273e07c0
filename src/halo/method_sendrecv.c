/* One neighbour after the other by MPI_Sendrecv.  Each rank takes its pairs in the order of a hash
 * of the pair: the first pair of all that are left always has both ranks, so none waits in a
 * circle, and no chain of ranks waits for its end.
 *
 * Costs messages, bytes and copies as isend; one message of a rank at a time. */
#include "method.h"

#include <stdlib.h>

enum { TAG = 3 };

typedef struct {
    uint64_t key;
    int rank;
    const bx_halo_message *send,
        *receive; /* the first of the pair's messages, one per field; or NULL */
} sendrecv_pair;

typedef struct {
    const bx_halo_messages *messages;
    sendrecv_pair *pairs;
    int count;
} sendrecv_state;

static int by_key(const void *a, const void *b)
{
    const sendrecv_pair *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static void *create(const bx_halo_messages *messages)
{
    const bx_halo *halo = messages->halo;
    sendrecv_state *self = bx_memory_alloc(1, sizeof *self);
    self->messages = messages;
    BX_ALLOC((size_t)(halo->send_count + halo->receive_count), self->pairs);
    const bx_halo_message *send = messages->sends, *last_send = send + messages->send_count;
    const bx_halo_message *receive = messages->receives,
                          *last_receive = receive + messages->receive_count;
    while (send < last_send || receive < last_receive) {
        int to = send < last_send ? send->rank : halo->ranks;
        int from = receive < last_receive ? receive->rank : halo->ranks;
        int other = to < from ? to : from;
        int low = other < halo->rank ? other : halo->rank, high = other + halo->rank - low;
        sendrecv_pair *p = &self->pairs[self->count++];
        *p = (sendrecv_pair){bx_random_hash((uint64_t)low, (uint64_t)high), other,
                             to == other ? send : NULL, from == other ? receive : NULL};
        while (send < last_send && send->rank == other) send++;
        while (receive < last_receive && receive->rank == other) receive++;
    }
    qsort(self->pairs, (size_t)self->count, sizeof *self->pairs, by_key);
    return self;
}

static void finish(void *me, int copy)
{
    sendrecv_state *self = me;
    const bx_halo_messages *m = self->messages;
    bx_halo_messages_pack(m, copy);
    for (int i = 0; i < self->count; i++)
        for (int f = 0; f < m->halo->mesh->fields; f++) {
            static const bx_halo_message none = {.rank = MPI_PROC_NULL};
            const sendrecv_pair *p = &self->pairs[i];
            const bx_halo_message *send = p->send ? p->send + f : &none;
            const bx_halo_message *receive = p->receive ? p->receive + f : &none;
            MPI_Sendrecv(m->sent + send->at, (int)send->numbers, MPI_DOUBLE, send->rank, TAG,
                         m->received + receive->at, (int)receive->numbers, MPI_DOUBLE,
                         receive->rank, TAG, m->halo->comm, MPI_STATUS_IGNORE);
        }
    bx_halo_messages_unpack(m, copy);
}

static void destroy(void *me)
{
    sendrecv_state *self = me;
    BX_FREE(self->pairs, self);
}

const bx_halo_method bx_halo_method_sendrecv = {
    .about = {.name = "sendrecv",
              .summary = "MPI_Sendrecv with one neighbour after the other",
              .wins = "the oldest form: few messages under way at once",
              .calls = "Sendrecv"},
    .create = create,
    .finish = finish,
    .destroy = destroy,
};
