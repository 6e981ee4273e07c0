/* A clock for intervals shorter than a call of MPI_Wtime costs: the processor's counter, where the
 * operating system trusts it as its own clock, else MPI_Wtime (all local). */
#pragma once

#include "bx.h"

/* Chooses the counter; takes 1 ms. */
void bx_ticks_start(void);
/* Compares the counter with MPI_Wtime again, which makes bx_ticks_second more precise. */
void bx_ticks_adjust(void);

extern bool bx_ticks_counted;   /* whether ticks are the counter's */
extern double bx_ticks_second;  /* s per tick */
extern double bx_ticks_reading; /* ticks that reading them takes, at least */

static inline double bx_ticks_now(void)
{
#if defined(BX_SIMULATED) /* whose time is its own */
#elif defined(__x86_64__)
    if (bx_ticks_counted) return (double)(int64_t)__builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    int64_t count;
    if (bx_ticks_counted) {
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
        return (double)count;
    }
#endif
    return PMPI_Wtime();
}

/* Reads them when all that stands before is done: a processor reads its counter ahead. */
static inline double bx_ticks_after(void)
{
#if defined(__x86_64__)
    __builtin_ia32_lfence();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
    return bx_ticks_now();
}
