/* Within a node nothing is exchanged: each rank reads its part straight out of its neighbours'
 * fields, one copy.  What goes to other nodes takes the way of shm. */
#include "node_exchange.h"

#include <stdlib.h>

typedef struct {
    bx_plan *plan;
    bx_node_exchange *off_node; /* NULL on a single node */
} state;

static void *create(bx_plan *plan, const bx_method_options *options)
{
    (void)options;
    state *self = malloc(sizeof *self);
    self->plan = plan;
    self->off_node =
        plan->geometry->nodes > 1 ? bx_node_exchange_create(plan, 1, false, false) : NULL;
    return self;
}

/* Neighbours are read in turn, each rank beginning with itself, lest all read from one. */
static void pull_node(const bx_plan *plan, bx_way way, int band, int slot)
{
    const bx_geometry *g = plan->geometry;
    int size = bx_node_size(g, plan->node_index);
    const int *ranks = g->node_ranks + g->node_first[plan->node_index];
    for (int i = 0; i < size; i++)
        bx_pull(plan, way, band, slot, ranks[(plan->node_rank + i) % size]);
    bx_lap(plan->run, BX_PHASE_UNPACK);
}

static void finish(void *me, bx_way way, int band, int slot)
{
    state *self = me;
    const bx_plan *plan = self->plan;
    const bx_shared *field = way == BX_FORWARD ? &plan->columns_memory : &plan->planes_memory;
    if (self->off_node) {
        MPI_Win_sync(field->window);
        bx_node_exchange_pack(self->off_node, way, band, slot);
        bx_node_exchange_send(self->off_node, way); /* the node is in step after this */
        MPI_Win_sync(field->window);
    } else {
        bx_shared_sync(field, plan->node);
        bx_lap(plan->run, BX_PHASE_EXCHANGE);
    }
    pull_node(plan, way, band, slot);
    if (self->off_node) bx_node_exchange_unpack(self->off_node, way, band, slot);
}

static void destroy(void *me)
{
    state *self = me;
    if (self->off_node) bx_node_exchange_destroy(self->off_node);
    free(self);
}

static bx_counts count(const bx_geometry *g, bx_way way, const bx_method_options *options)
{
    (void)options;
    return bx_count_nodes(g, way, 1);
}

const bx_method bx_method_direct = {
    .about = {.name = "direct",
              .summary = "ranks read their neighbours' shared fields; one rank a node exchanges",
              .wins = "one copy within a node: best on one node, and wherever shm is good"},
    .create = create,
    .finish = finish,
    .destroy = destroy,
    .count = count,
};
