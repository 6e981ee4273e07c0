/* Where numbers of a field lie, as a message takes them: rows of equal length at equal distances.
 * A face of a box is few pieces, an index list as many as it has irregularities; who reads them
 * does not see which it was.  All local. */
#pragma once

#include "bx.h"

/* `count` rows of `length` numbers, `stride` numbers apart. */
typedef struct {
    int64_t first, stride;
    int64_t at; /* of the first number among all of the region */
    int length, count;
} bx_piece;

typedef struct {
    bx_piece *pieces; /* [count] */
    size_t count, room;
    int64_t numbers;
} bx_region;

/* Adds `length` numbers from `first` on, which come next in the messages. */
void bx_region_add(bx_region *region, int64_t first, int length);
void bx_region_free(bx_region *region);

/* Copies the numbers of `field` to packed[numbers], or back. */
void bx_region_pack(const bx_region *region, const double *field, double *packed);
void bx_region_unpack(const bx_region *region, double *field, const double *packed);
/* Copies the numbers of one field to those of another, whose region has as many. */
void bx_region_copy(const bx_region *source, const double *from, const bx_region *target,
                    double *to);
/* Returns a committed datatype of the region, relative to the field; the caller frees it. */
MPI_Datatype bx_region_type(const bx_region *region);
