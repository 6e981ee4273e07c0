/* The products of AIMPRO's steps of direct inversion in the iterative subspace (DIIS), by PBLAS. */
#pragma once

#include "solver.h"

typedef struct {
    double *matrix, *density, *energies; /* this rank's parts of A, D and the sum of all A D */
    double *one, *two;
} bx_products;

enum { BX_PRODUCT_STEPS = 5, BX_PRODUCTS_PER_STEP = 3 };

/* Allocates the parts of five matrices.  Local. */
bx_products *bx_products_create(const bx_problem *p);
void bx_products_free(bx_products *s);
/* Keeps the matrix of p, which solvers overwrite.  Local. */
void bx_products_keep(bx_products *s, const bx_problem *p);
/* Writes NaNs to all parts, so that a number that is not computed shows.  Local. */
void bx_products_clear(bx_products *s, const bx_problem *p);
/* Builds the density matrix D of the `occupied` lowest eigenvectors of p, blurred so that its
 * eigenvalues are 0.3 and 0.7, and purifies it in BX_PRODUCT_STEPS steps, D = 3 D D - 2 D D D.
 * Each also adds A D, which is Hermitian where D is right: the error that DIIS makes small, in the
 * sum over steps that DIIS extrapolates from.  Every product shows in D or in the sum.  Collective
 * over the team. */
void bx_products_run(bx_products *s, const bx_problem *p, int occupied);
/* Returns the eigenvalue that D has after these steps where it was `level`, 0 or 1, before it was
 * blurred; writes the sum of those after each step to *sum.  Local. */
double bx_products_level(double level, double *sum);
/* Returns the largest difference of D and of the sum of A D from exact matrices, in n eps and
 * n |A| eps, on every rank.  Collective over the team. */
double bx_products_error(const bx_products *s, const bx_problem *p, const bx_matrix *density,
                         const bx_matrix *energies);
