/* A distributed 3D FFT: the fields of one team of ranks, its FFTs, and the copies that every
 * exchange method is made of.  Local, unless a function says otherwise. */
#pragma once

#include "bx.h"
#include "geometry.h"
#include "window.h"

#include <complex.h>
#include <fftw3.h>

#ifndef CMPLX /* of C11; the C library leaves it to GCC alone */
#define CMPLX(re, im)                                                                              \
    ((union {                                                                                      \
         double part[2];                                                                           \
         double _Complex both;                                                                     \
     }){{re, im}}                                                                                  \
         .both)
#endif

typedef double _Complex bx_complex;

/* The phases of bx_kernel.phases. */
enum { BX_PHASE_FFT1D, BX_PHASE_PACK, BX_PHASE_EXCHANGE, BX_PHASE_UNPACK, BX_PHASE_FFT2D };
/* Bands whose planes can be held at once. */
enum { BX_SLOTS = 2 };

/* Columns transformed at once: rows of whole cache lines, few enough for L1. */
enum { BX_GROUP = 8 };

/* The two ends of a row of a plane. */
enum { BX_X_RUNS = 2 };

/* Elements exchanged with each rank [ranks], 0 with oneself, and where its block begins [ranks]: in
 * the half-transformed field, where blocks are in rank order, and in a buffer of blocks on the side
 * of the planes, of plane_total elements. */
typedef struct {
    int *half_length, *half_at, *plane_length, *plane_at;
    size_t plane_total;
} bx_lengths;

struct bx_plan;
struct bx_plane_part;
/* The copies that methods are made of where fields lie, on the host or on a device: the functions
 * below that have these names. */
typedef struct {
    void (*repack)(const struct bx_plan *plan, const struct bx_plane_part *part, int peer,
                   bx_complex *block);
    void (*repack_others)(const struct bx_plan *plan, const struct bx_plane_part *part,
                          bx_complex *buffer);
    void (*copy_others)(const struct bx_plan *plan, const struct bx_plane_part *part,
                        bx_complex *planes);
} bx_plan_copies;
extern const bx_plan_copies bx_plan_on_host, bx_plan_on_device;
/* An index on a device (plan_device.c). */
typedef struct bx_plan_index bx_plan_index;

/* A rank's columns a, b and c, of four points; ranks 0 and 1 have two planes each:
 *
 *     columns               half             exchange      planes of rank 0, [y][x]
 *   a  | 0 1 2 3 |     0 | a b c | rank 0                   0  . . . .     1  . . . .
 *   b  | 0 1 2 3 |     1 | a b c | rank 0   --------->         . a b .        . a b .
 *   c  | 0 1 2 3 |     2 | a b c | rank 1   a b c a b c        . . c .        . . c .
 *       [c][length]    3 | a b c | rank 1                      . d e .        . d e .
 *   FFTs along rows       [length][c]                       FFTs along y and x
 *
 * The half-transformed field has a row per plane, of the rank's columns that cross it: what goes to
 * or comes from a rank is contiguous, and blocks are in rank order.  Methods exchange between it
 * and the planes, where d and e have come from other ranks; "repack" copies blocks to their places
 * there.  The inverse goes the same way back.  A second exchange has a plan of its own, whose
 * columns are the planes of the first. */
typedef struct bx_plan {
    bx_run *run;
    MPI_Comm team; /* ranks that share this grid */
    MPI_Comm node; /* those of them on my node */
    int rank, node_index, node_rank;
    const bx_geometry *geometry;
    int bands, threads;
    /* As published (Bethune 2010, sections 4.1 to 4.3, 5.1.1): blocks between ranks of one node go
     * through the node-aggregated methods' exchange, too; blocks are packed on both
     * sides, by p2p while messages travel.  Set before a method is created. */
    bool published;
    /* Fields lie in memory of a device; MPI is given a copy of them on the host. */
    bool copied, staged;
    const bx_plan_copies *copies;
    bx_plan_index **indices;                        /* a list */
    struct bx_device_fft *columns_fft, *planes_fft; /* on a device, of a band; NULL: none */
    struct bx_plan *inner; /* of the second exchange; NULL: there is none */
    int my_columns, my_planes;
    int plane_group;        /* planes that are packed or unpacked at a time, while in cache */
    size_t plane_size;      /* plane_nx * plane_ny */
    bx_complex *columns;    /* [bands][my_columns][length] */
    bx_complex *planes;     /* [BX_SLOTS][my_planes][plane_ny][plane_nx]; none with `inner` */
    bx_shared halves;       /* half-transformed fields of all ranks of the node, if shared */
    bx_complex **halves_of; /* [my node's ranks] if shared; else this rank's alone */
    int *run_left; /* [columns] columns from here that adjoin in their planes, of the same rank */
    /* x that have columns: a sphere has them at both ends of a row, and only those are transformed
     * along y. */
    int x_first[BX_X_RUNS], x_length[BX_X_RUNS], x_runs;
    /* For each thread, of the host: a group of planes before the forward and one after the inverse
     * transform (where no column arrives the first stays zero for ever), a plane transformed along
     * y (zero where x has no columns), one in real space, and a group of columns,
     * [length][BX_GROUP].  With `inner`, only the last. */
    bx_complex *plane_stage[2], *plane_between, *plane_work, *column_stage; /* [bx_direction] */
    fftw_plan fft_group[2], fft_rest[2]; /* [bx_direction] a group of columns, and the last */
    /* [bx_direction] a plane: along y from or to the stage, along x from between, back within a
     * field */
    fftw_plan fft_y[2][BX_X_RUNS], fft_x, fft_x_back;
    bx_lengths lengths;
    size_t *row_at; /* [planes of all ranks] where a row of the half-transformed begins */
    int *plane_point, *plane_batch; /* [my_planes + 1] of each of my planes, and of the next */
    int *row_left;                  /* [my_columns] columns from here to the end of its row */
    bool swapped[BX_SLOTS]; /* the two half-transformed fields of a slot have changed places */
} bx_plan;

