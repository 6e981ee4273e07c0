/* Functions of libraries that Fortran cannot call. */
#include "bx.h"

#include <hdf5.h>
#include <stdio.h>
#include <string.h>

void npar_set_blas_threads(int threads);
void npar_name_libraries(void);

/* Sets the libraries' threads: some take every core of the node for every rank. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern void MKL_Set_Num_Threads(int threads) __attribute__((weak));
extern void bli_thread_set_num_threads(long threads) __attribute__((weak));

extern char *openblas_get_config(void) __attribute__((weak));

/* Adds the libraries' versions to the result, where they report one. */
void npar_name_libraries(void)
{
    char version[64];
    unsigned major, minor, release;
    H5get_libversion(&major, &minor, &release);
    snprintf(version, sizeof version, "%u.%u.%u", major, minor, release);
    bx_build_add_library("hdf5", version);
    if (openblas_get_config) { /* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..." */
        snprintf(version, sizeof version, "%s", openblas_get_config());
        char *space = strchr(version, ' '), *end = space ? strchr(space + 1, ' ') : NULL;
        if (end) *end = '\0';
        bx_build_add_library("openblas", space ? space + 1 : version);
    }
}

void npar_set_blas_threads(int threads)
{
    if (openblas_set_num_threads) openblas_set_num_threads(threads);
    if (MKL_Set_Num_Threads) MKL_Set_Num_Threads(threads);
    if (bli_thread_set_num_threads) bli_thread_set_num_threads(threads);
}
