/* Where the fields of a plan stand, and copies between them on the host. */
#include "plan.h"

#include "charge.h"
#include "comm_buffers.h"

#include <string.h>

bx_complex *bx_buffer_create(size_t elements)
{
    bx_complex *buffer = fftw_alloc_complex(elements ? elements : 1);
    if (!buffer) {
        fprintf(stderr, "out of memory for %zu complex numbers\n", elements);
        MPI_Abort(MPI_COMM_WORLD, BX_RESOURCES);
    }
    return buffer;
}

size_t bx_plan_paged(size_t elements)
{
    return bx_memory_whole_pages(elements * sizeof(bx_complex)) / sizeof(bx_complex);
}

void bx_plan_zero(const bx_plan *plan, bx_complex *field, size_t elements, size_t chunk)
{
    if (elements == 0) return;
    field = bx_comm_buffers_host(field);
#pragma omp parallel for schedule(static) if (plan->threads > 1)
    for (size_t at = 0; at < elements; at += chunk)
        memset(field + at, 0, (elements - at < chunk ? elements - at : chunk) * sizeof *field);
}

/* The fields of a rank of this node, whose ranks ascend. */
static bx_complex *halves_of(const bx_plan *plan, int rank)
{
    const int *ranks = bx_geometry_ranks(plan->geometry, plan->node_index);
    int low = 0, high = bx_geometry_node_size(plan->geometry, plan->node_index);
    if (rank == plan->rank) return plan->halves_of[plan->node_rank];
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (ranks[middle] <= rank)
            low = middle;
        else
            high = middle;
    }
    return plan->halves_of[low];
}

bx_complex *bx_plan_columns(const bx_plan *plan, int band)
{
    return plan->columns + (size_t)band * bx_plan_column_elements(plan->geometry, plan->rank);
}

bx_plan *bx_plan_last(bx_plan *plan)
{
    while (plan->inner) plan = plan->inner;
    return plan;
}

bx_complex *bx_plan_planes(const bx_plan *plan, bx_direction way, int slot)
{
    if (plan->inner) return bx_plan_columns(plan->inner, way * BX_SLOTS + slot);
    return plan->planes + (size_t)slot * bx_plan_plane_elements(plan->geometry, plan->rank);
}

bx_complex *bx_plan_half(const bx_plan *plan, bx_direction way, int slot, int rank)
{
    int side = plan->swapped[slot] ? !way : way;
    return halves_of(plan, rank) +
           (size_t)(BX_SLOTS * side + slot) * bx_plan_column_elements(plan->geometry, rank);
}

bx_complex *bx_plan_half_block(const bx_plan *plan, bx_direction way, int slot, int rank, int peer)
{
    const bx_geometry *g = plan->geometry;
    return bx_plan_half(plan, way, slot, rank) +
           bx_geometry_elements(g, rank, g->plane_first[peer]);
}

void bx_plan_swap(bx_plan *plan, int slot) { plan->swapped[slot] = !plan->swapped[slot]; }

/* ---- copies ---- */

/* Elements that a peer's columns have in planes before one of mine, or before the end of mine. */
static size_t elements_before(const bx_plan *plan, int peer, int z)
{
    const bx_geometry *g = plan->geometry;
    return (size_t)plan->plane_point[z] * (size_t)bx_geometry_columns(g, peer) +
           (size_t)bx_geometry_before(g, peer, plan->plane_batch[z]);
}

/* Columns are in the order of their batches, and planes of a point too: each plane's begin where
 * the last one's end. */
static void repack(const bx_plan *plan, const bx_plane_part *part, int peer, bx_complex *block)
{
    const bx_geometry *g = plan->geometry;
    const int *place = g->column_place, *left = plan->run_left, *batch = g->column_batch;
    int first = g->column_first[peer], last = g->column_first[peer + 1];
    int s = first + bx_geometry_before(g, peer, plan->plane_batch[part->first]);
    bool forward = part->way == BX_FORWARD;
    bx_complex *packed = block + (elements_before(plan, peer, part->first) -
                                  elements_before(plan, peer, 0)),
               *plane = part->planes, *begin = packed;
    if (first == last) return;
    for (int z = part->first; z < part->last; z++, plane += plan->plane_size) {
        if (plan->plane_batch[z] == 0) s = first;
        for (int run; s < last && batch[s] == plan->plane_batch[z]; s += run, packed += run) {
            run = left[s];
            bx_complex *placed = plane + place[s];
            memcpy(forward ? placed : packed, forward ? packed : placed,
                   (size_t)run * sizeof *plane);
        }
    }
    bx_charge(BX_COPY, (double)((size_t)(packed - begin) * sizeof *packed), true);
}

