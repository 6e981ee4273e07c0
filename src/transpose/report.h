/* The kernel's notes and details. */
#pragma once

#include "input.h"

/* bx_kernel.report: sizes of the grid, its distribution, and what each method will send; `state` is
 * a bx_transpose_state. */
void bx_transpose_report(void *state, bx_run *run, cJSON *details);
