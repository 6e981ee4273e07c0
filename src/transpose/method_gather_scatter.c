/* Node-aggregated exchange by messages alone: MPI_Gatherv to the node's root, MPI_Alltoallv between
 * roots, MPI_Scatterv, with a repacking before and after (Bethune 2010, section 4.3; Plummer and
 * Refson 2004).  The root copies blocks within a node, which section 5.1.1 names and leaves undone;
 * as published it exchanges them like all others. */
#include "method.h"

#include "charge.h"

#include <stdlib.h>
#include <string.h>

/* One way, at a node's root: blocks as gathered
 * [rank from][rank to], exchanged [node][rank to][rank from], scattered [rank to][rank from]. */
typedef struct {
    int *gather, *gather_at, *scatter, *scatter_at; /* [node size] */
    int *send, *send_at, *receive, *receive_at;     /* [nodes] */
    size_t gathered, scattered, sent, received;
    size_t *from_gathered, *to_scattered; /* [node size][ranks] each block's place at the root */
} layout;

typedef struct {
    bx_plan *plan;
    MPI_Comm roots; /* one rank per node, in node order */
    layout layouts[2];
    size_t half_total;                                  /* elements of mine that travel */
    bx_complex *gather, *scatter;                       /* every rank's own part */
    bx_complex *gathered, *sent, *received, *scattered; /* roots */
} state;

/* Elements that one rank sends to another; 0 to itself. */
static size_t length(const bx_geometry *g, bx_direction way, int from, int to)
{
    return from == to ? 0 : (size_t)bx_geometry_block(g, way, from, to);
}

static void lay_out(state *self, bx_direction way)
{
    const bx_plan *plan = self->plan;
    const bx_geometry *g = plan->geometry;
    layout *l = &self->layouts[way];
    int me = plan->node_index, size = bx_geometry_node_size(g, me);
    BX_ALLOC((size_t)size, l->gather, l->gather_at, l->scatter, l->scatter_at);
    BX_ALLOC((size_t)g->nodes, l->send, l->send_at, l->receive, l->receive_at);
    BX_ALLOC((size_t)size * (size_t)g->ranks, l->from_gathered, l->to_scattered);
    for (int i = 0; i < size; i++) {
        int rank = bx_geometry_ranks(g, me)[i];
        l->gather_at[i] = (int)l->gathered;
        l->scatter_at[i] = (int)l->scattered;
        for (int p = 0; p < g->ranks; p++) {
            l->from_gathered[i * g->ranks + p] = l->gathered + (size_t)l->gather[i];
            l->to_scattered[i * g->ranks + p] = l->scattered + (size_t)l->scatter[i];
            l->gather[i] += (int)length(g, way, rank, p);
            l->scatter[i] += (int)length(g, way, p, rank);
            l->send[g->node_of[p]] += (int)length(g, way, rank, p);
            l->receive[g->node_of[p]] += (int)length(g, way, p, rank);
        }
        l->gathered += (size_t)l->gather[i];
        l->scattered += (size_t)l->scatter[i];
    }
    if (!plan->published) l->send[me] = l->receive[me] = 0; /* stays here */
    for (int n = 0; n < g->nodes; n++) {
        l->send_at[n] = (int)l->sent;
        l->receive_at[n] = (int)l->received;
        l->sent += (size_t)l->send[n];
        l->received += (size_t)l->receive[n];
    }
}

