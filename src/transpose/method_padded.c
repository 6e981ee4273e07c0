/* All blocks padded to the largest, so that MPI_Alltoall will do, which has a logarithmic algorithm
 * for short messages; real data first, padding last (Bethune 2010, section 4.2).
 *
 * Costs a message to each other rank, each as long as the longest; one copy, as published two. */
#include "method.h"

/* Bytes of a block up to which MPI_Alltoall has a copy of all: J. Bruck et al., IEEE Trans.
 * Parallel Distrib. Syst. 8, 1143 (1997). */
enum { BRUCK = 4096 };

typedef struct {
    bx_plan *plan;
    int block;           /* elements, the largest of all pairs */
    bx_complex *half[2]; /* [bx_direction] the half-transformed field, by padded blocks */
    bx_complex *packed;  /* as published, a copy of it, which is exchanged */
    bx_complex *blocks;  /* on the side of the planes */
    size_t *row_at;      /* [planes of all ranks] */
} padded_state;

/* A block for each rank.  Padding is sent, so it has a value. */
static bx_complex *create_blocks(const bx_plan *plan)
{
    size_t block = (size_t)plan->geometry->largest_block,
           total = block * (size_t)plan->geometry->ranks;
    bx_complex *blocks = bx_plan_buffer_create(total);
    bx_plan_zero(plan, blocks, total, block);
    return blocks;
}

static double bytes(const bx_geometry *g, int rank, bool published)
{
    double blocks = bx_transpose_method_buffers(1, (double)g->largest_block * g->ranks);
    return (3 + published) * blocks + fmin(blocks, (double)BRUCK * g->ranks) +
           (double)(sizeof(size_t)) * g->plane_first[g->ranks] + bx_transpose_method_in_flight(g);
}

static void *create(bx_plan *plan, int leaders)
{
    padded_state *self = bx_memory_alloc(1, sizeof *self);
    const bx_geometry *g = plan->geometry;
    self->plan = plan;
    self->block = (int)g->largest_block;
    for (int way = 0; way < 2; way++) self->half[way] = create_blocks(plan);
    self->blocks = create_blocks(plan);
    if (plan->published) self->packed = create_blocks(plan);
    BX_ALLOC((size_t)g->plane_first[g->ranks] + 1, self->row_at);
    for (int p = 0; p < g->ranks; p++)
        for (int z = g->plane_first[p]; z < g->plane_first[p + 1]; z++)
            self->row_at[z] =
                (size_t)p * (size_t)self->block + plan->row_at[z] - plan->row_at[g->plane_first[p]];
    return self;
}

/* Columns are transformed straight into padded blocks, and out of them. */
static bx_rows rows(void *me, bx_direction way, int slot)
{
    const padded_state *self = me;
    int side = self->plan->swapped[slot] ? !way : way;
    return (bx_rows){self->half[side], self->row_at};
}

static void copy_packed(const padded_state *self, bx_complex *to, const bx_complex *from)
{
    const bx_plan *plan = self->plan;
    for (int p = 0; to != from && p < plan->geometry->ranks; p++)
        bx_plan_copy(plan, to + (size_t)self->block * (size_t)p,
                     from + (size_t)self->block * (size_t)p,
                     (size_t)bx_geometry_block(plan->geometry, BX_FORWARD, plan->rank, p));
}

static void start(void *me, bx_direction way, int slot)
{
    padded_state *self = me;
    bx_complex *half = rows(me, way, slot).base, *sent = self->packed ? self->packed : half;
    if (way == BX_FORWARD) copy_packed(self, sent, half);
    MPI_Alltoall(way == BX_FORWARD ? sent : self->blocks, self->block, MPI_C_DOUBLE_COMPLEX,
                 way == BX_FORWARD ? self->blocks : sent, self->block, MPI_C_DOUBLE_COMPLEX,
                 self->plan->team);
    if (way == BX_INVERSE) copy_packed(self, half, sent);
}

/* My own block goes through MPI_Alltoall too, which copies it. */
static void repack(void *me, const bx_plane_part *part)
{
    const padded_state *self = me;
    for (int p = 0; p < self->plan->geometry->ranks; p++)
        bx_plan_repack(self->plan, part, p, self->blocks + (size_t)self->block * (size_t)p);
}

static void destroy(void *me)
{
    padded_state *self = me;
    for (int way = 0; way < 2; way++) bx_plan_buffer_free(self->half[way]);
    bx_plan_buffer_free(self->blocks);
    bx_plan_buffer_free(self->packed);
    BX_FREE(self->row_at, self);
}

const bx_transpose_method bx_transpose_method_padded = {
    .about = {.name = "padded",
              .summary = "blocks padded to one size, MPI_Alltoall between all ranks",
              .wins = "ahead of alltoallv once blocks are under about 1 kB; pays for the padding",
              .calls = "Alltoall"},
    .applicable = bx_geometry_padded_fit,
    .bytes = bytes,
    .create = create,
    .start = start,
    .repack = repack,
    .rows = rows,
    .destroy = destroy,
    .count = bx_count_padded,
};
