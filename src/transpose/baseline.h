/* Yardsticks measured beside the methods, in the same launch. */
#ifndef BX_TRANSPOSE_BASELINE_H
#define BX_TRANSPOSE_BASELINE_H

#include "plan.h"

typedef struct bx_baseline {
    bx_choice about;
    bool (*applicable)(const bx_plan *plan, int teams, char *why, size_t why_size);
    /* Collective over the world. */
    void *(*create)(bx_plan *plan, unsigned planner);
    /* Forward and inverse of every band, unnormalised, of data that `begin` sets afresh. */
    void (*begin)(void *self);
    void (*step)(void *self);
    /* Largest error of a round trip, relative to the largest element. */
    double (*error)(void *self);
    void (*destroy)(void *self);
} bx_baseline;

extern const bx_baseline bx_baseline_serial, bx_baseline_fftw_mpi, bx_baseline_spfft,
    bx_baseline_copy;

extern const bx_baseline *const bx_baselines[];
extern const int bx_baseline_count;

#endif
