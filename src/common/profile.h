/* The communication profile: the harness's side, then what the wrappers of MPI's routines use. */
#pragma once

#include "run.h"

/* Seconds of a method's steps on one rank: all, by phase, and of each phase inside MPI. */
typedef struct {
    double step, phase[BX_MAX_PHASES], phase_mpi[BX_MAX_PHASES];
} bx_parts;

/* The MPI calls of one rank by routine, region and class. Recordings live until bx_profile_stop. */
typedef struct bx_recording bx_recording;

/* Begins to count.  `node_of` [ranks of world] must live until bx_profile_stop.  With
 * `separate_waiting` a barrier before each blocking collective is timed as waiting.  Local. */
void bx_profile_start(MPI_Comm world, const int *node_of, bool separate_waiting);
/* Ends counting and frees all recordings.  Local. */
void bx_profile_stop(void);
/* Returns the seconds inside MPI so far.  Local. */
double bx_profile_seconds(void);
/* Returns the seconds of a clock that stands still while peers are counted: steps are timed by it.
 * Local. */
double bx_profile_clock(void);
/* Returns the seconds for which that clock has stood still so far.  Local. */
double bx_profile_paused(void);
/* Writes where this rank is, "in MPI_Bcast" for example, at most `size` bytes.  Any thread may call
 * it.  Local. */
void bx_profile_place(char *text, size_t size);
/* Names the harness's own code that this rank is in, for bx_profile_place; NULL when it has left.
 * The text must live as long as the program.  Local. */
void bx_profile_enter_harness(const char *place);
/* Returns an empty recording.  Local. */
bx_recording *bx_recording_create(void);
/* Moves what is in a recording to another.  Local. */
void bx_recording_move(bx_recording *from, bx_recording *to);
/* Reads a recording's traffic, all regions together.  Local. */
void bx_recording_read(const bx_recording *recording, bx_traffic traffic[BX_CLASS_COUNT]);
/* Directs calls from now on to a recording; NULL: to that of no method.  No request is then under
 * way that counts.  Local. */
void bx_profile_into(bx_recording *recording);
/* Ends a lap of a phase.  Returns the seconds inside MPI so far.  Local. */
double bx_profile_lap(size_t phase);
/* What so many samples have left in a recording. */
struct bx_shown {
    const bx_recording *recording;
    double steps;
};
/* Returns how often a sample has called, outside of regions, routines of MPI that `allowed` does
 * not list (see bx_choice.calls), all ranks together; the name of one is in other[BX_ROUTINE_NAME].
 * Collective. */
enum { BX_ROUTINE_NAME = 64 };
double bx_shown_other_calls(MPI_Comm world, const bx_shown *shown, const char *allowed,
                            char *other);

/* Returns the spreads over the ranks of traffic[BX_CLASS_COUNT] per step, field by field, on rank 0
 * (the caller frees them); NULL on the others.  Collective. */
bx_spread *bx_profile_spread(MPI_Comm world, const bx_traffic *traffic, double steps);
/* Adds them to an object.  Local. */
void bx_profile_add_spread(bx_json *object, const bx_spread *spread);
/* Returns the mean of CLASS.FIELD; NaN if there is none.  Local. */
double bx_profile_mean(const bx_spread *spread, const char *name);
/* Adds all traffic so far, and that of each region, to an object of rank 0.  Collective. */
void bx_profile_add_regions(MPI_Comm world, bx_json *object);

/* The shares of a method's time in own code, libraries and MPI (of_group), by phase and routine. */
typedef struct {
    int group; /* of bx_share_groups */
    char name[96];
    double share;
} bx_part;
typedef struct {
    double of_group[3];
    bx_part *parts; /* [part_count] */
    size_t part_count;
} bx_shares;
extern const char *const bx_share_groups[3];

/* Returns them on rank 0 (the caller frees them); NULL on the others, and without any time.
 * Collective. */
bx_shares *bx_profile_shares(const bx_run *run, const bx_parts *parts,
                             const bx_recording *recording);
void bx_shares_free(bx_shares *shares);
