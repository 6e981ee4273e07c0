/* What a launch takes of the machine, before it takes it: behind bx_resources_claim_memory,
 * bx_resources_claim_time. */
#ifndef BX_RESOURCES_H
#define BX_RESOURCES_H

#include "run.h"

void bx_resources_print(const bx_run *run); /* what has been claimed; on rank 0, local */

#endif
