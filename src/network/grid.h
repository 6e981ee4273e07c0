/* The periodic 3D grid of ranks in which a halo is exchanged. */
#pragma once

#include <mpi.h>

enum { BX_GRID_SIDES = 6 };

/* The neighbour of a rank on a side, 0 .. 5: up and down in each dimension in turn, so that it has
 * the rank on side ^ 1.  The extents are those of MPI_Dims_create.  MPI_PROC_NULL where the grid
 * has one rank along the dimension.  Local. */
static inline int bx_grid_neighbour(int rank, int size, int side)
{
    int extent[3] = {0, 0, 0}, axis = side / 2;
    MPI_Dims_create(size, 3, extent);
    if (extent[axis] == 1) return MPI_PROC_NULL;
    int at[3] = {rank / (extent[1] * extent[2]), rank / extent[2] % extent[1], rank % extent[2]};
    at[axis] = (at[axis] + (side % 2 == 0 ? 1 : extent[axis] - 1)) % extent[axis];
    return (at[0] * extent[1] + at[1]) * extent[2] + at[2];
}
