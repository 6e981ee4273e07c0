#include "node_exchange.h"

#include <stdlib.h>
#include <string.h>

enum { SETS = 2 };

/* Where things are for one way, in elements of a shared buffer. */
typedef struct {
    int peers;           /* ranks with which I have blocks on this side: the first */
    int *at;             /* [peers] my block for or from each */
    size_t total;        /* elements */
    int *count, *offset; /* [nodes] my slice, if I am a leader */
} side;
typedef struct {
    side send, receive;
    size_t own; /* where the own node's blocks begin that are sent */
} layout;

struct bx_node_exchange {
    bx_plan *plan;
    int leaders;
    bool padded, moves_own_node, am_leader;
    bool reads_where_written; /* blocks of the own node are read where they were written */
    MPI_Comm peers;           /* the leaders of my slice, one per node, in node order */
    size_t block, node_block; /* padded sizes */
    size_t largest;           /* ranks of a node */
    layout layouts[2];        /* [bx_direction] */
    /* Exchanges take turns with two sets of buffers: a neighbour may still be reading one. */
    bx_complex *send[SETS], *receive[SETS];
    bx_shared buffers; /* all of them */
    int packing, unpacking;
};

/* Leader k serves ranks slice(k) .. slice(k + 1) - 1 of each node. */
static int slice(const bx_node_exchange *self, int k, int size)
{
    return (int)((int64_t)size * k / self->leaders);
}

/* The first ranks of my node whose elements are summed: those before me, with me, those before my
 * slice, with it, and all. */
enum { BEFORE_ME, WITH_ME, BEFORE_SLICE, WITH_SLICE, ALL, OFFSETS };

/* Lays out the blocks between my node and another, which begin at `base`; returns their end.  A
 * buffer is [rank to][rank from]: of those for one rank I send the part behind the ranks before me,
 * and what comes for me stands behind all that comes for ranks before me. */
static size_t lay_out_node(bx_node_exchange *self, side *s, bool sent,
                           const bx_rank_group_share sums[OFFSETS], int node, size_t base,
                           bool i_am_leader)
{
    const bx_plan *plan = self->plan;
    const bx_geometry *g = plan->geometry;
    int ranks = bx_geometry_node_size(g, node), k = plan->node_rank;
    int first = slice(self, k, ranks), last = slice(self, k + 1, ranks);
    size_t largest = self->largest, next = base, count = 0, offset = base;
    for (int i = 0; i < ranks && !sent; i++) {
        int peer = bx_geometry_ranks(g, node)[i];
        next += (size_t)bx_rank_group_share_elements(&sums[BEFORE_ME], peer);
        if (!i_am_leader) continue;
        size_t before = (size_t)bx_rank_group_share_elements(&sums[BEFORE_SLICE], peer);
        offset += before;
        count += (size_t)bx_rank_group_share_elements(&sums[WITH_SLICE], peer) - before;
    }
    size_t all = 0;
    for (int i = 0; i < ranks; i++) {
        int peer = bx_geometry_ranks(g, node)[i];
        size_t before = (size_t)bx_rank_group_share_elements(&sums[BEFORE_ME], peer),
               own = (size_t)bx_rank_group_share_elements(&sums[WITH_ME], peer) - before,
               of_node = (size_t)bx_rank_group_share_elements(&sums[ALL], peer),
               place = sent ? next + before : next;
        if (self->padded)
            place = base + self->block * (sent ? (size_t)i * largest + (size_t)k
                                               : (size_t)k * largest + (size_t)i);
        if (peer < s->peers) s->at[peer] = (int)place;
        if (sent && i < first) offset += of_node;
        if (sent && i >= first && i < last) count += of_node;
        next += sent ? of_node : own;
        all += of_node;
    }
    if (i_am_leader) s->count[node] = (int)count, s->offset[node] = (int)offset;
    return base + (self->padded ? self->node_block : all);
}

