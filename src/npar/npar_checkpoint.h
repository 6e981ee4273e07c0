/* The bands of a hybrid calculation in a file, between its two parts (--split-calculation). */
#ifndef NPAR_CHECKPOINT_H
#define NPAR_CHECKPOINT_H

#include <mpi.h>

/* The sizes of a calculation, which must be those of the file that it reads.  npar_checkpoint_t of
 * npar_checkpoint.f90 has the same fields. */
typedef struct {
    int bands, occupied, atoms, plane_waves, grid[3], ranks, seed;
    double box[3], cutoff, noise; /* Bohr, Hartree, relative */
} npar_checkpoint;

/* Writes or reads the bands.  Rank r of `comm` holds bands r, r + ranks, ...: `mine` of them.
 * waves [mine][2 * plane_waves] are their coefficients, energies [bands] are the same on every rank
 * (Hartree).  Writing replaces PATH whole or not at all.  Returns 0, or 1 on every rank with the
 * reason, which names the file, in `why` (at most why_size bytes).  Collective over `comm`. */
int npar_checkpoint_write(const char *path, MPI_Fint comm, const npar_checkpoint *sizes, int mine,
                          const double *waves, const double *energies, char *why, int why_size);
int npar_checkpoint_read(const char *path, MPI_Fint comm, const npar_checkpoint *sizes, int mine,
                         double *waves, double *energies, char *why, int why_size);

#endif
