#include "run.h"

int main(int argc, char **argv) { return bx_harness_run(argc, argv, bx_kernel_get()); }
