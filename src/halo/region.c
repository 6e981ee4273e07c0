#include "region.h"

#include <stdlib.h>
#include <string.h>

/* The last row joins the piece before it, if it goes on there. */
static void join_last(bx_region *region)
{
    if (region->count < 2) return;
    bx_piece *last = &region->pieces[region->count - 1], *before = last - 1;
    bool alike = last->count == 1 && before->length == last->length;
    int64_t next = before->first + before->count * before->stride;
    if (!alike || (before->count > 1 && last->first != next)) return;
    if (before->count == 1) before->stride = last->first - before->first;
    before->count++;
    region->count--;
}

void bx_region_add(bx_region *region, int64_t first, int length)
{
    bx_piece *last = region->count > 0 ? &region->pieces[region->count - 1] : NULL;
    if (last && last->count == 1 && first == last->first + last->length) {
        last->length += length;
    } else {
        if (region->count == region->room) {
            region->room = 2 * region->room + 4;
            region->pieces = bx_memory_grow(region->pieces, region->room, sizeof *region->pieces);
        }
        region->pieces[region->count++] = (bx_piece){first, 0, region->numbers, length, 1};
    }
    region->numbers += length;
    join_last(region);
}

void bx_region_free(bx_region *region) { free(region->pieces); }

/* Rows of one or two numbers, as faces across a grid's rows have them, are not worth a call. */
static inline void copy_rows(double *restrict to, int64_t to_stride, const double *restrict from,
                             int64_t from_stride, int length, int64_t count)
{
    if (length == 1)
        for (int64_t row = 0; row < count; row++) to[row * to_stride] = from[row * from_stride];
    else if (length == 2)
        for (int64_t row = 0; row < count; row++) {
            to[row * to_stride] = from[row * from_stride];
            to[row * to_stride + 1] = from[row * from_stride + 1];
        }
    else
        for (int64_t row = 0; row < count; row++)
            memcpy(&to[row * to_stride], &from[row * from_stride], (size_t)length * sizeof *to);
}

void bx_region_pack(const bx_region *region, const double *field, double *packed)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < region->count; i++) {
        bx_piece p = region->pieces[i];
        copy_rows(&packed[p.at], p.length, &field[p.first], p.stride, p.length, p.count);
    }
}

void bx_region_unpack(const bx_region *region, double *field, const double *packed)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < region->count; i++) {
        bx_piece p = region->pieces[i];
        copy_rows(&field[p.first], p.stride, &packed[p.at], p.length, p.length, p.count);
    }
}

/* A place in a region: what is left of its current row is `length` long. */
typedef struct {
    const bx_piece *piece;
    int64_t row, done;
} place;

static inline int64_t offset(const place *at)
{
    return at->piece->first + at->row * at->piece->stride + at->done;
}

static inline void advance(place *at, int64_t length, int64_t rows)
{
    at->done += length;
    if (at->done < at->piece->length) return;
    at->done = 0;
    at->row += rows;
    if (at->row < at->piece->count) return;
    at->row = 0;
    at->piece++;
}

void bx_region_copy(const bx_region *source, const double *from, const bx_region *target,
                    double *to)
{
    place s = {source->pieces, 0, 0}, t = {target->pieces, 0, 0};
    for (int64_t left = source->numbers, length, rows; left > 0; left -= length * rows) {
        int64_t s_left = s.piece->length - s.done, t_left = t.piece->length - t.done;
        int64_t s_rows = s.piece->count - s.row, t_rows = t.piece->count - t.row;
        bool whole = s.done == 0 && t.done == 0 && s_left == t_left;
        length = s_left < t_left ? s_left : t_left;
        rows = !whole ? 1 : s_rows < t_rows ? s_rows : t_rows;
        copy_rows(&to[offset(&t)], t.piece->stride, &from[offset(&s)], s.piece->stride, (int)length,
                  rows);
        advance(&s, length, rows);
        advance(&t, length, rows);
    }
}

MPI_Datatype bx_region_type(const bx_region *region)
{
    MPI_Datatype whole, *rows = bx_memory_alloc(region->count, sizeof *rows);
    MPI_Aint *at = bx_memory_alloc(region->count, sizeof *at);
    int *counts = bx_memory_alloc(region->count, sizeof *counts);
    for (size_t i = 0; i < region->count; i++) {
        const bx_piece *p = &region->pieces[i];
        MPI_Type_create_hvector(p->count, p->length, p->stride * (MPI_Aint)sizeof(double),
                                MPI_DOUBLE, &rows[i]);
        at[i] = p->first * (MPI_Aint)sizeof(double);
        counts[i] = 1;
    }
    MPI_Type_create_struct((int)region->count, counts, at, rows, &whole);
    MPI_Type_commit(&whole);
    for (size_t i = 0; i < region->count; i++) MPI_Type_free(&rows[i]);
    BX_FREE(rows, at, counts);
    return whole;
}
