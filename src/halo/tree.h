/* A box cut in two again and again: who owns which part of a grid.  All local. */
#pragma once

#include "bx.h"

/* Cells first[axis] .. last[axis]-1 of each axis. */
typedef struct {
    int64_t first[3], last[3];
} bx_box;

static inline int64_t bx_box_length(const bx_box *box, int axis)
{
    return box->last[axis] - box->first[axis];
}
static inline int64_t bx_box_cells(const bx_box *box)
{
    return bx_box_length(box, 0) * bx_box_length(box, 1) * bx_box_length(box, 2);
}

typedef struct bx_tree bx_tree;

/* Where to cut a box across an axis, so that the lower side has `low` of `parts` leaves: returns
 * the first cell of the upper side. */
typedef int64_t bx_tree_cut(const void *context, const bx_box *box, int axis, int low, int parts);

/* Cuts a box into leaves, across its longest axis each time, the last one of several.  Leaves may
 * be empty.  Takes 4 bytes a leaf. */
bx_tree *bx_tree_create(const bx_box *whole, int leaves, bx_tree_cut *cut, const void *context);
void bx_tree_free(bx_tree *tree);
bx_box bx_tree_leaf(const bx_tree *tree, int leaf);
/* Returns the leaf that has a cell. */
int bx_tree_find(const bx_tree *tree, const int64_t cell[3]);
/* Cuts into parts as equal as cells allow. */
int64_t bx_tree_cut_evenly(const void *context, const bx_box *box, int axis, int low, int parts);
