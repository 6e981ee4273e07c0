/* A chain of dependent operations, in assembly with its loop: no compiler, and none of its options,
 * changes what a turn costs.  (In C, a build without optimisation keeps the chain in memory.) */
#include "host.h"

#include <time.h>

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double bx_host_run_chain(int turns, bool *right)
{
    unsigned long x = 1, y = 3;
    long left = turns; /* above 0 */
    double start = seconds_now();
#if defined(__x86_64__)
    __asm__ volatile("1:\n\t.rept 16\n\txorq %2, %0\n\t.endr\n\tsubq $1, %1\n\tjnz 1b"
                     : "+&r"(x), "+&r"(left)
                     : "r"(y)
                     : "cc");
#elif defined(__aarch64__)
    __asm__ volatile("1:\n\t.rept 16\n\teor %0, %0, %2\n\t.endr\n\tsubs %1, %1, #1\n\tb.ne 1b"
                     : "+&r"(x), "+&r"(left)
                     : "r"(y)
                     : "cc");
#else
    /* `register`: some compilers keep these out of memory without optimisation too.  The empty
     * assembly keeps the others from folding the chain. */
    register unsigned long link = x, other = y;
#define LINK                                                                                       \
    link ^= other;                                                                                 \
    __asm__ volatile("" : "+r"(link), "+r"(other));
    for (; left > 0; left--) {
        LINK LINK LINK LINK LINK LINK LINK LINK LINK LINK LINK LINK LINK LINK LINK LINK
    }
#undef LINK
    x = link;
#endif
    double seconds = seconds_now() - start;
    if (right) *right = x == 1; /* an even number of links undo each other */
    return seconds;
}
