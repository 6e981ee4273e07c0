#include "node_exchange.h"

#include <stdlib.h>
#include <string.h>

enum { SETS = 2 };

/* Where things are for one way; [ranks] or [nodes] long, in elements of a shared buffer. */
typedef struct {
    size_t *send_at, *receive_at; /* my block for / from each rank */
    size_t send_total, receive_total;
    int *send, *send_offset, *receive, *receive_offset; /* [nodes] my slice, if I am a leader */
} layout;

struct bx_node_exchange {
    bx_plan *plan;
    int leaders;
    bool padded, own_node, am_leader;
    bool in_place;            /* blocks of the own node are read where they were written */
    MPI_Comm peers;           /* the leaders of my slice, one per node, in node order */
    size_t block, node_block; /* padded sizes */
    layout layouts[2];        /* [bx_direction] */
    /* Exchanges take turns with two sets of buffers: a neighbour may still be reading one. */
    bx_complex *send[SETS], *receive[SETS];
    bx_shared buffers; /* all of them */
    int packing, unpacking;
};

/* Leader k serves ranks [size k / leaders, size (k+1) / leaders) of each node. */
static int slice_of(int index, int size, int leaders)
{
    int k = 0;
    while (index >= (int)((int64_t)size * (k + 1) / leaders)) k++;
    return k;
}

/* Lays out the blocks that `from_node` sends to `to_node`, beginning at `base` of the buffer from
 * which they are sent, or to which they come; returns their end. */
static size_t place_blocks(bx_node_exchange *self, bx_direction way, bool sent, int from_node,
                           int to_node, size_t base)
{
    const bx_plan *plan = self->plan;
    const bx_geometry *g = plan->geometry;
    layout *l = &self->layouts[way];
    int other = sent ? to_node : from_node, my_slice = self->am_leader ? plan->node_rank : -1;
    int *count = &(sent ? l->send : l->receive)[other];
    int *offset = &(sent ? l->send_offset : l->receive_offset)[other];
    int froms = bx_geometry_node_size(g, from_node), tos = bx_geometry_node_size(g, to_node);
    bool stays = sent && other == plan->node_index && self->in_place;
    size_t at = base, largest = (size_t)bx_geometry_largest_node(g);
    for (int t = 0; t < tos; t++)
        for (int f = 0; f < froms; f++) {
            int from = bx_geometry_ranks(g, from_node)[f], to = bx_geometry_ranks(g, to_node)[t];
            size_t length = (size_t)bx_geometry_block(g, way, from, to);
            size_t place =
                self->padded ? base + ((size_t)t * largest + (size_t)f) * self->block : at;
            at += length;
            if (sent && from == plan->rank) l->send_at[to] = place;
            if ((!sent || stays) && to == plan->rank) l->receive_at[from] = place;
            if (stays || slice_of(t, tos, self->leaders) != my_slice) continue;
            if (*count == 0) *offset = (int)place;
            *count += (int)length;
        }
    return self->padded ? base + self->node_block : at;
}

static void lay_out(bx_node_exchange *self, bx_direction way)
{
    const bx_plan *plan = self->plan;
    int me = plan->node_index, nodes = plan->geometry->nodes;
    layout *l = &self->layouts[way];
    BX_ALLOC((size_t)plan->geometry->ranks, l->send_at, l->receive_at);
    BX_ALLOC((size_t)nodes, l->send, l->send_offset, l->receive, l->receive_offset);
    for (int n = 0; n < nodes; n++) {
        size_t skipped = self->padded ? self->node_block : 0;
        if (n != me || self->own_node)
            l->send_total = place_blocks(self, way, true, me, n, l->send_total);
        else
            l->send_total += skipped;
        if (n != me || (self->own_node && !self->in_place))
            l->receive_total = place_blocks(self, way, false, n, me, l->receive_total);
        else
            l->receive_total += skipped;
    }
}

bx_node_exchange *bx_node_exchange_create(bx_plan *plan, int leaders, bool padded, bool own_node)
{
    const bx_geometry *g = plan->geometry;
    bx_node_exchange *self = bx_memory_alloc(1, sizeof *self);
    size_t largest = (size_t)bx_geometry_largest_node(g);
    self->plan = plan;
    self->leaders = leaders;
    self->padded = padded;
    self->own_node = own_node;
    self->in_place = !plan->published;
    self->block = (size_t)g->largest_block;
    self->node_block = self->block * largest * largest;
    self->am_leader = plan->node_rank < leaders;
    MPI_Comm_split(plan->team, self->am_leader ? plan->node_rank : MPI_UNDEFINED, plan->node_index,
                   &self->peers);
    size_t send = 0, receive = 0;
    for (int way = 0; way < 2; way++) {
        lay_out(self, way);
        if (self->layouts[way].send_total > send) send = self->layouts[way].send_total;
        if (self->layouts[way].receive_total > receive) receive = self->layouts[way].receive_total;
    }
    send = bx_plan_paged(send);
    receive = bx_plan_paged(receive);
    size_t bytes = SETS * (send + receive) * sizeof(bx_complex);
    if (!bx_shared_create(plan->run, plan->node, bytes, &self->buffers)) {
        bx_node_exchange_destroy(self);
        return NULL;
    }
    for (int set = 0; set < SETS; set++) {
        self->send[set] = (bx_complex *)self->buffers.base + (size_t)set * (send + receive);
        self->receive[set] = self->send[set] + send;
        /* padding is sent, so it has a value; all else is first touched by who writes it */
        if (padded && plan->node_rank == 0) memset(self->send[set], 0, send * sizeof(bx_complex));
    }
    bx_shared_sync(&self->buffers, plan->node);
    return self;
}

