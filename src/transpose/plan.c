#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 256 }; /* elements: 4 KiB, so that no two ranks write one page */

/* ---- memory ---- */

bx_complex *bx_buffer(size_t elements)
{
    bx_complex *buffer = fftw_alloc_complex(elements ? elements : 1);
    if (!buffer) {
        fprintf(stderr, "out of memory for %zu complex numbers\n", elements);
        MPI_Abort(MPI_COMM_WORLD, BX_RESOURCES);
    }
    return buffer;
}

bx_shared bx_shared_create(MPI_Comm node, size_t elements)
{
    bx_shared memory;
    int rank, unit;
    MPI_Aint size;
    MPI_Comm_rank(node, &rank);
    MPI_Aint mine = rank == 0 ? (MPI_Aint)((elements + 1) * sizeof(bx_complex)) : 0;
    MPI_Win_allocate_shared(mine, sizeof(bx_complex), MPI_INFO_NULL, node, &memory.base,
                            &memory.window);
    MPI_Win_shared_query(memory.window, 0, &size, &unit, &memory.base);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, memory.window);
    return memory;
}

void bx_shared_free(bx_shared *memory)
{
    MPI_Win_unlock_all(memory->window);
    MPI_Win_free(&memory->window);
}

void bx_shared_sync(const bx_shared *memory, MPI_Comm node)
{
    MPI_Win_sync(memory->window);
    MPI_Barrier(node);
    MPI_Win_sync(memory->window);
}

static size_t rounded(size_t elements) { return (elements + PAGE - 1) / PAGE * PAGE; }

static size_t column_elements(const bx_geometry *g, int rank)
{
    return (size_t)bx_columns_of(g, rank) * (size_t)g->nz;
}

static size_t plane_elements(const bx_geometry *g, int rank)
{
    return (size_t)bx_planes_of(g, rank) * (size_t)g->nx * (size_t)g->ny;
}

double bx_plan_bytes(const bx_geometry *g, int rank, int bands, int threads)
{
    double columns = (double)column_elements(g, rank), planes = (double)plane_elements(g, rank);
    double stages = 2.0 * threads * BX_GROUP_PLANES * g->nx * g->ny;
    /* a method's two sets of send and receive buffers, and the planes to compare with */
    double buffers = 4 * (columns > planes ? columns : planes) + planes;
    return (columns * bands + planes * BX_SLOTS + stages + buffers) * sizeof(bx_complex);
}

/* The node's columns: columns_of[rank] addresses those of each of its ranks. */
static void create_columns(bx_plan *plan)
{
    const bx_geometry *g = plan->geometry;
    size_t total = 0, at = 0, bands = (size_t)plan->bands;
    int first = g->node_first[plan->node_index], last = g->node_first[plan->node_index + 1];
    for (int i = first; i < last; i++) total += rounded(column_elements(g, g->node_ranks[i]) * bands);
    plan->columns_memory = bx_shared_create(plan->node, total);
    plan->columns_of = calloc((size_t)g->ranks, sizeof *plan->columns_of);
    for (int i = first; i < last; i++) {
        int rank = g->node_ranks[i];
        plan->columns_of[rank] = plan->columns_memory.base + at;
        at += rounded(column_elements(g, rank) * bands);
    }
    /* whoever uses a page touches it first, which places it in that rank's memory */
    memset(plan->columns_of[plan->rank], 0,
           column_elements(g, plan->rank) * bands * sizeof(bx_complex));
}

static bx_complex *zeroed(size_t elements)
{
    return memset(bx_buffer(elements), 0, elements * sizeof(bx_complex));
}

bx_complex *bx_columns(const bx_plan *plan, int rank, int band)
{
    return plan->columns_of[rank] + (size_t)band * column_elements(plan->geometry, rank);
}

bx_complex *bx_planes(const bx_plan *plan, int slot)
{
    return plan->planes + (size_t)slot * plane_elements(plan->geometry, plan->rank);
}

/* ---- plan ---- */

static void find_empty_runs(bx_plan *plan)
{
    const bx_geometry *g = plan->geometry;
    plan->empty_runs = malloc(2 * ((size_t)g->columns + 1) * sizeof *plan->empty_runs);
    int next = 0;
    for (int s = 0; s <= g->columns; s++) {
        int here = s < g->columns ? g->column_xy[s] : (int)plan->plane_size;
        if (here > next) {
            plan->empty_runs[2 * plan->empty_count] = next;
            plan->empty_runs[2 * plan->empty_count++ + 1] = here - next;
        }
        next = here + 1;
    }
}

static fftw_plan plan_columns(bx_plan *plan, int count, int sign, unsigned planner)
{
    if (count == 0) return NULL;
    bx_complex *columns = bx_columns(plan, plan->rank, 0);
    int nz = plan->geometry->nz;
    return fftw_plan_many_dft(1, &nz, count, columns, NULL, 1, nz, columns, NULL, 1, nz, sign,
                              planner);
}

/* Groups of columns and planes are shared out to the threads, each transformed by one; only where
 * planes are fewer than threads do FFTW's threads share a plane. */
