/* A batch of 3D transforms by one method: the timed work. */
#pragma once

#include "method.h"

/* A method made ready for a plan, and for the plan of its second exchange. */
typedef struct bx_exchange {
    const bx_transpose_method *method;
    bx_plan *plan;
    void *self;                /* what method->create has returned */
    struct bx_exchange *inner; /* NULL: one exchange per transform */
} bx_exchange;

/* Returns a method with all its buffers; NULL where a window cannot be had (bx_window_why), on all
 * ranks.  `leaders` is the number of exchanging ranks per node asked for, or 0.  The method must be
 * applicable.  Collective over the world; all other functions here over the plan's team, unless one
 * says otherwise. */
bx_exchange *bx_exchange_create(bx_plan *plan, const bx_transpose_method *method, int leaders);
void bx_exchange_free(bx_exchange *x);
/* Returns whether a method can run all exchanges of the geometries of all teams; if not, the reason
 * is in `why` (at most why_size bytes), else it is "".  Collective over the run. */
bool bx_exchange_applicable(const bx_run *run, const bx_geometry *g,
                            const bx_transpose_method *method, char *why, size_t why_size);
/* Returns the bytes that a method needs on a rank for all exchanges of a geometry, beside the
 * plan's fields, as bx_transpose_method.bytes.  Local. */
double bx_exchange_bytes(const bx_geometry *g, const bx_transpose_method *method, int rank,
                         bool published);
/* Returns what a method sends in all exchanges of one transform in one direction.  Local. */
bx_counts bx_exchange_counts(const bx_geometry *g, const bx_transpose_method *method,
                             bx_direction way, int leaders);

/* Transforms every band of the plan forward and back, unnormalised: each column element comes back
 * times nx * ny * nz.  Without `ffts` it exchanges alone: the forward half-transformed field of the
 * slot goes to the planes and back, band after band, and is then as it was. */
void bx_transform_bands(const bx_exchange *x, bool ffts);

/* Applies a local operator to bands 0 .. count-1: transforms forward, multiplies by the real
 * `field` [my_planes][plane_ny][plane_nx] of the last plan (NULL: by 1), and transforms back,
 * unnormalised.  For fields of the host. */
void bx_transform_apply(const bx_exchange *x, int count, const double *field);

/* Transforms one band in one direction: forward from its columns (without `ffts`, from the
 * half-transformed field) to the planes of `slot` of the last plan, inverse back.  Planes are
 * undefined after inverse. */
void bx_transform_one(const bx_exchange *x, bx_direction way, int band, int slot, bool ffts);

/* Returns the half-transformed field of a method.  Local. */
bx_rows bx_transform_rows(const bx_plan *plan, const bx_transpose_method *method, void *self,
                          bx_direction way, int slot);

/* Returns the number of slots that bands of this method take in turn.  Local. */
int bx_transform_slots(const bx_transpose_method *method);
