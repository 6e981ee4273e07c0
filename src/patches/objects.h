/* Patches, and pairs of patches: the objects of a rank, which run when what they wait for is there.
 *
 * After L. Kale et al., J. Comput. Phys. 151, 283 (1999), whose program is NAMD: a patch sends its
 * positions to the ranks that have pairs with it (one message per rank and patch); there a copy of
 * the patch stands for it, whose pairs run when both copies are complete.  When all of a copy's
 * pairs have run, the sum of their forces goes back.  A patch that has all forces moves its atoms,
 * and sends the next positions: no rank waits for all others.
 *
 * Forces are summed as integers, and pairs compute theirs in a fixed order: neither the order of
 * arrival nor the number of ranks changes a bit. */
#pragma once

#include "pairs.h"
#include "share.h"

/* The laps of a step (bx_kernel.phases). */
enum { BX_PHASE_FORCES, BX_PHASE_MESSAGES, BX_PHASE_INTEGRATION, BX_PHASES };

/* A message's words: two of a header, then x, y, z of all atoms; doubles or integers. */
enum { BX_HEADER = 2 };

/* Pairs of patches that a thread runs at a time, where there are several threads. */
enum { BX_PER_THREAD = 8 };

/* A patch of this rank, or the copy of another rank's. */
typedef struct {
    int number, owner;
    int64_t atoms, step; /* step: the number of that whose positions are here, or are awaited */
    double *positions;   /* [BX_HEADER + 3 * atoms] sigma */
    int64_t *forces;     /* the same size: sum of this rank's pairs, in units of BX_FORCE_UNIT */
    int *pairs;          /* [pair_count] this rank's pairs with it */
    int pair_count, running; /* running: pairs that have not added their forces of this step */
    /* of this rank's own */
    bool own;
    double *velocities;      /* [3][atoms] of half a step before the positions */
    int64_t *ids;            /* [atoms] */
    int64_t *sums;           /* [3][atoms] forces of all ranks' pairs */
    int *copies;             /* [copy_count] ranks that have one, in ascending order */
    int copy_count, awaited; /* awaited: ranks whose forces of this step are not here */
} bx_patch;

/* A pair of patches of this rank, or one with itself. */
typedef struct {
    int first, second; /* patches of this rank */
    int kind, awaited; /* 0 .. 13; awaited: patches whose positions of this step are not here */
    bool for_others;   /* a rank waits for the forces on its patch */
    double shift[3];   /* added to the second's positions: sigma */
    bx_pairs list;
} bx_pair;

typedef struct {
    int64_t potential, kinetic; /* in units of BX_ENERGY_UNIT */
} bx_energy;

#define BX_FORCE_UNIT 0x1p-40   /* epsilon / sigma */
#define BX_ENERGY_UNIT 0x1p-32  /* epsilon */
#define BX_LARGEST_FORCE 0x1p20 /* epsilon / sigma; a larger one is wrong */
#define BX_TIME_STEP 0.004      /* sigma (mass / epsilon)^1/2 */

/* Pairs, each of which is in it once at most. */
typedef struct {
    int *pairs, count;
} bx_queue;

/* Where messages of patches go, of the method at work. */
typedef struct {
    /* Sends an own patch's positions to its copies, or a copy's forces to the owner. */
    void (*send)(void *to, bx_patch *patch);
    /* Waits until what was sent of a patch may change. */
    void (*settle)(void *to, const bx_patch *patch);
    void *to;
} bx_outlet;

typedef struct {
    bx_run *run;
    const bx_lattice *lattice;
    bx_share share;
    int rank, ranks, threads;
    bx_patch *patches; /* [patch_count] in ascending order of numbers */
    int patch_count;
    bx_pair *pairs; /* [pair_count] */
    int pair_count;
    int own_count;          /* patches that are own */
    bx_queue urgent, other; /* pairs that can run; urgent: another rank waits for their forces */
    int *batch;             /* [pair_count] those at work */
    double **scratch;       /* [threads][2][3 * most atoms] forces of a pair at work */
    bx_energy *energies;    /* [steps of a block] of this rank's objects */
    int64_t steps;          /* of a block */
    int64_t step,
        last_step; /* all patches have made `step` steps; none makes more than `last_step` */
    double pairs_since_poll; /* pairs of atoms computed since messages were last looked for */
    int64_t events_left; /* runs of pairs and moves of own patches still to be done until then */
    int others_wait;     /* pairs for others that can run */
    /* since the beginning of the block; delayed: times that such a pair had to wait for others */
    double wrong_messages, wrong_forces, delayed;
    bx_outlet outlet;
} bx_objects;

/* Makes the objects of this rank, for blocks of `steps` steps.  Local. */
void bx_objects_create(bx_objects *o, bx_run *run, const bx_lattice *lattice, int64_t steps);
void bx_objects_free(bx_objects *o);
/* Returns the patch of this number; NULL: not on this rank.  Local. */
bx_patch *bx_objects_patch(const bx_objects *o, int number);
/* Puts own atoms where they are at the beginning of a block; `copies`: other ranks' atoms too,
 * which otherwise have no place (NaN) until a message brings it.  Local. */
void bx_objects_begin(bx_objects *o, bool copies);
/* Begins `steps` steps, and sends the positions of own patches.  Local. */
void bx_objects_start(bx_objects *o, int64_t steps);
/* Runs pairs that can run: one, or several for each of several threads.  Returns whether there were
 * any.  Local. */
bool bx_objects_run(bx_objects *o);
/* True if no pair can run.  Local. */
bool bx_objects_idle(const bx_objects *o);
/* Computes the forces of all pairs from the positions that are here, and nothing else.  Local. */
void bx_objects_compute(bx_objects *o);
/* Notes that positions have arrived for a patch of which another rank's are here.  Local. */
void bx_objects_take_positions(bx_objects *o, bx_patch *patch);
/* Adds forces[3][atoms] of a rank's pairs to an own patch.  Local. */
void bx_objects_take_forces(bx_objects *o, bx_patch *patch, const int64_t *forces);
/* Adds rounded[n] of doubles to integers.  Returns whether one is too large.  Local. */
bool bx_objects_add_rounded(int64_t n, const double *forces, int64_t *sums);
/* Moves atoms by the forces upon them.  Returns the kinetic energy, in units of BX_ENERGY_UNIT.
 * Local. */
int64_t bx_objects_move(int64_t atoms, const int64_t *forces, double *x, double *v);
