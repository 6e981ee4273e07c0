/* When the ranks begin a step: as a barrier lets them go, or all at one time.
 *
 * A barrier lets ranks out one after the other, and what they wait for each other then is in the
 * times of short steps.  So ranks agree on a time a little later, and wait for it on clocks whose
 * offsets are measured: a window (S. Hunold, A. Carpen-Amarie, IEEE TPDS 27, 3617 (2016)).  Offsets
 * are measured along a binomial tree, by the shortest of several round trips, and again before
 * blocks of samples, as clocks drift.
 *
 * There are no common clocks on a simulated machine, and where a host has fewer cores than threads:
 * who waits there takes the core of another rank.  Steps then begin behind a barrier. */
#pragma once

#include "run.h"

/* Reads --start and prepares the measurement of clocks: run->start is NULL where there are no
 * common clocks.  Refuses with BX_USAGE an unknown value, with BX_RESOURCES a window without common
 * clocks.  Returns as bx_run_agree.  Collective. */
int bx_start_create(bx_run *run);
/* Frees run->start; nothing where it is NULL.  Collective. */
void bx_start_free(bx_run *run);

/* Of a step: a larger skew is not small. */
extern const double bx_start_most_skew;

/* All that follows may be called without common clocks. */

/* Measures the offsets of the clocks; the first time also how far a window is from one time.  Does
 * nothing where the measurement before was so short ago that these would take over a hundredth of
 * the time.  Collective. */
void bx_start_adjust(bx_run *run);
/* Returns whether the steps of a method shall begin by a window: as --start says, or where its skew
 * is below bx_start_most_skew of the longest `step`, the seconds of a step of this rank.
 * Collective. */
bool bx_start_choose(const bx_run *run, double step);
/* Waits for all ranks.  Returns the time of bx_profile_clock at which the step shall begin: it is
 * over where a barrier lets ranks go.  Nothing may stand between this call and the step, but
 * readings of that clock.  Collective. */
double bx_start_meet(const bx_run *run, bool by_window);
/* Writes the common time of a reading of MPI_Wtime, and its negative, both plus the uncertainty of
 * this rank's offset.  The sum of their maxima over ranks is how far the ranks were apart, as
 * far as the offsets agree with themselves: a route that is always slower one way is not seen.
 * NaN without common clocks.  Local. */
void bx_start_ends(const bx_run *run, double reading, double ends[2]);
