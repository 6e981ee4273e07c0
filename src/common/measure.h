/* The measurement: rounds of all methods, interleaved. */
#ifndef BX_MEASURE_H
#define BX_MEASURE_H

#include "profile.h"
#include "verification.h"

/* One method at one point: what becomes an entry of "results".  Sample arrays live on rank 0. */
typedef struct {
    size_t method, point;
    bool applicable;
    char why[160];
    bx_verification verification;
    bool verified; /* all outcomes so far */
    size_t sample_count;
    double *seconds;         /* [sample_count] max over ranks */
    double *switches;        /* [sample_count] max over ranks of involuntary context switches */
    double *phases;          /* [sample_count][phase_count] mean over ranks */
    bx_parts parts;          /* this rank, all timed steps */
    bx_recording *recording; /* likewise */
} bx_result;

/* Where the time of the measurement went, on this rank; the rest is the harness's own. */
typedef struct {
    double wall, step, input; /* s: all, in `step`, in begin / prepare / inspect / end */
} bx_cost;

bx_result *bx_results_create(bx_run *run, size_t *count); /* every selected method at every point */
void bx_results_free(bx_result *results, size_t count);
/* Verifies every applicable method, before anything is timed.  BX_OK, or the code of a refusal. */
int bx_results_verify(bx_run *run, bx_result *results, size_t count);
/* Measures those that are verified.  `progress` is called on rank 0 now and then, so that a launch
 * that dies leaves the samples taken so far; NULL: not at all. */
typedef void bx_progress(void *context);
bx_cost bx_measure_all(bx_run *run, bx_result *results, size_t count, bx_progress *progress,
                       void *context);

#endif
