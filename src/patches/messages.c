#include "messages.h"

#include "charge.h"

#include <stdlib.h>
#include <string.h>

enum { POSITIONS, FORCES, DIRECTIONS };

/* ---- headers ---- */

static uint64_t stamp_of(const bx_messages *m, const bx_patch_part *part, int64_t step)
{
    int sender = part->outgoing ? m->objects->rank : part->rank;
    uint64_t name = (uint64_t)(part->patch->number * DIRECTIONS + part->forces);
    return bx_random_hash(name * (uint64_t)m->objects->ranks + (uint64_t)sender, (uint64_t)step);
}

static uint64_t sum_of(const uint64_t *words, int64_t count)
{
    uint64_t sum = 0;
    for (int64_t i = BX_HEADER; i < count; i++) {
        uint64_t word;
        memcpy(&word, &words[i], sizeof word); /* of a double */
        sum += word;
    }
    return sum;
}

static void write_header(const bx_messages *m, bx_patch_part *part, int64_t step)
{
    const uint64_t header[BX_HEADER] = {stamp_of(m, part, step), sum_of(part->words, part->count)};
    memcpy(part->words, header, sizeof header);
}

/* ---- the plan ---- */

static int compare_parts(const void *left, const void *right)
{
    const bx_patch_part *a = left, *b = right;
    if (a->rank != b->rank) return a->rank - b->rank;
    if (a->forces != b->forces) return a->forces - b->forces;
    return a->patch->number - b->patch->number;
}

static void add_part(bx_patch_parts *parts, bx_patch_part part)
{
    part.count = BX_HEADER + 3 * part.patch->atoms;
    void *there = part.forces ? (void *)part.patch->forces : part.patch->positions;
    bool gathered = part.forces && !part.outgoing; /* the forces of several ranks */
    part.words = gathered ? bx_memory_alloc((size_t)part.count, sizeof *part.words) : there;
    parts->list = bx_memory_grow(parts->list, (size_t)parts->count + 1, sizeof *parts->list);
    parts->list[parts->count++] = part;
}

/* A message there and one back for each copy, on either side. */
static void list_parts(bx_messages *m)
{
    const bx_objects *o = m->objects;
    for (int p = 0; p < o->patch_count; p++) {
        bx_patch *patch = &o->patches[p];
        bx_patch_part there = {.patch = patch, .outgoing = patch->own};
        bx_patch_part back = {.patch = patch, .outgoing = !patch->own, .forces = true};
        for (int n = 0; n < (patch->own ? patch->copy_count : 1); n++) {
            there.rank = back.rank = patch->own ? patch->copies[n] : patch->owner;
            add_part(patch->own ? &m->sent : &m->received, there);
            add_part(patch->own ? &m->received : &m->sent, back);
        }
    }
}

static bx_message *group(bx_patch_parts *parts, bool joined, int *count)
{
    bx_message *messages = bx_memory_alloc((size_t)parts->count, sizeof *messages);
    if (parts->count > 0)
        qsort(parts->list, (size_t)parts->count, sizeof *parts->list, compare_parts);
    *count = 0;
    for (int i = 0; i < parts->count; i++) {
        bx_patch_part *part = &parts->list[i];
        bool joins =
            joined && i > 0 && part->rank == part[-1].rank && part->forces == part[-1].forces;
        if (!joins)
            messages[(*count)++] =
                (bx_message){.rank = part->rank,
                             .tag = part->patch->number * DIRECTIONS + part->forces,
                             .first = i,
                             .buffer = part->words,
                             .request = MPI_REQUEST_NULL};
        messages[*count - 1].parts++;
        messages[*count - 1].count += part->count;
        part->message = *count - 1;
    }
    for (int i = 0; i < *count; i++)
        if (messages[i].parts > 1) BX_ALLOC((size_t)messages[i].count, messages[i].buffer);
    return messages;
}

