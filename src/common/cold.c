/* Caches without a kernel's data. */
#include "charge.h"
#include "comm_buffers.h"
#include "host.h"
#include "run.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

enum { LINE = 64 };                 /* B of a cache's line, at least */
static const double USUAL = 0x1p29; /* B where no size is known: twice any last cache of 256 MiB */

static volatile unsigned char *scratch;
static size_t scratch_bytes;

/* Returns the bytes of the largest cache of any CPU of this host; 0 if unknown. */
static double largest_cache(void)
{
    char pattern[4096];
    glob_t files;
    double largest = 0;
    const char *folder = "/sys/devices/system/cpu";
    snprintf(pattern, sizeof pattern, "%s%s/cpu[0-9]*/cache/index[0-9]*/size", bx_host_root(folder),
             folder);
    if (glob(pattern, 0, NULL, &files) != 0) return 0;
    for (size_t i = 0; i < files.gl_pathc; i++) {
        FILE *file = fopen(files.gl_pathv[i], "r");
        double number = 0;
        char unit = '\0';
        if (file && fscanf(file, "%lf%c", &number, &unit) > 0)
            largest = fmax(largest, number * (unit == 'K' ? 0x1p10 : unit == 'M' ? 0x1p20 : 1));
        if (file) fclose(file);
    }
    globfree(&files);
    return largest;
}

int bx_cold_open(bx_run *run)
{
    const char *place = bx_comm_buffer_options.place;
    double bytes = 2 * largest_cache();
    int unknown = bytes == 0;
    if (unknown) bytes = USUAL;
    if (strcmp(place, "host") != 0)
        bx_run_refuse(run, BX_USAGE,
                      "--cold: empties no cache of a device; choose --buffers host, not %s", place);
    if (BX_IS_SIMULATED) bx_run_refuse(run, BX_USAGE, "--cold: no cache is simulated");
    int code = bx_run_agree(run);
    if (code == BX_OK) code = bx_resources_claim_memory(run, bytes, "--cold: twice the last cache");
    if (code != BX_OK) return code;
    PMPI_Allreduce(MPI_IN_PLACE, &unknown, 1, MPI_INT, MPI_MAX, run->world);
    if (unknown)
        bx_run_note(run,
                    "--cold: %.0f MiB per rank are written, as the system names no size of a cache",
                    USUAL / 0x1p20);
    scratch_bytes = (size_t)bytes;
    scratch = bx_memory_alloc(scratch_bytes, 1);
    return BX_OK;
}

void bx_cold_sweep(void)
{
    for (size_t i = 0; i < scratch_bytes; i += LINE) scratch[i]++;
}

void bx_cold_close(void)
{
    bx_memory_free(1, (void *[]){(void *)scratch});
    scratch = NULL;
    scratch_bytes = 0;
}
