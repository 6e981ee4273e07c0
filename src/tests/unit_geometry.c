/* Distributions and counts against the numbers that Bethune (2010) states in sections 4 and 5.1. */
#include "method.h"
#include "unit.h"

#include <stdlib.h>

static const int64_t CNT40[3] = {30, 30, 30}, CNT80[3] = {81, 81, 81};

static int ranks_with(const int *first, int ranks, int things)
{
    int count = 0;
    for (int r = 0; r < ranks; r++) count += first[r + 1] - first[r] == things;
    return count;
}

static void test_published_distribution(void)
{
    bx_geometry *g = bx_geometry_create(CNT40, 205, 1, 16, NULL, 4);
    CHECK(g->columns == 657);
    CHECK(ranks_with(g->plane_first, 16, 2) == 14);
    CHECK(ranks_with(g->plane_first, 16, 1) == 2);
    CHECK(ranks_with(g->column_first, 16, 41) == 15);
    CHECK(ranks_with(g->column_first, 16, 42) == 1);
    CHECK(g->largest_block == 84);
    CHECK(bx_geometry_block(g, BX_FORWARD, 1, 0) == 82);
    CHECK(bx_geometry_block(g, BX_FORWARD, 0, 15) == 42);
    CHECK(bx_geometry_block(g, BX_FORWARD, 1, 15) == 41);
    CHECK((657 * 30 + 8) / 16 == 1232);
    CHECK(g->largest_block * 16 == 1344);
    bx_geometry_free(g);
}

static void test_published_messages(void)
{
    bx_geometry *g = bx_geometry_create(CNT80, 1602, 1, 64, NULL, 4);
    CHECK(g->columns == 5041);
    CHECK(bx_count_every_pair(g, BX_FORWARD, 0).messages == 4032);
    CHECK(bx_count_nodes(g, BX_FORWARD, 1).messages == 240);
    bx_geometry_free(g);
    g = bx_geometry_create(CNT80, 1602, 1, 288, NULL, 24);
    CHECK(bx_count_every_pair(g, BX_FORWARD, 0).messages == 82656);
    CHECK(bx_count_every_pair(g, BX_FORWARD, 0).off_node_messages == 76032);
    CHECK(bx_count_nodes(g, BX_FORWARD, 1).messages == 132);
    CHECK(bx_count_nodes(g, BX_FORWARD, 1).off_node_messages == 132);
    bx_geometry_free(g);
}

/* Blocks as visited are all that are not empty, and their sums those of the closed forms. */
typedef struct {
    const bx_geometry *g;
    double blocks, elements;
} visited;

static void visit(void *context, int from, int to, int64_t elements)
{
    visited *sum = context;
    CHECK(elements > 0 && elements == bx_geometry_block(sum->g, BX_FORWARD, from, to));
    sum->blocks++;
    sum->elements += (double)elements;
}

/* Sums over the first ranks of a node, of each number, beside sums of blocks. */
static void check_several(const bx_geometry *g, int node)
{
    for (int count = 0; count <= bx_geometry_node_size(g, node); count++)
        for (int planes = 0; planes < 2; planes++) {
            bx_rank_group_share several = bx_rank_group_share_create(g, node, count, planes);
            for (int peer = 0; peer < g->ranks; peer++) {
                int64_t sum = 0;
                for (int i = 0; i < count; i++)
                    sum += bx_geometry_block(g, planes ? BX_INVERSE : BX_FORWARD,
                                             bx_geometry_ranks(g, node)[i], peer);
                CHECK(bx_rank_group_share_elements(&several, peer) == sum);
            }
            bx_rank_group_share_free(&several);
        }
}

static void check_visits(const bx_geometry *g)
{
    for (int n = 0; n < g->nodes; n++) check_several(g, n);
    visited sum = {.g = g};
    double blocks = 0, elements = 0, apart = 0;
    bx_geometry_blocks(g, visit, &sum);
    for (int to = 0; to < g->ranks; to++) {
        double arriving = 0;
        for (int from = 0; from < g->ranks; from++) {
            double block = (double)bx_geometry_block(g, BX_FORWARD, from, to);
            blocks += block > 0;
            arriving += block;
            apart += g->node_of[from] != g->node_of[to];
        }
        CHECK(arriving == (double)bx_geometry_arriving(g, to));
        elements += arriving;
        for (int p = g->plane_first[to]; p < g->plane_first[to + 1]; p++)
            CHECK(bx_geometry_holder(g, p) == to);
    }
    CHECK(sum.blocks == blocks && sum.elements == elements);
    CHECK(bx_count_every_pair(g, BX_FORWARD, 0).off_node_messages == apart);
}