bx_messages *bx_messages_create(bx_objects *objects, bool joined)
{
    bx_messages *m = bx_memory_alloc(1, sizeof *m);
    m->objects = objects;
    MPI_Comm_dup(bx_run_comm(objects->run), &m->comm);
    list_parts(m);
    m->sends = group(&m->sent, joined, &m->send_count);
    m->receives = group(&m->received, joined, &m->receive_count);
    BX_ALLOC((size_t)objects->patch_count, m->sends_of);
    for (int p = 0; p < objects->patch_count; p++) m->sends_of[p] = -1;
    for (int i = m->sent.count - 1; i >= 0; i--) {
        int *first = &m->sends_of[m->sent.list[i].patch - objects->patches];
        m->sent.list[i].next = *first;
        *first = i;
    }
    BX_ALLOC((size_t)m->send_count, m->held);
    m->requests = bx_memory_alloc((size_t)m->receive_count, sizeof *m->requests);
    for (int i = 0; i < m->receive_count; i++) m->requests[i] = MPI_REQUEST_NULL;
    BX_ALLOC((size_t)m->receive_count, m->indices, m->statuses);
    return m;
}

static void free_buffers(bx_message *messages, int count)
{
    for (int i = 0; i < count; i++)
        if (messages[i].parts > 1) free(messages[i].buffer);
    free(messages);
}

void bx_messages_free(bx_messages *m)
{
    free_buffers(m->sends, m->send_count);
    free_buffers(m->receives, m->receive_count);
    for (int i = 0; i < m->received.count; i++)
        if (m->received.list[i].forces) free(m->received.list[i].words);
    BX_FREE(m->sent.list, m->received.list, m->sends_of, m->held, m->requests, m->indices,
            m->statuses);
    MPI_Comm_free(&m->comm);
    free(m);
}

/* ---- sending ---- */

static void start(const bx_messages *m, bx_message *message)
{
    MPI_Isend(message->buffer, (int)message->count, MPI_UINT64_T, message->rank, message->tag,
              m->comm, &message->request);
}

/* A part is ready: the message goes when all are. */
static void put(bx_messages *m, const bx_patch_part *part)
{
    bx_message *message = &m->sends[part->message];
    if (message->parts > 1) {
        MPI_Wait(&message->request, MPI_STATUS_IGNORE);
        int64_t at = 0;
        for (const bx_patch_part *p = &m->sent.list[message->first]; p < part; p++) at += p->count;
        memcpy(&message->buffer[at], part->words, (size_t)part->count * sizeof *part->words);
        bx_charge(BX_COPY, (double)part->count * sizeof *part->words, true);
    }
    if (++message->ready < message->parts) return;
    message->ready = 0;
    if (m->holds)
        m->held[m->held_count++] = part->message;
    else
        start(m, message);
}

static void send(void *to, bx_patch *patch)
{
    bx_messages *m = to;
    int i = m->sends_of[patch - m->objects->patches];
    if (i >= 0) write_header(m, &m->sent.list[i], patch->step); /* the same to all copies */
    for (; i >= 0; i = m->sent.list[i].next) put(m, &m->sent.list[i]);
}

void bx_messages_release(bx_messages *m)
{
    for (int i = 0; i < m->held_count; i++) start(m, &m->sends[m->held[i]]);
    m->held_count = 0;
}

/* Its receivers have answered: it is sent. */
static void settle(void *to, const bx_patch *patch)
{
    const bx_messages *m = to;
    for (int i = m->sends_of[patch - m->objects->patches]; i >= 0; i = m->sent.list[i].next)
        MPI_Wait(&m->sends[m->sent.list[i].message].request, MPI_STATUS_IGNORE);
}

void bx_messages_settle_all(bx_messages *m)
{
    for (int i = 0; i < m->send_count; i++) MPI_Wait(&m->sends[i].request, MPI_STATUS_IGNORE);
}

void bx_messages_begin(bx_messages *m)
{
    m->objects->outlet = (bx_outlet){.send = send, .settle = settle, .to = m};
    for (int i = 0; i < m->received.count; i++) m->received.list[i].step = 0;
}

/* ---- receiving ---- */

