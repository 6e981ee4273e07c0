/* An exchange method: one file, and one line in transpose.def. */
#pragma once

#include "charge.h"
#include "comm_buffers.h"
#include "plan.h"
#include "transpose.def"

/* A method exchanges between the half-transformed field and the planes of a slot.  Forward: start,
 * finish, then repack for every part of the planes.  Inverse: repack for every part, then start and
 * finish.  `self` is what create has returned. */
typedef struct bx_transpose_method {
    bx_choice about;
    int lag; /* bands between start and finish */
    /* Returns whether it can run on a geometry; if not, the reason is in `why` (at most why_size
     * bytes).  NULL: always. */
    bool (*applicable)(const bx_geometry *g, char *why, size_t why_size);
    /* Returns the bytes that create allocates on `rank` at most, with its datatypes and, on the
     * first rank of a node, the node's windows; and what MPI has beside during an exchange. */
    double (*bytes)(const bx_geometry *g, int rank, bool published);
    /* Returns the method's state, with all its buffers; NULL where a window cannot be had
     * (bx_window_why).  `leaders` is the number of exchanging ranks per node asked for, or 0.
     * Collective over the world. */
    void *(*create)(bx_plan *plan, int leaders);
    /* Starts one exchange.  Collective over the team. */
    void (*start)(void *self, bx_direction way, int slot);
    /* Completes it.  NULL: start has done it all.  Collective over the team. */
    void (*finish)(void *self, bx_direction way, int slot);
    /* Copies what has come into a part of the planes (forward), or a part of the planes to where it
     * is sent from (inverse).  Several threads call it at once. */
    void (*repack)(void *self, const bx_plane_part *part);
    /* Returns the half-transformed field, where it is not the plan's.  NULL: it is. */
    bx_rows (*rows)(void *self, bx_direction way, int slot);
    /* Collective over the team. */
    void (*destroy)(void *self);
    /* What its name promises, beside the calls of MPI (bx_choice.calls): what it sends, in closed
     * form; whether the messages of all pairs of ranks that have data are under way at once;
     * whether columns of other bands are transformed while messages are under way; whether MPI is
     * called for each group of planes meanwhile. */
    bx_counting *count;
    const char *host_only; /* why it cannot take memory of a device; NULL: it can */
    bool at_once, overlaps, polls;
} bx_transpose_method;

/* Bytes that MPI libraries have per message in flight, per datatype of several blocks, and per
 * block.  By mallinfo2, of 6,200 messages of 24 kB on 32 ranks, and 2,000 datatypes: 873, 505 and
 * 168 in Open MPI 4.1; 658, 509 and 10 in MPICH 4.0, both through shared memory.
 * SimGrid's messages may take no time, and are none in flight then (at_once.c). */
enum { BX_MPI_MESSAGE = BX_IS_SIMULATED ? 0 : 896, BX_MPI_TYPE = 512, BX_MPI_TYPE_BLOCK = 176 };

/* What a rank exchanges with others, in elements: of its columns, which have `all_columns` with
 * what stays, and of its planes; and the most ranks that have them. */
typedef struct {
    double all_columns, columns, planes, column_peers, plane_peers;
} bx_exchanged;
bx_exchanged bx_transpose_method_exchanged(const bx_geometry *g, int rank);
/* Returns the bytes of a buffer of each kind of so many elements. */
static inline double bx_transpose_method_buffers(double count, double elements)
{
    return count * elements * (double)sizeof(bx_complex);
}
/* Returns what MPI has during an exchange with every rank: a receive and a send each. */
static inline double bx_transpose_method_in_flight(const bx_geometry *g)
{
    return 2.0 * BX_MPI_MESSAGE * g->ranks;
}

#define BX_DECLARE(name) extern const bx_transpose_method bx_transpose_method_##name;
BX_METHODS(BX_DECLARE)

/* Every method [bx_transpose_method_count], in the order of transpose.def and --list (methods.c).
 */
extern const bx_transpose_method *const bx_transpose_methods[];
extern const int bx_transpose_method_count;
