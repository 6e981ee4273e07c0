#ifndef BX_HARNESS_H
#define BX_HARNESS_H

#include "bx.h"

int bx_harness_run(int argc, char **argv, const bx_kernel *kernel); /* the exit code */

#endif
