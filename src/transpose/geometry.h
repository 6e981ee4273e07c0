/* The distribution of a 3D FFT grid over ranks: no communication, no buffers (all local).
 *
 * Ranks hold xy planes of real space and z columns of Fourier space.  Only columns inside the
 * cut-off sphere exist (Bethune 2010, sections 3 and 4; P. Giannozzi, F. De Angelis, R. Car,
 * J. Chem. Phys. 120, 5903 (2004)).  Columns are numbered along the rows of a plane and assigned in
 * runs, so that a rank's columns adjoin in memory wherever they meet a plane.
 *
 * With columns throughout, as CASTEP has them (Ashworth et al. 2004, section 3.2), a transform has
 * two exchanges: from columns along z to columns along y, and from those to rows along x.  The
 * second has a geometry of its own, `inner`, whose columns are the planes of the first.  There a
 * plane is one line, [1][ny] or [1][nx], and a column crosses the planes of its batch alone: those
 * with its x in the first exchange, those with its z in the second. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BX_HAS_COLUMNS = 1, BX_HAS_PLANES = 2 };

typedef struct bx_geometry {
    int nx, ny, nz;         /* the grid */
    int length;             /* points of a column */
    int plane_nx, plane_ny; /* a plane is [plane_ny][plane_nx] */
    int batches;            /* of columns; plane p has point p / batches of batch p % batches */
    int columns;            /* inside the cut-off */
    int *column_xy;         /* [columns] y * nx + x; -1 in an inner geometry */
    int *column_batch;      /* [columns] ascending within a rank */
    int *column_place;      /* [columns] in its planes, ascending within a rank and batch */
    int ranks;
    int *column_first; /* [ranks + 1] rank r holds columns column_first[r] .. column_first[r+1]-1 */
    int *plane_first;  /* [ranks + 1] rank r holds planes plane_first[r] .. plane_first[r+1]-1 */
    int *batch_first;  /* [batches + 1] columns of all ranks in batches before this one */
    int64_t largest_block; /* elements of the largest block of any two ranks */
    int nodes;
    int column_ranks;          /* ranks up to the last that has columns */
    int *node_of;              /* [ranks] */
    int *node_first;           /* [nodes + 1] into node_ranks */
    int *node_ranks;           /* [ranks] ranks node by node, ascending within a node */
    unsigned char *node_has;   /* [nodes] BX_HAS_COLUMNS and BX_HAS_PLANES, of any of its ranks */
    struct bx_geometry *inner; /* of the second exchange; NULL: there is none */
} bx_geometry;

/* From columns to planes, from planes to columns. */
typedef enum { BX_FORWARD, BX_INVERSE } bx_direction;

/* Returns a grid of nx * ny * nz with the columns (x, y) of x^2 + (y nx/ny)^2 <= radius_squared,
 * frequencies x, y in (-n/2, n/2].  `exchanges` per transform: 1, to planes; 2, columns throughout.
 * node_of [ranks] may be NULL: then nodes have `ranks_per_node` ranks, in order. */
bx_geometry *bx_geometry_create(const int64_t grid[3], double radius_squared, int exchanges,
                                int ranks, const int *node_of, int ranks_per_node);
/* Returns a grid with any columns: y * nx + x in xy[columns], of rank owner[columns].  The geometry
 * has them rank after rank, ascending within each.  A rank may own none. */
bx_geometry *bx_geometry_create_columns(const int64_t grid[3], int columns, const int *xy,
                                        const int *owner, int ranks, const int *node_of,
                                        int ranks_per_node);
void bx_geometry_free(bx_geometry *g);

/* Returns the number of columns inside the cut-off, without storing them. */
int64_t bx_geometry_count_columns(const int64_t grid[3], double radius_squared);

/* Number of columns of a rank. */
static inline int bx_geometry_columns(const bx_geometry *g, int rank)
{
    return g->column_first[rank + 1] - g->column_first[rank];
}
/* Number of planes of a rank. */
static inline int bx_geometry_planes(const bx_geometry *g, int rank)
{
    return g->plane_first[rank + 1] - g->plane_first[rank];
}
/* Number of ranks of a node. */
static inline int bx_geometry_node_size(const bx_geometry *g, int node)
{
    return g->node_first[node + 1] - g->node_first[node];
}
/* The ranks of a node [bx_geometry_node_size], ascending. */
static inline const int *bx_geometry_ranks(const bx_geometry *g, int node)
{
    return g->node_ranks + g->node_first[node];
}
/* Number of columns of a rank in batches before `batch`, which may be their number. */
static inline int bx_geometry_before(const bx_geometry *g, int rank, int batch)
{
    int first = g->column_first[rank], low = first, high = g->column_first[rank + 1];
    if (batch == 0 || batch == g->batches) return batch == 0 ? 0 : high - first;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (g->column_batch[middle] < batch)
            low = middle + 1;
        else
            high = middle;
    }
    return low - first;
}
/* Number of elements of a rank's columns that go to planes before `plane`, which may be the number
 * of all. */
