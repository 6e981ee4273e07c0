#include "geometry.h"

#include "bx.h"

#include <limits.h>
#include <stdlib.h>

#ifndef BX_MOST_COUNT /* smaller in tests */
#define BX_MOST_COUNT INT_MAX
#endif

const double bx_most_count = BX_MOST_COUNT;

enum { ELEMENT = 16 }; /* bytes of a double-precision complex number */

static bool inside(const int64_t grid[3], double radius_squared, int64_t x, int64_t y)
{
    double fx = (double)(x <= grid[0] / 2 ? x : x - grid[0]);
    double fy = (double)(y <= grid[1] / 2 ? y : y - grid[1]) * (double)grid[0] / (double)grid[1];
    return fx * fx + fy * fy <= radius_squared;
}

int64_t bx_geometry_count_columns(const int64_t grid[3], double radius_squared)
{
    int64_t count = 0;
    for (int64_t y = 0; y < grid[1]; y++)
        for (int64_t x = 0; x < grid[0]; x++) count += inside(grid, radius_squared, x, y);
    return count;
}

/* first[ranks + 1]: `things` dealt as evenly as can be, the larger shares first. */
static int *deal(int things, int ranks)
{
    int *first = bx_memory_alloc((size_t)ranks + 1, sizeof *first);
    first[0] = 0;
    for (int r = 0; r < ranks; r++) first[r + 1] = first[r] + things / ranks + (r < things % ranks);
    return first;
}

static void group_nodes(bx_geometry *g, const int *node_of, int ranks_per_node)
{
    size_t ranks = (size_t)g->ranks;
    BX_ALLOC(ranks, g->node_of, g->node_ranks);
    /* a team may hold ranks of some nodes only: number those it holds, in order */
    int largest = 0;
    for (int r = 0; r < g->ranks; r++) {
        g->node_of[r] = node_of ? node_of[r] : r / ranks_per_node;
        if (g->node_of[r] > largest) largest = g->node_of[r];
    }
    int *number = bx_memory_alloc((size_t)largest + 1, sizeof *number);
    for (int n = 0; n <= largest; n++) number[n] = -1;
    g->nodes = 0;
    for (int r = 0; r < g->ranks; r++) {
        if (number[g->node_of[r]] < 0) number[g->node_of[r]] = g->nodes++;
        g->node_of[r] = number[g->node_of[r]];
    }
    free(number);
    /* counts, then the end of each node before, which moves to its own end */
    BX_ALLOC((size_t)g->nodes + 2, g->node_first);
    BX_ALLOC((size_t)g->nodes, g->node_has);
    for (int r = 0; r < g->ranks; r++) {
        g->node_first[g->node_of[r] + 2]++;
        if (bx_geometry_columns(g, r) > 0) g->node_has[g->node_of[r]] |= BX_HAS_COLUMNS;
        if (bx_geometry_planes(g, r) > 0) g->node_has[g->node_of[r]] |= BX_HAS_PLANES;
    }
    for (int n = 2; n <= g->nodes; n++) g->node_first[n] += g->node_first[n - 1];
    for (int r = 0; r < g->ranks; r++) g->node_ranks[g->node_first[g->node_of[r] + 1]++] = r;
}

/* A column before it has its number. */
typedef struct {
    int owner, batch, place, xy;
} column;

static int by_owner(const void *a, const void *b)
{
    const column *x = a, *y = b;
    if (x->owner != y->owner) return x->owner - y->owner;
    return x->batch != y->batch ? x->batch - y->batch : x->place - y->place;
}

void bx_geometry_blocks(const bx_geometry *g, bx_block_visit *visit, void *context)
{
    for (int from = 0; from < g->column_ranks; from++) {
        int first = g->column_first[from], last = g->column_first[from + 1], to = 0;
        int64_t elements = 0;
        for (int point = 0; point < g->length && first < last; point++)
            for (int s = first, next; s < last; s = next) { /* the columns of one batch */
                int holder = bx_geometry_holder(g, point * g->batches + g->column_batch[s]);
                if (holder != to && elements > 0) visit(context, from, to, elements), elements = 0;
                to = holder;
                next = g->batches == 1 ? last : s + 1;
                while (next < last && g->column_batch[next] == g->column_batch[s]) next++;
                elements += next - s;
            }
        if (elements > 0) visit(context, from, to, elements);
    }
}

static void take_largest(void *context, int from, int to, int64_t elements)
{
    int64_t *largest = context;
    if (elements > *largest) *largest = elements;
}

