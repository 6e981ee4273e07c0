#include "tree.h"

#include <stdlib.h>

struct bx_tree {
    bx_box whole;
    int leaves;
    int32_t *cuts; /* [leaves - 1] of a box, then those of its lower side, then of its upper side */
};

/* A box on the way to a leaf; the lower side has the first leaves. */
typedef struct {
    bx_box box;
    int first, leaves, cut; /* first leaf, number of leaves, place in `cuts` */
} tree_part;

static tree_part whole_of(const bx_tree *tree)
{
    return (tree_part){tree->whole, 0, tree->leaves, 0};
}

/* The axis across which a part is cut. */
static int axis_of(const tree_part *p)
{
    int axis = 2;
    for (int other = 1; other >= 0; other--)
        if (bx_box_length(&p->box, other) > bx_box_length(&p->box, axis)) axis = other;
    return axis;
}

static tree_part side_of(tree_part p, int axis, int64_t cut, bool upper)
{
    int low = p.leaves / 2;
    (upper ? p.box.first : p.box.last)[axis] = cut;
    p.first += upper ? low : 0;
    p.leaves = upper ? p.leaves - low : low;
    p.cut += upper ? low : 1;
    return p;
}

static void build(bx_tree *tree, tree_part p, bx_tree_cut *cut, const void *context)
{
    if (p.leaves == 1) return;
    int axis = axis_of(&p);
    int64_t at = cut(context, &p.box, axis, p.leaves / 2, p.leaves);
    tree->cuts[p.cut] = (int32_t)at;
    for (int upper = 0; upper < 2; upper++) build(tree, side_of(p, axis, at, upper), cut, context);
}

bx_tree *bx_tree_create(const bx_box *whole, int leaves, bx_tree_cut *cut, const void *context)
{
    bx_tree *tree = bx_memory_alloc(1, sizeof *tree);
    tree->whole = *whole;
    tree->leaves = leaves;
    BX_ALLOC((size_t)leaves, tree->cuts);
    build(tree, whole_of(tree), cut, context);
    return tree;
}

void bx_tree_free(bx_tree *tree) { BX_FREE(tree->cuts, tree); }

bx_box bx_tree_leaf(const bx_tree *tree, int leaf)
{
    tree_part p = whole_of(tree);
    while (p.leaves > 1)
        p = side_of(p, axis_of(&p), tree->cuts[p.cut], leaf >= p.first + p.leaves / 2);
    /* an empty one has no length along any axis */
    return bx_box_cells(&p.box) > 0 ? p.box : (bx_box){{0}, {0}};
}

int bx_tree_find(const bx_tree *tree, const int64_t cell[3])
{
    tree_part p = whole_of(tree);
    while (p.leaves > 1) {
        int axis = axis_of(&p);
        int64_t cut = tree->cuts[p.cut];
        p = side_of(p, axis, cut, cell[axis] >= cut);
    }
    return p.first;
}

int64_t bx_tree_cut_evenly(const void *context, const bx_box *box, int axis, int low, int parts)
{
    return box->first[axis] + (bx_box_length(box, axis) * low + parts / 2) / parts;
}
