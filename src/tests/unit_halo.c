/* Regions and trees of bisection-halo against the plainest forms of both. */
#include "region.h"
#include "tree.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

enum { CELLS = 600, ROUNDS = 300 };

/* Runs of cells in a random order, some regular; returns how many cells. */
static int draw_cells(uint64_t seed, int64_t *cells)
{
    int order[CELLS], count = 0;
    for (int i = 0; i < CELLS; i++) order[i] = i;
    if (seed % 3 != 0) /* every cell once, shuffled or in runs */
        for (int i = CELLS - 1; i > 0 && seed % 3 == 1; i--) {
            int k = (int)(bx_random_hash(seed, (uint64_t)i) % (uint64_t)(i + 1)), kept = order[i];
            order[i] = order[k];
            order[k] = kept;
        }
    for (int i = 0; i < CELLS; i++) {
        uint64_t draw = bx_random_hash(~seed, (uint64_t)i / (1 + seed % 7));
        if (draw % 3 != 0) cells[count++] = order[i];
    }
    return count;
}

static void check_region(uint64_t seed)
{
    int64_t cells[CELLS], others[CELLS];
    double from[CELLS], packed[CELLS], to[CELLS], expected[CELLS];
    int count = draw_cells(seed, cells), other_count = draw_cells(seed + 1, others);
    if (other_count < count) count = other_count;
    bx_region source = {0}, target = {0};
    for (int i = 0; i < count; i++) {
        bx_region_add(&source, cells[i], 1);
        bx_region_add(&target, others[i], 1);
    }
    CHECK(source.numbers == count && target.numbers == count);
    for (int i = 0; i < CELLS; i++) from[i] = i, to[i] = expected[i] = -i;
    bx_region_pack(&source, from, packed);
    for (int i = 0; i < count; i++) CHECK(packed[i] == from[cells[i]]);
    for (int i = 0; i < count; i++) expected[others[i]] = from[cells[i]];
    bx_region_copy(&source, from, &target, to);
    CHECK(memcmp(to, expected, sizeof to) == 0);
    for (int i = 0; i < CELLS; i++) to[i] = -i;
    bx_region_unpack(&target, to, packed);
    CHECK(memcmp(to, expected, sizeof to) == 0);
    bx_region_free(&source);
    bx_region_free(&target);
}

/* A face of a box is as many pieces as it has planes, whatever its side. */
static void check_faces(void)
{
    for (int axis = 0; axis < 3; axis++) {
        bx_region region = {0};
        int last[3] = {9, 8, 7};
        last[axis] = 2;
        for (int z = 0; z < last[2]; z++)
            for (int y = 0; y < last[1]; y++)
                for (int x = 0; x < last[0]; x++) bx_region_add(&region, x + 13 * (y + 11 * z), 1);
        CHECK(region.count == (size_t)last[2]);
        CHECK(region.numbers == (int64_t)last[0] * last[1] * last[2]);
        bx_region_free(&region);
    }
}

/* Every cell is in one leaf, and is found there; leaves are as equal as cuts allow. */
static void check_tree(int64_t nx, int64_t ny, int64_t nz, int leaves)
{
    bx_box whole = {{0}, {nx, ny, nz}};
    bx_tree *tree = bx_tree_create(&whole, leaves, bx_tree_cut_evenly, NULL);
    int64_t total = 0;
    for (int leaf = 0; leaf < leaves; leaf++) {
        bx_box leaf_box = bx_tree_leaf(tree, leaf), *box = &leaf_box;
        total += bx_box_cells(box);
        for (int64_t z = box->first[2]; z < box->last[2]; z++)
            for (int64_t y = box->first[1]; y < box->last[1]; y++)
                for (int64_t x = box->first[0]; x < box->last[0]; x++)
                    CHECK(bx_tree_find(tree, (int64_t[3]){x, y, z}) == leaf);
    }
    CHECK(total == nx * ny * nz);
    if (leaves == 8 && nx == 12) /* a power of two cuts a cube into cubes */
        for (int leaf = 0; leaf < leaves; leaf++) {
            bx_box box = bx_tree_leaf(tree, leaf);
            CHECK(bx_box_cells(&box) == 6 * 6 * 6);
        }
    bx_tree_free(tree);
}

int main(void)
{
    for (uint64_t seed = 0; seed < ROUNDS; seed++) check_region(seed);
    check_faces();
    for (int leaves = 1; leaves < 40; leaves++) {
        check_tree(12, 12, 12, leaves);
        check_tree(1, 7, 2, leaves);
        check_tree(30, 1, 1, leaves);
    }
    return unit_failures != 0;
}