/* Returns the bytes of the fields of a rank with so many columns, planes, bands and threads; shape:
 * plane_nx, plane_ny, length. */
double bx_plan_field_bytes(const int shape[3], int columns, int planes, int bands, int threads);
/* Returns the bytes of the fields and tables of `rank`, without the methods' (bx_exchange_bytes).
 */
double bx_plan_bytes(const bx_geometry *g, int rank, int bands, int threads);

/* Returns the fields and FFTs of `bands` bands for the ranks of `team`, which share the grid
 * `geometry`; it must live as long as the plan.  `planner` is an FFTW planner flag.  Collective
 * over `team`. */
bx_plan *bx_plan_create(bx_run *run, MPI_Comm team, const bx_geometry *geometry, int bands,
                        unsigned planner);
/* Collective over the team. */
void bx_plan_free(bx_plan *plan);

/* Moves the half-transformed fields to a window, where all ranks of a node can address each
 * other's. Returns false where it cannot be had (bx_window_why).  Collective over the world. */
bool bx_plan_share_halves(bx_plan *plan);

/* Writes NaNs to all fields that a method writes: the right answer that another method left there
 * must not pass for its own. */
void bx_plan_fill_nan(bx_plan *plan);
/* Writes NaNs to field[count]. */
void bx_buffer_fill_nan(bx_complex *field, size_t count);
/* Exchanges the two half-transformed fields of a slot: what the exchanges alone have brought back
 * is the input of the next step, so that an error of any exchange lasts. */
void bx_plan_swap(bx_plan *plan, int slot);

/* Elements of a rank's columns of a band; of its planes. */
static inline size_t bx_plan_column_elements(const bx_geometry *g, int rank)
{
    return (size_t)bx_geometry_columns(g, rank) * (size_t)g->length;
}

static inline size_t bx_plan_plane_elements(const bx_geometry *g, int rank)
{
    return (size_t)bx_geometry_planes(g, rank) * (size_t)g->plane_nx * (size_t)g->plane_ny;
}

/* Returns the plan whose planes are real space: of the last exchange. */
bx_plan *bx_plan_last(bx_plan *plan);
/* Returns this rank's columns of a band, [my_columns][length]. */
bx_complex *bx_plan_columns(const bx_plan *plan, int band);
/* Returns this rank's planes in a slot, [my_planes][plane_ny][plane_nx]: with `inner`, its columns,
 * of which each direction has its own. */
bx_complex *bx_plan_planes(const bx_plan *plan, bx_direction way, int slot);
/* Returns the half-transformed field of this rank, or where they are shared of a rank of this node,
 * [length][columns of the rank]. */
bx_complex *bx_plan_half(const bx_plan *plan, bx_direction way, int slot, int rank);
/* Returns the part of it that belongs to the planes of `peer`: a block, [planes of peer][columns of
 * the rank]. */
bx_complex *bx_plan_half_block(const bx_plan *plan, bx_direction way, int slot, int rank, int peer);

/* A rank's half-transformed field by rows, one per plane of all ranks: a row, of the columns that
 * cross the plane, begins at base + at[plane]. */
typedef struct {
    bx_complex *base;
    const size_t *at;
} bx_rows;
/* Returns the rows that one of my columns is in, from that column on: its point z stands at base +
 * at[z * batches]. */
static inline bx_rows bx_rows_from(const bx_plan *plan, bx_rows half, int column)
{
    const bx_geometry *g = plan->geometry;
    int batch = g->column_batch[g->column_first[plan->rank] + column];
    return (bx_rows){half.base + (column - bx_geometry_before(g, plan->rank, batch)),
                     half.at + batch};
}
/* Returns where a point of one of my columns stands. */
static inline bx_complex *bx_rows_element(const bx_plan *plan, bx_rows half, int column, int point)
{
    bx_rows rows = bx_rows_from(plan, half, column);
    return rows.base + rows.at[(size_t)point * (size_t)plan->geometry->batches];
}

/* Planes first .. last-1 of this rank, which stand at `planes`, and are repacked while in cache:
 * forward, blocks are copied into them; inverse, they are copied into blocks. */
typedef struct bx_plane_part {
    bx_direction way;
    int slot, first, last;
    bx_complex *planes;
} bx_plane_part;

