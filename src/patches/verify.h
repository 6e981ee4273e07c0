/* The atoms of a block, computed without objects and messages, and checks by laws of physics. */
#pragma once

#include "objects.h"
#include "verification.h"

typedef struct {
    uint64_t state;      /* hash of all atoms after the block */
    bx_energy *energies; /* [steps of a block] of all atoms */
    int64_t steps;       /* of the block, or those that lists hold for */
    double displacement; /* sigma: the largest of any atom in any step, or in the next */
    double drift;        /* of the energy: largest over the steps, over the kinetic energy */
    bx_verification verification; /* what physics says of the steps */
} bx_reference;

/* Computes it: every rank gets all positions in each step, and computes all pairs with its patches.
 * Verifies the lists, forces and potential energy of the first and last step by all pairs of atoms,
 * without lists; each step by positions alone.  Collective. */
void bx_verify_reference(const bx_objects *o, bx_reference *reference);
/* Returns a hash of the atoms of all ranks: positions, velocities and forces, whatever their order.
 * Collective. */
uint64_t bx_verify_state(const bx_objects *o);
/* Returns the sum of all ranks' own atoms.  Collective. */
int64_t bx_verify_atoms(const bx_objects *o);
/* Sums the energies of all ranks' objects: energies[o->steps].  Collective. */
void bx_verify_energies(const bx_objects *o, bx_energy *energies);
