/* No packing: MPI_Alltoallw moves between the fields themselves, described by datatypes. */
#include "method.h"

#include <stdlib.h>

typedef struct {
    bx_plan *plan;
    int *columns_count, *planes_count, *zeros; /* [ranks] 1 where there is a block */
    MPI_Datatype *columns, *planes; /* [ranks] the block shared with each rank, in either field */
} state;

/* My columns where they meet the planes of `peer`, run by run. */
static MPI_Datatype in_columns(const bx_plan *plan, int peer)
{
    const bx_geometry *g = plan->geometry;
    MPI_Datatype runs, placed;
    MPI_Aint at = (MPI_Aint)g->plane_first[peer] * (MPI_Aint)sizeof(bx_complex);
    MPI_Type_vector(plan->my_columns, bx_planes_of(g, peer), g->nz, MPI_C_DOUBLE_COMPLEX, &runs);
    MPI_Type_create_hindexed_block(1, 1, &at, runs, &placed);
    MPI_Type_commit(&placed);
    MPI_Type_free(&runs);
    return placed;
}

/* The columns of `peer` where they meet my planes, in the same order: column by column. */
static MPI_Datatype in_planes(const bx_plan *plan, int peer)
{
    const bx_geometry *g = plan->geometry;
    MPI_Datatype run, column, placed;
    MPI_Type_vector(plan->my_planes, 1, (int)plan->plane_size, MPI_C_DOUBLE_COMPLEX, &run);
    MPI_Type_create_resized(run, 0, sizeof(bx_complex), &column);
    MPI_Type_create_indexed_block(bx_columns_of(g, peer), 1, g->column_xy + g->column_first[peer],
                                  column, &placed);
    MPI_Type_commit(&placed);
    MPI_Type_free(&run);
    MPI_Type_free(&column);
    return placed;
}

static void *create(bx_plan *plan, const bx_method_options *options)
{
    (void)options;
    const bx_geometry *g = plan->geometry;
    state *self = malloc(sizeof *self);
    size_t ranks = (size_t)g->ranks;
    self->plan = plan;
    self->columns_count = calloc(ranks, sizeof(int));
    self->planes_count = calloc(ranks, sizeof(int));
    self->zeros = calloc(ranks, sizeof(int));
    self->columns = malloc(ranks * sizeof *self->columns);
    self->planes = malloc(ranks * sizeof *self->planes);
    for (int p = 0; p < g->ranks; p++) {
        self->columns[p] = self->planes[p] = MPI_C_DOUBLE_COMPLEX;
        if (p == plan->rank) continue;
        if (bx_block(g, BX_FORWARD, plan->rank, p) > 0) {
            self->columns_count[p] = 1;
            self->columns[p] = in_columns(plan, p);
        }
        if (bx_block(g, BX_FORWARD, p, plan->rank) > 0) {
            self->planes_count[p] = 1;
            self->planes[p] = in_planes(plan, p);
        }
    }
    return self;
}

static void start(void *me, bx_way way, int band, int slot)
{
    state *self = me;
    const bx_plan *plan = self->plan;
    bx_complex *columns = bx_columns(plan, plan->rank, band), *planes = bx_planes(plan, slot);
    if (way == BX_FORWARD)
        MPI_Alltoallw(columns, self->columns_count, self->zeros, self->columns, planes,
                      self->planes_count, self->zeros, self->planes, plan->team);
    else
        MPI_Alltoallw(planes, self->planes_count, self->zeros, self->planes, columns,
                      self->columns_count, self->zeros, self->columns, plan->team);
}

/* My own block, which Alltoallw leaves out. */
static void pack(void *me, bx_way way, int slot, const bx_part *part)
{
    const state *self = me;
    (void)slot;
    if (way == BX_INVERSE) bx_move(self->plan, way, part, self->plan->rank);
}

static void unpack(void *me, bx_way way, int slot, const bx_part *part)
{
    const state *self = me;
    (void)slot;
    if (way == BX_FORWARD) bx_move(self->plan, way, part, self->plan->rank);
}

static void destroy(void *me)
{
    state *self = me;
    for (int p = 0; p < self->plan->geometry->ranks; p++) {
        if (self->columns_count[p]) MPI_Type_free(&self->columns[p]);
        if (self->planes_count[p]) MPI_Type_free(&self->planes[p]);
    }
    free(self->columns_count);
    free(self->planes_count);
    free(self->zeros);
    free(self->columns);
    free(self->planes);
    free(self);
}

static bx_counts count(const bx_geometry *g, bx_way way, const bx_method_options *options)
{
    (void)options;
    return bx_count_every_pair(g, way);
}

const bx_method bx_method_alltoallw = {
    .about = {.name = "alltoallw",
              .summary = "MPI_Alltoallw on datatypes of the fields, no packing",
              .wins = "the least code and memory; as fast as the library's datatype engine"},
    .whole = true,
    .create = create,
    .pack = pack,
    .start = start,
    .unpack = unpack,
    .destroy = destroy,
    .count = count,
};
