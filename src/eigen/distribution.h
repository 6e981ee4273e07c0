/* Which entries of a matrix a rank of a team has: blocks dealt over a grid of ranks, as in
 * ScaLAPACK, or whole columns. */
#pragma once

#include <mpi.h>
#include <stdbool.h>

typedef struct {
    MPI_Comm team;
    int ranks, rank; /* of the team */
    int n;
    int block, grid_rows, grid_columns, grid_row, grid_column;
    int rows, columns; /* of this rank */
    int *row, *column; /* [rows], [columns] their numbers in the whole matrix, from 0 */
    MPI_Comm sharing;  /* the ranks that have the other rows of this rank's columns */
    int context, handle, descriptor[9]; /* of BLACS and ScaLAPACK; context -1: none */
} bx_distribution;

/* Returns square blocks of a matrix of n rows on a grid of grid_rows rows, which must divide the
 * ranks of the team.  These fill it column by column, or row by row.  The caller frees it by
 * bx_distribution_free.  Collective over the team. */
bx_distribution *bx_distribution_create_blocks(MPI_Comm team, int n, int block, int grid_rows,
                                               bool row_by_row);
/* Returns whole columns: rank r has those from first_column(r) to first_column(r + 1) - 1.
 * Collective over the team. */
bx_distribution *bx_distribution_create_panels(MPI_Comm team, int n,
                                               int (*first_column)(int n, int ranks, int rank));
/* Collective over the team. */
void bx_distribution_free(bx_distribution *d);
/* Returns the rows of a near-square grid: the largest divisor of `ranks` up to its root.  Local. */
int bx_distribution_grid_rows(int ranks);
/* Returns the rows of a block: `largest`, fewer of small matrices, so that each of `places` has a
 * part.  Local. */
int bx_distribution_block(int n, int places, int largest);
/* Writes the rows that a place of the grid has to row[n], or its columns; returns their number.
 * Local. */
int bx_distribution_deal(int n, int block, int place, int places, int *row);
