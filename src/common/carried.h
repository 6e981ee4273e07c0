/* What the network adapters of each node did during the measurement. */
#ifndef BX_CARRIED_H
#define BX_CARRIED_H

#include "run.h"

/* The counters of this rank's host and its payload when the measurement begins. */
typedef struct bx_carried bx_carried;

/* Reads the counters; one rank of each host does.  Local. */
bx_carried *bx_carried_begin(const bx_run *run);
/* Reads them again and returns the result's "adapters" on rank 0 (the caller deletes it), NULL on
 * the others; frees `begun`.  Collective. */
cJSON *bx_carried_end(const bx_run *run, bx_carried *begun);

#endif
