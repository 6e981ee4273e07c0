/* Windows of one-sided accesses, open to all ranks from their creation to their end. */
#ifndef BX_WINDOW_H
#define BX_WINDOW_H

#include "bx.h"

/* Makes a window of `bytes` bytes, above 0, in units of 8, and opens an access epoch to all ranks.
 * `*memory` is this rank's part; MPI allocates it where `*memory` is NULL, and frees it with the
 * window.  Returns false on all ranks where MPI cannot make windows: Open MPI 4.1 has none for some
 * networks.  `*window` is then MPI_WIN_NULL.  Collective over `comm`. */
bool bx_window_open(MPI_Comm comm, uint64_t **memory, size_t bytes, MPI_Win *window);
/* Ends the epoch and frees the window; nothing for MPI_WIN_NULL.  Collective over its ranks. */
void bx_window_close(MPI_Win *window);
/* Makes local accesses and one-sided ones before the call visible to each other after it, in
 * windows[count].  Collective over `comm`. */
void bx_window_sync(MPI_Comm comm, const MPI_Win *windows, int count);

#endif
