/* Within a node nothing is exchanged: each rank reads its part straight out of its neighbours' columns
 * and writes it straight back, one copy.  What goes to other nodes takes the way of shm. */
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

/* Between my planes and the columns of my node's ranks, each rank beginning with itself, lest all go
 * to one.  A rank touches only the part of any column that meets its own planes. */
static void move_node(const bx_plan *plan, bx_way way, const bx_part *part)
{
    const bx_geometry *g = plan->geometry;
    int size = bx_node_size(g, plan->node_index);
    const int *ranks = g->node_ranks + g->node_first[plan->node_index];
    for (int i = 0; i < size; i++)
        bx_move(plan, way, part, ranks[(plan->node_rank + i) % size]);
}

static void pack(void *me, bx_way way, int slot, const bx_part *part)
{
    state *self = me;
    if (way == BX_INVERSE) move_node(self->plan, way, part);
    if (self->off_node) bx_node_exchange_pack(self->off_node, way, slot, part);
}

/* Forward: the node's columns are ready to be read.  Inverse: they have been written. */
static void start(void *me, bx_way way, int band, int slot)
{
    state *self = me;
    const bx_plan *plan = self->plan;
    if (!self->off_node) {
        bx_shared_sync(&plan->columns_memory, plan->node);
        return;
    }
    MPI_Win_sync(plan->columns_memory.window);
    bx_node_exchange_start(self->off_node, way, band, slot); /* brings the node into step */
    MPI_Win_sync(plan->columns_memory.window);
}

static void unpack(void *me, bx_way way, int slot, const bx_part *part)
{
    state *self = me;
    if (way == BX_FORWARD) move_node(self->plan, way, part);
    if (self->off_node) bx_node_exchange_unpack(self->off_node, way, slot, part);
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
              .summary = "ranks read and write their neighbours' columns; one rank a node exchanges",
              .wins = "one copy within a node: best on one node, and wherever shm is good"},
    .create = create,
    .pack = pack,
    .start = start,
    .unpack = unpack,
    .destroy = destroy,
    .count = count,
};
