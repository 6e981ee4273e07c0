/* A program that says it was compiled with instructions that no processor has. */
#include "processor.h"

#include <stdio.h>

const bx_instructions bx_processor_assumed[] = {
    {"time-travel", "1"}, {"unused", "__UNUSED__"}, {"avx-none", "1"}, {NULL, ""}};

int main(void)
{
    puts("main() has begun");
    return 0;
}