void bx_messages_post(bx_messages *m, int index)
{
    const bx_message *message = &m->receives[index];
    MPI_Irecv(message->buffer, (int)message->count, MPI_UINT64_T, message->rank, message->tag,
              m->comm, &m->requests[index]);
}

void bx_messages_post_all(bx_messages *m)
{
    for (int i = 0; i < m->receive_count; i++) bx_messages_post(m, i);
}

/* Returns the message from a rank with a tag; -1: none. */
static int find(const bx_messages *m, int rank, int tag)
{
    int low = 0, high = m->receive_count - 1;
    while (low <= high) {
        int middle = (low + high) / 2;
        const bx_message *at = &m->receives[middle];
        /* by rank, direction, patch: as compare_parts sorts */
        int order = rank != at->rank                    ? rank - at->rank
                    : (tag - at->tag) % DIRECTIONS != 0 ? tag % DIRECTIONS - at->tag % DIRECTIONS
                                                        : tag - at->tag;
        if (order == 0) return middle;
        if (order < 0)
            high = middle - 1;
        else
            low = middle + 1;
    }
    return -1;
}

/* Whether words are the part that is expected next.  A part of the step before has come twice. */
static bool accept(bx_messages *m, const bx_patch_part *part, const uint64_t *words)
{
    uint64_t header[BX_HEADER];
    memcpy(header, words, sizeof header);
    bool right =
        header[0] == stamp_of(m, part, part->step) && header[1] == sum_of(words, part->count);
    m->objects->wrong_messages += !right;
    return right || part->step == 0 || header[0] != stamp_of(m, part, part->step - 1);
}

bool bx_messages_deliver(bx_messages *m, int index)
{
    const bx_message *message = &m->receives[index];
    bx_patch_part *parts = &m->received.list[message->first];
    int64_t at = 0;
    for (int i = 0; i < message->parts; at += parts[i++].count)
        if (!accept(m, &parts[i], &message->buffer[at])) return false;
    at = 0;
    for (int i = 0; i < message->parts; at += parts[i++].count) {
        bx_patch_part *part = &parts[i];
        uint64_t *words = &message->buffer[at];
        if (message->parts > 1) {
            memcpy(part->words, words, (size_t)part->count * sizeof *words);
            bx_charge(BX_COPY, (double)part->count * sizeof *words, true);
        }
        part->step++;
    }
    for (int i = 0; i < message->parts; i++) {
        if (parts[i].forces)
            bx_objects_take_forces(m->objects, parts[i].patch,
                                   (int64_t *)&parts[i].words[BX_HEADER]);
        else
            bx_objects_take_positions(m->objects, parts[i].patch);
    }
    return true;
}

void bx_messages_take(bx_messages *m, int index)
{
    const bx_patch_part *part = &m->received.list[m->receives[index].first];
    bool right = bx_messages_deliver(m, index);
    if (!right || part->step < m->objects->last_step) bx_messages_post(m, index);
}

static void drop(bx_messages *m, const MPI_Status *status)
{
    int bytes;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    char *words = bx_memory_alloc((size_t)bytes + 1, 1);
    MPI_Recv(words, bytes, MPI_BYTE, status->MPI_SOURCE, status->MPI_TAG, m->comm,
             MPI_STATUS_IGNORE);
    free(words);
    fprintf(stderr, "bisection-patches: rank %d: no message is due from rank %d with tag %d\n",
            m->objects->rank, status->MPI_SOURCE, status->MPI_TAG);
    m->objects->wrong_messages++;
}

void bx_messages_receive(bx_messages *m, const MPI_Status *status)
{
    int index = find(m, status->MPI_SOURCE, status->MPI_TAG);
    if (index < 0) {
        drop(m, status);
        return;
    }
    const bx_message *message = &m->receives[index];
    MPI_Recv(message->buffer, (int)message->count, MPI_UINT64_T, message->rank, message->tag,
             m->comm, MPI_STATUS_IGNORE);
    bx_messages_deliver(m, index);
}
