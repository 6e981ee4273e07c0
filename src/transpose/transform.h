/* A batch of 3D transforms by one method: the timed work. */
#ifndef BX_TRANSPOSE_TRANSFORM_H
#define BX_TRANSPOSE_TRANSFORM_H

#include "method.h"

/* Forward and inverse of every band of `plan`, unnormalised: each column element comes back times
 * nx * ny * nz, or as it was where `ffts` is false (the exchanges alone). */
void bx_transform_bands(bx_plan *plan, const bx_method *method, void *self, bool ffts);

/* One transform (or, without FFTs, one exchange) of one band: forward from its columns to the planes
 * of `slot`, inverse back; the planes are left as they were, or undefined after inverse. */
void bx_transform(bx_plan *plan, const bx_method *method, void *self, bx_way way, int band,
                  int slot, bool ffts);

#endif
