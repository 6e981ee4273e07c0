#include "harness.h"

int main(int argc, char **argv) { return bx_main(argc, argv, bx_this_kernel()); }
