#include "host.h"
#include "solver.h"

#include <stdlib.h>

double *bx_solver_workspace(const bx_problem *p, size_t count)
{
    /* OpenBLAS 0.3.21 (zgemv) reads a column beyond the end of a complex matrix */
    size_t beyond = 64 + (p->parts == 2 ? 2 * (size_t)p->distribution->n : 0);
    *p->bytes += sizeof(double) * (double)(count + beyond);
    if (p->workspace == BX_COUNTED) return NULL;
    double *work = bx_memory_alloc(count + beyond, sizeof *work);
    bool touched = p->workspace == BX_TOUCHED;
    for (size_t i = 0; touched && i < count; i += 256) work[i] = 1; /* pages are 512 doubles */
    return work;
}

/* ---- what the system says ---- */

static double before;

/* A line of /proc/self/status, in bytes; 0 if there is none. */
static double status(const char *name)
{
    char *kilobytes = bx_host_field("/proc/self/status", name);
    double bytes = kilobytes ? 1024 * atof(kilobytes) : 0;
    free(kilobytes);
    return bytes;
}

void bx_resident_watch(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    before = 0;
    if (!file) return;
    int failed = fputs("5", file) < 0; /* resets the peak of the resident memory */
    failed |= fclose(file) != 0;
    if (!failed) before = status("VmRSS");
}

double bx_resident_peak(void)
{
    double peak = status("VmHWM");
    return before > 0 && peak > before ? peak - before : 0;
}
