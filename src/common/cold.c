/* Caches without a kernel's data. */
#include "charge.h"
#include "comm_buffers.h"
#include "host.h"
#include "run.h"

#include <string.h>

enum { LINE = 64 };                 /* B of a cache's line, at least */
static const double USUAL = 0x1p29; /* B where no size is known: twice any last cache of 256 MiB */

static volatile unsigned char *scratch;
static size_t scratch_bytes;

int bx_cold_open(bx_run *run)
{
    const char *place = bx_comm_buffer_options.place;
    double bytes = 2 * bx_host_caches(NULL);
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
