/* A batch of 3D transforms by one method: the timed work. */
#ifndef BX_TRANSPOSE_TRANSFORM_H
#define BX_TRANSPOSE_TRANSFORM_H

#include "method.h"

/* Transforms every band of `plan` forward and back, unnormalised: each column element comes back
 * times nx * ny * nz.  Without `ffts` it exchanges alone: the forward half-transformed field of the
 * slot goes to the planes and back, band after band, and is then as it was.  `self` is what
 * method->create has returned; all functions here are collective over the plan's team, unless one
 * says otherwise. */
void bx_transform_bands(bx_plan *plan, const bx_method *method, void *self, bool ffts);

/* Applies a local operator to bands 0 .. count-1: transforms forward, multiplies by the real
 * `field` [my_planes][ny][nx] (NULL: by 1), and transforms back, unnormalised. */
void bx_transform_apply(bx_plan *plan, const bx_method *method, void *self, int count,
                        const double *field);

/* Transforms one band in one direction: forward from its columns (without `ffts`, from the
 * half-transformed field) to the planes of `slot`, inverse back.  Planes are undefined after
 * inverse.
 */
void bx_transform_one(bx_plan *plan, const bx_method *method, void *self, bx_direction way,
                      int band, int slot, bool ffts);

/* Returns the half-transformed field of a method.  Local. */
bx_rows bx_transform_rows(const bx_plan *plan, const bx_method *method, void *self,
                          bx_direction way, int slot);

/* Returns the number of slots that bands of this method take in turn.  Local. */
int bx_transform_slots(const bx_method *method);

#endif