/* Columns first .. last-1. */
typedef struct {
    int first, last;
} bx_columns;
/* Returns a peer's columns that cross one of my planes; plan->run_left has their runs. */
static inline bx_columns bx_plan_crossing(const bx_plan *plan, int peer, int z)
{
    const bx_geometry *g = plan->geometry;
    int first = g->column_first[peer], batch = plan->plane_batch[z];
    return (bx_columns){first + bx_geometry_before(g, peer, batch),
                        first + bx_geometry_before(g, peer, batch + 1)};
}
/* Copies a part's share of a block, [my_planes][columns of peer that cross the plane]; of one's own
 * block, which stands in the half-transformed field. */
static inline void bx_plan_repack(const bx_plan *plan, const bx_plane_part *part, int peer,
                                  bx_complex *block)
{
    plan->copies->repack(plan, part, peer, block);
}
void bx_plan_repack_own(const bx_plan *plan, const bx_plane_part *part);

/* Copies a part's share of all blocks: buffer[plane_total] has those of the other ranks. */
static inline void bx_plan_repack_all(const bx_plan *plan, const bx_plane_part *part,
                                      bx_complex *buffer)
{
    plan->copies->repack_others(plan, part, buffer);
    bx_plan_repack_own(plan, part);
}
/* Copies what the blocks of other ranks have between a part and whole planes. */
static inline void bx_plan_copy_others(const bx_plan *plan, const bx_plane_part *part,
                                       bx_complex *planes)
{
    plan->copies->copy_others(plan, part, planes);
}
/* One MPI_Alltoallv between such a buffer and one like the half-transformed field, from which
 * forward blocks are sent; `request`: MPI_Ialltoallv, or NULL.  Collective over the team. */
void bx_plan_alltoallv(const bx_plan *plan, bx_direction way, bx_complex *half, bx_complex *buffer,
                       MPI_Request *request);
/* Makes the persistent request of the same, of MPI 4.  Collective over the team. */
void bx_plan_alltoallv_init(const bx_plan *plan, bx_direction way, bx_complex *half,
                            bx_complex *buffer, MPI_Request *request);

/* Returns a buffer like a rank's half-transformed field, where blocks are packed that are sent, and
 * come in (Bethune 2010, section 4); NULL unless that is to be done as published.
 * bx_plan_buffer_free. */
bx_complex *bx_plan_create_packed(const bx_plan *plan);
/* Copies a peer's block of the half-transformed field to such a buffer, inverse: back.  NULL:
 * nothing is copied.  Returns where the block is exchanged. */
bx_complex *bx_plan_copy_packed(const bx_plan *plan, bx_direction way, int slot, int peer,
                                bx_complex *packed);

/* Zeroes field[elements] by the threads that use it, each `chunk` elements at a time as in the
 * loops of a transform: a page lies in the memory of the thread that writes to it first. */
void bx_plan_zero(const bx_plan *plan, bx_complex *field, size_t elements, size_t chunk);
/* Copies from[count] to to[count], shared by the rank's threads. */
void bx_plan_copy(const bx_plan *plan, bx_complex *to, const bx_complex *from, size_t count);

/* Returns an aligned buffer, freed by fftw_free; never NULL. */
bx_complex *bx_buffer_create(size_t elements);
/* The same of what MPI is given, or what is copied from and to it: where --buffers says
 * (comm_buffers.h), whose `exchanged` it is. */
bx_complex *bx_plan_buffer_create(size_t elements);
void bx_plan_buffer_free(bx_complex *buffer);

/* ---- on a device (plan_device.c): queued, until bx_comm_buffers_sync ---- */

/* Copies columns [my_columns][length] to the half-transformed field forward; inverse, back. */
void bx_plan_move_columns(const bx_plan *plan, bx_direction way, bx_complex *columns, bx_rows half);
/* Copies what is exchanged of a half-transformed field from the device forward; inverse, to it. */
void bx_plan_stage_half(const bx_plan *plan, bx_direction way, bx_rows half);
/* Transforms in place what a plan's columns_fft or planes_fft is for, columns [my_columns][length]
 * or all planes of a slot: neither library promises to keep what it reads. */
void bx_plan_fft_on_device(const struct bx_device_fft *fft, bx_direction way, bx_complex *field);
/* Zeroes the planes of a slot, which are then zero where no column arrives. */
void bx_plan_clear_planes(const bx_plan *plan, bx_complex *planes);
/* Plans these FFTs, or refuses with BX_USAGE where there is no library of them, or it refuses a
 * plan.  Returns as bx_run_agree.  Collective over the run. */
int bx_plan_create_device_ffts(bx_plan *plan);
/* Bytes of the work areas of these plans on a device, if each is as large as what it transforms:
 * lengths with a prime factor above 127 take more (cuFFT's manual), and are refused later. */
double bx_plan_device_ffts_bytes(const bx_geometry *g, int rank);
/* Frees what a plan has on a device. */
void bx_plan_free_device(bx_plan *plan);

/* Rounds elements up to whole pages, so that no two ranks write one page. */
size_t bx_plan_paged(size_t elements);
