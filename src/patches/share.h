/* Which rank has which patch and which pair: known on every rank without messages. */
#pragma once

#include "lattice.h"

typedef struct {
    int patches;
    double pairs_of[BX_OWN_PAIRS]; /* pairs of atoms, about, in a patch's own pairs of patches */
    int *owner;                    /* [patches] */
    int *worker;                   /* [patches][BX_OWN_PAIRS] */
} bx_share;

/* Shares out all pairs by their work, and patches, along Morton's order: neighbours are on ranks
 * near each other.  Ranks may have nothing.  Local. */
void bx_share_make(bx_share *share, const bx_lattice *lattice, int ranks);
void bx_share_free(bx_share *share);
