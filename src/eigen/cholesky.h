/* Cholesky's factor of a matrix that a team, or each rank, has. */
#pragma once

#include "solver.h"

/* Replaces the upper triangle of p->a, a positive definite matrix of blocks on a grid of ranks or
 * of one rank's whole columns, by U with A = U'U: ScaLAPACK's pdpotrf and pzpotrf, LAPACK's dpotrf
 * and zpotrf.  Returns INFO, above 0 if the matrix is not positive definite.  Collective over the
 * team. */
int bx_cholesky_factor(bx_problem *p);
