/* The outcomes of one method's verification. */
#pragma once

#include "bx.h"

enum { BX_MAX_CHECKS = 32 };

typedef struct {
    char name[64], unit[32];
    double error, tolerance; /* in `unit`; the error is infinite where it was not finite */
} bx_outcome;

struct bx_verification {
    bx_outcome outcomes[BX_MAX_CHECKS];
    int count;
};

/* Replaces each outcome by that of the rank whose error is largest in units of its tolerance.  A
 * method without outcomes gets one that fails.  Returns whether each is within its tolerance, the
 * same on every rank.  Collective over `comm`. */
bool bx_verification_settle(bx_verification *verification, MPI_Comm comm);
