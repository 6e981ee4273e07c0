/* A program that says it was compiled with instructions that no processor has. */
#include "processor.h"

#include <stdio.h>

const char *const bx_processor_assumed[] = {"time-travel", "avx-none", NULL};

int main(void)
{
    puts("main() has begun");
    return 0;
}
