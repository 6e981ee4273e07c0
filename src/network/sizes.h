/* Sizes of a sweep: powers of two from --smallest to --largest bytes. */
#pragma once

#include "bx.h"

static inline size_t bx_sizes_count(int64_t smallest, int64_t largest)
{
    size_t count = 1;
    for (int64_t bytes = smallest; bytes < largest; bytes *= 2) count++;
    return count;
}

/* Returns BX_OK, or refuses options that name no such sizes.  Local: all ranks have the same. */
static inline int bx_sizes_check(bx_run *run, int64_t smallest, int64_t largest)
{
    if (smallest & (smallest - 1))
        return bx_run_refuse(run, BX_USAGE, "--smallest %lld: not a power of two",
                             (long long)smallest);
    if (largest & (largest - 1))
        return bx_run_refuse(run, BX_USAGE, "--largest %lld: not a power of two",
                             (long long)largest);
    if (smallest > largest)
        return bx_run_refuse(run, BX_USAGE, "--smallest %lld: more than --largest %lld",
                             (long long)smallest, (long long)largest);
    return BX_OK;
}
