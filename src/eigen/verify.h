/* Verification of a solution.  Nothing here calls an eigensolver library's parallel code: blocks
 * are gathered by MPI, products are local. */
#pragma once

#include "solver.h"

/* Errors of a solution, in the units of LAPACK's tests: |A V - V L|/(n |A| eps) and
 * |V'V - I|/(n eps), with the largest sum of magnitudes of a column; eigenvalues in n |A| eps.  n
 * counts as 10 at least. */
typedef struct {
    double residual, orthogonality;
    double lapack; /* from eigenvalues of LAPACK's dsyevd, zheevd; 0 for large matrices */
} bx_errors;

/* Returns the errors of the solution in p; they are of the whole matrix on every rank.  Infinite
 * where a number is not finite, or a vector is missing.  Collective over the team. */
bx_errors bx_verify_solution(const bx_problem *p);
/* Returns the error of A x - V L V'x, in n |A| |x| eps, and writes that of x - V V'x, in n |x| eps,
 * to *complete, for one vector x: cheap enough for every step.  Collective over the team. */
double bx_verify_probe(const bx_problem *p, double *complete);
/* Returns the largest error of this rank's eigenvalues, which must be all of the matrix, in n |A|
 * eps: from the prescribed ones in ascending order, and from those of the team's first rank place
 * by place.  Collective over the team. */
double bx_verify_eigenvalues(const bx_problem *p);
/* Returns how many of this rank's numbers of the matrix are not finite.  Local. */
double bx_verify_count_not_finite(const bx_problem *p);
/* Returns the distance of a guess of the eigenvectors in v from these, root mean square. Collective
 * over the team, each rank of which has whole columns. */
double bx_verify_guess(const bx_problem *p);
/* Returns the doubles that bx_verify_solution allocates on this rank.  Local. */
double bx_verify_memory(const bx_problem *p);
