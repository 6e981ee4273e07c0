#include "array.h"

#include <mpi.h>

bx_array bx_array_create(int64_t planes, int64_t rows, int64_t columns, int words, bx_array_way way,
                         int ranks)
{
    bx_array a = {{planes, rows, columns * words}, {ranks, 1, 1}, way == BX_ARRAY_CYCLIC};
    if (way != BX_ARRAY_BLOCKS) return a;
    a.ranks[0] = 0;
    a.ranks[1] = 0;
    a.ranks[2] = 1; /* rows stay whole: a line of a mesh code is contiguous */
    MPI_Dims_create(ranks, 3, a.ranks);
    return a;
}

int64_t bx_array_begin(int64_t n, int part, int parts)
{
    return n / parts * part + n % parts * part / parts;
}

int64_t bx_array_words(const bx_array *a) { return a->size[0] * a->size[1] * a->size[2]; }

bx_array_box bx_array_box_of(const bx_array *a, int rank)
{
    bx_array_box box = {.stride = a->cyclic ? a->ranks[0] : 1};
    for (int d = 2; d >= 0; d--) {
        int64_t n = a->size[d];
        int parts = a->ranks[d], part = rank % parts;
        rank /= parts;
        box.start[d] = bx_array_begin(n, part, parts);
        box.count[d] = bx_array_begin(n, part + 1, parts) - box.start[d];
        if (d > 0 || !a->cyclic) continue;
        box.start[d] = part;
        box.count[d] = (n - part + parts - 1) / parts;
    }
    return box;
}

int64_t bx_array_box_words(const bx_array_box *box)
{
    return box->count[0] * box->count[1] * box->count[2];
}

int64_t bx_array_box_rows(const bx_array_box *box)
{
    return box->count[2] > 0 ? box->count[0] * box->count[1] : 0;
}

int64_t bx_array_row(const bx_array *a, const bx_array_box *box, int64_t row)
{
    int64_t plane = box->start[0] + row / box->count[1] * box->stride;
    int64_t line = box->start[1] + row % box->count[1];
    return (plane * a->size[1] + line) * a->size[2] + box->start[2];
}
