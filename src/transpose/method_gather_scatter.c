/* Node-aggregated exchange by messages alone: MPI_Gatherv to the node's root, MPI_Alltoallv between
 * roots, MPI_Scatterv, with a repacking before and after (Bethune 2010, section 4.3; Plummer and
 * Refson 2004).  The root copies blocks within a node, which section 5.1.1 names and leaves undone;
 * as published it exchanges them like all others.
 *
 * Costs a message between each two nodes, and two of each rank with its root; a byte that changes
 * its node is sent up to three times; the root copies all of its node before and after. */
#include "method.h"

#include "charge.h"

#include <stdlib.h>
#include <string.h>

/* One way, at a node's root alone: blocks as gathered [rank from][rank to], exchanged
 * [node][rank to][rank from], scattered [rank to][rank from]. */
typedef struct {
    int *gather, *gather_at, *scatter, *scatter_at; /* [node size] */
    int *send, *send_at, *receive, *receive_at;     /* [nodes] */
    size_t gathered, scattered, sent, received;
    int *received_for; /* [nodes][node size] where blocks for each rank begin that a node sends */
} layout;

typedef struct {
    bx_plan *plan;
    MPI_Comm roots; /* one rank per node, in node order */
    layout layouts[2];
    size_t half_total;                                  /* elements of mine that travel */
    bx_complex *gather, *scatter;                       /* every rank's own part */
    bx_complex *gathered, *sent, *received, *scattered; /* roots */
    /* Roots, while they reorder: the next block of each rank as gathered or scattered, for each
     * node as sent, from each node for each rank as received; of blocks that stay, where they were
     * gathered. */
    size_t *next, *next_sent, *next_received, *stays; /* stays [rank from][rank to] */
} gather_scatter_state;

/* Elements that one rank sends to another; 0 to itself. */
static size_t length(const bx_geometry *g, bx_direction way, int from, int to)
{
    return from == to ? 0 : (size_t)bx_geometry_block(g, way, from, to);
}

/* Whether ranks of one node may have blocks for ranks of another. */
static bool nodes_meet(const bx_geometry *g, bx_direction way, int from, int to)
{
    bool forward = way == BX_FORWARD;
    return bx_geometry_nodes_meet(g, forward ? from : to, forward ? to : from);
}

/* Adds the elements that ranks of my node, which are on the side of the planes or of the columns,
 * exchange with the ranks of each node, elements[nodes]. */
static void count_nodes(const bx_plan *plan, bool planes, int *elements)
{
    const bx_geometry *g = plan->geometry;
    int me = plan->node_index;
    bx_rank_group_share all =
        bx_rank_group_share_create(g, me, bx_geometry_node_size(g, me), planes);
    for (int p = 0; p < g->ranks; p++) {
        elements[g->node_of[p]] += (int)bx_rank_group_share_elements(&all, p);
        if (g->node_of[p] == me) elements[me] -= (int)bx_geometry_block(g, BX_FORWARD, p, p);
    }
    if (!plan->published) elements[me] = 0; /* stays here */
    bx_rank_group_share_free(&all);
}

static void lay_out(gather_scatter_state *self, bx_direction way)
{
    const bx_plan *plan = self->plan;
    const bx_geometry *g = plan->geometry;
    layout *l = &self->layouts[way];
    int me = plan->node_index, size = bx_geometry_node_size(g, me);
    bool forward = way == BX_FORWARD;
    BX_ALLOC((size_t)size, l->gather, l->gather_at, l->scatter, l->scatter_at);
    BX_ALLOC((size_t)g->nodes, l->send, l->send_at, l->receive, l->receive_at);
    BX_ALLOC((size_t)size * (size_t)g->nodes, l->received_for);
    for (int i = 0; i < size; i++) {
        int rank = bx_geometry_ranks(g, me)[i], own = (int)bx_geometry_block(g, way, rank, rank);
        int columns = bx_geometry_columns(g, rank) * g->length - own,
            planes = (int)bx_geometry_arriving(g, rank) - own;
        l->gather[i] = forward ? columns : planes;
        l->scatter[i] = forward ? planes : columns;
        l->gather_at[i] = (int)l->gathered;
        l->scatter_at[i] = (int)l->scattered;
        l->gathered += (size_t)l->gather[i];
        l->scattered += (size_t)l->scatter[i];
    }
    count_nodes(plan, !forward, l->send);
    count_nodes(plan, forward, l->receive);
    for (int n = 0; n < g->nodes; n++) {
        int at = l->receive_at[n] = (int)l->received;
        l->send_at[n] = (int)l->sent;
        l->sent += (size_t)l->send[n];
        l->received += (size_t)l->receive[n];
        bool meet = nodes_meet(g, way, n, me);
        for (int t = 0; t < size; t++) {
            l->received_for[n * size + t] = at;
            for (int f = 0; meet && f < bx_geometry_node_size(g, n); f++)
                at += (int)length(g, way, bx_geometry_ranks(g, n)[f], bx_geometry_ranks(g, me)[t]);
        }
    }
}