/* Numbers the columns and deals the planes; g has its grid, length, planes and batches. */
static void distribute(bx_geometry *g, int columns, column *list, int ranks, const int *node_of,
                       int ranks_per_node)
{
    qsort(list, (size_t)columns, sizeof *list, by_owner);
    g->ranks = ranks;
    g->column_ranks = columns > 0 ? list[columns - 1].owner + 1 : 0;
    g->columns = columns;
    BX_ALLOC((size_t)columns + 1, g->column_xy, g->column_batch, g->column_place);
    BX_ALLOC((size_t)ranks + 1, g->column_first);
    BX_ALLOC((size_t)g->batches + 1, g->batch_first);
    for (int s = 0; s < columns; s++) {
        g->column_xy[s] = list[s].xy;
        g->column_batch[s] = list[s].batch;
        g->column_place[s] = list[s].place;
        g->column_first[list[s].owner + 1]++;
        g->batch_first[list[s].batch + 1]++;
    }
    for (int r = 0; r < ranks; r++) g->column_first[r + 1] += g->column_first[r];
    for (int b = 0; b < g->batches; b++) g->batch_first[b + 1] += g->batch_first[b];
    g->plane_first = deal(g->length * g->batches, ranks);
    bx_geometry_blocks(g, take_largest, &g->largest_block);
    group_nodes(g, node_of, ranks_per_node);
}

static bx_geometry *create(const int64_t grid[3])
{
    bx_geometry *g = bx_memory_alloc(1, sizeof *g);
    g->nx = (int)grid[0], g->ny = (int)grid[1], g->nz = (int)grid[2];
    g->plane_ny = g->batches = 1;
    return g;
}

bx_geometry *bx_geometry_create_columns(const int64_t grid[3], int columns, const int *xy,
                                        const int *owner, int ranks, const int *node_of,
                                        int ranks_per_node)
{
    bx_geometry *g = create(grid);
    g->length = g->nz, g->plane_nx = g->nx, g->plane_ny = g->ny;
    column *list = bx_memory_alloc((size_t)columns + 1, sizeof *list);
    for (int s = 0; s < columns; s++) list[s] = (column){owner[s], 0, xy[s], xy[s]};
    distribute(g, columns, list, ranks, node_of, ranks_per_node);
    free(list);
    return g;
}

/* From columns along y, the planes of `outer`, to rows along x; x_of [batches of outer]. */
static bx_geometry *create_inner(const int64_t grid[3], const bx_geometry *outer, const int *x_of,
                                 const int *node_of, int ranks_per_node)
{
    bx_geometry *g = create(grid);
    g->length = g->ny, g->plane_nx = g->nx, g->batches = g->nz;
    int columns = outer->plane_first[outer->ranks];
    column *list = bx_memory_alloc((size_t)columns + 1, sizeof *list);
    for (int r = 0; r < outer->ranks; r++)
        for (int s = outer->plane_first[r]; s < outer->plane_first[r + 1]; s++) {
            int x = x_of[s % outer->batches];
            list[s] = (column){r, s / outer->batches, x, -1};
        }
    distribute(g, columns, list, outer->ranks, node_of, ranks_per_node);
    free(list);
    return g;
}

/* From columns along z to columns along y, of each x that has any, and on to rows. */
static bx_geometry *create_throughout(const int64_t grid[3], int columns, const int *xy,
                                      const int *owner, int ranks, const int *node_of,
                                      int ranks_per_node)
{
    bx_geometry *g = create(grid);
    g->length = g->nz, g->plane_nx = g->ny, g->batches = 0;
    int *number = bx_memory_alloc(2 * (size_t)g->nx, sizeof *number), *x_of = number + g->nx;
    for (int s = 0; s < columns; s++) number[xy[s] % g->nx] = 1;
    for (int x = 0; x < g->nx; x++) {
        if (!number[x]) continue;
        x_of[g->batches] = x;
        number[x] = g->batches++;
    }
    column *list = bx_memory_alloc((size_t)columns + 1, sizeof *list);
    for (int s = 0; s < columns; s++)
        list[s] = (column){owner[s], number[xy[s] % g->nx], xy[s] / g->nx, xy[s]};
    distribute(g, columns, list, ranks, node_of, ranks_per_node);
    g->inner = create_inner(grid, g, x_of, node_of, ranks_per_node);
    BX_FREE(list, number);
    return g;
}

bx_geometry *bx_geometry_create(const int64_t grid[3], double radius_squared, int exchanges,
                                int ranks, const int *node_of, int ranks_per_node)
{
    int columns = (int)bx_geometry_count_columns(grid, radius_squared), s = 0;
    int *xy = bx_memory_alloc(2 * (size_t)columns + 1, sizeof *xy), *owner = xy + columns;
    for (int64_t y = 0; y < grid[1]; y++)
        for (int64_t x = 0; x < grid[0] && s < columns; x++)
            if (inside(grid, radius_squared, x, y)) xy[s++] = (int)(y * grid[0] + x);
    columns = s; /* floating-point tests of another inlining need not agree on the border */
    int *first = deal(columns, ranks);
    for (int r = 0; r < ranks; r++)
        for (s = first[r]; s < first[r + 1]; s++) owner[s] = r;
    bx_geometry *g = (exchanges == 1 ? bx_geometry_create_columns : create_throughout)(
        grid, columns, xy, owner, ranks, node_of, ranks_per_node);
    BX_FREE(first, xy);
    return g;
}

