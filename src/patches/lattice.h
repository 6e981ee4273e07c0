/* Where atoms are at the beginning, and in which patch: known on every rank without messages.
 *
 * Units are those of the Lennard-Jones potential: sigma, epsilon, the mass of an atom. */
#pragma once

#include "bx.h"

typedef struct {
    int64_t atoms, cells[3], patches[3];
    double cutoff, reach; /* of forces; of lists of pairs */
    double box[3];
    uint64_t seed;
} bx_lattice;

/* A patch and its 26 neighbours make 27 pairs, one of them with itself.  Each pair of two patches
 * belongs to one of them: 14 are a patch's own. */
enum { BX_OWN_PAIRS = 14 };

/* Sets box and reach.  Refuses sizes that do not work, by bx_run_refuse.  Local. */
void bx_lattice_settle(bx_lattice *lattice, bx_run *run);
/* Returns how far each atom may move while lists hold: half of the skin, in sigma.  Local. */
double bx_lattice_slack(const bx_lattice *lattice);
/* Returns the number of patches, which are numbered along x, then y, then z.  Local. */
int bx_lattice_patches(const bx_lattice *lattice);
/* Returns the atoms of a patch, and writes their initial positions and velocities, x[3][atoms] and
 * v[3][atoms], and their numbers, ids[atoms]; NULL: not.  Local. */
int64_t bx_lattice_fill(const bx_lattice *lattice, int patch, double *x, double *v, int64_t *ids);
/* Returns the other patch of pair 0 .. 13 of a patch, and what is to be added to its positions:
 * shift[3].  Pair 0 is with itself.  Local. */
int bx_lattice_partner(const bx_lattice *lattice, int patch, int pair, double shift[3]);
/* Writes the numbers of all patches, neighbours near each other (Morton's order).  Local. */
void bx_lattice_order(const bx_lattice *lattice, int *order);
