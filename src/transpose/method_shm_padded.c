/* Node-aggregated and padded: one MPI_Alltoall between nodes (Bethune 2010, section 4.2.1). */
#include "node_exchange.h"

static void *create(bx_plan *plan, int leaders)
{
    return bx_node_exchange_create(plan, 1, true, true);
}

const bx_method bx_method_shm_padded = {
    .about = {.name = "shm-padded",
              .summary = "as shm, blocks padded to one size, MPI_Alltoall between nodes",
              .wins = "many nodes and very small blocks; the padding grows with the node"},
    .applicable = bx_geometry_padded_nodes_fit,
    .create = create,
    BX_NODE_EXCHANGE,
    .count = bx_count_nodes_padded,
};
