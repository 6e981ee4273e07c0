#include "resident.h"

#include <stdio.h>
#include <string.h>

static double before;

/* A line of /proc/self/status, in bytes; 0 if there is none. */
static double status(const char *name)
{
    char line[256];
    double kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            sscanf(line + strlen(name), ": %lf", &kilobytes);
    if (file) fclose(file);
    return 1024 * kilobytes;
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