static void lay_out_side(bx_node_exchange *self, layout *l, bool sent, bool planes)
{
    const bx_plan *plan = self->plan;
    const bx_geometry *g = plan->geometry;
    side *s = sent ? &l->send : &l->receive;
    int me = plan->node_rank, here = plan->node_index, size = bx_geometry_node_size(g, here);
    int my_slice = self->am_leader ? me : 0;
    int counts[OFFSETS] = {me, me + 1, slice(self, my_slice, size), slice(self, my_slice + 1, size),
                           size};
    bx_rank_group_share sums[OFFSETS];
    for (int i = 0; i < OFFSETS; i++)
        sums[i] = bx_rank_group_share_create(g, here, counts[i], planes);
    s->peers = !planes ? bx_geometry_plane_ranks(g) : plan->my_planes > 0 ? g->ranks : 0;
    BX_ALLOC((size_t)s->peers, s->at);
    BX_ALLOC((size_t)g->nodes, s->count, s->offset);
    for (int n = 0; n < g->nodes; n++) {
        bool mine = n == here, stays = mine && self->reads_where_written;
        if (sent && mine) l->own = s->total;
        size_t base = stays && !sent ? l->own : s->total, end = base;
        if (!mine && !bx_geometry_nodes_meet(g, planes ? n : here, planes ? here : n)) {
            s->offset[n] = (int)base;
            end += self->padded ? self->node_block : 0;
        } else if (!mine || self->moves_own_node)
            end = lay_out_node(self, s, sent, sums, n, base, self->am_leader && !stays);
        if (mine && (!self->moves_own_node || (stays && !sent)))
            s->total += self->padded ? self->node_block : 0; /* nobody's */
        else
            s->total = end;
    }
    for (int i = 0; i < OFFSETS; i++) bx_rank_group_share_free(&sums[i]);
}

static void lay_out(bx_node_exchange *self, bx_direction way)
{
    lay_out_side(self, &self->layouts[way], true, way == BX_INVERSE);
    lay_out_side(self, &self->layouts[way], false, way == BX_FORWARD);
}

double bx_node_exchange_bytes(const bx_geometry *g, int rank, bool padded, bool moves_own_node,
                              bool published)
{
    int node = g->node_of[rank];
    double tables =
        4.0 * sizeof(int) * (g->ranks + 2.0 * g->nodes) + 2.0 * BX_MPI_MESSAGE * g->nodes;
    if (bx_geometry_ranks(g, node)[0] != rank) return tables;
    double largest = bx_geometry_largest_node(g), all = bx_geometry_node_elements(g, node),
           inside = bx_geometry_node_inside(g, node), sent = moves_own_node ? all : all - inside,
           received = moves_own_node && published ? all : all - inside;
    if (padded) sent = received = (double)g->largest_block * largest * largest * g->nodes;
    return tables + bx_transpose_method_buffers(SETS, sent + received);
}

bx_node_exchange *bx_node_exchange_create(bx_plan *plan, int leaders, bool padded,
                                          bool moves_own_node)
{
    const bx_geometry *g = plan->geometry;
    bx_node_exchange *self = bx_memory_alloc(1, sizeof *self);
    self->plan = plan;
    self->leaders = leaders;
    self->padded = padded;
    self->moves_own_node = moves_own_node;
    self->reads_where_written = !plan->published;
    self->block = (size_t)g->largest_block;
    self->largest = (size_t)bx_geometry_largest_node(g);
    self->node_block = self->block * self->largest * self->largest;
    self->am_leader = plan->node_rank < leaders;
    MPI_Comm_split(plan->team, self->am_leader ? plan->node_rank : MPI_UNDEFINED, plan->node_index,
                   &self->peers);
    size_t send = 0, receive = 0;
    for (int way = 0; way < 2; way++) {
        lay_out(self, way);
        if (self->layouts[way].send.total > send) send = self->layouts[way].send.total;
        if (self->layouts[way].receive.total > receive) receive = self->layouts[way].receive.total;
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
        BX_FREE(l->send.at, l->send.count, l->send.offset);
        BX_FREE(l->receive.at, l->receive.count, l->receive.offset);
    }
    if (self->peers != MPI_COMM_NULL) MPI_Comm_free(&self->peers);
    free(self);
}

/* Whether the block between me and `peer` goes through the buffers: my own never does. */
static bool through_buffer(const bx_node_exchange *self, int peer)
{
    const bx_plan *plan = self->plan;
    bool on_node = plan->geometry->node_of[peer] == plan->node_index;
    return peer != plan->rank && (self->moves_own_node || !on_node);
}

static bx_complex *block_for(const bx_node_exchange *self, bx_direction way, int peer)
{
    return self->send[self->packing] + self->layouts[way].send.at[peer];
}

static bx_complex *block_from(const bx_node_exchange *self, bx_direction way, int peer)
{
    bool on_node = self->plan->geometry->node_of[peer] == self->plan->node_index;
    bx_complex *from = on_node && self->reads_where_written ? self->send[self->unpacking]
                                                            : self->receive[self->unpacking];
    return from + self->layouts[way].receive.at[peer];
}

