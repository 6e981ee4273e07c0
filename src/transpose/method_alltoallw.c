/* MPI_Alltoallw moves between the half-transformed field and whole planes, where every column of
 * another rank has its place: MPI's datatypes do the packing, and planes are copied on in cache.
 *
 * Costs messages and bytes as alltoallv; a copy of whole planes, and MPI's own by datatypes. */
#include "method.h"

#include "charge.h"

#include <stdlib.h>

typedef struct {
    bx_plan *plan;
    bx_complex *planes;                /* [my_planes][plane_size] what is sent, or has arrived */
    int *half_bytes_at, *one, *zero;   /* [ranks] */
    MPI_Datatype *element, *in_planes; /* [ranks] a block's type in either field */
} alltoallw_state;

static bool applicable(const bx_geometry *g, char *why, size_t why_size)
{
    int most = 0; /* of any rank: npar's need not be the first */
    for (int r = 0; r < g->ranks; r++)
        if (bx_geometry_columns(g, r) > most) most = bx_geometry_columns(g, r);
    double largest = bx_transpose_method_buffers(1, (double)most * g->length);
    if (largest > bx_most_count)
        snprintf(why, why_size, "a rank's columns take over 2^31 - 1 bytes, MPI's limit here");
    return largest <= bx_most_count;
}

/* The columns of `peer` in my planes, in the order of a block: plane by plane. */
static MPI_Datatype planes_type(const bx_plan *plan, int peer)
{
    size_t count = 0;
    for (int z = 0; z < plan->my_planes; z++) {
        bx_columns crossing = bx_plan_crossing(plan, peer, z);
        for (int s = crossing.first; s < crossing.last; s += plan->run_left[s]) count++;
    }
    int *lengths = bx_memory_alloc(2 * (count + 1), sizeof *lengths), *at = lengths + count;
    count = 0;
    for (int z = 0; z < plan->my_planes; z++) {
        bx_columns crossing = bx_plan_crossing(plan, peer, z);
        for (int s = crossing.first; s < crossing.last; s += plan->run_left[s], count++) {
            lengths[count] = plan->run_left[s];
            at[count] = z * (int)plan->plane_size + plan->geometry->column_place[s];
        }
    }
    MPI_Datatype rows;
    MPI_Type_indexed((int)count, lengths, at, MPI_C_DOUBLE_COMPLEX, &rows);
    MPI_Type_commit(&rows);
    free(lengths);
    return rows;
}

static double bytes(const bx_geometry *g, int rank, bool published)
{
    double planes = (double)bx_geometry_planes(g, rank) * g->plane_nx * g->plane_ny;
    return bx_transpose_method_buffers(1, planes) + bx_transpose_method_in_flight(g) +
           g->ranks * (3.0 * sizeof(int) + 2.0 * sizeof(MPI_Datatype)) +
           bx_transpose_method_exchanged(g, rank).plane_peers * BX_MPI_TYPE +
           (double)bx_geometry_runs(g, rank) * BX_MPI_TYPE_BLOCK;
}

static void *create(bx_plan *plan, int leaders)
{
    alltoallw_state *self = bx_memory_alloc(1, sizeof *self);
    size_t ranks = (size_t)plan->geometry->ranks;
    self->plan = plan;
    size_t elements = (size_t)plan->my_planes * plan->plane_size;
    self->planes = bx_plan_buffer_create(elements);
    bx_plan_zero(plan, self->planes, elements, (size_t)plan->plane_group * plan->plane_size);
    BX_ALLOC(ranks, self->half_bytes_at, self->one, self->zero, self->element, self->in_planes);
    for (int p = 0; p < plan->geometry->ranks; p++) {
        self->half_bytes_at[p] = plan->lengths.half_at[p] * (int)sizeof(bx_complex);
        self->element[p] = self->in_planes[p] = MPI_C_DOUBLE_COMPLEX;
        self->one[p] = plan->lengths.plane_length[p] > 0;
        if (self->one[p]) self->in_planes[p] = planes_type(plan, p);
    }
    return self;
}

static void start(void *me, bx_direction way, int slot)
{
    alltoallw_state *self = me;
    const bx_plan *plan = self->plan;
    bx_complex *half = bx_plan_half(plan, way, slot, plan->rank), *planes = self->planes;
    /* the library packs, or unpacks, the planes */
    bx_charge(BX_COPY, (double)(plan->lengths.plane_total * sizeof *planes), false);
    if (way == BX_FORWARD)
        MPI_Alltoallw(half, plan->lengths.half_length, self->half_bytes_at, self->element, planes,
                      self->one, self->zero, self->in_planes, plan->team);
    else
        MPI_Alltoallw(planes, self->one, self->zero, self->in_planes, half,
                      plan->lengths.half_length, self->half_bytes_at, self->element, plan->team);
}

/* The columns of other ranks; then one's own. */
static void repack(void *me, const bx_plane_part *part)
{
    const alltoallw_state *self = me;
    bx_plan_copy_others(self->plan, part, self->planes);
    bx_plan_repack_own(self->plan, part);
}

static void destroy(void *me)
{
    alltoallw_state *self = me;
    for (int p = 0; p < self->plan->geometry->ranks; p++)
        if (self->one[p]) MPI_Type_free(&self->in_planes[p]);
    bx_plan_buffer_free(self->planes);
    BX_FREE(self->half_bytes_at, self->one, self->zero, self->element, self->in_planes, self);
}

const bx_transpose_method bx_transpose_method_alltoallw = {
    .about = {.name = "alltoallw",
              .summary = "MPI_Alltoallw on datatypes of the planes, packed by MPI",
              .wins = "as fast as the library's datatype engine",
              .calls = "Alltoallw"},
    .applicable = applicable,
    .bytes = bytes,
    .create = create,
    .start = start,
    .repack = repack,
    .destroy = destroy,
    .count = bx_count_every_pair,
};
