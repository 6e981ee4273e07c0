/* The memory and time that a launch claims (bx_resources_claim_memory, bx_resources_claim_time). */
#ifndef BX_RESOURCES_H
#define BX_RESOURCES_H

#include "run.h"

/* Prints what has been claimed; nothing if nothing was.  Prints on rank 0; local. */
void bx_resources_print(const bx_run *run);

#endif
