/* Windows: memory that other ranks access, by one-sided calls, or on a node by loads and stores.
 *
 * A method that needs a window is applicable where the window can be had; no other method needs
 * one.  Libraries allocate windows in a file system, mostly /dev/shm.  Some do not look whether it
 * has room, and the first access to a page without room ends the launch by SIGBUS.  In others the
 * rank that fails leaves the rest waiting.  So the room is looked at before a window is allocated,
 * on all hosts. */
#pragma once

#include "bx.h"

/* Memory that all ranks of a node load from and store to.  The node's first rank allocates it
 * whole, as MPI libraries differ in what they return for a part (SimGrid returns the first rank's).
 */
typedef struct {
    MPI_Win window; /* MPI_WIN_NULL: there is none */
    void *base;
} bx_shared;

/* The functions that make windows are collective over the world, and return the same on every rank.
 * Where they fail, bx_window_why is the reason. */

/* Makes memory of `bytes` bytes in all for the ranks of `node`, which is not zeroed.  Each rank of
 * the world is in one such communicator.  Returns whether it can be had. */
bool bx_shared_create(bx_run *run, MPI_Comm node, size_t bytes, bx_shared *memory);
/* Nothing where there is none.  Collective over the node. */
void bx_shared_free(bx_shared *memory);
/* Orders what the ranks of `node` have written before what they read after.  Collective over it. */
void bx_shared_sync(const bx_shared *memory, MPI_Comm node);

/* Returns a window of a buffer for the ranks of `comm`, which counts in units of `unit` bytes;
 * MPI_WIN_NULL where MPI cannot make one: Open MPI 4.1 has nothing for some networks, and nothing
 * for one rank. */
MPI_Win bx_window_create(bx_run *run, MPI_Comm comm, void *buffer, size_t bytes, int unit);
/* Makes a window of `bytes` bytes, above 0, in units of 8, and opens an access epoch to all ranks
 * of `comm`.  `*memory` is this rank's part; where it is NULL, on all ranks, MPI allocates it, and
 * frees it with the window.  Returns whether it can be had; `*window` is otherwise MPI_WIN_NULL. */
bool bx_window_open(bx_run *run, MPI_Comm comm, uint64_t **memory, size_t bytes, MPI_Win *window);
/* Ends the epoch and frees the window; nothing for MPI_WIN_NULL.  Collective over its ranks. */
void bx_window_close(MPI_Win *window);
/* Closes windows that are open and frees shared memory, as a launch that is refused leaves them.
 * Collective over the world. */
void bx_window_end(void);
/* Makes local accesses and one-sided ones before the call visible to each other after it, in
 * windows[count].  Collective over `comm`. */
void bx_window_sync(MPI_Comm comm, const MPI_Win *windows, int count);

/* Returns why the last window that could not be had could not, the same on every rank; the text
 * lasts until the next failure.  Local. */
const char *bx_window_why(void);
