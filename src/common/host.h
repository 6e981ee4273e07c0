/* Facts about this host (all local). */
#ifndef BX_HOST_H
#define BX_HOST_H

#include <cjson/cJSON.h>
#include <stddef.h>

/* Returns the processor, the operating system's kernel and the architecture; the caller deletes
 * it. */
cJSON *bx_host_json(void);
/* Returns the clock rate of this core: as the system reports it (mhz, MHz or null), and as a chain
 * of dependent operations runs (chain_ghz, GHz).  Computes for about a millisecond. */
cJSON *bx_host_clock_json(void);
/* Writes the versions of microcode, BIOS and network adapters, at most `size` bytes; "" where none
 * is readable. */
void bx_host_firmware(char *text, size_t size);
/* Returns the bytes that processes of this control group can still allocate on this node; infinity
 * if unknown. */
double bx_host_memory_free(void);

#endif
