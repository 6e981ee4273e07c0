/* Right answers by means that share nothing with the method under test: bx_kernel's functions. */
#ifndef BX_TRANSPOSE_VERIFY_H
#define BX_TRANSPOSE_VERIFY_H

#include "input.h"

void bx_transpose_verify(void *state, size_t method, size_t point, bx_verification *verification);
void bx_transpose_verify_exchanges(void *state, size_t method, size_t point,
                                   bx_verification *verification);
void bx_transpose_verify_loop(void *state, size_t method, size_t point, int64_t steps,
                              bx_verification *verification);

#endif
