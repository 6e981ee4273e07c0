#include "pattern.h"

const bx_pattern_entry bx_pattern_table[] = {
#define ENTRY(name, smallest, largest, factor)                                                     \
    {#name, &bx_pattern_##name, smallest, largest, factor},
    BX_METHODS(ENTRY)};

const size_t bx_pattern_count = sizeof bx_pattern_table / sizeof *bx_pattern_table;
