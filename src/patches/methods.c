#include "method.h"

const bx_method *const bx_methods[] = {
#define BX_CASE(...)
#define BX_METHOD(name) &bx_method_##name,
#include "patches.def"
};
const int bx_method_count = sizeof bx_methods / sizeof *bx_methods;
