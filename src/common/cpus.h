/* The CPUs that this thread may use, however many the host has (all local).  Needs the C library
 * alone: the probe (checks/bisection/sites/cluster) takes it in; sched.h needs _GNU_SOURCE. */
#pragma once

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns a set of `*size` bytes, which the caller frees. */
static inline cpu_set_t *bx_cpus_allowed(size_t *size)
{
    enum { MOST_CPUS = 1 << 20 };
    for (size_t cpus = CPU_SETSIZE;; cpus *= 2) { /* too small a set is EINVAL */
        *size = CPU_ALLOC_SIZE(cpus);
        cpu_set_t *set = calloc(1, *size);
        if (!set) abort();
        if (sched_getaffinity(0, *size, set) == 0 || errno != EINVAL || cpus >= MOST_CPUS)
            return set;
        free(set);
    }
}

/* Returns a set in the kernel's list format, "0-3,8"; the caller frees it. */
static inline char *bx_cpus_text(const cpu_set_t *set, size_t size)
{
    enum { RANGE = 32 }; /* bytes of a range, at most */
    char *text = calloc((size_t)CPU_COUNT_S(size, set) + 1, RANGE);
    size_t used = 0;
    int end = (int)(8 * size);
    if (!text) abort();
    for (int cpu = 0; cpu < end; cpu++) {
        if (!CPU_ISSET_S(cpu, size, set)) continue;
        int last = cpu;
        while (last + 1 < end && CPU_ISSET_S(last + 1, size, set)) last++;
        used += (size_t)snprintf(text + used, RANGE, last > cpu ? "%s%d-%d" : "%s%d",
                                 used ? "," : "", cpu, last);
        cpu = last;
    }
    return text;
}
