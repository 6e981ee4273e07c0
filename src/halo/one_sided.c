#include "one_sided.h"

#include <stdlib.h>

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

void *bx_one_sided_create(const bx_halo_messages *messages)
{
    MPI_Comm comm = messages->halo->comm;
    int64_t numbers = 0;
    for (int i = 0; i < messages->receive_count; i++) numbers += messages->receives[i].numbers;
    MPI_Win window = bx_window_create(messages->halo->mesh->run, comm, messages->received,
                                      (size_t)numbers * sizeof(double), sizeof(double));
    if (window == MPI_WIN_NULL) return NULL;
    bx_one_sided *self = bx_memory_alloc(1, sizeof *self);
    self->window = window;
    self->messages = messages;
    self->targets = bx_messages_targets(messages);
    self->to = group_of(comm, messages->sends, messages->send_count);
    self->from = group_of(comm, messages->receives, messages->receive_count);
    return self;
}

void bx_one_sided_put(const bx_one_sided *self)
{
    for (int i = 0; i < self->messages->send_count; i++) {
        const bx_halo_message *m = &self->messages->sends[i];
        MPI_Put(&self->messages->sent[m->at], (int)m->numbers, MPI_DOUBLE, m->rank,
                (MPI_Aint)self->targets[i], (int)m->numbers, MPI_DOUBLE, self->window);
    }
}

void bx_one_sided_destroy(void *me)
{
    bx_one_sided *self = me;
    MPI_Win_free(&self->window);
    MPI_Group_free(&self->to);
    MPI_Group_free(&self->from);
    BX_FREE(self->targets, self);
}
