/* A Fock build: tasks get blocks of a distributed density matrix, compute, and add to blocks of a
 * distributed Fock matrix.
 *
 * After M. Ashworth et al., HPCxTR0417 (2004), section 5.1: GAMESS-UK allocates integrals and their
 * summation into the Fock matrix by a shared counter, on Global Arrays.  Numbers are integers
 * modulo 2^64, so that the sum does not depend on its order: a task that is lost or doubled, or a
 * wrong bit of a block, shows in the matrix. */
#pragma once

#include "bx.h"

/* The laps of a build (bx_kernel.phases). */
enum { BX_FOCK_COUNTER, BX_FOCK_BLOCKS, BX_FOCK_INTEGRALS, BX_FOCK_WAITING, BX_FOCK_PHASES };

/* The calls of MPI that all builds have, for bx_choice.calls. */
#define BX_FOCK_CALLS "Get Accumulate Win_flush Win_flush_local Win_flush_all Barrier"

/* The size of a build, see tasks.def. */
typedef struct {
    int64_t blocks, rows, partners, work;
} bx_fock_size;

/* One rank's part of a build. */
typedef struct {
    bx_run *run;
    MPI_Comm comm;
    int rank, ranks;
    bx_fock_size size;
    uint64_t seed;
    int64_t tasks, turns, largest; /* tasks of a build; turns of all of them, of the largest */
    size_t words;                  /* of a block */
    size_t blocks_here;            /* blocks of this rank: numbers rank, rank + ranks, ... */
    /* [blocks_here][words] each: the density and the Fock matrix, window 0 and 1 */
    uint64_t *density, *fock;
    MPI_Win windows[2];
    uint64_t *got, *sums; /* [2][words] of the task at work */
    uint64_t stamp;       /* each build has its own: in the density and in the tasks */
    uint64_t chain[2];    /* factors of a turn of the integrals */
    uint64_t *expected;   /* [blocks_here][words] the Fock matrix, by closed form */
    int *times;           /* [tasks] how often this rank has computed each in this build */
} bx_fock;

/* Returns the tasks of a build. */
int64_t bx_fock_tasks(const bx_fock_size *size);
/* Returns the bytes of a rank that has most, and the turns of all tasks of a build.  Local. */
double bx_fock_memory(const bx_fock_size *size, int ranks);
double bx_fock_turns(const bx_fock_size *size);
/* Makes the matrices.  Returns false where MPI has no windows; nothing
 * but integrals can then run.  Collective over the world. */
bool bx_fock_open(bx_fock *f, bx_run *run, const bx_fock_size *size);
void bx_fock_close(bx_fock *f);
/* Makes a new density, and a Fock matrix of zeros.  Others see them after the next sync of
 * `windows`.  Local. */
void bx_fock_begin(bx_fock *f);
/* Computes one task of 0 .. tasks-1 and adds to the Fock matrix.  Local. */
void bx_fock_run(bx_fock *f, int64_t task);
/* Waits until all ranks have added all.  Collective over the world. */
void bx_fock_end(bx_fock *f);
/* Verifies the last build: each task once, every byte of the Fock matrix.  Returns the turns that
 * this rank has done.  Collective. */
int64_t bx_fock_inspect(bx_fock *f, bx_verification *verification);
/* Returns the turns of a task: half the tasks are of the shortest level, and each further level has
 * half the tasks of the one before, 1.5 times as long.  Local. */
int64_t bx_fock_cost(const bx_fock *f, int64_t task);
/* Computes `turns` turns of the chains that begin with `key`, by all threads; returns their
 * outcome.  Local. */
uint64_t bx_fock_integrals(const bx_fock *f, uint64_t key, int64_t turns);
/* Returns the same outcome by closed form: what took those turns must have it.  Local. */
uint64_t bx_fock_expected(const bx_fock *f, uint64_t key, int64_t turns);
/* Returns by how many turns all tasks differ from what the case asks for, and how many integers may
 * lose.  Local. */
double bx_fock_unexpected_turns(const bx_fock *f, double *tolerance);
