#include "method.h"

const bx_method *const bx_methods[] = {
#define LISTED(name) &bx_method_##name,
    BX_METHODS(LISTED)};
const int bx_method_count = sizeof bx_methods / sizeof *bx_methods;
