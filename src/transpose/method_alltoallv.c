/* The baseline: one MPI_Alltoallv between all ranks (Bethune 2010, section 4); or, of MPI 4, a
 * persistent one, which the library prepares once.
 *
 * Costs a message to each other rank, an empty one too; each byte once; one copy, beside the
 * planes; as published two. */
#include "method.h"

#include <stdlib.h>

typedef struct {
    bx_plan *plan;
    bx_complex *blocks; /* on the side of the planes */
    bx_complex *packed; /* as published, on that of the columns */
    /* Persistent requests, and the field of the columns that each is for, of two that change places
     * (bx_plan_swap).  NULL: none yet, as fields may still move to a window. */
    struct {
        bx_complex *half;
        MPI_Request request;
    } made[2][2]; /* [bx_direction] */
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
    self->blocks = bx_plan_buffer_create(plan->lengths.plane_total);
    self->packed = bx_plan_create_packed(plan);
    return self;
}

static bx_complex *half_of(const alltoallv_state *self, bx_direction way, int slot)
{
    return self->packed ? self->packed : bx_plan_half(self->plan, way, slot, self->plan->rank);
}

static void exchange(alltoallv_state *self, bx_direction way, int slot)
{
    bx_plan_alltoallv(self->plan, way, half_of(self, way, slot), self->blocks, NULL);
}

static void free_requests(alltoallv_state *self, bx_direction way)
{
    for (int i = 0; i < 2; i++) {
        if (self->made[way][i].half) MPI_Request_free(&self->made[way][i].request);
        self->made[way][i].half = NULL;
    }
}

/* The first exchange, while answers are verified, makes the requests of both fields. */
static void exchange_persistent(alltoallv_state *self, bx_direction way, int slot)
{
    bx_complex *half = half_of(self, way, slot);
    int i = self->made[way][1].half == half;
    if (self->made[way][i].half != half) {
        free_requests(self, way);
        for (i = 1; i >= 0; i--) {
            bx_plan_swap(self->plan, slot); /* i = 0: back to the field of now */
            self->made[way][i].half = half_of(self, way, slot);
            bx_plan_alltoallv_init(self->plan, way, self->made[way][i].half, self->blocks,
                                   &self->made[way][i].request);
        }
        i = 0;
    }
    MPI_Start(&self->made[way][i].request);
    MPI_Wait(&self->made[way][i].request, MPI_STATUS_IGNORE);
}

static void start_by(alltoallv_state *self, bx_direction way, int slot,
                     void (*exchange_by)(alltoallv_state *, bx_direction, int))
{
    const bx_plan *plan = self->plan;
    int copied = self->packed ? plan->geometry->ranks : 0;
    for (int p = 0; way == BX_FORWARD && p < copied; p++)
        bx_plan_copy_packed(plan, way, slot, p, self->packed);
    exchange_by(self, way, slot);
    for (int p = 0; way == BX_INVERSE && p < copied; p++)
        bx_plan_copy_packed(plan, way, slot, p, self->packed);
}

static void start(void *self, bx_direction way, int slot) { start_by(self, way, slot, exchange); }

static void start_persistent(void *self, bx_direction way, int slot)
{
    start_by(self, way, slot, exchange_persistent);
}

static void repack(void *me, const bx_plane_part *part)
{
    const alltoallv_state *self = me;
    bx_plan_repack_all(self->plan, part, self->blocks);
}

static void destroy(void *me)
{
    alltoallv_state *self = me;
    for (int way = 0; way < 2; way++) free_requests(self, way);
    bx_plan_buffer_free(self->blocks);
    bx_plan_buffer_free(self->packed);
    free(self);
}

#define BLOCKS                                                                                     \
    .bytes = bytes, .create = create, .repack = repack, .destroy = destroy,                        \
    .count = bx_count_every_pair

const bx_transpose_method bx_transpose_method_alltoallv = {
    .about = {.name = "alltoallv",
              .summary = "MPI_Alltoallv between all ranks",
              .wins = "one message a pair of ranks: good on few ranks, message-bound on many",
              .calls = "Alltoallv"},
    .start = start,
    BLOCKS,
};

static bool has_persistent(const bx_geometry *g, char *why, size_t why_size)
{
    return bx_mpi_4_applies(why, why_size);
}

const bx_transpose_method bx_transpose_method_alltoallv_init = {
    .about = {.name = "alltoallv-init",
              .summary = "as alltoallv, by requests that are made once (MPI_Alltoallv_init)",
              .wins = "where the library prepares an exchange once",
              .calls = "Start Wait"},
    .applicable = has_persistent,
    .start = start_persistent,
    BLOCKS,
};
