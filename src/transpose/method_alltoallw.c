/* No packing: MPI_Alltoallw moves between the half-transformed field and the planes themselves. */
#include "method.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    bx_plan *plan;
    bx_lengths lengths;
    int *half_bytes_at, *one, *zero;   /* [ranks] */
    MPI_Datatype *element, *in_planes; /* [ranks] a block's type in either field */
} state;

static bool applicable(const bx_geometry *g, char *why, size_t why_size)
{
    int64_t largest = (int64_t)bx_columns_of(g, 0) * g->nz * (int64_t)sizeof(bx_complex);
    if (largest > INT_MAX)
        snprintf(why, why_size, "a rank's columns take over 2^31 - 1 bytes, MPI's limit here");
    return largest <= INT_MAX;
}

/* The columns of `peer` in my planes, in the order of a block: plane by plane. */
static MPI_Datatype planes_type(const bx_plan *plan, int peer)
{
    int first = plan->runs_first[peer], count = plan->runs_first[peer + 1] - first;
    int *lengths = malloc(2 * ((size_t)count + 1) * sizeof *lengths), *at = lengths + count;
    for (int i = 0; i < count; i++) {
        lengths[i] = plan->runs[first + i].length;
        at[i] = plan->runs[first + i].xy;
    }
    MPI_Datatype row, rows;
    MPI_Type_indexed(count, lengths, at, MPI_C_DOUBLE_COMPLEX, &row);
    MPI_Type_create_hvector(plan->my_planes, 1, (MPI_Aint)(plan->plane_size * sizeof(bx_complex)),
                            row, &rows);
    MPI_Type_commit(&rows);
    MPI_Type_free(&row);
    free(lengths);
    return rows;
}

static void *create(bx_plan *plan, int leaders)
{
    (void)leaders;
    state *self = malloc(sizeof *self);
    size_t ranks = (size_t)plan->geometry->ranks;
    self->plan = plan;
    self->lengths = bx_lengths_create(plan);
    self->half_bytes_at = calloc(ranks, sizeof(int));
    self->one = calloc(ranks, sizeof(int));
    self->zero = calloc(ranks, sizeof(int));
    self->element = malloc(ranks * sizeof *self->element);
    self->in_planes = malloc(ranks * sizeof *self->in_planes);
    for (int p = 0; p < plan->geometry->ranks; p++) {
        self->half_bytes_at[p] = self->lengths.half_at[p] * (int)sizeof(bx_complex);
        self->element[p] = self->in_planes[p] = MPI_C_DOUBLE_COMPLEX;
        self->one[p] = self->lengths.plane_length[p] > 0;
        if (self->one[p]) self->in_planes[p] = planes_type(plan, p);
    }
    return self;
}

static void start(void *me, bx_way way, int slot)
{
    state *self = me;
    const bx_plan *plan = self->plan;
    bx_complex *half = bx_half(plan, way, slot, plan->rank), *planes = bx_planes(plan, slot);
    if (way == BX_FORWARD)
        MPI_Alltoallw(half, self->lengths.half_length, self->half_bytes_at, self->element, planes,
                      self->one, self->zero, self->in_planes, plan->team);
    else
        MPI_Alltoallw(planes, self->one, self->zero, self->in_planes, half,
                      self->lengths.half_length, self->half_bytes_at, self->element, plan->team);
}

/* My own block, which the exchange leaves out. */
static void unpack(void *me, const bx_part *part)
{
    const bx_plan *plan = ((state *)me)->plan;
    bx_unpack(plan, part, plan->rank,
              bx_half_block(plan, BX_FORWARD, part->slot, plan->rank, plan->rank));
}

static void pack(void *me, const bx_part *part)
{
    const bx_plan *plan = ((state *)me)->plan;
    bx_pack(plan, part, plan->rank,
            bx_half_block(plan, BX_INVERSE, part->slot, plan->rank, plan->rank));
}

static void destroy(void *me)
{
    state *self = me;
    for (int p = 0; p < self->plan->geometry->ranks; p++)
        if (self->one[p]) MPI_Type_free(&self->in_planes[p]);
    bx_lengths_free(&self->lengths);
    free(self->half_bytes_at);
    free(self->one);
    free(self->zero);
    free(self->element);
    free(self->in_planes);
    free(self);
}

const bx_method bx_method_alltoallw = {
    .about = {.name = "alltoallw",
              .summary = "MPI_Alltoallw on datatypes of the planes, no packing",
              .wins = "the least code and memory; as fast as the library's datatype engine"},
    .whole = true,
    .applicable = applicable,
    .create = create,
    .start = start,
    .unpack = unpack,
    .pack = pack,
    .destroy = destroy,
    .count = bx_count_every_pair,
};