static size_t own_block(const bx_plan *plan)
{
    return (size_t)bx_geometry_block(plan->geometry, BX_FORWARD, plan->rank, plan->rank);
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static void *create(bx_plan *plan, int leaders)
{
    state *self = bx_memory_alloc(1, sizeof *self);
    self->plan = plan;
    MPI_Comm_split(plan->team, plan->node_rank == 0 ? 0 : MPI_UNDEFINED, plan->node_index,
                   &self->roots);
    for (int way = 0; way < 2; way++) lay_out(self, way);
    const layout *f = &self->layouts[BX_FORWARD], *i = &self->layouts[BX_INVERSE];
    self->half_total = (size_t)plan->my_columns * (size_t)plan->geometry->length - own_block(plan);
    self->gather = bx_buffer_create(larger(self->half_total, plan->lengths.plane_total));
    self->scatter = bx_buffer_create(larger(self->half_total, plan->lengths.plane_total));
    if (plan->node_rank == 0) {
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

/* Blocks between ranks of one node never leave the root. */
static void copy_within(state *self, bx_direction way)
{
    const bx_plan *plan = self->plan;
    const bx_geometry *g = plan->geometry;
    const layout *l = &self->layouts[way];
    const int *ranks = bx_geometry_ranks(g, plan->node_index);
    int size = bx_geometry_node_size(g, plan->node_index);
    for (int t = 0; t < size; t++)
        for (int f = 0; f < size; f++)
            copy(self->scattered + l->to_scattered[t * g->ranks + ranks[f]],
                 self->gathered + l->from_gathered[f * g->ranks + ranks[t]],
                 length(g, way, ranks[f], ranks[t]));
}

/* Gathered blocks in the order of the exchange, exchanged blocks in the order of the scatter. */
static void reorder(state *self, bx_direction way, bool before)
{
    const bx_plan *plan = self->plan;
    const bx_geometry *g = plan->geometry;
    const layout *l = &self->layouts[way];
    int here = plan->node_index;
    for (int n = 0; n < g->nodes; n++) {
        if (n == here && !plan->published) continue;
        int from_node = before ? here : n, to_node = before ? n : here;
        bx_complex *at = before ? self->sent + l->send_at[n] : self->received + l->receive_at[n];
        for (int t = 0; t < bx_geometry_node_size(g, to_node); t++)
            for (int f = 0; f < bx_geometry_node_size(g, from_node); f++) {
                int from = bx_geometry_ranks(g, from_node)[f],
                    to = bx_geometry_ranks(g, to_node)[t];
                size_t count = length(g, way, from, to);
                if (before)
                    copy(at, self->gathered + l->from_gathered[f * g->ranks + to], count);
                else
                    copy(self->scattered + l->to_scattered[t * g->ranks + from], at, count);
                at += count;
            }
    }
}

static void at_root(state *self, bx_direction way)
{
    const layout *l = &self->layouts[way];
    bx_run *run = self->plan->run;
    bool published = self->plan->published;
    if (!published) copy_within(self, way);
    reorder(self, way, true);
    bx_run_lap(run, BX_PHASE_PACK);
    if (self->plan->geometry->nodes > 1 || published)
        MPI_Alltoallv(self->sent, l->send, l->send_at, MPI_C_DOUBLE_COMPLEX, self->received,
                      l->receive, l->receive_at, MPI_C_DOUBLE_COMPLEX, self->roots);
    bx_run_lap(run, BX_PHASE_EXCHANGE);
    reorder(self, way, false);
    bx_run_lap(run, BX_PHASE_UNPACK);
}

/* The half-transformed field without my own block, which stands in its midst. */
static void copy_half(const state *self, bx_complex *half, bx_complex *buffer, bool out)
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
    state *self = me;
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
    const state *self = me;
    bx_plan_repack_all(self->plan, part, part->way == BX_FORWARD ? self->scatter : self->gather);
}

static void destroy(void *me)
{
    state *self = me;
    for (int way = 0; way < 2; way++) {
        layout *l = &self->layouts[way];
        BX_FREE(l->gather, l->gather_at, l->scatter, l->scatter_at);
        BX_FREE(l->send, l->send_at, l->receive, l->receive_at);
        BX_FREE(l->from_gathered, l->to_scattered);
    }
    fftw_free(self->gather);
    fftw_free(self->scatter);
    fftw_free(self->gathered);
    fftw_free(self->scattered);
    fftw_free(self->sent);
    fftw_free(self->received);
    if (self->roots != MPI_COMM_NULL) MPI_Comm_free(&self->roots);
    free(self);
}

const bx_method bx_method_gather_scatter = {
    .about = {.name = "gather-scatter",
              .summary = "gather to one root per node, exchange between roots, scatter",
              .wins = "the messages of shm without shared memory; pays for two more copies"},
    .applicable = bx_geometry_nodes_fit,
    .create = create,
    .start = start,
    .repack = repack,
    .destroy = destroy,
    .count = bx_count_gather_scatter,
};
