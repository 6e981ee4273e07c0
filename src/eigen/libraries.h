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

#define BX_WHOLE double *a, const int *ia, const int *ja, const int *desca
#define BX_VECTORS double *z, const int *iz, const int *jz, const int *descz
#define BX_RANGE const double *vl, const double *vu, const int *il, const int *iu
void pdsyev_(const char *jobz, const char *uplo, const int *n, BX_WHOLE, double *w, BX_VECTORS,
             double *work, const int *lwork, int *info, size_t, size_t);
void pzheev_(const char *jobz, const char *uplo, const int *n, BX_WHOLE, double *w, BX_VECTORS,
             double *work, const int *lwork, double *rwork, const int *lrwork, int *info, size_t,
             size_t);
void pdsyevd_(const char *jobz, const char *uplo, const int *n, BX_WHOLE, double *w, BX_VECTORS,
              double *work, const int *lwork, int *iwork, const int *liwork, int *info, size_t,
              size_t);
void pzheevd_(const char *jobz, const char *uplo, const int *n, BX_WHOLE, double *w, BX_VECTORS,
              double *work, const int *lwork, double *rwork, const int *lrwork, int *iwork,
              const int *liwork, int *info, size_t, size_t);
void pdsyevr_(const char *jobz, const char *range, const char *uplo, const int *n, BX_WHOLE,
              BX_RANGE, int *m, int *nz, double *w, BX_VECTORS, double *work, const int *lwork,
              int *iwork, const int *liwork, int *info, size_t, size_t, size_t);
void pzheevr_(const char *jobz, const char *range, const char *uplo, const int *n, BX_WHOLE,
              BX_RANGE, int *m, int *nz, double *w, BX_VECTORS, double *work, const int *lwork,
              double *rwork, const int *lrwork, int *iwork, const int *liwork, int *info, size_t,
              size_t, size_t);
void pdsyevx_(const char *jobz, const char *range, const char *uplo, const int *n, BX_WHOLE,
              BX_RANGE, const double *abstol, int *m, int *nz, double *w, const double *orfac,
              BX_VECTORS, double *work, const int *lwork, int *iwork, const int *liwork, int *ifail,
              int *iclustr, double *gap, int *info, size_t, size_t, size_t);
void pzheevx_(const char *jobz, const char *range, const char *uplo, const int *n, BX_WHOLE,
              BX_RANGE, const double *abstol, int *m, int *nz, double *w, const double *orfac,
              BX_VECTORS, double *work, const int *lwork, double *rwork, const int *lrwork,
              int *iwork, const int *liwork, int *ifail, int *iclustr, double *gap, int *info,
              size_t, size_t, size_t);
#undef BX_WHOLE
#undef BX_VECTORS
#undef BX_RANGE