static size_t own_block(const bx_plan *plan)
{
    return (size_t)bx_geometry_block(plan->geometry, BX_FORWARD, plan->rank, plan->rank);
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static double bytes(const bx_geometry *g, int rank, bool published)
{
    bx_exchanged x = bx_transpose_method_exchanged(g, rank);
    int node = g->node_of[rank];
    double size = bx_geometry_node_size(g, node),
           each = bx_transpose_method_buffers(2, fmax(x.columns, x.planes));
    if (bx_geometry_ranks(g, node)[0] != rank) return each;
    double all = bx_geometry_node_elements(g, node), own = 0;
    for (int i = 0; i < (int)size; i++) {
        int r = bx_geometry_ranks(g, node)[i];
        own += (double)bx_geometry_block(g, BX_FORWARD, r, r);
    }
    double stays = published ? own : bx_geometry_node_inside(g, node);
    return each + bx_transpose_method_buffers(2, all - own + all - stays) +
           g->nodes * (2 * (4 + size) * sizeof(int) + (1 + size) * sizeof(size_t)) +
           size * (8 * sizeof(int) + (1 + size) * sizeof(size_t)) +
           4.0 * BX_MPI_MESSAGE * (size + g->nodes);
}

static void *create(bx_plan *plan, int leaders)
{
    gather_scatter_state *self = bx_memory_alloc(1, sizeof *self);
    self->plan = plan;
    MPI_Comm_split(plan->team, plan->node_rank == 0 ? 0 : MPI_UNDEFINED, plan->node_index,
                   &self->roots);
    for (int way = 0; way < 2 && plan->node_rank == 0; way++) lay_out(self, way);
    const layout *f = &self->layouts[BX_FORWARD], *i = &self->layouts[BX_INVERSE];
    self->half_total = (size_t)plan->my_columns * (size_t)plan->geometry->length - own_block(plan);
    self->gather = bx_buffer_create(larger(self->half_total, plan->lengths.plane_total));
    self->scatter = bx_buffer_create(larger(self->half_total, plan->lengths.plane_total));
    if (plan->node_rank == 0) {
        const bx_geometry *g = plan->geometry;
        size_t nodes = (size_t)g->nodes, size = (size_t)bx_geometry_node_size(g, plan->node_index);
        BX_ALLOC(size, self->next);
        BX_ALLOC(nodes, self->next_sent);
        BX_ALLOC(nodes * size, self->next_received);
        BX_ALLOC(size * size, self->stays);
        self->gathered = bx_buffer_create(larger(f->gathered, i->gathered));
        self->scattered = bx_buffer_create(larger(f->scattered, i->scattered));
        self->sent = bx_buffer_create(larger(f->sent, i->sent));
        self->received = bx_buffer_create(larger(f->received, i->received));
    }
    return self;
}

static void copy(bx_complex *to, const bx_complex *from, size_t count)
{
    bx_charge(BX_COPY, (double)(count * sizeof *to), false);
    memcpy(to, from, count * sizeof *to);
}

/* Copies a block, and moves on in both buffers. */
static void copy_block(bx_complex *to, size_t *to_at, const bx_complex *from, size_t *from_at,
                       size_t count)
{
    copy(to + *to_at, from + *from_at, count);
    *to_at += count;
    *from_at += count;
}

/* Gathered blocks in the order of the exchange.  Blocks between ranks of one node do not leave the
 * root, unless as published. */
static void reorder_gathered(gather_scatter_state *self, bx_direction way)
{
    const bx_plan *plan = self->plan;
    const bx_geometry *g = plan->geometry;
    const layout *l = &self->layouts[way];
    int here = plan->node_index, size = bx_geometry_node_size(g, here), t = 0;
    const int *ranks = bx_geometry_ranks(g, here);
    for (int f = 0; f < size; f++) self->next[f] = (size_t)l->gather_at[f];
    for (int n = 0; n < g->nodes; n++) self->next_sent[n] = (size_t)l->send_at[n];
    for (int to = 0; to < g->ranks; to++) {
        bool stays = g->node_of[to] == here && !plan->published;
        bool meet = nodes_meet(g, way, here, g->node_of[to]);
        for (int f = 0; meet && f < size; f++) {
            size_t count = length(g, way, ranks[f], to);
            if (stays)
                self->stays[f * size + t] = self->next[f], self->next[f] += count;
            else
                copy_block(self->sent, &self->next_sent[g->node_of[to]], self->gathered,
                           &self->next[f], count);
        }
        t += stays;
    }
}

/* Exchanged blocks, and those that stay, in the order of the scatter: by the rank that they come
 * from.  Ranks of a node that follow each other are copied in a row. */
static void reorder_received(gather_scatter_state *self, bx_direction way)
{
    const bx_plan *plan = self->plan;
    const bx_geometry *g = plan->geometry;
    const layout *l = &self->layouts[way];
    int here = plan->node_index, size = bx_geometry_node_size(g, here), f = 0;
    const int *ranks = bx_geometry_ranks(g, here);
    for (int t = 0; t < size; t++) self->next[t] = (size_t)l->scatter_at[t];
    for (int i = 0; i < g->nodes * size; i++) self->next_received[i] = (size_t)l->received_for[i];
    for (int first = 0, end = 0; first < g->ranks; first = end) {
        int node = g->node_of[first];
        bool stays = node == here && !plan->published, meet = nodes_meet(g, way, node, here);
        while (end < g->ranks && g->node_of[end] == node) end++;
        for (int t = 0; meet && t < size; t++)
            for (int from = first; from < end; from++) {
                size_t *at = stays ? &self->stays[(f + from - first) * size + t]
                                   : &self->next_received[node * size + t];
                copy_block(self->scattered, &self->next[t], stays ? self->gathered : self->received,
                           at, length(g, way, from, ranks[t]));
            }
        f += stays ? end - first : 0;
    }
}

static void at_root(gather_scatter_state *self, bx_direction way)
{
    const layout *l = &self->layouts[way];
    bx_run *run = self->plan->run;
    bool published = self->plan->published;
    reorder_gathered(self, way);
    bx_run_lap(run, BX_PHASE_PACK);
    if (self->plan->geometry->nodes > 1 || published)
        MPI_Alltoallv(self->sent, l->send, l->send_at, MPI_C_DOUBLE_COMPLEX, self->received,
                      l->receive, l->receive_at, MPI_C_DOUBLE_COMPLEX, self->roots);
    bx_run_lap(run, BX_PHASE_EXCHANGE);
    reorder_received(self, way);
    bx_run_lap(run, BX_PHASE_UNPACK);
}

/* The half-transformed field without my own block, which stands in its midst. */
static void copy_half(const gather_scatter_state *self, bx_complex *half, bx_complex *buffer,
                      bool out)
{
    const bx_plan *plan = self->plan;
    size_t before = (size_t)plan->lengths.half_at[plan->rank];
    size_t own = own_block(plan);
    bx_complex *parts[2] = {half, half + before + own};
    size_t at[2] = {0, before}, counts[2] = {before, self->half_total - before};
    for (int i = 0; i < 2; i++)
        bx_plan_copy(plan, out ? buffer + at[i] : parts[i], out ? parts[i] : buffer + at[i],
                     counts[i]);
}

static void start(void *me, bx_direction way, int slot)
{
    gather_scatter_state *self = me;
    const bx_plan *plan = self->plan;
    const layout *l = &self->layouts[way];
    bool forward = way == BX_FORWARD;
    bx_complex *half = bx_plan_half(plan, way, slot, plan->rank);
    int sent = (int)(forward ? self->half_total : plan->lengths.plane_total);
    int received = (int)(forward ? plan->lengths.plane_total : self->half_total);
    if (forward) copy_half(self, half, self->gather, true);
    bx_run_lap(plan->run, BX_PHASE_PACK);
    MPI_Gatherv(self->gather, sent, MPI_C_DOUBLE_COMPLEX, self->gathered, l->gather, l->gather_at,
                MPI_C_DOUBLE_COMPLEX, 0, plan->node);
    bx_run_lap(plan->run, BX_PHASE_EXCHANGE);
    if (plan->node_rank == 0) at_root(self, way);
    MPI_Scatterv(self->scattered, l->scatter, l->scatter_at, MPI_C_DOUBLE_COMPLEX, self->scatter,
                 received, MPI_C_DOUBLE_COMPLEX, 0, plan->node);
    bx_run_lap(plan->run, BX_PHASE_EXCHANGE);
    if (!forward) copy_half(self, half, self->scatter, false);
    bx_run_lap(plan->run, BX_PHASE_UNPACK);
}

static void repack(void *me, const bx_plane_part *part)
{
    const gather_scatter_state *self = me;
    bx_plan_repack_all(self->plan, part, part->way == BX_FORWARD ? self->scatter : self->gather);
}

static void destroy(void *me)
{
    gather_scatter_state *self = me;
    for (int way = 0; way < 2; way++) {
        layout *l = &self->layouts[way];
        BX_FREE(l->gather, l->gather_at, l->scatter, l->scatter_at);
        BX_FREE(l->send, l->send_at, l->receive, l->receive_at);
        free(l->received_for);
    }
    fftw_free(self->gather);
    fftw_free(self->scatter);
    fftw_free(self->gathered);
    fftw_free(self->scattered);
    fftw_free(self->sent);
    fftw_free(self->received);
    if (self->roots != MPI_COMM_NULL) MPI_Comm_free(&self->roots);
    BX_FREE(self->next, self->next_sent, self->next_received, self->stays, self);
}

const bx_transpose_method bx_transpose_method_gather_scatter = {
    .about = {.name = "gather-scatter",
              .summary = "gather to one root per node, exchange between roots, scatter",
              .wins = "the messages of shm without shared memory; pays for two more copies",
              .calls = "Gatherv Alltoallv Scatterv"},
    .applicable = bx_geometry_nodes_fit,
    .host_only = "a node's root packs blocks on the host",
    .bytes = bytes,
    .create = create,
    .start = start,
    .repack = repack,
    .destroy = destroy,
    .count = bx_count_gather_scatter,
};
