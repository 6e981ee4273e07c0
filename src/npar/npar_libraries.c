/* Functions of libraries that Fortran cannot call. */
#include "blas.h"
#include "bx.h"
#include "elpa_solver.h"

#include <hdf5.h>
#include <stdio.h>

void npar_name_libraries(void);

/* Adds the libraries' versions to the result, where they report one. */
void npar_name_libraries(void)
{
    char version[64];
    unsigned major, minor, release;
    H5get_libversion(&major, &minor, &release);
    snprintf(version, sizeof version, "%u.%u.%u", major, minor, release);
    bx_build_add_library("hdf5", version);
    bx_blas_name_library();
    bx_elpa_name_library();
}
