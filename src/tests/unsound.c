/* A program with the fault that its argument names, which a build with sanitizers must end:
 * `heap` writes beyond what is allocated, `overflow` adds beyond an int, `bounds` writes beyond a
 * Fortran array, `unset` returns a Fortran number that nobody has set. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double bx_unsound_bounds(int at);
double bx_unsound_unset(int at);

int main(int argc, char **argv)
{
    const char *fault = argv[1];
    char *memory = calloc((size_t)argc, 1); /* two bytes */
    volatile int most = INT_MAX;
    if (strcmp(fault, "heap") == 0) memory[argc] = 1;
    if (strcmp(fault, "overflow") == 0) most += argc;
    if (strcmp(fault, "bounds") == 0) most = (int)bx_unsound_bounds(argc + 2);
    if (strcmp(fault, "unset") == 0 && isnan(bx_unsound_unset(argc))) printf("nothing was set\n");
    free(memory);
    return 0;
}
