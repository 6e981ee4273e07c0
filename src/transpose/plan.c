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

double bx_plan_bytes(const bx_geometry *g, int rank, int bands)
{
    double fields = (double)column_elements(g, rank) * bands + (double)plane_elements(g, rank) * BX_SLOTS;
    /* a method's two sets of send and receive buffers, and the planes to compare with */
    double buffers = 2.0 * ((double)column_elements(g, rank) + (double)plane_elements(g, rank));
    return (fields + buffers + (double)plane_elements(g, rank)) * sizeof(bx_complex);
}

/* One node's field: parts[rank] addresses each of its ranks' `elements(rank) * copies`. */
static bx_shared create_field(const bx_plan *plan, size_t (*elements)(const bx_geometry *, int),
                              int copies, bx_complex **parts)
{
    const bx_geometry *g = plan->geometry;
    size_t total = 0;
    int first = g->node_first[plan->node_index], last = g->node_first[plan->node_index + 1];
    for (int i = first; i < last; i++)
        total += rounded(elements(g, g->node_ranks[i]) * (size_t)copies);
    bx_shared memory = bx_shared_create(plan->node, total);
    size_t at = 0;
    for (int i = first; i < last; i++) {
        int rank = g->node_ranks[i];
        parts[rank] = memory.base + at;
        at += rounded(elements(g, rank) * (size_t)copies);
    }
    /* whoever uses a page touches it first, which places it in that rank's memory */
    memset(parts[plan->rank], 0,
           elements(g, plan->rank) * (size_t)copies * sizeof(bx_complex));
    return memory;
}

bx_complex *bx_columns(const bx_plan *plan, int rank, int band)
{
    return plan->columns_of[rank] + (size_t)band * column_elements(plan->geometry, rank);
}

bx_complex *bx_planes(const bx_plan *plan, int rank, int slot)
{
    return plan->planes_of[rank] + (size_t)slot * plane_elements(plan->geometry, rank);
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

static void plan_ffts(bx_plan *plan, unsigned planner)
{
    const bx_geometry *g = plan->geometry;
    bx_complex *columns = bx_columns(plan, plan->rank, 0), *planes = bx_planes(plan, plan->rank, 0);
    for (int way = 0; way < 2; way++) {
        int sign = way == BX_FORWARD ? FFTW_FORWARD : FFTW_BACKWARD;
        fftw_plan_with_nthreads(plan->threads);
        if (plan->my_columns > 0)
            plan->fft1d[way] =
                fftw_plan_many_dft(1, &g->nz, plan->my_columns, columns, NULL, 1, g->nz, columns,
                                   NULL, 1, g->nz, sign, planner);
        if (plan->my_planes == 0) continue;
        if (plan->my_planes < plan->threads)
            plan->fft2d_threaded[way] = fftw_plan_dft_2d(g->ny, g->nx, planes, planes, sign, planner);
        fftw_plan_with_nthreads(1);
        plan->fft2d[way] = fftw_plan_dft_2d(g->ny, g->nx, planes, planes, sign, planner);
    }
}

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
    plan->columns_of = calloc((size_t)geometry->ranks, sizeof *plan->columns_of);
    plan->planes_of = calloc((size_t)geometry->ranks, sizeof *plan->planes_of);
    plan->columns_memory = create_field(plan, column_elements, bands, plan->columns_of);
    plan->planes_memory = create_field(plan, plane_elements, BX_SLOTS, plan->planes_of);
    find_empty_runs(plan);
    plan_ffts(plan, planner);
    return plan;
}

