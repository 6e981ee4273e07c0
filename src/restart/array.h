/* An array of 8-byte words, [n0][n1][n2], and the box of it that each rank holds. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int64_t size[3]; /* words along each dimension, the last one contiguous */
    int ranks[3];    /* that divide each dimension */
    bool cyclic;     /* the planes are dealt to ranks in turn; else each has neighbouring ones */
} bx_array;

/* A rank's words: [count[0]][count[1]][count[2]] from `start`, every `stride`-th plane. */
typedef struct {
    int64_t start[3], count[3], stride;
} bx_array_box;

typedef enum { BX_ARRAY_SLABS, BX_ARRAY_CYCLIC, BX_ARRAY_BLOCKS } bx_array_way;

/* Returns the array of planes x rows x columns items of `words` words for a number of ranks. */
bx_array bx_array_create(int64_t planes, int64_t rows, int64_t columns, int words, bx_array_way way,
                         int ranks);
/* Returns where a part (0 .. parts) of n things begins, floor(n part / parts).  The product may be
 * more than an int64_t. */
int64_t bx_array_begin(int64_t n, int part, int parts);
/* Returns the words of all ranks. */
int64_t bx_array_words(const bx_array *a);
/* Returns the box of a rank, which may be empty. */
bx_array_box bx_array_box_of(const bx_array *a, int rank);
/* Returns the words of a box, and its rows, each of count[2] words. */
int64_t bx_array_box_words(const bx_array_box *box);
int64_t bx_array_box_rows(const bx_array_box *box);
/* Returns where a row of a box begins in the array. */
int64_t bx_array_row(const bx_array *a, const bx_array_box *box, int64_t row);
