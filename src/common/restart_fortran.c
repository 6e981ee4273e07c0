/* Restart files in a form that Fortran can call: with its communicator, as bx_restart.f90 has it.
 */
#include "bx_restart.h"

int bx_restart_f(bool reads, const char *path, MPI_Fint comm, const char *schema,
                 bx_restart_number *numbers, size_t number_count, bx_restart_set *sets,
                 size_t set_count, char *why, size_t why_size);

int bx_restart_f(bool reads, const char *path, MPI_Fint comm, const char *schema,
                 bx_restart_number *numbers, size_t number_count, bx_restart_set *sets,
                 size_t set_count, char *why, size_t why_size)
{
    return reads ? bx_restart_read(path, MPI_Comm_f2c(comm), schema, numbers, number_count, sets,
                                   set_count, why, why_size)
                 : bx_restart_write(path, MPI_Comm_f2c(comm), schema, numbers, number_count, sets,
                                    set_count, why, why_size);
}
