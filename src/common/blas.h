/* The threads and the name of the BLAS library that a kernel is linked with, whichever it is. */
#ifndef BX_BLAS_H
#define BX_BLAS_H

/* Sets the library's threads: some take every core of the node for every rank.  Local. */
void bx_blas_set_threads(int threads);
/* Adds the library's version to the result, where it reports one.  Local. */
void bx_blas_name_library(void);

#endif
