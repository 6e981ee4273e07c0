#include "method.h"

const bx_method *const bx_methods[] = {
    &bx_method_alltoallv, &bx_method_p2p,        &bx_method_padded,
    &bx_method_shm,       &bx_method_shm_padded, &bx_method_gather_scatter,
    &bx_method_direct,    &bx_method_alltoallw,  &bx_method_leaders,
    &bx_method_overlap,
};
const int bx_method_count = sizeof bx_methods / sizeof *bx_methods;
