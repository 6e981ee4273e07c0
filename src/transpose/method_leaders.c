/* Node-aggregated exchange by several ranks per node, each for a slice of the destinations: one
 * rank alone cannot fill the links of a node of 64 to 128 cores. */
#include "node_exchange.h"

static void *create(bx_plan *plan, int leaders)
{
    return bx_node_exchange_create(plan, bx_geometry_leaders(plan->geometry, leaders), false, true);
}

const bx_method bx_method_leaders = {
    .about = {.name = "leaders",
              .summary = "as shm, but several ranks per node exchange, each its slice (--leaders)",
              .wins = "between shm and alltoallv: nodes with many cores, or several network links"},
    .applicable = bx_geometry_nodes_fit,
    .create = create,
    BX_NODE_EXCHANGE,
    .count = bx_count_leaders,
};