static void plan_ffts(bx_plan *plan, unsigned planner)
{
    const bx_geometry *g = plan->geometry;
    bx_complex *planes = bx_planes(plan, 0);
    bool few = plan->my_planes < plan->threads;
    for (int way = 0; way < 2; way++) {
        int sign = way == BX_FORWARD ? FFTW_FORWARD : FFTW_BACKWARD;
        fftw_plan_with_nthreads(1);
        if (plan->my_columns >= plan->group_columns)
            plan->fft_group[way] = plan_columns(plan, plan->group_columns, sign, planner);
        plan->fft_rest[way] =
            plan_columns(plan, plan->my_columns % plan->group_columns, sign, planner);
        if (plan->my_planes == 0) continue;
        fftw_plan_with_nthreads(few ? plan->threads : 1);
        bx_complex *stage = plan->stage[way];
        plan->fft_staged[way] = fftw_plan_dft_2d(g->ny, g->nx, way == BX_FORWARD ? stage : planes,
                                                 way == BX_FORWARD ? planes : stage, sign, planner);
        plan->fft_in_place[way] = fftw_plan_dft_2d(g->ny, g->nx, planes, planes, sign, planner);
    }
}

enum { CACHED_ELEMENTS = 2048 }; /* 32 KiB of columns, a first-level cache */

bx_plan *bx_plan_create(bx_run *run, MPI_Comm team, const bx_geometry *geometry, int bands,
                        unsigned planner)
{
    bx_plan *plan = calloc(1, sizeof *plan);
    plan->run = run;
    plan->team = team;
    plan->geometry = geometry;
    plan->bands = bands;
    plan->threads = bx_threads(run);
    MPI_Comm_rank(team, &plan->rank);
    plan->node_index = geometry->node_of[plan->rank];
    MPI_Comm_split(team, plan->node_index, plan->rank, &plan->node);
    MPI_Comm_rank(plan->node, &plan->node_rank);
    plan->my_columns = bx_columns_of(geometry, plan->rank);
    plan->my_planes = bx_planes_of(geometry, plan->rank);
    plan->plane_size = (size_t)geometry->nx * (size_t)geometry->ny;
    plan->group_columns = CACHED_ELEMENTS / geometry->nz > 4 ? CACHED_ELEMENTS / geometry->nz : 4;
    create_columns(plan);
    plan->planes = zeroed(BX_SLOTS * plane_elements(geometry, plan->rank));
    size_t stage = (size_t)plan->threads * BX_GROUP_PLANES * plan->plane_size;
    for (int way = 0; way < 2; way++) plan->stage[way] = zeroed(stage);
    find_empty_runs(plan);
    plan_ffts(plan, planner);
    /* planning has written over them */
    memset(plan->stage[BX_FORWARD], 0, stage * sizeof(bx_complex));
    return plan;
}

void bx_plan_free(bx_plan *plan)
{
    for (int way = 0; way < 2; way++) {
        fftw_destroy_plan(plan->fft_group[way]);
        fftw_destroy_plan(plan->fft_rest[way]);
        fftw_destroy_plan(plan->fft_staged[way]);
        fftw_destroy_plan(plan->fft_in_place[way]);
        fftw_free(plan->stage[way]);
    }
    fftw_free(plan->planes);
    bx_shared_free(&plan->columns_memory);
    MPI_Comm_free(&plan->node);
    free(plan->columns_of);
    free(plan->empty_runs);
    free(plan);
}

bx_lengths bx_lengths_create(const bx_plan *plan, bx_way way)
{
    const bx_geometry *g = plan->geometry;
    bx_lengths lengths = {0};
    int **arrays[] = {&lengths.send, &lengths.send_at, &lengths.receive, &lengths.receive_at};
    for (int i = 0; i < 4; i++) *arrays[i] = calloc((size_t)g->ranks, sizeof(int));
    for (int p = 0; p < g->ranks; p++) {
        lengths.send_at[p] = (int)lengths.send_total;
        lengths.receive_at[p] = (int)lengths.receive_total;
        if (p == plan->rank) continue;
        lengths.send[p] = (int)bx_block(g, way, plan->rank, p);
        lengths.receive[p] = (int)bx_block(g, way, p, plan->rank);
        lengths.send_total += (size_t)lengths.send[p];
        lengths.receive_total += (size_t)lengths.receive[p];
    }
    return lengths;
}

void bx_lengths_free(bx_lengths *lengths)
{
    free(lengths->send);
    free(lengths->send_at);
    free(lengths->receive);
    free(lengths->receive_at);
}

/* ---- copies: runs of `depth` elements along z, one run a column ---- */

enum { LINE = BX_GROUP_PLANES };

static void copy_runs(const bx_complex *restrict from, size_t from_stride, bx_complex *restrict to,
                      size_t to_stride, int count, int depth)
{
    for (int s = 0; s < count; s++)
        for (int z = 0; z < depth; z++) to[(size_t)s * to_stride + (size_t)z] = from[(size_t)s * from_stride + (size_t)z];
}

