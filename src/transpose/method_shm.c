/* Node-aggregated exchange by one rank per node, through a shared window (Bethune 2010,
 * section 4.1).
 */
#include "node_exchange.h"

static void *create(bx_plan *plan, int leaders)
{
    return bx_node_exchange_create(plan, 1, false, true);
}

const bx_method bx_method_shm = {
    .about =
        {.name = "shm",
         .summary = "one rank per node exchanges for all, through a shared-memory window",
         .wins =
             "far fewer messages: wins where the network is short of messages, not of bandwidth"},
    .applicable = bx_geometry_nodes_fit,
    .create = create,
    BX_NODE_EXCHANGE,
    .count = bx_count_nodes,
};
