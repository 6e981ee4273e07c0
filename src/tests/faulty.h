/* Faults on purpose: BX_FAULT names one, BX_FAULT_FROM the call from which on there are faults, or
 * with BX_FAULT_ONCE the only one.  All local. */
#pragma once

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Returns the whole number in an environment variable; 0 where there is none. */
static inline long faulty_number(const char *variable)
{
    const char *text = getenv(variable);
    return text ? atol(text) : 0;
}

/* Whether BX_FAULT names a fault. */
static inline bool faulty(const char *fault)
{
    const char *chosen = getenv("BX_FAULT");
    return chosen && strcmp(chosen, fault) == 0;
}

/* Whether call number `call` is to be faulty. */
static inline bool faulty_call(long call)
{
    long from = faulty_number("BX_FAULT_FROM");
    return getenv("BX_FAULT_ONCE") ? call == from : call >= from;
}
