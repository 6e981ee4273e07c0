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
/* Writes where this rank is, "in MPI_Bcast" for example, at most `size` bytes.  Any thread may call
 * it.  Local. */
void bx_profile_place(char *text, size_t size);
/* Names the harness's own code that this rank is in, for bx_profile_place; NULL when it has left.
 * The text must live as long as the program.  Local. */
void bx_profile_enter_own(const char *place);
/* Returns an empty recording.  Local. */
bx_recording *bx_recording_create(void);
/* Reads a recording's traffic, all regions together.  Local. */
void bx_recording_read(const bx_recording *recording, bx_traffic traffic[BX_CLASS_COUNT]);
/* Directs calls from now on to a recording; NULL: to that of no method.  Local. */
void bx_profile_into(bx_recording *recording);

/* Minimum, mean and maximum over the ranks. */
typedef struct {
    bx_traffic of[3][BX_CLASS_COUNT];
} bx_spread;

/* Returns traffic[BX_CLASS_COUNT] per step on rank 0 (the caller frees it); NULL on the others.
 * Collective. */
bx_spread *bx_profile_spread(MPI_Comm world, const bx_traffic *traffic, double steps);
/* Adds it to an object.  Local. */
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
/* Adds them to an object.  Local. */
void bx_profile_add_shares(bx_json *object, const bx_shares *shares);
void bx_shares_free(bx_shares *shares);

/* ---- for the wrappers of MPI's routines (all local) ---- */

enum { BX_MAX_REGIONS = 8 };

/* One wrapper: its routine, and where its calls are counted. */
typedef struct {
    const char *name;                            /* without MPI_: Allreduce, of Fortran too */
    int row[1 + BX_MAX_REGIONS][BX_CLASS_COUNT]; /* 1 + number of the row; 0: none yet */
} bx_routine;

/* One call that a wrapper is in. */
typedef struct {
    /* Where it is counted, until the next call; NULL inside another call: MPI libraries call their
     * own routines, which do not count. */
    bx_traffic *row;
    double start; /* ticks */
} bx_call;

/* Begins a call; `comm` is used for `blocking_collective` ones alone (the barrier of
 * --separate-waiting). */
bx_call bx_profile_enter(bx_routine *routine, bx_class class, MPI_Comm comm,
                         bool blocking_collective);
/* Ends a call: its time.  Then what it has sent is to be added, unless its row is NULL. */
void bx_profile_leave(const bx_call *call);

/* What a call has sent.  Messages to oneself do not count.  It costs time of a step: arrays are
 * read once, as the caller may change them after the call. */

/* Adds one message to rank `peer` of `comm`. */
void bx_profile_to(const bx_call *call, MPI_Comm comm, int peer, double bytes);
/* Adds one message to every other rank of `comm`. */
void bx_profile_to_all(const bx_call *call, MPI_Comm comm, double bytes_each);
/* Adds one access to rank `target` of a window. */
void bx_profile_to_window(const bx_call *call, MPI_Win win, int target, double bytes);
/* Adds a message per rank of `comm`, of counts[ranks] items of `type`. */
void bx_profile_alltoallv(const bx_call *call, MPI_Comm comm, const int *counts, MPI_Datatype type);
/* Adds a message per rank of `comm`, of counts[ranks] items of types[ranks]. */
void bx_profile_alltoallw(const bx_call *call, MPI_Comm comm, const int *counts,
                          const MPI_Datatype *types);
/* Adds, on the root alone, a message to every other rank. */
void bx_profile_from_root(const bx_call *call, MPI_Comm comm, int root, double bytes_each);
/* Adds, on the root alone, a message to every other rank, of counts[ranks] items of `type`. */
void bx_profile_scatterv(const bx_call *call, MPI_Comm comm, int root, const int *counts,
                         MPI_Datatype type);
/* Adds the one message of a reduction or scan, to the next rank. */
void bx_profile_ring(const bx_call *call, MPI_Comm comm, double bytes);
/* Returns the bytes of `count` items; 0 for MPI_DATATYPE_NULL. */
double bx_profile_bytes(int count, MPI_Datatype type);
/* Adds a message per neighbour of `comm`, a graph's, of counts[neighbours] items of `type`. */
void bx_profile_neighbours(const bx_call *call, MPI_Comm comm, const int *counts,
                           MPI_Datatype type);

/* Persistent sends: each start sends what was bound to the request. */

/* Binds a message of `bytes` to rank `peer` of `comm` to a request. */
void bx_profile_bind(MPI_Request request, MPI_Comm comm, int peer, double bytes);
/* Adds the messages that are bound to requests[count]. */
void bx_profile_started(const bx_call *call, int count, const MPI_Request *requests);
/* Forgets what is bound to a request. */
void bx_profile_unbind(MPI_Request request);

/* Requests of non-blocking collectives, so that the wait for one is counted as collective. */

/* Remembers the request that a call has started. */
void bx_profile_remember(MPI_Request request);
/* Returns the class of a wait for requests[count]: collective if one of them is remembered. */
bx_class bx_profile_class_of(int count, const MPI_Request *requests);
/* Forgets the completed ones, after the wait that bx_profile_class_of was called for. */
void bx_profile_forget(int count, const MPI_Request *requests);