static inline int64_t bx_geometry_elements(const bx_geometry *g, int rank, int plane)
{
    return (int64_t)(plane / g->batches) * bx_geometry_columns(g, rank) +
           bx_geometry_before(g, rank, plane % g->batches);
}
/* Number of elements that rank `from` sends to rank `to`. */
static inline int64_t bx_geometry_block(const bx_geometry *g, bx_direction way, int from, int to)
{
    int column_side = way == BX_FORWARD ? from : to, plane_side = way == BX_FORWARD ? to : from;
    return bx_geometry_elements(g, column_side, g->plane_first[plane_side + 1]) -
           bx_geometry_elements(g, column_side, g->plane_first[plane_side]);
}
/* Number of elements that all ranks, itself included, send to a rank's planes. */
static inline int64_t bx_geometry_arriving(const bx_geometry *g, int rank)
{
    int first = g->plane_first[rank], last = g->plane_first[rank + 1];
    return (int64_t)(last / g->batches - first / g->batches) * g->columns +
           g->batch_first[last % g->batches] - g->batch_first[first % g->batches];
}
/* Calls visit for each forward block that is not empty, by rank and in the order of the planes.  It
 * takes a time like the number of points of all columns, however many ranks there are. */
typedef void bx_block_visit(void *context, int from, int to, int64_t elements);
void bx_geometry_blocks(const bx_geometry *g, bx_block_visit *visit, void *context);
/* The rank that holds a plane. */
static inline int bx_geometry_holder(const bx_geometry *g, int plane)
{
    int planes = g->plane_first[g->ranks], each = planes / g->ranks, larger = planes % g->ranks,
        in_larger = larger * (each + 1);
    return plane < in_larger ? plane / (each + 1) : larger + (plane - in_larger) / each;
}
/* Number of ranks that hold planes: the first. */
static inline int bx_geometry_plane_ranks(const bx_geometry *g)
{
    int planes = g->plane_first[g->ranks];
    return planes < g->ranks ? planes : g->ranks;
}

/* Whether ranks of one node have columns, and ranks of another planes.  If not, no block is between
 * them: so it is with most nodes of many. */
static inline bool bx_geometry_nodes_meet(const bx_geometry *g, int column_node, int plane_node)
{
    return g->node_has[column_node] & BX_HAS_COLUMNS && g->node_has[plane_node] & BX_HAS_PLANES;
}

/* The columns, or the planes, of several ranks together. */
typedef struct {
    const bx_geometry *g;
    bool planes;
    int64_t columns;
    int *batch; /* [batches + 1] columns in batches before this one; planes of this one */
} bx_rank_group_share;
/* Returns those of the first `count` ranks of a node; to be freed. */
bx_rank_group_share bx_rank_group_share_create(const bx_geometry *g, int node, int count,
                                               bool planes);
void bx_rank_group_share_free(bx_rank_group_share *several);
/* Returns the number of elements that they exchange with the planes, or the columns, of `peer`. */
int64_t bx_rank_group_share_elements(const bx_rank_group_share *several, int peer);

/* Number of runs of columns of one rank and batch that adjoin in their plane, in all planes of a
 * rank. */
int64_t bx_geometry_runs(const bx_geometry *g, int rank);

/* Number of points of the grid. */
static inline size_t bx_geometry_points(const bx_geometry *g)
{
    return (size_t)g->nx * (size_t)g->ny * (size_t)g->nz;
}
/* What MPI counts in a call, elements or bytes: the largest int.  MPI-4's calls with MPI_Count are
 * not used. */
extern const double bx_most_count;
/* Number of elements of a node's columns, or those that arrive in its planes, if they are more. */
double bx_geometry_node_elements(const bx_geometry *g, int node);
/* Number of elements that a node's ranks send to each other and themselves. */
double bx_geometry_node_inside(const bx_geometry *g, int node);
/* True if MPI's ints can count the elements of a node, of a node with padded blocks, of all padded
 * blocks of a rank; if not, the reason is in `why` (at most why_size bytes). */
bool bx_geometry_nodes_fit(const bx_geometry *g, char *why, size_t why_size);
bool bx_geometry_padded_nodes_fit(const bx_geometry *g, char *why, size_t why_size);
bool bx_geometry_padded_fit(const bx_geometry *g, char *why, size_t why_size);
/* Number of ranks of the largest and of the smallest node. */
int bx_geometry_largest_node(const bx_geometry *g);
int bx_geometry_smallest_node(const bx_geometry *g);

/* Traffic of one exchange (one direction, one band), summed over the ranks. */
typedef struct {
    double messages, off_node_messages;
    double bytes, off_node_bytes; /* handed to MPI, padding included */
    double padding_bytes;
} bx_counts;

/* Returns what a method sends. `leaders` is the number asked for; only bx_count_leaders uses it. */
typedef bx_counts bx_counting(const bx_geometry *g, bx_direction way, int leaders);
bx_counting bx_count_every_pair, bx_count_nonempty_pairs, bx_count_padded, bx_count_nodes,
    bx_count_nodes_padded, bx_count_leaders, bx_count_gather_scatter;

/* Returns the number of leaders per node, where `asked` is the number asked for; 0 asks for about
 * the square root of the node's ranks.  At most the ranks of the smallest node. */
int bx_geometry_leaders(const bx_geometry *g, int asked);
