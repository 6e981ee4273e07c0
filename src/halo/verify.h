/* Verification of a halo and its fields, by means that share nothing with the methods. */
#pragma once

#include "halo.h"

/* Writes the fields at step 0, and those of the step before into the other copy; all else that is
 * never computed or exchanged has no number. */
void bx_verify_fill(const bx_halo *halo);
/* Returns the largest difference of a copy from the solution at a step, of the scheme or exact.
 * Local. */
double bx_verify_error(const bx_halo *halo, int copy, int64_t step, bool exact);
/* Returns a hash of all own numbers of a copy, the same on every decomposition.  Collective. */
uint64_t bx_verify_checksum(const bx_halo *halo, int copy);
/* Writes numbers into all cells that are exchanged, known by cell and field; ghosts have none. */
void bx_verify_mark(const bx_halo *halo, int copy);
/* Returns the bytes of ghosts that are not what bx_verify_mark has given their cells.  Local. */
double bx_verify_wrong_bytes(const bx_halo *halo, int copy);
/* Returns how many neighbours' cells this rank's ghosts do not equal, by hashes.  Collective. */
double bx_verify_unequal(const bx_halo *halo, int copy);
