/* Matrices with known eigenvalues and eigenvectors, whose entries cost O(1) on every rank alike.
 *
 * A real matrix is S diag(d) S, with the sine vectors S_ik = sqrt(2/(n+1)) sin(pi i k/(n+1)); so
 * A_ij = c(|i-j|) - c(i+j), with c(m) = sum_k d_k cos(pi m k/(n+1))/(n+1), i, j, k from 1.  A
 * complex one is D A D^H, with D_ii a number of modulus 1. Complex numbers are pairs of doubles. */
#pragma once

#include <mpi.h>
#include <stdbool.h>

/* How the eigenvalues lie.  fock: clusters of core levels, valence bands, a gap with one level in
 * it, and virtual levels, as of lithium fluoride with an F centre. */
typedef enum { BX_UNIFORM, BX_CLUSTERED, BX_GRADED, BX_FOCK, BX_SPECTRUM_COUNT } bx_spectrum;

typedef struct {
    int n;
    int parts;       /* doubles per element: 1 real, 2 complex */
    double *value;   /* [n] eigenvalue of sine vector k */
    double *sorted;  /* [n] eigenvalues, ascending */
    int *order;      /* [n] the sine vector of each */
    double *cosines; /* [2 n + 3] c(m) */
    double *sines;   /* [2 n + 2] sin(pi m/(n+1)) */
    double *turn;    /* [2 n] D_ii, complex */
    bool repeated;   /* whether eigenvalues are equal */
    double norm;     /* largest sum of magnitudes of a column */
} bx_matrix;

/* Returns a matrix of n rows; matrices of different k-points differ in their eigenvalues and
 * vectors.  The caller frees it by bx_matrix_free.  Local. */
bx_matrix *bx_matrix_create(int n, bx_spectrum spectrum, bool is_complex, int kpoint);
void bx_matrix_free(bx_matrix *m);
/* Returns the matrix with the same eigenvectors, whose eigenvalues are levels[1] for the `occupied`
 * lowest levels of m and levels[0] for all others, with `weighted` times those of m: a density
 * matrix, or its product with m. */
bx_matrix *bx_matrix_create_density(const bx_matrix *m, int occupied, const double levels[2],
                                    bool weighted);
/* Writes the entries of the given rows of one column, numbers from 0: entries[rows parts]. */
void bx_matrix_fill(const bx_matrix *m, int rows, const int *row, int column, double *entries);
/* Writes the eigenvector of the eigenvalue sorted[j] to vector[n parts].  With error > 0 all such
 * vectors are turned by the same orthogonal matrix, so that they stay orthogonal and each is wrong
 * by about `error`. */
void bx_matrix_vector(const bx_matrix *m, int j, double error, double *vector);
/* Tells a hollow run the spectrum, see bx_charge_spectrum.  Collective over the team. */
void bx_matrix_publish_spectrum(const bx_matrix *m, MPI_Comm team);
/* Returns the greatest common divisor. */
int bx_common_divisor(int a, int b);
/* Returns the levels up to the widest gap in the middle half of the spectrum; *gap: its width,
 * infinite where there is one level.  Local. */
int bx_matrix_occupied(const bx_matrix *m, double *gap);
