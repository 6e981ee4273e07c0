/* The bands of a hybrid calculation in an HDF5 file, between its two parts (--split-calculation).
 */
#ifndef NPAR_CHECKPOINT_H
#define NPAR_CHECKPOINT_H

#include <mpi.h>

/* What a calculation must have in common with the file that it reads; the Fortran side has the same
 * fields (npar_checkpoint_t in npar_checkpoint.f90). */
typedef struct {
    int bands, occupied, atoms, plane_waves, grid[3], ranks, seed;
    double box[3], cutoff, noise;
} npar_checkpoint;

/* Collective over `comm`, whose rank r holds bands r, r + ranks, ... (`mine` of them), each of
 * 2 * plane_waves reals, in `waves`; `energies` (all bands, Hartree) are the same on every rank.
 * Returns 0, or 1 with the reason, which names the file, in `why` on every rank.
 *
 * Writing goes to PATH.partial, which takes the place of PATH when it is whole and on disk. */
int npar_checkpoint_write(const char *path, MPI_Fint comm, const npar_checkpoint *about, int mine,
                          const double *waves, const double *energies, char *why, int why_size);
int npar_checkpoint_read(const char *path, MPI_Fint comm, const npar_checkpoint *about, int mine,
                         double *waves, double *energies, char *why, int why_size);

#endif