void bx_node_exchange_destroy(void *me)
{
    bx_node_exchange *self = me;
    bx_shared_free(&self->buffers);
    for (int way = 0; way < 2; way++) {
        layout *l = &self->layouts[way];
        BX_FREE(l->send_at, l->receive_at, l->send, l->send_offset, l->receive, l->receive_offset);
    }
    if (self->peers != MPI_COMM_NULL) MPI_Comm_free(&self->peers);
    free(self);
}

/* Whether the block between me and `peer` goes through the buffers: my own never does. */
static bool through_buffer(const bx_node_exchange *self, int peer)
{
    const bx_plan *plan = self->plan;
    bool on_node = plan->geometry->node_of[peer] == plan->node_index;
    return peer != plan->rank && (self->own_node || !on_node);
}

static bx_complex *block_for(const bx_node_exchange *self, bx_direction way, int peer)
{
    return self->send[self->packing] + self->layouts[way].send_at[peer];
}

static bx_complex *block_from(const bx_node_exchange *self, bx_direction way, int peer)
{
    bool on_node = self->plan->geometry->node_of[peer] == self->plan->node_index;
    bx_complex *from =
        on_node && self->in_place ? self->send[self->unpacking] : self->receive[self->unpacking];
    return from + self->layouts[way].receive_at[peer];
}

static void between_nodes(bx_node_exchange *self, bx_direction way)
{
    const bx_plan *plan = self->plan;
    const layout *l = &self->layouts[way];
    bx_complex *send = self->send[self->packing], *receive = self->receive[self->packing];
    bx_shared_sync(&self->buffers, plan->node);
    self->unpacking = self->packing;
    self->packing = (self->packing + 1) % SETS;
    if (plan->geometry->nodes == 1 && self->in_place) return;
    if (self->am_leader && self->padded)
        MPI_Alltoall(send, (int)self->node_block, MPI_C_DOUBLE_COMPLEX, receive,
                     (int)self->node_block, MPI_C_DOUBLE_COMPLEX, self->peers);
    else if (self->am_leader)
        MPI_Alltoallv(send, l->send, l->send_offset, MPI_C_DOUBLE_COMPLEX, receive, l->receive,
                      l->receive_offset, MPI_C_DOUBLE_COMPLEX, self->peers);
    bx_shared_sync(&self->buffers, plan->node);
}

void bx_node_exchange_start(void *me, bx_direction way, int slot)
{
    bx_node_exchange *self = me;
    const bx_plan *plan = self->plan;
    const bx_geometry *g = plan->geometry;
    bool forward = way == BX_FORWARD;
    for (int p = 0; forward && p < g->ranks; p++)
        if (through_buffer(self, p))
            bx_plan_copy(plan, block_for(self, way, p),
                         bx_plan_half_block(plan, way, slot, plan->rank, p),
                         (size_t)bx_geometry_block(g, way, plan->rank, p));
    bx_run_lap(plan->run, BX_PHASE_PACK);
    between_nodes(self, way);
    bx_run_lap(plan->run, BX_PHASE_EXCHANGE);
    for (int p = 0; !forward && p < g->ranks; p++)
        if (through_buffer(self, p))
            bx_plan_copy(plan, bx_plan_half_block(plan, way, slot, plan->rank, p),
                         block_from(self, way, p),
                         (size_t)bx_geometry_block(g, way, p, plan->rank));
    bx_run_lap(plan->run, BX_PHASE_UNPACK);
}

void bx_node_exchange_repack(void *me, const bx_plane_part *part)
{
    const bx_node_exchange *self = me;
    const bx_plan *plan = self->plan;
    for (int p = 0; p < plan->geometry->ranks; p++) {
        if (through_buffer(self, p))
            bx_plan_repack(plan, part, p,
                           part->way == BX_FORWARD ? block_from(self, BX_FORWARD, p)
                                                   : block_for(self, BX_INVERSE, p));
        else if (self->own_node)
            bx_plan_repack_own(plan, part);
    }
}

/* ---- the methods that do nothing else ---- */

#define METHOD(id, leaders_of, padded, fits, counted, ...)                                         \
    static void *create_##id(bx_plan *plan, int leaders)                                           \
    {                                                                                              \
        return bx_node_exchange_create(plan, leaders_of, padded, true);                            \
    }                                                                                              \
    const bx_method bx_method_##id = {.about = {__VA_ARGS__},                                      \
                                      .applicable = fits,                                          \
                                      .create = create_##id,                                       \
                                      .start = bx_node_exchange_start,                             \
                                      .repack = bx_node_exchange_repack,                           \
                                      .destroy = bx_node_exchange_destroy,                         \
                                      .count = counted};

/* One rank per node (Bethune 2010, section 4.1). */
METHOD(shm, 1, false, bx_geometry_nodes_fit, bx_count_nodes, .name = "shm",
       .summary = "one rank per node exchanges for all, through a shared-memory window",
       .wins = "far fewer messages: wins where the network is short of messages, not of bandwidth")

/* One MPI_Alltoall between nodes (Bethune 2010, section 4.2.1). */
METHOD(shm_padded, 1, true, bx_geometry_padded_nodes_fit, bx_count_nodes_padded,
       .name = "shm-padded",
       .summary = "as shm, blocks padded to one size, MPI_Alltoall between nodes",
       .wins = "many nodes and very small blocks; the padding grows with the node")

/* Several ranks per node, each for a slice of the destinations: one rank alone cannot fill the
 * links of a node of 64 to 128 cores. */
METHOD(leaders, bx_geometry_leaders(plan->geometry, leaders), false, bx_geometry_nodes_fit,
       bx_count_leaders, .name = "leaders",
       .summary = "as shm, but several ranks per node exchange, each its slice (--leaders)",
       .wins = "between shm and alltoallv: nodes with many cores, or several network links")
