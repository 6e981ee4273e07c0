#include "blas.h"

#include "bx.h"

#include <string.h>

extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern void MKL_Set_Num_Threads(int threads) __attribute__((weak));
extern void bli_thread_set_num_threads(long threads) __attribute__((weak));
extern char *openblas_get_config(void) __attribute__((weak));

void bx_blas_set_threads(int threads)
{
    if (openblas_set_num_threads) openblas_set_num_threads(threads);
    if (MKL_Set_Num_Threads) MKL_Set_Num_Threads(threads);
    if (bli_thread_set_num_threads) bli_thread_set_num_threads(threads);
}

void bx_blas_name_library(void)
{
    char version[64];
    if (!openblas_get_config) return;
    snprintf(version, sizeof version, "%s", openblas_get_config()); /* "OpenBLAS 0.3.21 ..." */
    char *space = strchr(version, ' '), *end = space ? strchr(space + 1, ' ') : NULL;
    if (end) *end = '\0';
    bx_build_add_library("openblas", space ? space + 1 : version);
}
