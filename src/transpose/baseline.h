/* Yardsticks measured beside the methods, in the same launch. */
#pragma once

#include "plan.h"

/* A baseline.  `self` is what create has returned. */
typedef struct bx_baseline {
    bx_choice about;
    /* Prepares the library before wisdom is read.  NULL: nothing. */
    void (*init)(void);
    /* Returns whether it can run here, with so many teams; if not, the reason is in `why` (at most
     * why_size bytes). */
    bool (*applicable)(const bx_plan *plan, int teams, char *why, size_t why_size);
    /* Returns the baseline's state; `planner` is FFTW's planner flag.  Collective over the world.
     */
    void *(*create)(bx_plan *plan, unsigned planner);
    /* Sets the data afresh. */
    void (*begin)(void *self);
    /* Transforms every band forward and back, unnormalised: the timed work. */
    void (*step)(void *self);
    /* Returns the largest error of a round trip on this rank, relative to the largest element. */
    double (*error)(void *self);
    void (*destroy)(void *self);
} bx_baseline;

extern const bx_baseline bx_baseline_serial, bx_baseline_fftw_mpi, bx_baseline_spfft,
    bx_baseline_copy;

/* Every baseline, in the order of --list. */
static const bx_baseline *const bx_baselines[] = {&bx_baseline_serial,
#ifdef BX_PEERS
                                                  &bx_baseline_fftw_mpi, &bx_baseline_spfft,
#endif
                                                  &bx_baseline_copy};
enum { bx_baseline_count = sizeof bx_baselines / sizeof *bx_baselines };
