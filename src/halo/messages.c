#include "charge.h"
#include "halo.h"

/* The messages with all peers, and their packed numbers. */
static bx_halo_message *list(const bx_halo *halo, const bx_peer *peers, int peer_count,
                             bool aggregated, bool between_nodes, int *count, double **packed)
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
    BX_ALLOC((size_t)at, *packed);
    return messages;
}

bx_halo_messages *bx_halo_messages_create(const bx_halo *halo, bool aggregated, bool between_nodes)
{
    bx_halo_messages *m = bx_memory_alloc(1, sizeof *m);
    m->halo = halo;
    m->sends = list(halo, halo->sends, halo->send_count, aggregated, between_nodes, &m->send_count,
                    &m->sent);
    m->receives = list(halo, halo->receives, halo->receive_count, aggregated, between_nodes,
                       &m->receive_count, &m->received);
    m->count = m->send_count + m->receive_count;
    return m;
}

void bx_halo_messages_free(bx_halo_messages *messages)
{
    BX_FREE(messages->sends, messages->receives, messages->sent, messages->received, messages);
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

void bx_halo_messages_pack(const bx_halo_messages *messages, int copy)
{
    for (int i = 0; i < messages->send_count; i++) {
        const bx_halo_message *m = &messages->sends[i];
        for (int f = 0; f < m->fields; f++) bx_halo_messages_pack_field(messages, copy, m, f);
        bx_charge(BX_COPY, (double)m->numbers * sizeof(double), true);
    }
}

void bx_halo_messages_unpack(const bx_halo_messages *messages, int copy)
{
    for (int i = 0; i < messages->receive_count; i++) {
        const bx_halo_message *m = &messages->receives[i];
        for (int f = 0; f < m->fields; f++)
            bx_region_unpack(m->region, field_of(messages, copy, m, f),
                             &messages->received[m->at + f * m->region->numbers]);
        bx_charge(BX_COPY, (double)m->numbers * sizeof(double), true);
    }
}
