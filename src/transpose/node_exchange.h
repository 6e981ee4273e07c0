/* Node-aggregated exchange (Bethune 2010, section 4.1, there with System V memory and one leader).
 * The ranks of a node write their blocks into one shared buffer.  A few of them, the leaders,
 * exchange with the other nodes.  All ranks read from shared buffers.
 *
 * A node's send buffer is [node to][rank to][rank from]: what leader k sends to a node, the blocks
 * for the k-th slice of its ranks, is contiguous.  Blocks for the own node stay in the send buffer,
 * where the neighbours read them; as published they are exchanged like all others.
 *
 * Costs a message between each two nodes per leader, and two barriers of the node (one where there
 * is one node); each byte that changes its node once (padded: blocks of one size, of as many ranks
 * as the largest node has); a copy on either side. */
#pragma once

#include "method.h"

typedef struct bx_node_exchange bx_node_exchange;

/* Returns the state of an exchange through `leaders` ranks per node.  `padded`: with blocks of one
 * size and MPI_Alltoall, one leader.  `moves_own_node`: blocks between ranks of one node go through
 * the buffer too; otherwise the caller exchanges them.  Returns NULL where the buffers' window
 * cannot be had (bx_window_why).  Collective over the world. */
bx_node_exchange *bx_node_exchange_create(bx_plan *plan, int leaders, bool padded,
                                          bool moves_own_node);

/* Returns its bytes as bx_transpose_method.bytes.  Local. */
double bx_node_exchange_bytes(const bx_geometry *g, int rank, bool padded, bool moves_own_node,
                              bool published);

/* Functions as of bx_transpose_method; `me` is a bx_node_exchange. */
void bx_node_exchange_start(void *me, bx_direction way, int slot);
void bx_node_exchange_repack(void *me, const bx_plane_part *part);
void bx_node_exchange_destroy(void *me);