void bx_geometry_free(bx_geometry *g)
{
    if (!g) return;
    bx_geometry_free(g->inner);
    BX_FREE(g->column_xy, g->column_batch, g->column_place, g->batch_first, g->column_first,
            g->plane_first, g->node_of, g->node_first, g->node_ranks, g->node_has, g);
}

int bx_geometry_largest_node(const bx_geometry *g)
{
    int largest = 0;
    for (int n = 0; n < g->nodes; n++)
        if (bx_geometry_node_size(g, n) > largest) largest = bx_geometry_node_size(g, n);
    return largest;
}

int bx_geometry_smallest_node(const bx_geometry *g)
{
    int smallest = g->ranks;
    for (int n = 0; n < g->nodes; n++)
        if (bx_geometry_node_size(g, n) < smallest) smallest = bx_geometry_node_size(g, n);
    return smallest;
}

bx_rank_group_share bx_rank_group_share_create(const bx_geometry *g, int node, int count,
                                               bool planes)
{
    bx_rank_group_share several = {.g = g, .planes = planes};
    BX_ALLOC((size_t)g->batches + 1, several.batch);
    for (int i = 0; i < count; i++) {
        int rank = bx_geometry_ranks(g, node)[i];
        several.columns += bx_geometry_columns(g, rank);
        if (planes)
            for (int p = g->plane_first[rank]; p < g->plane_first[rank + 1]; p++)
                several.batch[p % g->batches]++;
        else
            for (int s = g->column_first[rank]; s < g->column_first[rank + 1]; s++)
                several.batch[g->column_batch[s] + 1]++;
    }
    for (int b = 0; !planes && b < g->batches; b++) several.batch[b + 1] += several.batch[b];
    return several;
}

void bx_rank_group_share_free(bx_rank_group_share *several) { free(several->batch); }

int64_t bx_rank_group_share_elements(const bx_rank_group_share *several, int peer)
{
    const bx_geometry *g = several->g;
    int first = g->plane_first[peer], last = g->plane_first[peer + 1];
    int64_t sum = 0;
    if (!several->planes && first == last) return 0;
    if (!several->planes)
        return (int64_t)(last / g->batches - first / g->batches) * several->columns +
               several->batch[last % g->batches] - several->batch[first % g->batches];
    if (g->batches == 1) return (int64_t)bx_geometry_columns(g, peer) * several->batch[0];
    for (int s = g->column_first[peer]; s < g->column_first[peer + 1]; s++)
        sum += several->batch[g->column_batch[s]];
    return sum;
}

int64_t bx_geometry_runs(const bx_geometry *g, int rank)
{
    int first = g->plane_first[rank], last = g->plane_first[rank + 1];
    int64_t runs = 0;
    for (int r = 0; r < g->column_ranks; r++)
        for (int s = g->column_first[r]; s < g->column_first[r + 1]; s++) {
            int batch = g->column_batch[s], above = g->batches - 1 - batch;
            if (s + 1 == g->column_first[r + 1] || g->column_batch[s + 1] != batch ||
                g->column_place[s + 1] != g->column_place[s] + 1)
                runs += (last + above) / g->batches - (first + above) / g->batches;
        }
    return runs;
}

static bool countable(double elements, char *why, size_t why_size)
{
    if (elements > bx_most_count)
        snprintf(why, why_size, "buffers of %.3g elements are over MPI's limit of 2^31 - 1",
                 elements);
    return elements <= bx_most_count;
}

double bx_geometry_node_elements(const bx_geometry *g, int node)
{
    double columns = 0, planes = 0;
    for (int i = g->node_first[node]; i < g->node_first[node + 1]; i++) {
        columns += (double)bx_geometry_columns(g, g->node_ranks[i]) * g->length;
        planes += (double)bx_geometry_arriving(g, g->node_ranks[i]);
    }
    return fmax(columns, planes);
}

double bx_geometry_node_inside(const bx_geometry *g, int node)
{
    int size = bx_geometry_node_size(g, node);
    bx_rank_group_share all = bx_rank_group_share_create(g, node, size, false);
    double inside = 0;
    for (int i = 0; i < size; i++)
        inside += (double)bx_rank_group_share_elements(&all, bx_geometry_ranks(g, node)[i]);
    bx_rank_group_share_free(&all);
    return inside;
}

