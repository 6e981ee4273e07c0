/* A plan's buffers, and its copies on a device. */
#include "plan.h"

#include "comm_buffers.h"
#include "device.h"

#include <stdlib.h>

bx_complex *bx_plan_buffer_create(size_t elements)
{
    if (!bx_comm_buffers_are_copied()) return bx_buffer_create(elements);
    bx_comm_buffer *buffer = bx_memory_alloc(1, sizeof *buffer);
    bx_comm_buffer_create(buffer, (elements + 1) * sizeof(bx_complex), "fields");
    return buffer->exchanged;
}

void bx_plan_buffer_free(bx_complex *field)
{
    bx_comm_buffer *buffer = bx_comm_buffers_find(field);
    if (!buffer) fftw_free(field);
    if (buffer) bx_comm_buffer_free(buffer);
    free(buffer);
}

/* Where elements stand, on the device: made by the first copy, while answers are verified. */
struct bx_plan_index {
    struct bx_plan_index *next;
    const void *key; /* the row's table of a half-transformed field; of a block, NULL */
    int peer;        /* of the block; EVERYONE: of those of all others */
    int *at;
    size_t count;
};
enum { EVERYONE = -1 };

static const bx_plan_index *find_index(const bx_plan *plan, const void *key, int peer)
{
    for (const bx_plan_index *i = *plan->indices; i; i = i->next)
        if (i->key == key && i->peer == peer) return i;
    return NULL;
}

static const bx_plan_index *keep_index(const bx_plan *plan, const void *key, int peer, int *at,
                                       size_t count)
{
    bx_plan_index *index = bx_memory_alloc(1, sizeof *index);
    *index = (bx_plan_index){*plan->indices, key, peer, bx_comm_buffers_index(at, count), count};
    free(at);
    *plan->indices = index;
    return index;
}

void bx_plan_free_device(bx_plan *plan)
{
    if (!plan->copied) return;
    bx_device_get()->release_fft(plan->columns_fft);
    bx_device_get()->release_fft(plan->planes_fft);
    while (*plan->indices) {
        bx_plan_index *index = *plan->indices;
        *plan->indices = index->next;
        bx_device_release(index->at);
        free(index);
    }
}

/* Places in my planes of the elements of a block: the host's copies tell, of numbered elements. */
static const bx_plan_index *places(const bx_plan *plan, int peer)
{
    const bx_plan_index *known = find_index(plan, NULL, peer);
    if (known) return known;
    const bx_geometry *g = plan->geometry;
    size_t elements = (size_t)plan->my_planes * plan->plane_size;
    size_t count = peer == EVERYONE ? plan->lengths.plane_total
                                    : (size_t)bx_geometry_block(g, BX_FORWARD, peer, plan->rank);
    bx_complex *planes = bx_buffer_create(elements), *block = bx_buffer_create(count);
    for (size_t i = 0; i < elements; i++) planes[i] = (double)i;
    bx_plane_part part = {BX_INVERSE, 0, 0, plan->my_planes, planes};
    for (int p = 0; p < g->ranks; p++)
        if (p == peer)
            bx_plan_on_host.repack(plan, &part, p, block);
        else if (peer == EVERYONE && p != plan->rank)
            bx_plan_on_host.repack(plan, &part, p, block + plan->lengths.plane_at[p]);
    int *at = bx_memory_alloc(count + 1, sizeof *at);
    for (size_t i = 0; i < count; i++) at[i] = (int)creal(block[i]);
    fftw_free(planes);
    fftw_free(block);
    return keep_index(plan, NULL, peer, at, count);
}

/* Copies `count` elements of another buffer to all planes forward, inverse: back; `staged`: bytes
 * of it that MPI exchanges on the host. */
static void move(const bx_plane_part *part, const int *place, bx_complex *other,
                 const int *other_place, size_t count, size_t staged)
{
    if (count == 0) return;
    if (part->way == BX_FORWARD) {
        bx_comm_buffer_stage_in(bx_comm_buffers_find(other), other, staged);
        bx_comm_buffers_move(part->planes, place, other, other_place, count, sizeof *other);
    } else {
        bx_comm_buffers_move(other, other_place, part->planes, place, count, sizeof *other);
        bx_comm_buffer_stage_out(bx_comm_buffers_find(other), other, staged);
    }
}

static void move_blocks(const bx_plan *plan, const bx_plane_part *part, int peer,
                        bx_complex *blocks, bool exchanged)
{
    const bx_plan_index *index = places(plan, peer);
    size_t staged = plan->staged && exchanged ? index->count * sizeof *blocks : 0;
    move(part, index->at, blocks, NULL, index->count, staged);
}

static void repack(const bx_plan *plan, const bx_plane_part *part, int peer, bx_complex *block)
{
    bool own =
        peer == plan->rank && block == bx_plan_half_block(plan, part->way, part->slot, peer, peer);
    move_blocks(plan, part, peer, block, !own);
}

