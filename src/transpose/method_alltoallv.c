/* The baseline: one MPI_Alltoallv between all ranks (Bethune 2010, section 4).
 *
 * Costs a message to each other rank, an empty one too; each byte once; one copy, beside the
 * planes; as published two. */
#include "method.h"

#include <stdlib.h>

typedef struct {
    bx_plan *plan;
    bx_complex *blocks; /* on the side of the planes */
    bx_complex *packed; /* as published, on that of the columns */
} alltoallv_state;

static double bytes(const bx_geometry *g, int rank, bool published)
{
    bx_exchanged x = bx_transpose_method_exchanged(g, rank);
    return bx_transpose_method_buffers(1, x.planes + published * x.all_columns) +
           bx_transpose_method_in_flight(g);
}

static void *create(bx_plan *plan, int leaders)
{
    alltoallv_state *self = bx_memory_alloc(1, sizeof *self);
    self->plan = plan;
    self->blocks = bx_buffer_create(plan->lengths.plane_total);
    self->packed = bx_plan_create_packed(plan);
    return self;
}

static void start(void *me, bx_direction way, int slot)
{
    alltoallv_state *self = me;
    const bx_plan *plan = self->plan;
    bx_complex *half = self->packed ? self->packed : bx_plan_half(plan, way, slot, plan->rank);
    int copied = self->packed ? plan->geometry->ranks : 0;
    for (int p = 0; way == BX_FORWARD && p < copied; p++)
        bx_plan_copy_packed(plan, way, slot, p, self->packed);
    bx_plan_alltoallv(plan, way, half, self->blocks, NULL);
    for (int p = 0; way == BX_INVERSE && p < copied; p++)
        bx_plan_copy_packed(plan, way, slot, p, self->packed);
}

static void repack(void *me, const bx_plane_part *part)
{
    const alltoallv_state *self = me;
    bx_plan_repack_all(self->plan, part, self->blocks);
}

static void destroy(void *me)
{
    alltoallv_state *self = me;
    fftw_free(self->blocks);
    fftw_free(self->packed);
    free(self);
}

const bx_transpose_method bx_transpose_method_alltoallv = {
    .about = {.name = "alltoallv",
              .summary = "MPI_Alltoallv between all ranks",
              .wins = "one message a pair of ranks: good on few ranks, message-bound on many",
              .calls = "Alltoallv"},
    .bytes = bytes,
    .create = create,
    .start = start,
    .repack = repack,
    .destroy = destroy,
    .count = bx_count_every_pair,
};
