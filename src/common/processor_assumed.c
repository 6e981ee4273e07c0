/* Compiled with the options of the kernels; data alone, which every processor can read. */
#include "processor.h"

#include <stddef.h>

#define TEXT(macro) #macro
#define INSTRUCTIONS(name, macro, ...) {name, TEXT(macro)},
const bx_instructions bx_processor_assumed[] = {
#include "processor.def"
    {NULL, ""}};
