/* Facts about a simulated host, in the place of this machine's. */
#include "host.h"

#include "platform.h"

#include <math.h>
#include <mpi.h>
#include <simgrid/host.h>
#include <simgrid/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    int first, count;
} cores = {0, 1};

const char *bx_platform_text(const char *name)
{
    char property[64];
    snprintf(property, sizeof property, "bx_%s", name);
    return sg_host_get_property_value(sg_host_self(), property);
}

double bx_platform_number(const char *name)
{
    const char *text = bx_platform_text(name);
    return text ? strtod(text, NULL) : NAN;
}

void bx_platform_set_cores(int first, int count)
{
    cores.first = first;
    cores.count = count;
}

void bx_host_describe(bx_host *host)
{
    int major, minor, patch;
    sg_version_get(&major, &minor, &patch);
    memset(host, 0, sizeof *host); /* so that equal hosts are equal bytes */
    snprintf(host->cpu, sizeof host->cpu, "of %s, simulated", bx_platform_text("name"));
    snprintf(host->kernel, sizeof host->kernel, "SimGrid %d.%d", major, minor);
    snprintf(host->architecture, sizeof host->architecture, "simulated");
}

double bx_host_clock_ghz(int threads) { return NAN; }

void bx_host_watch_threads(int threads) {}

double bx_host_waited(void) { return 0; /* a simulated core has one rank */ }

int bx_platform_gethostname(char *name, size_t size)
{
    char full[MPI_MAX_PROCESSOR_NAME];
    int length;
    PMPI_Get_processor_name(full, &length);
    return snprintf(name, size, "%s", full) < (int)size ? 0 : -1;
}

int bx_platform_sched_getaffinity(pid_t rank, size_t size, cpu_set_t *set)
{
    memset(set, 0, size);
    for (int i = 0; i < cores.count; i++) CPU_SET(cores.first + i, set);
    return 0;
}
