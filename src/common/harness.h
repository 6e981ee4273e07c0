/* A kernel's main program. */
#ifndef BX_HARNESS_H
#define BX_HARNESS_H

#include "bx.h"

/* Reads the command line, verifies and measures the selected methods, prints and writes the result.
 * Initialises and finalises MPI.  Returns the exit code of bx.h. */
int bx_harness_run(int argc, char **argv, const bx_kernel *kernel);

#endif
