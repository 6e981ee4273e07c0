/* Outcomes of one method's verification. */
#ifndef BX_VERIFICATION_H
#define BX_VERIFICATION_H

#include "bx.h"

enum { BX_MAX_CHECKS = 24 };

typedef struct {
    char name[64], unit[32];
    double error, tolerance;
} bx_outcome;

struct bx_verification {
    bx_outcome outcomes[BX_MAX_CHECKS];
    int count;
};

/* Maxima over the ranks of `comm`; returns whether there are outcomes and every one is within its
 * tolerance.  Collective. */
bool bx_verification_settle(bx_verification *verification, MPI_Comm comm);

#endif
