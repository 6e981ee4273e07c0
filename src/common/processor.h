#pragma once

#include <stdbool.h>

typedef struct {
    const char *name, *macro; /* what the compiler's macro stands for: itself if undefined */
} bx_instructions;

/* The instruction sets that the compiler knows, a NULL behind the last.  Before main(), a kernel
 * whose processor lacks an assumed one ends with BX_RESOURCES and one line per node. */
extern const bx_instructions bx_processor_assumed[];

/* Returns whether the compiler may have used them in the kernel. */
static inline bool bx_processor_assumes(const bx_instructions *set) { return *set->macro != '_'; }
