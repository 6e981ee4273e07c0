/* What work costs on a simulated machine (checks/workshop/smpi): kernels price what a step
 * computes.  In a normal build nothing is simulated, and all of this is empty. */
#pragma once

#include "run.h"

/* Kinds of work: flop of FFTs, of matrices and of pairs of atoms; bytes copied, each once. */
typedef enum { BX_FFT, BX_ALGEBRA, BX_PAIRS, BX_COPY, BX_WORK_COUNT } bx_work;

#ifdef BX_SIMULATED
enum { BX_IS_SIMULATED = true };
/* Adds work of this rank to what it owes: done `by_all_threads` of the rank, or by one.  Local. */
void bx_charge(bx_work work, double amount, bool by_all_threads);
/* Adds `times` products of a matrix and a vector, by all threads: `flop` of each.  The matrix has
 * so many bytes; those beyond the caches are read from memory each time.  Local. */
void bx_charge_products(double flop, double bytes, double times);
/* Adds the beginning and end of a parallel region.  Local. */
void bx_charge_fork(void);
/* Lets the time pass that this rank owes.  Local. */
void bx_charge_pay(void);
/* Reads the machine's rates; before that, work is free.  Local. */
void bx_charge_start(const bx_run *run);
/* Whether arithmetic is skipped whose result is not looked at (BX_HOLLOW=1).  Local. */
bool bx_charge_is_hollow(void);
/* Whether of parts of a hollow run that are equally long few are simulated (BX_HOLLOW above 1).
 * Local. */
bool bx_charge_is_sampled(void);
/* Whether files may be written: in no simulated time, so only where nobody looks at it.  Local. */
bool bx_charge_has_disks(void);
/* Adds `times` the longest time of a rank since `since` (MPI_Wtime): parts of a hollow run that are
 * as long as the one that was simulated.  Collective over the team. */
void bx_charge_repeat(MPI_Comm team, double since, double times);
/* Pays, and waits for the other ranks of a team (as Fortran has it), in no time of its own.
 * Collective over the team. */
void bx_charge_synchronise(MPI_Fint team);
/* Messages of a hollow run carry no data from now on, or they do again.  Takes no time; returns
 * whether they were `hollow` before.  Collective over MPI_COMM_WORLD. */
bool bx_charge_hollow_messages(bool hollow);
/* Tells hollow runs the eigenvalues of matrices of n rows, and the squares of the last entries of
 * their vectors: both [n].  Collective over the team. */
void bx_charge_spectrum(MPI_Comm team, int n, const double *values, const double *squares);
/* Adds "simulated" to a result, and a note.  Local. */
void bx_charge_describe(bx_run *run, bx_json *result);
#else
enum { BX_IS_SIMULATED = false };
static inline void bx_charge(bx_work work, double amount, bool by_all_threads) {}
static inline void bx_charge_fork(void) {}
static inline void bx_charge_pay(void) {}
static inline void bx_charge_start(const bx_run *run) {}
static inline bool bx_charge_is_hollow(void) { return false; }
static inline bool bx_charge_has_disks(void) { return true; }
static inline bool bx_charge_hollow_messages(bool hollow) { return hollow; }
static inline void bx_charge_repeat(MPI_Comm team, double since, double times) {}
static inline void bx_charge_spectrum(MPI_Comm team, int n, const double *values,
                                      const double *squares)
{
}
static inline void bx_charge_describe(bx_run *run, bx_json *result) {}
#endif
