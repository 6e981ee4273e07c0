/* Verification by means that share nothing with the method under test.  The functions are
 * bx_kernel's, of a bx_transpose_state. */
#pragma once

#include "input.h"

/* bx_kernel.verify: one transform against plane waves or a serial FFT, exchanges bit by bit, and
 * exact counts of messages and bytes. */
void bx_transpose_verify(void *state, size_t method, size_t point, bx_verification *verification);
/* bx_kernel.inspect with --transpose-only: the half-transformed fields, bit by bit. */
void bx_transpose_verify_exchanges(void *state, size_t method, size_t point,
                                   bx_verification *verification);
/* bx_kernel.end: the columns after `steps` steps, which are the input times known factors. */
void bx_transpose_verify_loop(void *state, size_t method, size_t point, int64_t steps,
                              bx_verification *verification);
/* bx_kernel.promise: messages and bytes of all bands, in closed form; how many are under way at
 * once, and what is computed behind them. */
void bx_transpose_verify_promise(void *state, size_t method, size_t point, const bx_shown *shown,
                                 bx_verification *verification);