static void repack_others(const bx_plan *plan, const bx_plane_part *part, bx_complex *buffer)
{
    move_blocks(plan, part, EVERYONE, buffer, true);
}

static void copy_others(const bx_plan *plan, const bx_plane_part *part, bx_complex *planes)
{
    const bx_plan_index *index = places(plan, EVERYONE);
    size_t whole = (size_t)plan->my_planes * plan->plane_size * sizeof *planes;
    move(part, index->at, planes, index->at, index->count, plan->staged ? whole : 0);
}

const bx_plan_copies bx_plan_on_device = {repack, repack_others, copy_others};

void bx_plan_move_columns(const bx_plan *plan, bx_direction way, bx_complex *columns, bx_rows half)
{
    const bx_plan_index *index = find_index(plan, half.at, 0);
    int length = plan->geometry->length;
    if (!index) {
        size_t count = (size_t)plan->my_columns * (size_t)length;
        int *at = bx_memory_alloc(count + 1, sizeof *at);
        for (int s = 0; s < plan->my_columns; s++)
            for (int z = 0; z < length; z++)
                at[(size_t)s * (size_t)length + (size_t)z] =
                    (int)(bx_rows_element(plan, half, s, z) - half.base);
        index = keep_index(plan, half.at, 0, at, count);
    }
    if (way == BX_FORWARD)
        bx_comm_buffers_move(half.base, index->at, columns, NULL, index->count, sizeof(bx_complex));
    else
        bx_comm_buffers_move(columns, NULL, half.base, index->at, index->count, sizeof(bx_complex));
}

/* Without one's own block, which is not exchanged, unless the method has a field of its own. */
void bx_plan_stage_half(const bx_plan *plan, bx_direction way, bx_rows half)
{
    const bx_comm_buffer *buffer = bx_comm_buffers_find(half.base);
    const bx_geometry *g = plan->geometry;
    bx_complex *own = half.base + half.at[g->plane_first[plan->rank]],
               *end = half.base + (size_t)plan->my_columns * (size_t)g->length;
    size_t staying = (size_t)bx_geometry_block(g, BX_FORWARD, plan->rank, plan->rank);
    if (half.at != plan->row_at) {
        own = end = half.base + (size_t)g->largest_block * (size_t)g->ranks;
        staying = 0;
    }
    size_t before = (size_t)(own - half.base), after = (size_t)(end - own) - staying;
    if (way == BX_FORWARD) {
        bx_comm_buffer_stage_out(buffer, half.base, before * sizeof *own);
        bx_comm_buffer_stage_out(buffer, own + staying, after * sizeof *own);
    } else {
        bx_comm_buffer_stage_in(buffer, half.base, before * sizeof *own);
        bx_comm_buffer_stage_in(buffer, own + staying, after * sizeof *own);
    }
}

/* ---- FFTs ---- */

double bx_plan_device_ffts_bytes(const bx_geometry *g, int rank)
{
    size_t elements = 0;
    for (; g; g = g->inner)
        elements +=
            bx_plan_column_elements(g, rank) + (g->inner ? 0 : bx_plan_plane_elements(g, rank));
    return (double)(elements * sizeof(bx_complex));
}

/* Of one point a transform is the point itself, and libraries need not have it. */
static bool create_fft(bx_device_fft **fft, int ny, int nx, int batch, char *why, size_t size)
{
    if (batch == 0 || (ny == 1 && nx == 1)) return true;
    *fft = bx_device_get()->plan_fft(ny, nx, batch, why, size);
    return *fft;
}

int bx_plan_create_device_ffts(bx_plan *plan)
{
    char why[320];
    bool can = bx_device_get()->open_fft(why, sizeof why);
    for (bx_plan *p = plan; can && p; p = p->inner) {
        const bx_geometry *g = p->geometry;
        can = create_fft(&p->columns_fft, 1, g->length, p->my_columns, why, sizeof why) &&
              (p->inner ||
               create_fft(&p->planes_fft, g->plane_ny, g->plane_nx, p->my_planes, why, sizeof why));
    }
    return bx_comm_buffers_require(plan->run, can, why);
}

void bx_plan_fft_on_device(const bx_device_fft *fft, bx_direction way, bx_complex *field)
{
    int sign = way == BX_FORWARD ? -1 : 1;
    if (fft) bx_device_get()->fft(fft, bx_comm_buffers_device(field), sign);
}

void bx_plan_clear_planes(const bx_plan *plan, bx_complex *planes)
{
    size_t elements = (size_t)plan->my_planes * plan->plane_size;
    bx_device_get()->fill(bx_comm_buffers_device(planes), 0, elements * sizeof *planes);
}
