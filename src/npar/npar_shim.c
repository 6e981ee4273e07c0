/* What Fortran lacks: the harness's random numbers, memory set by memset, memory in use. */
#include "bx.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

double npar_uniform(int64_t seed, int64_t index);
void npar_wipe(void *memory, size_t bytes);
double npar_resident(void);

double npar_uniform(int64_t seed, int64_t index)
{
    return bx_uniform((uint64_t)seed, (uint64_t)index);
}

/* A call of its own, so that no compiler finds out that what it writes is never read. */
void npar_wipe(void *memory, size_t bytes) { memset(memory, 0, bytes); }

/* Bytes of this process in memory, without what is shared with others; 0 if the system does not
 * say. */
double npar_resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long size, resident, shared;
    int found = file ? fscanf(file, "%ld %ld %ld", &size, &resident, &shared) : 0;
    if (file) fclose(file);
    return found == 3 ? (double)(resident - shared) * (double)sysconf(_SC_PAGESIZE) : 0;
}
