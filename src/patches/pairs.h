/* The Lennard-Jones potential with a cutoff, between the atoms of two patches.
 *
 * u(r) = 4 (r^-12 - r^-6) S(r^2).  S falls smoothly from 1 at 0.85 of the cutoff to 0 at the
 * cutoff: B. R. Brooks et al., J. Comput. Chem. 4, 187 (1983), as NAMD has it. */
#pragma once

#include "bx.h"

#define BX_SWITCH_FROM 0.85 /* of the cutoff */

/* The pairs of atoms of two patches that are near each other, or of one with itself. */
typedef struct {
    int64_t count;
    int32_t *start;  /* [atoms of the first + 1] */
    uint16_t *other; /* [count] the second's atoms */
} bx_pairs;

/* Lists the pairs within `reach` of each other, xa[3][na], xb[3][nb] + shift[3].  A patch with
 * itself (xa == xb, na == nb): each pair once.  Local. */
void bx_pairs_find(bx_pairs *pairs, double reach, int64_t na, const double *xa, int64_t nb,
                   const double *xb, const double shift[3]);
void bx_pairs_free(bx_pairs *pairs);
/* Computes the forces on both patches' atoms, fa[3][na] and fb[3][nb] (a patch with itself: fa
 * only), in an order that is always the same.  Returns the energy.  Local. */
double bx_pairs_compute(const bx_pairs *pairs, double cutoff, int64_t na, const double *xa,
                        int64_t nb, const double *xb, const double shift[3], double *fa,
                        double *fb);
