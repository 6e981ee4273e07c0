/* Linear-algebra libraries: what Fortran cannot ask them for. */
#include <mpi.h>

extern int Csys2blacs_handle(MPI_Comm comm);
int npar_blacs_handle(MPI_Fint comm);
void npar_set_blas_threads(int threads);

int npar_blacs_handle(MPI_Fint comm) { return Csys2blacs_handle(MPI_Comm_f2c(comm)); }

/* Unless told, some take every core of the node for every rank. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern void MKL_Set_Num_Threads(int threads) __attribute__((weak));
extern void bli_thread_set_num_threads(long threads) __attribute__((weak));

void npar_set_blas_threads(int threads)
{
    if (openblas_set_num_threads) openblas_set_num_threads(threads);
    if (MKL_Set_Num_Threads) MKL_Set_Num_Threads(threads);
    if (bli_thread_set_num_threads) bli_thread_set_num_threads(threads);
}
