/* Windows of one-sided accesses. */
#ifndef BX_WINDOW_H
#define BX_WINDOW_H

#include "bx.h"

/* Returns a window of a buffer, which counts in units of `unit` bytes; MPI_WIN_NULL where MPI
 * cannot make one: Open MPI 4.1 has nothing for some networks, and nothing for one rank. Collective
 * over `comm`. */
MPI_Win bx_window_create(MPI_Comm comm, void *buffer, size_t bytes, int unit);
/* Makes a window of `bytes` bytes, above 0, in units of 8, and opens an access epoch to all ranks.
 * `*memory` is this rank's part; where it is NULL, on all ranks, MPI allocates it, and frees it
 * with the window.  Returns whether MPI can make one; `*window` is otherwise MPI_WIN_NULL.
 * Collective over `comm`. */
bool bx_window_open(MPI_Comm comm, uint64_t **memory, size_t bytes, MPI_Win *window);
/* Ends the epoch and frees the window; nothing for MPI_WIN_NULL.  Collective over its ranks. */
void bx_window_close(MPI_Win *window);
/* Makes local accesses and one-sided ones before the call visible to each other after it, in
 * windows[count].  Collective over `comm`. */
void bx_window_sync(MPI_Comm comm, const MPI_Win *windows, int count);

#endif
