/* BLAS, LAPACK, BLACS, PBLAS and ScaLAPACK, as C sees them.  Complex numbers are pairs of doubles.
 * Fortran wants the lengths of texts at the end. */
#pragma once

#include <mpi.h>
#include <stddef.h>

int Csys2blacs_handle(MPI_Comm comm);
void Cfree_blacs_system_handle(int handle);
void Cblacs_gridinit(int *context, const char *order, int rows, int columns);
void Cblacs_gridinfo(int context, int *rows, int *columns, int *row, int *column);
void Cblacs_gridexit(int context);
void descinit_(int *descriptor, const int *m, const int *n, const int *mb, const int *nb,
               const int *first_row, const int *first_column, const int *context,
               const int *leading, int *info);

void dgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k,
            const double *alpha, const double *a, const int *lda, const double *b, const int *ldb,
            const double *beta, double *c, const int *ldc, size_t, size_t);
void zgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k,
            const double *alpha, const double *a, const int *lda, const double *b, const int *ldb,
            const double *beta, double *c, const int *ldc, size_t, size_t);
void dsyevd_(const char *jobz, const char *uplo, const int *n, double *a, const int *lda, double *w,
             double *work, const int *lwork, int *iwork, const int *liwork, int *info, size_t,
             size_t);
void zheevd_(const char *jobz, const char *uplo, const int *n, double *a, const int *lda, double *w,
             double *work, const int *lwork, double *rwork, const int *lrwork, int *iwork,
             const int *liwork, int *info, size_t, size_t);

void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info, size_t);
void zpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info, size_t);
void pdpotrf_(const char *uplo, const int *n, double *a, const int *ia, const int *ja,
              const int *desca, int *info, size_t);
void pzpotrf_(const char *uplo, const int *n, double *a, const int *ia, const int *ja,
              const int *desca, int *info, size_t);

void pdgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k,
             const double *alpha, const double *a, const int *ia, const int *ja, const int *desca,
             const double *b, const int *ib, const int *jb, const int *descb, const double *beta,
             double *c, const int *ic, const int *jc, const int *descc);
void pzgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k,
             const double *alpha, const double *a, const int *ia, const int *ja, const int *desca,
             const double *b, const int *ib, const int *jb, const int *descb, const double *beta,
             double *c, const int *ic, const int *jc, const int *descc);

/* Declares the real and the complex driver with parameters before and behind the workspace. */
#define BX_DRIVER(real, complex, before, ...)                                                      \
    void real(before, double *work, const int *lwork, __VA_ARGS__);                                \
    void complex(before, double *work, const int *lwork, double *rwork, const int *lrwork,         \
                 __VA_ARGS__);
#define BX_WHOLE const int *n, double *a, const int *ia, const int *ja, const int *desca
#define BX_VECTORS double *w, BX_Z
#define BX_Z double *z, const int *iz, const int *jz, const int *descz
#define BX_INTEGERS int *iwork, const int *liwork
#define BX_ALL const char *jobz, const char *uplo, BX_WHOLE, BX_VECTORS
#define BX_RANGE                                                                                   \
    const char *jobz, const char *range, const char *uplo, BX_WHOLE, const double *vl,             \
        const double *vu, const int *il, const int *iu
#define BX_ROBUST BX_RANGE, int *m, int *nz, BX_VECTORS
#define BX_EXPERT                                                                                  \
    BX_RANGE, const double *abstol, int *m, int *nz, double *w, const double *orfac, BX_Z
BX_DRIVER(pdsyev_, pzheev_, BX_ALL, int *info, size_t, size_t)
BX_DRIVER(pdsyevd_, pzheevd_, BX_ALL, BX_INTEGERS, int *info, size_t, size_t)
BX_DRIVER(pdsyevr_, pzheevr_, BX_ROBUST, BX_INTEGERS, int *info, size_t, size_t, size_t)
BX_DRIVER(pdsyevx_, pzheevx_, BX_EXPERT, BX_INTEGERS, int *ifail, int *iclustr, double *gap,
          int *info, size_t, size_t, size_t)

/* The workspace of ScaLAPACK's drivers: what `create` of its solvers returns. */
typedef struct {
    double *work, *rwork; /* [lwork parts], [lrwork] */
    int *iwork;           /* [liwork] */
    int lwork, lrwork, liwork;
    int *failed, *clusters; /* [n], [2 ranks] of the expert drivers */
    double *gaps;           /* [ranks] */
    int values, vectors, info;
} bx_scalapack;
