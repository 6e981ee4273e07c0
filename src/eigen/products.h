/* The products of AIMPRO's steps of direct inversion in the iterative subspace (DIIS), by PBLAS. */
#ifndef BX_EIGEN_PRODUCTS_H
#define BX_EIGEN_PRODUCTS_H

#include "solver.h"

typedef struct {
    double *matrix, *density, *one, *two; /* this rank's parts */
} bx_products;

enum { BX_PRODUCT_STEPS = 5, BX_PRODUCTS_PER_STEP = 3 };

/* Allocates the parts of four matrices.  Local. */
bx_products *bx_products_create(const bx_problem *p);
void bx_products_free(bx_products *s);
/* Keeps the matrix of p, which solvers overwrite.  Local. */
void bx_products_keep(bx_products *s, const bx_problem *p);
/* Gives the matrix back.  Local. */
void bx_products_restore(const bx_products *s, bx_problem *p);
/* Builds the density matrix D of the `occupied` lowest eigenvectors of p, blurred so that its
 * eigenvalues are 0.05 and 0.95, and purifies it in BX_PRODUCT_STEPS steps, D = 3 D D - 2 D D D.
 * Each also computes A D, which is Hermitian where D is right: the error that DIIS makes small.
 * Collective over the team.
 */
void bx_products_run(bx_products *s, const bx_problem *p, int occupied);
/* Returns the largest difference of D and A D from exact matrices, in n eps and n |A| eps, on every
 * rank.  Collective over the team. */
double bx_products_error(const bx_products *s, const bx_problem *p, const bx_matrix *density,
                         const bx_matrix *energies);

#endif
