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

typedef struct {
    bx_run *run;
    MPI_Comm team; /* ranks that share this grid */
    MPI_Comm node; /* those of them on my node */
    int rank, node_index, node_rank;
    const bx_geometry *geometry;
    int bands, threads;
    int my_columns, my_planes;
    size_t plane_size;                    /* nx * ny */
    bx_shared columns_memory, planes_memory;
    bx_complex **columns_of, **planes_of; /* [ranks] fields of my node's ranks; NULL off node */
    int *empty_runs; /* [2 * empty_count] start and length of the parts of a plane without columns */
    int empty_count;
    fftw_plan fft1d[2], fft2d[2], fft2d_threaded[2]; /* [bx_way] */
} bx_plan;

/* Bytes of the fields of this rank. */
double bx_plan_bytes(const bx_geometry *g, int rank, int bands);

/* Collective over `team`.  `planner` is an FFTW planner flag. */
bx_plan *bx_plan_create(bx_run *run, MPI_Comm team, const bx_geometry *geometry, int bands,
                        unsigned planner);
void bx_plan_free(bx_plan *plan);

/* Columns of `band` [my_columns][nz]; planes in `slot` [my_planes][ny][nx]; of any rank of my node. */
bx_complex *bx_columns(const bx_plan *plan, int rank, int band);
bx_complex *bx_planes(const bx_plan *plan, int rank, int slot);

/* The local FFTs, unnormalised: forward exp(-i), inverse exp(+i). */
void bx_fft_columns(bx_plan *plan, bx_way way, int band);
void bx_fft_planes(bx_plan *plan, bx_way way, int slot); /* forward: clears the empty columns first */

/* A block is what goes from one rank to another, [columns][planes].  These move the block for or
 * from `peer` between my field and a message: */
void bx_pack(const bx_plan *plan, bx_way way, int band, int slot, int peer, bx_complex *block);
void bx_unpack(const bx_plan *plan, bx_way way, int band, int slot, int peer,
               const bx_complex *block);
/* and this straight from the field of a rank of my node (or myself) to mine: */
void bx_pull(const bx_plan *plan, bx_way way, int band, int slot, int peer);

/* Elements I send to, and receive from, each rank [ranks], and their running sums; nothing to
 * myself: bx_pull does that. */
typedef struct {
    int *send, *send_at, *receive, *receive_at;
    size_t send_total, receive_total;
} bx_lengths;
bx_lengths bx_lengths_create(const bx_plan *plan, bx_way way);
void bx_lengths_free(bx_lengths *lengths);

bx_shared bx_shared_create(MPI_Comm node, size_t elements);
void bx_shared_free(bx_shared *memory);
/* Orders what my node's ranks have written before what they read after. */
void bx_shared_sync(const bx_shared *memory, MPI_Comm node);

bx_complex *bx_buffer(size_t elements); /* aligned, never NULL */

#endif
