/* A method: a line in eigen.def, and a bx_solver in the file of its library. */
#pragma once

#include "bx.h"
#include "distribution.h"
#include "eigen.def"
#include "matrix.h"

#define BX_SCALAPACK "ScaLAPACK" /* the region of its calls of MPI */

/* The phases of a step, see bx_kernel. */
enum { BX_INTEGRALS, BX_SOLVE, BX_RING, BX_PRODUCTS, BX_PHASE_COUNT };

/* What is done with workspace: counted for a claim of memory, allocated, or also brought into
 * memory before a solver is timed. */
typedef enum { BX_COUNTED, BX_ALLOCATED, BX_TOUCHED } bx_workspace;

/* One matrix that a team solves, and its solution. */
typedef struct {
    bx_run *run;
    const bx_matrix *matrix; /* the kernel's own, for verification: solvers do without it */
    const bx_distribution *distribution;
    int parts;          /* doubles of an entry: 1 real, 2 complex */
    bool repeated;      /* eigenvalues may be equal */
    double guess_error; /* of the vectors in v at the start; negative: v holds no guess */
    size_t capacity;    /* doubles of a and of v */
    double *a;          /* [columns][rows parts] this rank's part of the matrix; a solver may
                           overwrite it */
    double *v;          /* [columns][rows parts] this rank's part of the eigenvectors */
    double *w;          /* [n] eigenvalues, the same on every rank of the team */
    int *number;        /* [columns] the eigenvalue that belongs to each column of v */
    int sweeps;         /* of an iterative solver; 0 for a direct one */
    bx_workspace workspace;
    double *bytes; /* counts the bytes of this rank's workspace */
} bx_problem;

/* A solver: `self` is what create has returned.  All procedures are collective over the team. */
typedef struct bx_solver {
    bx_choice about;
    /* It wants whole columns: the first that a rank has of n columns.  NULL: it wants blocks. */
    int (*first_column)(int n, int ranks, int rank);
    bool alone;           /* one rank solves the problem: the baseline */
    const char *library;  /* that calls MPI: the region of its calls; NULL: none does */
    double cost;          /* its time, about, in times of LAPACK's on one core */
    double orthogonality; /* largest error that is correct, n eps */
    double hidden; /* workspace that a library allocates and does not tell: parts of the matrix */
    /* Writes why it cannot solve such problems to `why`, and returns false.  NULL: it can. */
    bool (*applicable)(const bx_problem *p, char *why, size_t why_size);
    /* Returns the least doubles of a and v, where they are more than the rank's part.  NULL. */
    size_t (*capacity)(const bx_problem *p);
    /* Prepares the workspace, all by bx_solver_workspace. */
    void *(*create)(const bx_problem *p);
    /* Solves; returns 0, or the library's INFO. */
    int (*solve)(void *self, bx_problem *p);
    void (*destroy)(void *self);
} bx_solver;

#define BX_DECLARE(name) extern const bx_solver bx_solver_##name;
BX_METHODS(BX_DECLARE)
extern const bx_solver bx_solver_dsyevd;
/* The same LAPACK on all cores of a rank, which solves the problem by itself. */
extern const bx_solver bx_solver_lapack;

/* Every method [bx_solver_count], in the order of eigen.def, and the baseline (solvers.c). */
extern const bx_solver *const bx_solvers[];
extern const int bx_solver_count;

/* Counts `count` doubles of workspace and returns them, NULL where they are only counted; the
 * caller frees them.  Local. */
double *bx_solver_workspace(const bx_problem *p, size_t count);
/* Begins to watch this process's memory, which libraries take while a solver is open.  Local. */
void bx_resident_watch(void);
/* Returns the bytes by which the process was larger, at most, since bx_resident_watch; 0 where the
 * system does not tell.  Local. */
double bx_resident_peak(void);
/* LAPACK's dsyevd and zheevd for matrices of one size, in place (baseline_dsyevd.c).  All local. */
typedef struct {
    double *work, *rwork;
    int *iwork;
    int parts, lwork, lrwork, liwork;
} bx_lapack;

bx_lapack bx_lapack_create(const bx_problem *p, int n);
/* Solves n rows at most of a matrix with `leading` rows in memory; job: "V", vectors in the place
 * of the matrix, or "N", none.  Returns INFO. */
int bx_lapack_solve(const bx_lapack *s, const char *job, int n, double *a, int leading, double *w);
void bx_lapack_free(bx_lapack *s);
/* Adds ELPA's version to the result, if the kernel is built with it. */
void bx_elpa_name_library(void);
