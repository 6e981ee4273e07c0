#include "npar_checkpoint.h"

#include "bx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bx_restart.h"

static const char *const SCHEMA = "bisection-npar-checkpoint-2";
enum { NUMBERS = 14 };

static void describe(const npar_checkpoint *sizes, bx_restart_number numbers[NUMBERS])
{
    const bx_restart_number all[NUMBERS] = {
        {"bands", sizes->bands, false},
        {"occupied", sizes->occupied, false},
        {"atoms", sizes->atoms, false},
        {"plane waves", sizes->plane_waves, false},
        {"grid points along x", sizes->grid[0], false},
        {"grid points along y", sizes->grid[1], false},
        {"grid points along z", sizes->grid[2], false},
        {"ranks", sizes->ranks, false},
        {"seed", sizes->seed, false},
        {"box along x", sizes->box[0], false},
        {"box along y", sizes->box[1], false},
        {"box along z", sizes->box[2], false},
        {"cutoff", sizes->cutoff, false},
        {"noise", sizes->noise, false},
    };
    memcpy(numbers, all, sizeof all);
}

int npar_checkpoint_write(const char *path, MPI_Fint fortran_comm, const npar_checkpoint *sizes,
                          int mine, const double *waves, const double *energies, char *why,
                          int why_size)
{
    MPI_Comm comm = MPI_Comm_f2c(fortran_comm);
    bx_restart_number numbers[NUMBERS];
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    describe(sizes, numbers);
    double *own = bx_memory_alloc((size_t)mine + 1, sizeof *own);
    for (int i = 0; i < mine; i++) own[i] = energies[rank + i * ranks];
    const bx_restart_set sets[] = {
        {"waves", 2 * (int64_t)sizes->plane_waves, mine, (void *)(uintptr_t)waves},
        {"energies", 1, mine, own},
    };
    int failed =
        bx_restart_write(path, comm, SCHEMA, numbers, NUMBERS, sets, 2, why, (size_t)why_size);
    free(own);
    return failed;
}

int npar_checkpoint_read(const char *path, MPI_Fint fortran_comm, const npar_checkpoint *sizes,
                         int mine, double *waves, double *energies, char *why, int why_size)
{
    MPI_Comm comm = MPI_Comm_f2c(fortran_comm);
    bx_restart_number numbers[NUMBERS];
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    describe(sizes, numbers);
    double *own = bx_memory_alloc((size_t)mine + 1, sizeof *own);
    bx_restart_set sets[] = {
        {"waves", 2 * (int64_t)sizes->plane_waves, mine, waves},
        {"energies", 1, mine, own},
    };
    int failed =
        bx_restart_read(path, comm, SCHEMA, numbers, NUMBERS, sets, 2, why, (size_t)why_size);
    memset(energies, 0, (size_t)sizes->bands * sizeof *energies);
    for (int i = 0; i < mine; i++) energies[rank + i * ranks] = own[i];
    MPI_Allreduce(MPI_IN_PLACE, energies, sizes->bands, MPI_DOUBLE, MPI_SUM, comm);
    free(own);
    return failed;
}