void bx_plan_free(bx_plan *plan)
{
    for (int way = 0; way < 2; way++) {
        fftw_destroy_plan(plan->fft1d[way]);
        fftw_destroy_plan(plan->fft2d[way]);
        fftw_destroy_plan(plan->fft2d_threaded[way]);
    }
    bx_shared_free(&plan->columns_memory);
    bx_shared_free(&plan->planes_memory);
    MPI_Comm_free(&plan->node);
    free(plan->columns_of);
    free(plan->planes_of);
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

/* ---- FFTs ---- */

void bx_fft_columns(bx_plan *plan, bx_way way, int band)
{
    bx_complex *columns = bx_columns(plan, plan->rank, band);
    if (plan->my_columns > 0) fftw_execute_dft(plan->fft1d[way], columns, columns);
}

/* A plane is cleared where no column arrives, and transformed while it is in cache. */
static void fft_plane(const bx_plan *plan, fftw_plan fft, bx_way way, bx_complex *plane)
{
    for (int i = 0; way == BX_FORWARD && i < plan->empty_count; i++)
        memset(plane + plan->empty_runs[2 * i], 0,
               (size_t)plan->empty_runs[2 * i + 1] * sizeof *plane);
    fftw_execute_dft(fft, plane, plane);
}

void bx_fft_planes(bx_plan *plan, bx_way way, int slot)
{
    bx_complex *planes = bx_planes(plan, plan->rank, slot);
    if (plan->fft2d_threaded[way]) { /* fewer planes than threads: the threads share each */
        for (int z = 0; z < plan->my_planes; z++)
            fft_plane(plan, plan->fft2d_threaded[way], way, planes + (size_t)z * plan->plane_size);
        return;
    }
#pragma omp parallel for if (plan->threads > 1)
    for (int z = 0; z < plan->my_planes; z++)
        fft_plane(plan, plan->fft2d[way], way, planes + (size_t)z * plan->plane_size);
}

/* ---- copies: runs of `depth` elements along z, one run a column ---- */

enum { LINE = 4 }; /* elements of a cache line: planes are served four at a time */

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

/* The threads of a rank share a block by columns; small blocks are not worth waking them. */
enum { SMALL_BLOCK = 4096 };

typedef struct {
    int first, count;
} share;

static int shares(const bx_plan *plan, int count, int depth)
{
    return plan->threads > 1 && (int64_t)count * depth > SMALL_BLOCK ? plan->threads : 1;
}

static share nth_share(int count, int parts, int n)
{
    int first = (int)((int64_t)count * n / parts), last = (int)((int64_t)count * (n + 1) / parts);
    return (share){first, last - first};
}

/* The three moves, each shared by the threads of the rank: */

static void move_runs(const bx_plan *plan, const bx_complex *from, size_t from_stride,
                      bx_complex *to, size_t to_stride, int count, int depth)
{
    int parts = shares(plan, count, depth);
#pragma omp parallel for if (parts > 1) num_threads(parts)
    for (int n = 0; n < parts; n++) {
        share part = nth_share(count, parts, n);
        size_t first = (size_t)part.first;
        copy_runs(from + first * from_stride, from_stride, to + first * to_stride, to_stride,
                  part.count, depth);
    }
}

/* runs of `owner`'s columns into my planes */
static void scatter_runs(const bx_plan *plan, int owner, const bx_complex *runs, size_t stride,
                         int slot)
{
    const bx_geometry *g = plan->geometry;
    int count = bx_columns_of(g, owner), depth = plan->my_planes;
    const int *xy = g->column_xy + g->column_first[owner];
    int parts = shares(plan, count, depth);
#pragma omp parallel for if (parts > 1) num_threads(parts)
    for (int n = 0; n < parts; n++) {
        share part = nth_share(count, parts, n);
        runs_to_planes(runs + (size_t)part.first * stride, stride,
                       bx_planes(plan, plan->rank, slot), plan->plane_size, xy + part.first,
                       part.count, depth);
    }
}

/* runs of `owner`'s columns out of the planes of `holder` */
static void gather_runs(const bx_plan *plan, int holder, int slot, int owner, bx_complex *runs,
                        size_t stride)
{
    const bx_geometry *g = plan->geometry;
    int count = bx_columns_of(g, owner), depth = bx_planes_of(g, holder);
    const int *xy = g->column_xy + g->column_first[owner];
    int parts = shares(plan, count, depth);
#pragma omp parallel for if (parts > 1) num_threads(parts)
    for (int n = 0; n < parts; n++) {
        share part = nth_share(count, parts, n);
        planes_to_runs(bx_planes(plan, holder, slot), plan->plane_size, xy + part.first,
                       runs + (size_t)part.first * stride, stride, part.count, depth);
    }
}

/* The part of `owner`'s columns that meets the planes of `holder`. */
static bx_complex *crossing(const bx_plan *plan, int owner, int band, int holder)
{
    return bx_columns(plan, owner, band) + plan->geometry->plane_first[holder];
}

void bx_pack(const bx_plan *plan, bx_way way, int band, int slot, int peer, bx_complex *block)
{
    const bx_geometry *g = plan->geometry;
    int depth = bx_planes_of(g, peer);
    if (way == BX_FORWARD)
        move_runs(plan, crossing(plan, plan->rank, band, peer), (size_t)g->nz, block, (size_t)depth,
                  plan->my_columns, depth);
    else
        gather_runs(plan, plan->rank, slot, peer, block, (size_t)plan->my_planes);
}

void bx_unpack(const bx_plan *plan, bx_way way, int band, int slot, int peer,
               const bx_complex *block)
{
    const bx_geometry *g = plan->geometry;
    int depth = bx_planes_of(g, peer);
    if (way == BX_FORWARD)
        scatter_runs(plan, peer, block, (size_t)plan->my_planes, slot);
    else
        move_runs(plan, block, (size_t)depth, crossing(plan, plan->rank, band, peer), (size_t)g->nz,
                  plan->my_columns, depth);
}

void bx_pull(const bx_plan *plan, bx_way way, int band, int slot, int peer)
{
    size_t nz = (size_t)plan->geometry->nz;
    if (way == BX_FORWARD)
        scatter_runs(plan, peer, crossing(plan, peer, band, plan->rank), nz, slot);
    else
        gather_runs(plan, peer, slot, plan->rank, crossing(plan, plan->rank, band, peer), nz);
}