/* Whatever the layout: every column and plane once, and what is sent off node is the payload. */
static void test_any_layout(void)
{
    static const int64_t GRID[3] = {7, 10, 5};
    for (int ranks = 1; ranks <= 40; ranks++)
        for (int per_node = 1; per_node <= 9; per_node += 2) {
            bx_geometry *g = bx_geometry_create(GRID, 9, 1, ranks, NULL, per_node);
            CHECK(g->column_first[ranks] == g->columns && g->plane_first[ranks] == 5);
            CHECK(g->nodes == (ranks + per_node - 1) / per_node);
            CHECK(g->node_first[g->nodes] == ranks);
            double payload = 0, off_node = 0;
            for (int a = 0; a < ranks; a++)
                for (int b = 0; b < ranks; b++) {
                    CHECK(bx_geometry_block(g, BX_FORWARD, a, b) ==
                          bx_geometry_block(g, BX_INVERSE, b, a));
                    CHECK(bx_geometry_block(g, BX_FORWARD, a, b) <= g->largest_block);
                    payload += 16.0 * (double)bx_geometry_block(g, BX_FORWARD, a, b);
                    if (g->node_of[a] != g->node_of[b])
                        off_node += 16.0 * (double)bx_geometry_block(g, BX_FORWARD, a, b);
                }
            CHECK(payload == 16.0 * g->columns * 5);
            CHECK(bx_count_nodes(g, BX_FORWARD, 1).bytes == off_node);
            CHECK(bx_count_every_pair(g, BX_INVERSE, 0).off_node_bytes == off_node);
            CHECK(bx_count_padded(g, BX_FORWARD, 0).padding_bytes >= 0);
            CHECK(bx_count_nodes_padded(g, BX_FORWARD, 0).padding_bytes >= 0);
            check_visits(g);
            bx_geometry_free(g);
        }
}

static int holder(const int *first, int thing)
{
    int rank = 0;
    while (first[rank + 1] <= thing) rank++;
    return rank;
}

/* Blocks of both exchanges, element by element: point (x, y, z) goes from its column along z to the
 * column along y of its z and x, and on to the row of its y and z. */
static void test_columns_throughout(void)
{
    enum { NX = 7, NY = 10, NZ = 5, MOST = 23 };
    static const int64_t GRID[3] = {NX, NY, NZ};
    for (int ranks = 1; ranks <= MOST; ranks++) {
        bx_geometry *g = bx_geometry_create(GRID, 4, 2, ranks, NULL, 3), *inner = g->inner;
        int64_t blocks[2][MOST][MOST] = {0}, x_used = 0;
        int number[NX], used[NX] = {0};
        for (int s = 0; s < g->columns; s++) used[g->column_xy[s] % NX] = 1;
        for (int x = 0; x < NX; x++) number[x] = (int)x_used, x_used += used[x];
        for (int s = 0; s < g->columns; s++)
            for (int z = 0; z < NZ; z++) {
                int along_y = z * (int)x_used + number[g->column_xy[s] % NX];
                blocks[0][holder(g->column_first, s)][holder(g->plane_first, along_y)]++;
            }
        for (int s = 0; s < NZ * x_used; s++)
            for (int y = 0; y < NY; y++) {
                int row = y * NZ + s / (int)x_used;
                blocks[1][holder(g->plane_first, s)][holder(inner->plane_first, row)]++;
            }
        CHECK(x_used < NX && inner->plane_first[ranks] == NY * NZ);
        CHECK(inner->columns == NZ * x_used && inner->inner == NULL);
        check_visits(g);
        check_visits(inner);
        for (int a = 0; a < ranks; a++)
            for (int b = 0; b < ranks; b++) {
                CHECK(bx_geometry_block(g, BX_FORWARD, a, b) == blocks[0][a][b]);
                CHECK(bx_geometry_block(inner, BX_FORWARD, a, b) == blocks[1][a][b]);
                CHECK(blocks[0][a][b] <= g->largest_block);
                CHECK(blocks[1][a][b] <= inner->largest_block);
            }
        bx_geometry_free(g);
    }
}

/* Ranks dealt to nodes in turn, as some launchers do, and node numbers with gaps. */
static void test_scattered_nodes(void)
{
    static const int NODE_OF[7] = {5, 2, 5, 2, 5, 9, 9};
    bx_geometry *g = bx_geometry_create(CNT40, 205, 1, 7, NODE_OF, 0);
    CHECK(g->nodes == 3);
    CHECK(bx_geometry_largest_node(g) == 3 && bx_geometry_smallest_node(g) == 2);
    CHECK(g->node_of[0] == 0 && g->node_of[1] == 1 && g->node_of[6] == 2);
    CHECK(g->node_ranks[0] == 0 && g->node_ranks[1] == 2 && g->node_ranks[2] == 4);
    bx_geometry_free(g);
}

/* Columns in any order on any ranks, some without: by rank, ascending within each; largest blocks
 * are not the first rank's. */
