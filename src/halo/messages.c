#include "charge.h"
#include "device.h"
#include "halo.h"

/* The messages with all peers, and their packed numbers. */
static bx_halo_message *list(const bx_halo *halo, const bx_peer *peers, int peer_count,
                             bool aggregated, bool between_nodes, int *count, double **packed,
                             bx_comm_buffer *buffer)
{
    int fields = halo->mesh->fields, each = aggregated ? fields : 1;
    bx_halo_message *messages = bx_memory_alloc((size_t)(peer_count * fields), sizeof *messages);
    int64_t at = 0;
    *count = 0;
    for (int i = 0; i < peer_count; i++) {
        if (between_nodes && bx_halo_on_node(halo, peers[i].rank)) continue;
        for (int field = 0; field < fields; field += each) {
            const bx_region *region = &peers[i].region;
            bx_halo_message m = {peers[i].rank, field, each, at, each * region->numbers, region};
            messages[(*count)++] = m;
            at += m.numbers;
        }
    }
    if (halo->copied.device)
        bx_comm_buffer_create(buffer, (size_t)(at + 1) * sizeof **packed, "messages");
    else
        BX_ALLOC((size_t)at, *packed);
    if (halo->copied.device) *packed = buffer->exchanged;
    return messages;
}

/* The host's copies tell, of numbered fields. */
int *bx_halo_index(const bx_halo *halo, const bx_halo_message *messages, int count)
{
    const bx_mesh *mesh = halo->mesh;
    size_t numbers = 0, all = (size_t)mesh->fields * (size_t)mesh->stride;
    for (int i = 0; i < count; i++) numbers += (size_t)messages[i].numbers;
    double *numbered = bx_memory_alloc(all, sizeof *numbered),
           *packed = bx_memory_alloc(numbers + 1, sizeof *packed);
    int *places = bx_memory_alloc(numbers + 1, sizeof *places);
    for (size_t i = 0; i < all; i++) numbered[i] = (double)i;
    for (int i = 0; i < count; i++)
        for (int f = 0; f < messages[i].fields; f++)
            bx_region_pack(messages[i].region, &numbered[(messages[i].field + f) * mesh->stride],
                           &packed[messages[i].at + f * messages[i].region->numbers]);
    for (size_t i = 0; i < numbers; i++) places[i] = (int)packed[i];
    int *index = bx_comm_buffers_index(places, numbers);
    BX_FREE(numbered, packed, places);
    return index;
}

static int64_t numbers_of(const bx_halo_message *messages, int count)
{
    return count > 0 ? messages[count - 1].at + messages[count - 1].numbers : 0;
}

bx_halo_messages *bx_halo_messages_create(const bx_halo *halo, bool aggregated, bool between_nodes)
{
    bx_halo_messages *m = bx_memory_alloc(1, sizeof *m);
    m->halo = halo;
    m->sends = list(halo, halo->sends, halo->send_count, aggregated, between_nodes, &m->send_count,
                    &m->sent, &m->sending);
    m->receives = list(halo, halo->receives, halo->receive_count, aggregated, between_nodes,
                       &m->receive_count, &m->received, &m->receiving);
    m->count = m->send_count + m->receive_count;
    if (!halo->copied.device) return m;
    m->sent_from = bx_halo_index(halo, m->sends, m->send_count);
    m->received_to = bx_halo_index(halo, m->receives, m->receive_count);
    return m;
}

void bx_halo_messages_free(bx_halo_messages *messages)
{
    if (messages->halo->copied.device) {
        bx_comm_buffer_free(&messages->sending);
        bx_comm_buffer_free(&messages->receiving);
        bx_device_release(messages->sent_from);
        bx_device_release(messages->received_to);
    } else {
        BX_FREE(messages->sent, messages->received);
    }
    BX_FREE(messages->sends, messages->receives, messages);
}

/* The first number of field `f` of a message, in the copy of the fields. */
static double *field_of(const bx_halo_messages *messages, int copy, const bx_halo_message *m, int f)
{
    const bx_halo *halo = messages->halo;
    return &halo->fields[copy][(m->field + f) * halo->mesh->stride];
}

void bx_halo_messages_pack_field(const bx_halo_messages *messages, int copy,
                                 const bx_halo_message *m, int f)
{
    bx_region_pack(m->region, field_of(messages, copy, m, f),
                   &messages->sent[m->at + f * m->region->numbers]);
}

static void pack_on_device(const bx_halo_messages *m, int copy)
{
    size_t numbers = (size_t)numbers_of(m->sends, m->send_count), each = sizeof *m->sent;
    bx_comm_buffers_move(m->sent, NULL, m->halo->exchanged[copy], m->sent_from, numbers, each);
    bx_comm_buffers_sync();
    bx_comm_buffer_stage_out(&m->sending, m->sent, numbers * each);
}

static void unpack_on_device(const bx_halo_messages *m, int copy)
{
    size_t numbers = (size_t)numbers_of(m->receives, m->receive_count), each = sizeof *m->received;
    bx_comm_buffer_stage_in(&m->receiving, m->received, numbers * each);
    bx_comm_buffers_move(m->halo->exchanged[copy], m->received_to, m->received, NULL, numbers,
                         each);
    bx_comm_buffers_sync();
}

void bx_halo_messages_pack(const bx_halo_messages *messages, int copy)
{
    if (messages->halo->copied.device) {
        pack_on_device(messages, copy);
        return;
    }
    for (int i = 0; i < messages->send_count; i++) {
        const bx_halo_message *m = &messages->sends[i];
        for (int f = 0; f < m->fields; f++) bx_halo_messages_pack_field(messages, copy, m, f);
        bx_charge(BX_COPY, (double)m->numbers * sizeof(double), true);
    }
}

void bx_halo_messages_unpack(const bx_halo_messages *messages, int copy)
{
    if (messages->halo->copied.device) {
        unpack_on_device(messages, copy);
        return;
    }
    for (int i = 0; i < messages->receive_count; i++) {
        const bx_halo_message *m = &messages->receives[i];
        for (int f = 0; f < m->fields; f++)
            bx_region_unpack(m->region, field_of(messages, copy, m, f),
                             &messages->received[m->at + f * m->region->numbers]);
        bx_charge(BX_COPY, (double)m->numbers * sizeof(double), true);
    }
}
