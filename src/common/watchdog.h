/* The watchdog: ends a launch in which no step finishes for --progress-timeout; by default for 60 s
 * or 20 times the longest round or part of a step, whichever is longer, and for 5 min where neither
 * is known yet. */
#pragma once

#include "run.h"

/* Starts a thread that watches; nothing if --progress-timeout is 0.  Collective. */
void bx_watchdog_start(const bx_run *run);
/* Notes that something has finished, and what comes next: a stage ("measuring"), its method or
 * NULL, and the round, from 1, or 0.  Both texts must live as long as the program.  Local. */
void bx_watchdog_tick(const char *stage, const char *method, int64_t round);
/* Notes that a part of a step has finished, and the number of the next, from 1; where a step has
 * parts, the default patience goes by the longest part.  Local. */
void bx_watchdog_part(int64_t part);
/* Records the rank and host that this rank waits for, as bx_run_await.  Local. */
void bx_watchdog_await(int rank, const char *host);
/* Notes how long a round took, which the default patience goes by.  Collective. */
void bx_watchdog_round(const bx_run *run, double seconds);
/* Local.  After MPI_Finalize, which is watched too. */
void bx_watchdog_stop(void);
