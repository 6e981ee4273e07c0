#include "method.h"

const bx_halo_method *const bx_halo_methods[] = {
#define LISTED(name) &bx_halo_method_##name,
    BX_METHODS(LISTED)};
const int bx_halo_method_count = sizeof bx_halo_methods / sizeof *bx_halo_methods;
