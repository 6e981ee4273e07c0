/* A batch of 3D transforms by one method: the timed work. */
#ifndef BX_TRANSPOSE_TRANSFORM_H
#define BX_TRANSPOSE_TRANSFORM_H

#include "method.h"

/* Forward and inverse of every band of `plan`, unnormalised: each column element comes back times
 * nx * ny * nz.  Without `ffts` the exchanges alone: what is in the forward half-transformed field
 * of the slot goes to the planes and back, band after band, and stands there again as it was. */
void bx_transform_bands(bx_plan *plan, const bx_method *method, void *self, bool ffts);

/* Bands 0 .. count-1 of the plan: forward, times the real `field` [my_planes][ny][nx] (NULL: times
 * nothing), and inverse, unnormalised: a local operator. */
void bx_transform_apply(bx_plan *plan, const bx_method *method, void *self, int count,
                        const double *field);

/* One way of one band: forward from its columns (or, without FFTs, the half-transformed field) to
 * the planes of `slot`, inverse back; planes are undefined after inverse. */
void bx_transform_one(bx_plan *plan, const bx_method *method, void *self, bx_direction way,
                      int band, int slot, bool ffts);

/* The half-transformed field of a method. */
bx_rows bx_transform_rows(const bx_plan *plan, const bx_method *method, void *self,
                          bx_direction way, int slot);

/* The slots that bands of this method take in turn. */
int bx_transform_slots(const bx_method *method);

#endif
