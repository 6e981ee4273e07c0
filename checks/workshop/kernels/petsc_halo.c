/* The halo exchange of PETSc's DMDA on the channel's grid, whose ghosts are updated in place.
 *
 * Usage: petsc_halo NX NY NZ FIELDS WIDTH ROUNDS: prints the seconds of the median round, each of
 * its slowest rank.  A loop over the fields comes before each round, as a step does in the kernel.
 */
#include <petscdmda.h>
#include <petsctime.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What a field has at a point: a number of its place. */
static double value(const PetscInt extent[3], PetscInt x, PetscInt y, PetscInt z, PetscInt f)
{
    PetscInt at[3] = {(x + extent[0]) % extent[0], y, (z + extent[2]) % extent[2]};
    return (double)(at[0] + extent[0] * (at[1] + extent[1] * at[2])) + 0.01 * (double)f;
}

/* Writes the own points, or counts the ghosts beside them (along z) that are otherwise. */
static long treat(DM grid, Vec fields, const PetscInt extent[3], PetscInt count, PetscBool write)
{
    PetscInt first[3], own[3], low[3], all[3];
    PetscScalar ****u;
    long wrong = 0;
    DMDAGetCorners(grid, &first[0], &first[1], &first[2], &own[0], &own[1], &own[2]);
    DMDAGetGhostCorners(grid, &low[0], &low[1], &low[2], &all[0], &all[1], &all[2]);
    DMDAVecGetArrayDOF(grid, fields, &u);
    for (PetscInt z = low[2]; z < low[2] + all[2]; z++)
        for (PetscInt y = first[1]; y < first[1] + own[1]; y++)
            for (PetscInt x = first[0]; x < first[0] + own[0]; x++)
                for (PetscInt f = 0; f < count; f++) {
                    double wanted = value(extent, x, y, z, f);
                    if (write)
                        u[z][y][x][f] = z < first[2] || z >= first[2] + own[2] ? -1 : wanted;
                    else
                        wrong += u[z][y][x][f] != wanted;
                }
    DMDAVecRestoreArrayDOF(grid, fields, &u);
    return wrong;
}

int main(int argc, char **argv)
{
    PetscInt extent[3], count, width, rounds, numbers;
    int ranks;
    DM grid;
    Vec fields, other;
    PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
    if (argc < 7) return 2;
    for (int axis = 0; axis < 3; axis++) extent[axis] = atoi(argv[1 + axis]);
    count = atoi(argv[4]);
    width = atoi(argv[5]);
    rounds = atoi(argv[6]);
    MPI_Comm_size(PETSC_COMM_WORLD, &ranks);
    PetscCall(DMDACreate3d(PETSC_COMM_WORLD, DM_BOUNDARY_PERIODIC, DM_BOUNDARY_NONE,
                           DM_BOUNDARY_PERIODIC, DMDA_STENCIL_STAR, extent[0], extent[1], extent[2],
                           1, 1, ranks, count, width, NULL, NULL, NULL, &grid));
    PetscCall(DMSetUp(grid));
    PetscCall(DMCreateLocalVector(grid, &fields));
    PetscCall(VecDuplicate(fields, &other));
    PetscCall(VecSet(other, 0));
    treat(grid, fields, extent, count, PETSC_TRUE);
    PetscCall(VecGetLocalSize(fields, &numbers));
    double *seconds = malloc((size_t)rounds * sizeof *seconds);
    for (PetscInt round = 0; round < rounds; round++) {
        double *u;
        const double *from;
        PetscCall(VecGetArray(fields, &u));
        PetscCall(VecGetArrayRead(other, &from));
        for (PetscInt i = 0; i < numbers; i++) u[i] += 0.5 * from[i];
        PetscCall(VecRestoreArray(fields, &u));
        PetscCall(VecRestoreArrayRead(other, &from));
        seconds[round] = -MPI_Wtime();
        PetscCall(DMLocalToLocalBegin(grid, fields, INSERT_VALUES, fields));
        PetscCall(DMLocalToLocalEnd(grid, fields, INSERT_VALUES, fields));
        seconds[round] += MPI_Wtime();
    }
    long wrong = treat(grid, fields, extent, count, PETSC_FALSE);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, PETSC_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, seconds, (int)rounds, MPI_DOUBLE, MPI_MAX, PETSC_COMM_WORLD);
    qsort(seconds, (size_t)rounds, sizeof *seconds, ascending);
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%.9g\n", seconds[rounds / 2]));
    free(seconds);
    PetscCall(VecDestroy(&fields));
    PetscCall(VecDestroy(&other));
    PetscCall(DMDestroy(&grid));
    PetscCall(PetscFinalize());
    return wrong != 0;
}
