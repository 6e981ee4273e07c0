/* Memory of one rank that others can address. */
#ifndef BX_SHARED_H
#define BX_SHARED_H

#include "bx.h"

/* For all ranks of a node.  The node's first rank allocates it whole, as MPI libraries differ in
 * what they return for a part (SimGrid returns the first rank's). */
typedef struct {
    MPI_Win window;
    void *base;
} bx_shared;

/* Returns memory of `bytes` bytes in all, which is not zeroed.  Ends the launch with BX_RESOURCES
 * if the node has no room.  Collective over `node`. */
bx_shared bx_shared_create(MPI_Comm node, size_t bytes);
/* Collective over the node. */
void bx_shared_free(bx_shared *memory);
/* Orders what the ranks of `node` have written before what they read after.  Collective over it. */
void bx_shared_sync(const bx_shared *memory, MPI_Comm node);

#endif
