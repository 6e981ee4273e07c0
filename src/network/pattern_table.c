#include "pattern.h"

const bx_pattern_entry bx_pattern_table[] = {
#define BX_METHOD(name, smallest, largest, factor)                                                 \
    {#name, &bx_pattern_##name, smallest, largest, factor},
#include "patterns.def"
#undef BX_METHOD
};

const size_t bx_pattern_count = sizeof bx_pattern_table / sizeof *bx_pattern_table;
