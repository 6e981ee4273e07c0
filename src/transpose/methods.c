#include "method.h"

const bx_transpose_method *const bx_transpose_methods[] = {
#define LISTED(name) &bx_transpose_method_##name,
    BX_METHODS(LISTED)};
const int bx_transpose_method_count = sizeof bx_transpose_methods / sizeof *bx_transpose_methods;