static void test_scattered_columns(void)
{
    static const int64_t GRID[3] = {4, 3, 5};
    static const int XY[6] = {11, 2, 7, 0, 5, 3}, OWNER[6] = {3, 1, 3, 3, 1, 3};
    bx_geometry *g = bx_geometry_create_columns(GRID, 6, XY, OWNER, 5, NULL, 2);
    static const int FIRST[6] = {0, 0, 2, 2, 6, 6}, SORTED[6] = {2, 5, 0, 3, 7, 11};
    CHECK(g->columns == 6);
    for (int r = 0; r <= 5; r++) CHECK(g->column_first[r] == FIRST[r]);
    for (int s = 0; s < 6; s++) CHECK(g->column_xy[s] == SORTED[s]);
    CHECK(g->plane_first[5] == 5 && bx_geometry_planes(g, 0) == 1);
    CHECK(g->largest_block == 4);
    check_visits(g);
    CHECK(bx_geometry_block(g, BX_FORWARD, 3, 0) == 4 &&
          bx_geometry_block(g, BX_FORWARD, 0, 3) == 0);
    CHECK(bx_count_every_pair(g, BX_FORWARD, 0).messages == 20);
    CHECK(bx_count_nonempty_pairs(g, BX_FORWARD, 0).messages == 8); /* two ranks to four each */
    CHECK(bx_count_nonempty_pairs(g, BX_INVERSE, 0).bytes == 16 * 6 * 4);
    CHECK(bx_count_padded(g, BX_FORWARD, 0).bytes == 16 * 20 * 4);
    CHECK(bx_count_nodes(g, BX_FORWARD, 0).bytes == 16 * (2 * 3 + 4 * 3));
    bx_geometry_free(g);
}

/* The same columns by radius and by name are the same geometry. */
static void test_same_either_way(void)
{
    bx_geometry *a = bx_geometry_create(CNT40, 205, 1, 7, NULL, 3);
    int *owner = malloc((size_t)a->columns * sizeof *owner);
    for (int r = 0; r < 7; r++)
        for (int s = a->column_first[r]; s < a->column_first[r + 1]; s++) owner[s] = r;
    bx_geometry *b = bx_geometry_create_columns(CNT40, a->columns, a->column_xy, owner, 7, NULL, 3);
    for (int r = 0; r <= 7; r++) CHECK(a->column_first[r] == b->column_first[r]);
    for (int s = 0; s < a->columns; s++) CHECK(a->column_xy[s] == b->column_xy[s]);
    CHECK(a->nodes == b->nodes && a->largest_block == b->largest_block);
    free(owner);
    bx_geometry_free(a);
    bx_geometry_free(b);
}

static void test_no_columns(void)
{
    bx_geometry *g = bx_geometry_create_columns(CNT40, 0, NULL, NULL, 3, NULL, 2);
    CHECK(g->columns == 0 && g->column_first[3] == 0 && g->plane_first[3] == 30);
    CHECK(g->largest_block == 0);
    check_visits(g);
    CHECK(bx_count_nonempty_pairs(g, BX_FORWARD, 0).messages == 0);
    bx_geometry_free(g);
}

static void test_columns_are_counted(void)
{
    CHECK(bx_geometry_count_columns(CNT40, 0.5) == 1); /* the zero frequency */
    CHECK(bx_geometry_count_columns(CNT40, 1) == 5);
    CHECK(bx_geometry_count_columns(CNT40, 1e6) == 900);
    static const int64_t FLAT[3] = {12, 6,
                                    4}; /* an ellipse: one frequency along y is two along x */
    CHECK(bx_geometry_count_columns(FLAT, 4) == 7);
}

/* The last rank's columns take more bytes than an int counts, the first one's 256 KiB. */
static void test_alltoallw_counts_every_rank(void)
{
    const int64_t grid[3] = {128, 128, 16384};
    enum { COLUMNS = 9000 };
    int *xy = malloc(COLUMNS * sizeof *xy), *owner = malloc(COLUMNS * sizeof *owner);
    char why[160] = "";
    for (int s = 0; s < COLUMNS; s++) xy[s] = s, owner[s] = s > 0;
    bx_geometry *g = bx_geometry_create_columns(grid, COLUMNS, xy, owner, 2, NULL, 1);
    CHECK(!bx_transpose_method_alltoallw.applicable(g, why, sizeof why));
    CHECK(why[0] != '\0');
    bx_geometry_free(g);
    free(xy);
    free(owner);
}

int main(void)
{
    test_published_distribution();
    test_published_messages();
    test_any_layout();
    test_columns_throughout();
    test_scattered_nodes();
    test_scattered_columns();
    test_same_either_way();
    test_no_columns();
    test_columns_are_counted();
    test_alltoallw_counts_every_rank();
    return unit_failures != 0;
}