static void runs_to_planes(const bx_complex *restrict runs, size_t stride,
                           bx_complex *restrict planes, size_t plane_size, const int *restrict xy,
                           int count, int depth)
{
    int z = 0;
    for (; z + LINE <= depth; z += LINE) {
        bx_complex *restrict p0 = planes + (size_t)z * plane_size, *restrict p1 = p0 + plane_size,
                             *restrict p2 = p1 + plane_size, *restrict p3 = p2 + plane_size;
        const bx_complex *run = runs + z;
        for (int s = 0; s < count; s++, run += stride) {
            p0[xy[s]] = run[0];
            p1[xy[s]] = run[1];
            p2[xy[s]] = run[2];
            p3[xy[s]] = run[3];
        }
    }
    for (; z < depth; z++)
        for (int s = 0; s < count; s++)
            planes[(size_t)z * plane_size + (size_t)xy[s]] = runs[(size_t)s * stride + (size_t)z];
}

static void planes_to_runs(const bx_complex *restrict planes, size_t plane_size,
                           const int *restrict xy, bx_complex *restrict runs, size_t stride,
                           int count, int depth)
{
    int z = 0;
    for (; z + LINE <= depth; z += LINE) {
        const bx_complex *restrict p0 = planes + (size_t)z * plane_size,
                                   *restrict p1 = p0 + plane_size, *restrict p2 = p1 + plane_size,
                                   *restrict p3 = p2 + plane_size;
        bx_complex *run = runs + z;
        for (int s = 0; s < count; s++, run += stride) {
            run[0] = p0[xy[s]];
            run[1] = p1[xy[s]];
            run[2] = p2[xy[s]];
            run[3] = p3[xy[s]];
        }
    }
    for (; z < depth; z++)
        for (int s = 0; s < count; s++)
            runs[(size_t)s * stride + (size_t)z] = planes[(size_t)z * plane_size + (size_t)xy[s]];
}

/* The part of `owner`'s columns that meets plane `z` of `holder`. */
static bx_complex *crossing(const bx_plan *plan, int owner, int band, int holder, int z)
{
    return bx_columns(plan, owner, band) + plan->geometry->plane_first[holder] + z;
}

static const int *places(const bx_plan *plan, int owner)
{
    return plan->geometry->column_xy + plan->geometry->column_first[owner];
}

void bx_pack(const bx_plan *plan, bx_way way, const bx_part *part, int peer, bx_complex *block)
{
    const bx_geometry *g = plan->geometry;
    int count = part->last - part->first;
    size_t first = (size_t)part->first;
    if (way == BX_FORWARD) {
        size_t nz = (size_t)g->nz, depth = (size_t)bx_planes_of(g, peer);
        copy_runs(crossing(plan, plan->rank, part->band, peer, 0) + first * nz, nz,
                  block + first * depth, depth, count, (int)depth);
    } else {
        planes_to_runs(part->planes, plan->plane_size, places(plan, peer), block + first,
                       (size_t)plan->my_planes, bx_columns_of(g, peer), count);
    }
}

void bx_unpack(const bx_plan *plan, bx_way way, const bx_part *part, int peer,
               const bx_complex *block)
{
    const bx_geometry *g = plan->geometry;
    int count = part->last - part->first;
    size_t first = (size_t)part->first;
    if (way == BX_FORWARD) {
        runs_to_planes(block + first, (size_t)plan->my_planes, part->planes, plan->plane_size,
                       places(plan, peer), bx_columns_of(g, peer), count);
    } else {
        size_t nz = (size_t)g->nz, depth = (size_t)bx_planes_of(g, peer);
        copy_runs(block + first * depth, depth,
                  crossing(plan, plan->rank, part->band, peer, 0) + first * nz, nz, count,
                  (int)depth);
    }
}

void bx_move(const bx_plan *plan, bx_way way, const bx_part *part, int owner)
{
    size_t nz = (size_t)plan->geometry->nz;
    int count = bx_columns_of(plan->geometry, owner), depth = part->last - part->first;
    bx_complex *runs = crossing(plan, owner, part->band, plan->rank, part->first);
    if (way == BX_FORWARD)
        runs_to_planes(runs, nz, part->planes, plan->plane_size, places(plan, owner), count, depth);
    else
        planes_to_runs(part->planes, plan->plane_size, places(plan, owner), runs, nz, count, depth);
}

void bx_pack_all(const bx_plan *plan, bx_way way, const bx_part *part, const bx_lengths *lengths,
                 bx_complex *buffer)
{
    if (way == BX_INVERSE) bx_move(plan, way, part, plan->rank);
    for (int p = 0; p < plan->geometry->ranks; p++)
        if (lengths->send[p]) bx_pack(plan, way, part, p, buffer + lengths->send_at[p]);
}

void bx_unpack_all(const bx_plan *plan, bx_way way, const bx_part *part, const bx_lengths *lengths,
                   const bx_complex *buffer)
{
    if (way == BX_FORWARD) bx_move(plan, way, part, plan->rank);
    for (int p = 0; p < plan->geometry->ranks; p++)
        if (lengths->receive[p]) bx_unpack(plan, way, part, p, buffer + lengths->receive_at[p]);
}
