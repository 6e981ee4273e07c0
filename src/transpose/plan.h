/* A distributed 3D FFT: the fields of one team of ranks, its FFTs, and the copies that every
 * exchange method is made of. */
#ifndef BX_TRANSPOSE_PLAN_H
#define BX_TRANSPOSE_PLAN_H

#include "bx.h"
#include "geometry.h"

#include <complex.h>
#include <fftw3.h>

typedef double _Complex bx_complex;

enum { BX_PHASE_FFT1D, BX_PHASE_PACK, BX_PHASE_EXCHANGE, BX_PHASE_UNPACK, BX_PHASE_FFT2D };
enum { BX_SLOTS = 2 }; /* bands whose planes can be held at once */

/* Memory that all ranks of a node can address; the node's first rank allocates it whole, as MPI
 * libraries differ in what they return for a part (SimGrid returns the first rank's). */
typedef struct {
    MPI_Win window;
    bx_complex *base;
} bx_shared;

enum { BX_GROUP_PLANES = 4 }; /* a cache line holds 4 elements of a column: planes go by fours */

typedef struct {
    bx_run *run;
    MPI_Comm team; /* ranks that share this grid */
    MPI_Comm node; /* those of them on my node */
    int rank, node_index, node_rank;
    const bx_geometry *geometry;
    int bands, threads;
    int my_columns, my_planes;
    size_t plane_size; /* nx * ny */
    bx_shared columns_memory;
    bx_complex **columns_of; /* [ranks] columns of my node's ranks; NULL off node */
    bx_complex *planes;      /* [BX_SLOTS][my_planes][ny][nx] */
    /* [threads][BX_GROUP_PLANES][ny][nx]: a group of planes before the forward, after the inverse
     * transform.  Where no column arrives, the first stays zero for ever. */
    bx_complex *stage[2]; /* [bx_way] */
    int *empty_runs; /* [2 * empty_count] start and length of the parts of a plane without columns */
    int empty_count;
    int group_columns; /* as many as stay in the first-level cache */
    fftw_plan fft_group[2], fft_rest[2];      /* [bx_way] columns, a group and what is left over */
    fftw_plan fft_staged[2], fft_in_place[2]; /* [bx_way] a plane, between stage and field or within */
} bx_plan;

/* Bytes of the fields of this rank. */
double bx_plan_bytes(const bx_geometry *g, int rank, int bands, int threads);

/* Collective over `team`.  `planner` is an FFTW planner flag. */
bx_plan *bx_plan_create(bx_run *run, MPI_Comm team, const bx_geometry *geometry, int bands,
                        unsigned planner);
void bx_plan_free(bx_plan *plan);

/* Columns of `band` [columns][nz], of any rank of my node. */
bx_complex *bx_columns(const bx_plan *plan, int rank, int band);
/* My planes in `slot` [my_planes][ny][nx]. */
bx_complex *bx_planes(const bx_plan *plan, int slot);

/* A part of my field that is packed or unpacked at once, while it is in cache: columns first..last-1
 * of `band`, or planes first..last-1, which stand at `planes`. */
typedef struct {
    int band, first, last;
    bx_complex *planes;
} bx_part;

/* A block is what goes from one rank to another, [columns][planes].  These move the part's share of
 * the block for or from `peer`; forward packs columns and unpacks planes, inverse the mirror: */
void bx_pack(const bx_plan *plan, bx_way way, const bx_part *part, int peer, bx_complex *block);
void bx_unpack(const bx_plan *plan, bx_way way, const bx_part *part, int peer,
               const bx_complex *block);
/* and this, without a block, between planes of mine and the columns of a rank of my node or my own:
 * when unpacking forward, when packing inverse. */
void bx_move(const bx_plan *plan, bx_way way, const bx_part *part, int owner);

/* Elements I send to, and receive from, each rank [ranks], and their running sums; nothing to
 * myself: bx_move does that. */
typedef struct {
    int *send, *send_at, *receive, *receive_at;
    size_t send_total, receive_total;
} bx_lengths;
bx_lengths bx_lengths_create(const bx_plan *plan, bx_way way);
void bx_lengths_free(bx_lengths *lengths);
/* bx_pack for, bx_unpack from every other rank, in one buffer laid out as `lengths` says, and
 * bx_move of my own block. */
void bx_pack_all(const bx_plan *plan, bx_way way, const bx_part *part, const bx_lengths *lengths,
                 bx_complex *buffer);
void bx_unpack_all(const bx_plan *plan, bx_way way, const bx_part *part, const bx_lengths *lengths,
                   const bx_complex *buffer);

bx_shared bx_shared_create(MPI_Comm node, size_t elements);
void bx_shared_free(bx_shared *memory);
/* Orders what my node's ranks have written before what they read after. */
void bx_shared_sync(const bx_shared *memory, MPI_Comm node);

bx_complex *bx_buffer(size_t elements); /* aligned, never NULL */

#endif
