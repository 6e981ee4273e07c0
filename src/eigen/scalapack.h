/* The workspace of ScaLAPACK's eigensolvers: what their query asks for, and slack, as some ask for
 * too little where the matrix has fewer rows than the grid has blocks. */
#pragma once

#include "libraries.h"
#include "solver.h"

typedef struct bx_scalapack {
    double *work, *rwork; /* [lwork parts], [lrwork] */
    int *iwork;           /* [liwork] */
    int lwork, lrwork, liwork;
    int *failed, *clusters; /* [n], [2 ranks] of the expert drivers */
    double *gaps;           /* [ranks] */
} bx_scalapack;

/* One call of a driver, which writes its sizes to work[0], rwork[0] and iwork[0] where lwork is -1.
 * Returns INFO. */
typedef int bx_scalapack_call(bx_scalapack *w, bx_problem *p);

/* Asks `call` for its sizes; the workspace has them, slack, and `extra` real numbers more.
 * Collective over the team. */
void *bx_scalapack_create(const bx_problem *p, bx_scalapack_call *call, size_t extra);
void bx_scalapack_free(void *workspace);
