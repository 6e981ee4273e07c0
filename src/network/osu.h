/* The loops of bisection-osu: a bx_osu_benchmark in osu_benchmarks.c, and a line in osu.def.
 *
 * The rules are those of the OSU micro-benchmarks (Ohio State University, versions 5 to 7): what an
 * iteration sends, who measures, and that all messages of a rank share one buffer. */
#pragma once

#include "bx.h"
#include "osu.def"

enum { BX_OSU_WINDOW = 64, BX_OSU_RECEIPT = 4 }; /* messages; B */

/* This rank's part in a loop. */
typedef struct {
    MPI_Comm comm; /* the world, its ranks numbered node by node, as OSU asks of a launch */
    int rank, size;
    int partner;           /* MPI_PROC_NULL: this rank has no part; not of collective calls */
    bool first;            /* of the two: it sends first, and its clock counts */
    int bytes;             /* of a message, or of a block for each rank */
    char *sent, *received; /* [size][bytes] of alltoall, else [bytes]; BX_OSU_RECEIPT at least */
    MPI_Request requests[2 * BX_OSU_WINDOW];
} bx_osu;

/* Who talks in a benchmark: rank 0 and the first one of the second half of the nodes; each rank of
 * the first half with one of the second half; all. */
typedef enum { BX_OSU_PAIR, BX_OSU_PAIRS, BX_OSU_ALL } bx_osu_who;

typedef struct {
    const char *summary, *wins, *calls; /* of bx_choice */
    bx_osu_who who;
    bool rate;    /* bytes/s are reported; else seconds */
    int messages; /* in an iteration of a pair, both ways together; calls, of collective ones */
    bool receipt; /* then one of BX_OSU_RECEIPT bytes back */
    int at_once;  /* messages of a rank under way at once */
    int loops[2]; /* iterations, up to 8 KiB and beyond; a tenth as many warm up */
    /* Makes so many iterations; returns the seconds that OSU counts on this rank. */
    double (*loop)(bx_osu *s, int iterations);
} bx_osu_benchmark;

#define BX_DECLARE(name, ...) extern const bx_osu_benchmark bx_osu_##name;
BX_METHODS(BX_DECLARE)
