#include "tree.h"

#include <stdlib.h>

/* A box with leaves first .. first+leaves-1; the lower side has the first ones. */
typedef struct {
    int axis, low; /* of one leaf: -1, its number; else the axis of the cut, leaves below */
    int sides[2];  /* nodes */
    int64_t cut;
} node;

struct bx_tree {
    node *nodes; /* [2 * leaves - 1] */
    int count;
    bx_box *leaves;
};

static int build(bx_tree *tree, const bx_box *box, int first, int leaves, bx_tree_cut *cut,
                 const void *context)
{
    int me = tree->count++;
    if (leaves == 1) {
        tree->nodes[me] = (node){-1, first, {0, 0}, 0};
        /* an empty one has no length along any axis */
        tree->leaves[first] = bx_box_cells(box) > 0 ? *box : (bx_box){{0}, {0}};
        return me;
    }
    int axis = 2, low = leaves / 2;
    for (int other = 1; other >= 0; other--)
        if (bx_box_length(box, other) > bx_box_length(box, axis)) axis = other;
    node mine = {axis, low, {0, 0}, cut(context, box, axis, low, leaves)};
    bx_box lower = *box, upper = *box;
    lower.last[axis] = upper.first[axis] = mine.cut;
    mine.sides[0] = build(tree, &lower, first, low, cut, context);
    mine.sides[1] = build(tree, &upper, first + low, leaves - low, cut, context);
    tree->nodes[me] = mine;
    return me;
}

bx_tree *bx_tree_create(const bx_box *whole, int leaves, bx_tree_cut *cut, const void *context)
{
    bx_tree *tree = bx_memory_alloc(1, sizeof *tree);
    BX_ALLOC(2 * (size_t)leaves, tree->nodes);
    tree->leaves = bx_memory_alloc((size_t)leaves, sizeof *tree->leaves);
    build(tree, whole, 0, leaves, cut, context);
    return tree;
}

void bx_tree_free(bx_tree *tree) { BX_FREE(tree->nodes, tree->leaves, tree); }

const bx_box *bx_tree_leaf(const bx_tree *tree, int leaf) { return &tree->leaves[leaf]; }

int bx_tree_find(const bx_tree *tree, const int64_t cell[3])
{
    const node *at = tree->nodes;
    while (at->axis >= 0) at = &tree->nodes[at->sides[cell[at->axis] >= at->cut]];
    return at->low;
}

int64_t bx_tree_cut_evenly(const void *context, const bx_box *box, int axis, int low, int parts)
{
    return box->first[axis] + (bx_box_length(box, axis) * low + parts / 2) / parts;
}
