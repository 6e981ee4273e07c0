/* The measurement: rounds of all methods, interleaved. */
#pragma once

#include "comm_buffers.h"
#include "profile.h"
#include "verification.h"

typedef struct {
    char name[96], unit[32], better[8];
    double value, low, high;
    int rank;           /* whose number it is; -1: of none, or of all */
    bool has_quartiles; /* low, high */
} bx_metric;

/* One method at one point: an entry of "results".  Sample arrays are on rank 0 alone. */
typedef struct {
    size_t method, point;
    bool applicable;
    char why[160]; /* if not applicable */
    bx_verification verification;
    bool verified; /* all outcomes so far */
    size_t sample_count;
    double *seconds;          /* [sample_count] max over ranks */
    double *waited;           /* [sample_count] likewise; with the barrier before it */
    double *apart;            /* [sample_count] s: how far the ranks' starts were apart, at most */
    bool by_window;           /* how steps begin (start.h) */
    bool *disturbed;          /* [sample_count] whether a thread waited for a core */
    double *phases;           /* [sample_count][phase_count] mean over ranks */
    double *phases_most;      /* [sample_count][phase_count] max over ranks */
    bx_parts parts;           /* of this rank, all timed steps */
    bx_recording *recording;  /* of this rank: MPI calls of all timed steps */
    double copied[BX_COPIED]; /* of this rank, in all timed steps */
    /* On rank 0: what is derived from the samples so far; once all are measured, of all ranks. */
    bx_metric *metrics; /* [metric_count] */
    size_t metric_count;
    double skew, skew_share;  /* the median of `apart`, and over that of `seconds` */
    bx_spread *communication; /* of a sample */
    bx_spread *copies;        /* [BX_COPIED] of a sample; NULL: buffers of the host */
    bx_spread *ranks;         /* s of a sample: all, outside of MPI, then by phase */
    bx_shares *shares;
} bx_result;

/* Seconds of the measurement on this rank: all, in `step`, in begin / prepare / inspect / end; the
 * rest is the harness's own. */
typedef struct {
    double wall, step, input;
} bx_cost;

/* Returns [*count] results: every selected method at every point, without samples.  Local. */
bx_result *bx_results_create(bx_run *run, size_t *count);
void bx_results_free(bx_result *results, size_t count);
/* Fills what compares ranks: communication, shares, parts.  Once, after the last sample.
 * Collective. */
void bx_results_compare_ranks(const bx_run *run, bx_result *results, size_t count);
/* Verifies every applicable method, before any timing.  Returns BX_OK, or the code of a refusal.
 * Collective. */
int bx_results_verify(bx_run *run, bx_result *results, size_t count);
/* Saves the samples taken so far, for launches that die. */
typedef void bx_progress(void *context);
/* Measures the verified methods, in interleaved rounds, and verifies after each block.  Calls
 * progress(context) on rank 0 between rounds; `progress` may be NULL.  Returns where the time went.
 * Collective. */
bx_cost bx_measure_all(bx_run *run, bx_result *results, size_t count, bx_progress *progress,
                       void *context);
