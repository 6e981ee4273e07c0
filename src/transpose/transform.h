/* A batch of 3D transforms by one method: the timed work. */
#ifndef BX_TRANSPOSE_TRANSFORM_H
#define BX_TRANSPOSE_TRANSFORM_H

#include "method.h"

/* Forward and inverse of every band of `plan`, unnormalised: each column element comes back times
 * nx * ny * nz, or as it was where `ffts` is false (the exchanges alone). */
void bx_transform_bands(bx_plan *plan, const bx_method *method, void *self, bool ffts);

/* One exchange of one band, either way. */
void bx_exchange(const bx_method *method, void *self, bx_way way, int band, int slot);

#endif