void bx_plan_repack_own(const bx_plan *plan, const bx_plane_part *part)
{
    int own = plan->rank;
    bx_plan_repack(plan, part, own, bx_plan_half_block(plan, part->way, part->slot, own, own));
}

static void repack_others(const bx_plan *plan, const bx_plane_part *part, bx_complex *buffer)
{
    for (int p = 0; p < plan->geometry->ranks; p++)
        if (p != plan->rank) repack(plan, part, p, buffer + plan->lengths.plane_at[p]);
}

/* Run by run. */
static void copy_others(const bx_plan *plan, const bx_plane_part *part, bx_complex *planes)
{
    bool forward = part->way == BX_FORWARD;
    double share = (double)(part->last - part->first) / fmax(1, plan->my_planes);
    bx_charge(BX_COPY, share * (double)(plan->lengths.plane_total * sizeof(bx_complex)), true);
    for (int z = part->first; z < part->last; z++) {
        bx_complex *stage = part->planes + (size_t)(z - part->first) * plan->plane_size,
                   *plane = planes + (size_t)z * plan->plane_size;
        for (int p = 0; p < plan->geometry->ranks; p++) {
            bx_columns crossing = bx_plan_crossing(plan, p, z);
            if (p == plan->rank) continue;
            for (int s = crossing.first; s < crossing.last; s += plan->run_left[s]) {
                int place = plan->geometry->column_place[s];
                memcpy((forward ? stage : plane) + place, (forward ? plane : stage) + place,
                       (size_t)plan->run_left[s] * sizeof *stage);
            }
        }
    }
}

const bx_plan_copies bx_plan_on_host = {repack, repack_others, copy_others};

static void alltoallv(const bx_plan *plan, bx_direction way, bx_complex *half, bx_complex *buffer,
                      MPI_Request *request, bool persistent)
{
    const bx_lengths *l = &plan->lengths;
    const MPI_Datatype type = MPI_C_DOUBLE_COMPLEX;
    bool out = way == BX_FORWARD;
    const bx_complex *from = out ? half : buffer;
    bx_complex *to = out ? buffer : half;
    const int *sent = out ? l->half_length : l->plane_length,
              *sent_at = out ? l->half_at : l->plane_at;
    const int *coming = out ? l->plane_length : l->half_length,
              *coming_at = out ? l->plane_at : l->half_at;
#ifdef BX_MPI_4
    if (persistent) {
        MPI_Alltoallv_init(from, sent, sent_at, type, to, coming, coming_at, type, plan->team,
                           MPI_INFO_NULL, request);
        return;
    }
#endif
    if (request)
        MPI_Ialltoallv(from, sent, sent_at, type, to, coming, coming_at, type, plan->team, request);
    else
        MPI_Alltoallv(from, sent, sent_at, type, to, coming, coming_at, type, plan->team);
}

void bx_plan_alltoallv(const bx_plan *plan, bx_direction way, bx_complex *half, bx_complex *buffer,
                       MPI_Request *request)
{
    alltoallv(plan, way, half, buffer, request, false);
}

void bx_plan_alltoallv_init(const bx_plan *plan, bx_direction way, bx_complex *half,
                            bx_complex *buffer, MPI_Request *request)
{
    alltoallv(plan, way, half, buffer, request, true);
}

enum { SMALL_COPY = 4096 }; /* elements that are not worth waking threads for */

void bx_plan_copy(const bx_plan *plan, bx_complex *to, const bx_complex *from, size_t count)
{
    size_t parts = count > SMALL_COPY ? (size_t)plan->threads : 1;
    bx_charge(BX_COPY, (double)(count * sizeof *to), count > SMALL_COPY);
#pragma omp parallel for if (parts > 1)
    for (size_t n = 0; n < parts; n++) {
        size_t first = count * n / parts, last = count * (n + 1) / parts;
        memcpy(to + first, from + first, (last - first) * sizeof *to);
    }
}

bx_complex *bx_plan_create_packed(const bx_plan *plan)
{
    size_t elements = (size_t)plan->my_columns * (size_t)plan->geometry->length;
    return plan->published ? bx_buffer_create(elements) : NULL;
}

bx_complex *bx_plan_copy_packed(const bx_plan *plan, bx_direction way, int slot, int peer,
                                bx_complex *packed)
{
    const bx_geometry *g = plan->geometry;
    bx_complex *block = bx_plan_half_block(plan, way, slot, plan->rank, peer);
    size_t length = (size_t)bx_geometry_block(g, BX_FORWARD, plan->rank, peer);
    if (!packed) return block;
    packed += bx_geometry_elements(g, plan->rank, g->plane_first[peer]);
    if (peer == plan->rank) return packed; /* stays where it is */
    bx_plan_copy(plan, way == BX_FORWARD ? packed : block, way == BX_FORWARD ? block : packed,
                 length);
    return packed;
}
