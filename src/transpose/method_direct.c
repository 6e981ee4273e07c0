/* Within a node nothing is exchanged: each rank reads its part of its neighbours' columns out of
 * their shared fields and writes it straight back, one copy each way.  What goes to other nodes
 * takes the way of shm.
 *
 * Costs no message within a node, a message between each two nodes; one copy within a node. */
#include "node_exchange.h"

#include <stdlib.h>

typedef struct {
    bx_plan *plan;
    bx_node_exchange *off_node; /* NULL on a single node */
} direct_state;

static double bytes(const bx_geometry *g, int rank, bool published)
{
    /* the half-transformed fields move to their window */
    return g->nodes > 1 ? bx_node_exchange_bytes(g, rank, false, false, false) : 0;
}

static void *create(bx_plan *plan, int leaders)
{
    /* on a single node, too: another team may lie on several, and the world makes windows */
    bx_node_exchange *off_node = bx_node_exchange_create(plan, 1, false, false);
    if (!off_node) return NULL;
    if (plan->geometry->nodes == 1) {
        bx_node_exchange_destroy(off_node);
        off_node = NULL;
    }
    if (!bx_plan_share_halves(plan)) {
        if (off_node) bx_node_exchange_destroy(off_node);
        return NULL;
    }
    direct_state *self = bx_memory_alloc(1, sizeof *self);
    self->plan = plan;
    self->off_node = off_node;
    return self;
}

/* The n-th rank of my node, each rank beginning with itself, lest all go to one. */
static int neighbour(const bx_plan *plan, int n)
{
    const bx_geometry *g = plan->geometry;
    int size = bx_geometry_node_size(g, plan->node_index);
    return bx_geometry_ranks(g, plan->node_index)[(plan->node_rank + n) % size];
}

/* Forward: the node's half-transformed fields are ready to be read.  Inverse: they are written. */
static void start(void *me, bx_direction way, int slot)
{
    direct_state *self = me;
    const bx_plan *plan = self->plan;
    if (!self->off_node) {
        bx_shared_sync(&plan->halves, plan->node);
        return;
    }
    MPI_Win_sync(plan->halves.window);
    bx_node_exchange_start(self->off_node, way, slot); /* brings the node into step */
    MPI_Win_sync(plan->halves.window);
}

static void repack(void *me, const bx_plane_part *part)
{
    direct_state *self = me;
    const bx_plan *plan = self->plan;
    for (int n = 0; n < bx_geometry_node_size(plan->geometry, plan->node_index); n++) {
        int p = neighbour(plan, n);
        bx_plan_repack(plan, part, p,
                       bx_plan_half_block(plan, part->way, part->slot, p, plan->rank));
    }
    if (self->off_node) bx_node_exchange_repack(self->off_node, part);
}

static void destroy(void *me)
{
    direct_state *self = me;
    if (self->off_node) bx_node_exchange_destroy(self->off_node);
    free(self);
}

const bx_transpose_method bx_transpose_method_direct = {
    .about = {.name = "direct",
              .summary =
                  "ranks read and write their neighbours' columns; one rank per node exchanges",
              .wins = "one copy within a node: best on one node, and wherever shm is good",
              .calls = BX_SYNC_CALLS " Alltoallv"},
    .applicable = bx_geometry_nodes_fit,
    .host_only = BX_NO_DEVICE_WINDOW,
    .bytes = bytes,
    .create = create,
    .start = start,
    .repack = repack,
    .destroy = destroy,
    .count = bx_count_nodes,
};