bool bx_geometry_nodes_fit(const bx_geometry *g, char *why, size_t why_size)
{
    double largest = 0;
    for (int n = 0; n < g->nodes; n++) largest = fmax(largest, bx_geometry_node_elements(g, n));
    return countable(largest, why, why_size);
}

bool bx_geometry_padded_nodes_fit(const bx_geometry *g, char *why, size_t why_size)
{
    double ranks = bx_geometry_largest_node(g);
    return countable((double)g->largest_block * ranks * ranks * g->nodes, why, why_size);
}

bool bx_geometry_padded_fit(const bx_geometry *g, char *why, size_t why_size)
{
    return countable((double)g->largest_block * g->ranks, why, why_size);
}

/* ---- counts ---- */

/* The messages of blocks between different ranks that are not empty. */
typedef struct {
    const bx_geometry *g;
    bx_counts counts;
} tally;

static void count_block(void *context, int from, int to, int64_t elements)
{
    tally *sum = context;
    double bytes = (double)elements * ELEMENT;
    if (from == to) return;
    bool off_node = sum->g->node_of[from] != sum->g->node_of[to];
    sum->counts.messages++;
    sum->counts.bytes += bytes;
    sum->counts.off_node_messages += off_node;
    if (off_node) sum->counts.off_node_bytes += bytes;
}

/* The same both ways. */
bx_counts bx_count_nonempty_pairs(const bx_geometry *g, bx_direction way, int leaders)
{
    tally sum = {.g = g};
    bx_geometry_blocks(g, count_block, &sum);
    return sum.counts;
}

bx_counts bx_count_every_pair(const bx_geometry *g, bx_direction way, int leaders)
{
    bx_counts counts = bx_count_nonempty_pairs(g, way, leaders);
    counts.messages = (double)g->ranks * (g->ranks - 1);
    counts.off_node_messages = (double)g->ranks * g->ranks;
    for (int n = 0; n < g->nodes; n++)
        counts.off_node_messages -= pow(bx_geometry_node_size(g, n), 2);
    return counts;
}

/* `messages` of equal size carry what `payload` says. */
static void pad(bx_counts *counts, double message_bytes)
{
    double payload = counts->bytes;
    counts->bytes = counts->messages * message_bytes;
    counts->off_node_bytes = counts->off_node_messages * message_bytes;
    counts->padding_bytes = counts->bytes - payload;
}

/* So many leaders of each node exchange with their like on every other. */
static bx_counts between_leaders(const bx_geometry *g, bx_direction way, int leaders)
{
    double payload = bx_count_nonempty_pairs(g, way, leaders).off_node_bytes;
    double messages = (double)leaders * g->nodes * (g->nodes - 1);
    return (bx_counts){messages, messages, payload, payload, 0};
}

bx_counts bx_count_padded(const bx_geometry *g, bx_direction way, int leaders)
{
    bx_counts counts = bx_count_every_pair(g, way, leaders);
    pad(&counts, (double)g->largest_block * ELEMENT);
    return counts;
}

bx_counts bx_count_nodes(const bx_geometry *g, bx_direction way, int leaders)
{
    return between_leaders(g, way, 1);
}

int bx_geometry_leaders(const bx_geometry *g, int asked)
{
    int most = bx_geometry_smallest_node(g);
    int wanted = asked > 0 ? asked : (int)ceil(sqrt(bx_geometry_largest_node(g)));
    return wanted < most ? wanted : most;
}

bx_counts bx_count_leaders(const bx_geometry *g, bx_direction way, int leaders)
{
    return between_leaders(g, way, bx_geometry_leaders(g, leaders));
}

bx_counts bx_count_nodes_padded(const bx_geometry *g, bx_direction way, int leaders)
{
    bx_counts counts = between_leaders(g, way, 1);
    double ranks = bx_geometry_largest_node(g);
    pad(&counts, (double)g->largest_block * ELEMENT * ranks * ranks);
    return counts;
}

bx_counts bx_count_gather_scatter(const bx_geometry *g, bx_direction way, int leaders)
{
    bx_counts counts = between_leaders(g, way, 1);
    for (int r = 0; r < g->ranks; r++) {
        if (bx_geometry_ranks(g, g->node_of[r])[0] == r) continue; /* the root itself */
        counts.messages += 2; /* in the gather, and in the scatter */
        double elements = (double)bx_geometry_columns(g, r) * g->length +
                          (double)bx_geometry_arriving(g, r) -
                          2 * (double)bx_geometry_block(g, way, r, r);
        counts.bytes += ELEMENT * elements;
    }
    return counts;
}
