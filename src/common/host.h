/* What this machine is (all local). */
#ifndef BX_HOST_H
#define BX_HOST_H

#include <cjson/cJSON.h>
#include <stddef.h>

cJSON *bx_host_json(void);
cJSON *bx_host_clock_json(void);                /* takes about a millisecond of computing */
void bx_host_firmware(char *text, size_t size); /* of this host, "" where nothing is readable */
double bx_host_memory_free(void); /* bytes this node can still hand out; infinity if unknown */

#endif
