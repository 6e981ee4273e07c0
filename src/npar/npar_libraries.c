/* Functions of libraries that Fortran cannot call. */
#include "solver.h"

void npar_name_libraries(void);

/* Adds the libraries' versions to the result, where they report one. */
void npar_name_libraries(void)
{
    bx_blas_name_library();
#ifdef BX_HAVE_SCALAPACK
    bx_elpa_name_library();
#endif
}
