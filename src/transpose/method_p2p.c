/* Non-blocking point-to-point between the pairs of ranks that have data (Bethune 2010, section 4).
 * As published (section 5.1.1) copies hide behind transfer: a block is sent when it is packed, and
 * unpacked when it has come; on the side of the planes where a rank has one thread.  Without
 * `published` copies are made in cache, plane by plane, as for every method.
 *
 * Costs a message per pair of ranks with data; each byte once; one copy, as published two. */
#include "method.h"

enum { TAG = 1 };

typedef struct {
    bx_plan *plan;
    bx_complex *blocks;    /* on the side of the planes */
    bx_complex *packed;    /* as published, on that of the columns */
    int *peers[2];         /* with which I exchange columns, planes: my neighbour first */
    int count[2];          /* of them */
    int most;              /* messages of one way */
    MPI_Request *requests; /* [2 * most] receives, then sends */
    int *source;           /* [most] of each receive */
    int receives, sends;   /* so far */
    bool hides;            /* copies on the side of the planes */
    bool awaited;          /* what is to be unpacked there */
} p2p_state;

static double bytes(const bx_geometry *g, int rank, bool published)
{
    bx_exchanged x = bx_transpose_method_exchanged(g, rank);
    double messages = x.column_peers + x.plane_peers, most = fmax(x.column_peers, x.plane_peers);
    return bx_transpose_method_buffers(1, x.planes + published * x.all_columns) +
           BX_MPI_MESSAGE * messages + most * (2 * sizeof(MPI_Request) + sizeof(int)) +
           messages * sizeof(int);
}

/* Each rank sends to its neighbour first, so that not all send to one; receives are in the order in
 * which they come, from the last. */
static void list_peers(p2p_state *self, bool planes)
{
    const bx_plan *plan = self->plan;
    const int *length = planes ? plan->lengths.plane_length : plan->lengths.half_length;
    int ranks = plan->geometry->ranks, count = 0;
    for (int p = 0; p < ranks; p++) self->count[planes] += length[p] > 0;
    BX_ALLOC((size_t)self->count[planes], self->peers[planes]);
    for (int i = 1; i < ranks; i++) {
        int p = (plan->rank + i) % ranks;
        if (length[p] > 0) self->peers[planes][count++] = p;
    }
}

static void *create(bx_plan *plan, int leaders)
{
    p2p_state *self = bx_memory_alloc(1, sizeof *self);
    self->plan = plan;
    for (int planes = 0; planes < 2; planes++) list_peers(self, planes);
    self->most = self->count[0] > self->count[1] ? self->count[0] : self->count[1];
    self->blocks = bx_plan_buffer_create(plan->lengths.plane_total);
    self->packed = bx_plan_create_packed(plan);
    BX_ALLOC(2 * (size_t)self->most, self->requests);
    BX_ALLOC((size_t)self->most, self->source);
    for (int i = 0; i < 2 * self->most; i++) self->requests[i] = MPI_REQUEST_NULL;
    self->hides = plan->published && plan->threads == 1 && plan->my_planes > 0;
    return self;
}

static void receive(p2p_state *self, int i, bx_direction way, int slot)
{
    const bx_plan *plan = self->plan;
    const bx_lengths *l = &plan->lengths;
    bool planes = way == BX_FORWARD;
    int p = self->peers[planes][self->count[planes] - 1 - i];
    bx_complex *half = self->packed ? self->packed : bx_plan_half(plan, way, slot, plan->rank);
    int length = planes ? l->plane_length[p] : l->half_length[p];
    self->source[self->receives] = p;
    MPI_Irecv(planes ? self->blocks + l->plane_at[p] : half + l->half_at[p], length,
              MPI_C_DOUBLE_COMPLEX, p, TAG, plan->team, &self->requests[self->receives++]);
}

static void send(p2p_state *self, int i, bx_direction way, int slot)
{
    const bx_plan *plan = self->plan;
    const bx_lengths *l = &plan->lengths;
    int p = self->peers[way == BX_INVERSE][i];
    bx_complex *block = way == BX_FORWARD ? bx_plan_copy_packed(plan, way, slot, p, self->packed)
                                          : self->blocks + l->plane_at[p];
    int length = way == BX_FORWARD ? l->half_length[p] : l->plane_length[p];
    MPI_Isend(block, length, MPI_C_DOUBLE_COMPLEX, p, TAG, plan->team,
              &self->requests[self->most + self->sends++]);
}

static void start(void *me, bx_direction way, int slot)
{
    p2p_state *self = me;
    bool sent = self->hides && way == BX_INVERSE; /* by repack */
    self->receives = 0;
    for (int i = 0; i < self->count[way == BX_FORWARD]; i++) receive(self, i, way, slot);
    if (!sent) self->sends = 0;
    for (int i = 0; i < self->count[way == BX_INVERSE] && !sent; i++) send(self, i, way, slot);
}

/* Returns whose block has come, or -1 after the last. */
static int next_peer(p2p_state *self)
{
    int i;
    MPI_Waitany(self->receives, self->requests, &i, MPI_STATUS_IGNORE);
    return i == MPI_UNDEFINED ? -1 : self->source[i];
}

static void finish(void *me, bx_direction way, int slot)
{
    p2p_state *self = me;
    self->awaited = self->hides && way == BX_FORWARD;
    if (self->awaited) return;
    if (self->packed && way == BX_INVERSE)
        for (int p = next_peer(self); p >= 0; p = next_peer(self))
            bx_plan_copy_packed(self->plan, way, slot, p, self->packed);
    MPI_Waitall(2 * self->most, self->requests, MPI_STATUSES_IGNORE);
}

static void repack(void *me, const bx_plane_part *part)
{
    p2p_state *self = me;
    const bx_plan *plan = self->plan;
    bool forward = part->way == BX_FORWARD;
    if (forward ? !self->awaited : !self->hides || part->last < plan->my_planes) {
        bx_plan_repack_all(plan, part, self->blocks);
        return;
    }
    bx_plan_repack_own(plan, part);
    if (!forward) {
        self->sends = 0;
        for (int i = 0; i < self->count[true]; i++) {
            int p = self->peers[true][i];
            bx_plan_repack(plan, part, p, self->blocks + plan->lengths.plane_at[p]);
            send(self, i, BX_INVERSE, part->slot);
        }
        return;
    }
    self->awaited = false;
    for (int p = next_peer(self); p >= 0; p = next_peer(self))
        bx_plan_repack(plan, part, p, self->blocks + plan->lengths.plane_at[p]);
    MPI_Waitall(self->sends, self->requests + self->most, MPI_STATUSES_IGNORE);
}

static void destroy(void *me)
{
    p2p_state *self = me;
    bx_plan_buffer_free(self->blocks);
    bx_plan_buffer_free(self->packed);
    BX_FREE(self->peers[0], self->peers[1], self->requests, self->source, self);
}

const bx_transpose_method bx_transpose_method_p2p = {
    .about = {.name = "p2p",
              .summary = "MPI_Isend and MPI_Irecv between the pairs of ranks that have data",
              .wins = "no message without data: ahead of alltoallv on few ranks, or few columns",
              .calls = "Isend Irecv Waitany Waitall"},
    .bytes = bytes,
    .create = create,
    .start = start,
    .finish = finish,
    .repack = repack,
    .destroy = destroy,
    .count = bx_count_nonempty_pairs,
    .at_once = true,
};
