/* Who runs where. */
#ifndef BX_LAYOUT_H
#define BX_LAYOUT_H

#include "run.h"

/* Fills the run's communicators, nodes and threads; the code that any rank refused with. */
int bx_layout_discover(bx_run *run);
void bx_layout_free(bx_run *run);
cJSON *bx_layout_json(const bx_run *run); /* collective; NULL but on rank 0 */

#endif
