/* The work of bisection-burn on one rank: matrices, STREAM's arrays, blocks to exchange. */
#pragma once

#include "bx.h"

enum { BX_DGEMM, BX_TRIAD, BX_ALLTOALL, BX_BURN_METHODS };

typedef struct {
    MPI_Comm comm; /* the ranks of the node */
    int rank, ranks, threads;
    uint64_t key;                    /* of the content of blocks; changes with each step */
    int rows;                        /* of the matrices */
    double *a, *b, *c;               /* [rows][rows] c += a b */
    double *weights;                 /* [rows] of the columns of c */
    double *product;                 /* [rows] a (b weights) */
    size_t elements;                 /* of each array of STREAM, on this rank */
    double *arrays[3];               /* [elements] */
    double expected[3];              /* what every element of each array must be */
    int64_t triads, expected_triads; /* passes since the beginning, and those that `expected` has */
    size_t words;                    /* that go from one rank to another */
    uint64_t *out, *in;              /* [ranks][words] */
} bx_burn_work;

/* Returns the bytes that a method needs on this rank. */
double bx_burn_bytes(const bx_burn_work *work, int method);
/* Allocates and fills what a method needs; false: out of memory. */
bool bx_burn_allocate(bx_burn_work *work, int method);
void bx_burn_free(bx_burn_work *work);
/* Fresh input for a step. */
void bx_burn_prepare(bx_burn_work *work, int method);
/* `passes` passes of a method; took[passes]: seconds of each pass, of the triad alone.  Collective
 * over the node but for dgemm. */
void bx_burn_run(bx_burn_work *work, int method, int64_t passes, double *took);
/* Verifies what a step of `passes` passes has left. */
void bx_burn_check(bx_burn_work *work, int method, int64_t passes, bx_verification *verification);
