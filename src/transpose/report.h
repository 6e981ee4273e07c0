/* What the plan says before anything is measured: bx_kernel's function. */
#ifndef BX_TRANSPOSE_REPORT_H
#define BX_TRANSPOSE_REPORT_H

#include "input.h"

void bx_transpose_report(void *state, bx_run *run, cJSON *details);

#endif