static void between_nodes(bx_node_exchange *self, bx_direction way)
{
    const bx_plan *plan = self->plan;
    const layout *l = &self->layouts[way];
    bx_complex *send = self->send[self->packing], *receive = self->receive[self->packing];
    bx_shared_sync(&self->buffers, plan->node);
    self->unpacking = self->packing;
    self->packing = (self->packing + 1) % SETS;
    if (plan->geometry->nodes == 1 && self->reads_where_written) return;
    if (self->am_leader && self->padded)
        MPI_Alltoall(send, (int)self->node_block, MPI_C_DOUBLE_COMPLEX, receive,
                     (int)self->node_block, MPI_C_DOUBLE_COMPLEX, self->peers);
    else if (self->am_leader)
        MPI_Alltoallv(send, l->send.count, l->send.offset, MPI_C_DOUBLE_COMPLEX, receive,
                      l->receive.count, l->receive.offset, MPI_C_DOUBLE_COMPLEX, self->peers);
    bx_shared_sync(&self->buffers, plan->node);
}

void bx_node_exchange_start(void *me, bx_direction way, int slot)
{
    bx_node_exchange *self = me;
    const bx_plan *plan = self->plan;
    const bx_geometry *g = plan->geometry;
    bool forward = way == BX_FORWARD;
    int others = bx_geometry_plane_ranks(g);
    for (int p = 0; forward && p < others; p++)
        if (through_buffer(self, p))
            bx_plan_copy(plan, block_for(self, way, p),
                         bx_plan_half_block(plan, way, slot, plan->rank, p),
                         (size_t)bx_geometry_block(g, way, plan->rank, p));
    bx_run_lap(plan->run, BX_PHASE_PACK);
    between_nodes(self, way);
    bx_run_lap(plan->run, BX_PHASE_EXCHANGE);
    for (int p = 0; !forward && p < others; p++)
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
        else if (self->moves_own_node)
            bx_plan_repack_own(plan, part);
    }
}

/* ---- the methods that do nothing else ---- */

#define METHOD(id, leaders_of, padded, fits, counted, ...)                                         \
    static double bytes_##id(const bx_geometry *g, int rank, bool published)                       \
    {                                                                                              \
        return bx_node_exchange_bytes(g, rank, padded, true, published);                           \
    }                                                                                              \
    static void *create_##id(bx_plan *plan, int leaders)                                           \
    {                                                                                              \
        return bx_node_exchange_create(plan, leaders_of, padded, true);                            \
    }                                                                                              \
    const bx_transpose_method bx_transpose_method_##id = {.about = {__VA_ARGS__},                  \
                                                          .applicable = fits,                      \
                                                          .host_only = BX_NO_DEVICE_WINDOW,        \
                                                          .bytes = bytes_##id,                     \
                                                          .create = create_##id,                   \
                                                          .start = bx_node_exchange_start,         \
                                                          .repack = bx_node_exchange_repack,       \
                                                          .destroy = bx_node_exchange_destroy,     \
                                                          .count = counted};

/* One rank per node (Bethune 2010, section 4.1). */
METHOD(shm, 1, false, bx_geometry_nodes_fit, bx_count_nodes, .name = "shm",
       .summary = "one rank per node exchanges for all, through a shared-memory window",
       .wins = "far fewer messages: wins where the network is short of messages, not of bandwidth",
       .calls = BX_SYNC_CALLS " Alltoallv")

/* One MPI_Alltoall between nodes (Bethune 2010, section 4.2.1). */
METHOD(shm_padded, 1, true, bx_geometry_padded_nodes_fit, bx_count_nodes_padded,
       .name = "shm-padded",
       .summary = "as shm, blocks padded to one size, MPI_Alltoall between nodes",
       .wins = "many nodes and very small blocks; the padding grows with the node",
       .calls = BX_SYNC_CALLS " Alltoall")

/* Several ranks per node, each for a slice of the destinations: one rank alone cannot fill the
 * links of a node of 64 to 128 cores. */
METHOD(leaders, bx_geometry_leaders(plan->geometry, leaders), false, bx_geometry_nodes_fit,
       bx_count_leaders, .name = "leaders",
       .summary = "as shm, but several ranks per node exchange, each its slice (--leaders)",
       .wins = "between shm and alltoallv: nodes with many cores, or several network links",
       .calls = BX_SYNC_CALLS " Alltoallv")
