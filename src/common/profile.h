/* The communication profile: the harness's side, then what the wrappers of MPI's routines use. */
#ifndef BX_PROFILE_H
#define BX_PROFILE_H

#include "run.h"

/* Where the time of a method's steps went, on one rank: seconds. */
typedef struct {
    double step, phase[BX_MAX_PHASES], phase_mpi[BX_MAX_PHASES];
} bx_parts;

/* MPI calls by routine, region and class. */
typedef struct bx_recording bx_recording;

void bx_profile_start(MPI_Comm world, const int *node_of, bool separate_waiting);
void bx_profile_stop(void);
double bx_profile_seconds(void); /* inside MPI so far */
/* "in MPI_Bcast": what this rank does, from any of its threads. */
void bx_profile_place(char *text, size_t size);
void bx_profile_enter_own(const char *place); /* of the harness, uncounted; NULL: it is over */
bx_recording *bx_recording_create(void);      /* it lives until bx_profile_stop */
void bx_recording_read(const bx_recording *recording, bx_traffic traffic[BX_CLASS_COUNT]);
void bx_profile_into(bx_recording *recording); /* what is sent from now on; NULL: no method's */
cJSON *bx_profile_traffic_json(MPI_Comm world, const bx_traffic *traffic,
                               double steps);   /* collective */
cJSON *bx_profile_regions_json(MPI_Comm world); /* collective */
cJSON *bx_profile_parts_json(const bx_run *run, const bx_parts *parts,
                             const bx_recording *recording); /* collective */

/* ---- wrappers ---- */

typedef struct bx_peers bx_peers;

enum { BX_MAX_REGIONS = 8 };

/* A wrapper's own: its name, and where its calls are counted. */
typedef struct {
    const char *name; /* without MPI_, in either case: Allreduce, allreduce */
    int row[1 + BX_MAX_REGIONS][BX_CLASS_COUNT]; /* 1 + number of the row; 0: none yet */
} bx_routine;

typedef struct {
    bx_class class;
    bx_routine *routine;
    bool outermost;
    double start;
    bx_traffic sent;
} bx_call;

bx_call bx_profile_enter(bx_routine *routine, bx_class class, MPI_Comm comm,
                         bool blocking_collective);
void bx_profile_leave(bx_call *call);

/* What the call sends, before bx_profile_leave: to one rank, to every other rank, by one-sided
 * access.  Messages to oneself are none. */
void bx_profile_to(bx_call *call, MPI_Comm comm, int peer, double bytes);
void bx_profile_to_all(bx_call *call, MPI_Comm comm, double bytes_each);
void bx_profile_to_window(bx_call *call, MPI_Win win, int target, double bytes);
double bx_profile_bytes(int count, MPI_Datatype type);

/* Requests of non-blocking collectives, so that waiting for one is booked with it: remembered when
 * started, looked up before and forgotten after completion. */
void bx_profile_remember(const bx_call *call, MPI_Request request);
bx_class bx_profile_class_of(int count, const MPI_Request *requests);
void bx_profile_forget(int count, const MPI_Request *requests);
const bx_peers *bx_profile_peers(MPI_Comm comm);

/* Traffic of the routines with counts for each rank and of rooted ones; shared by C and Fortran. */
void bx_profile_alltoallv(bx_call *call, MPI_Comm comm, const int *counts, MPI_Datatype type);
void bx_profile_alltoallw(bx_call *call, MPI_Comm comm, const int *counts,
                          const MPI_Datatype *types);
void bx_profile_from_root(bx_call *call, MPI_Comm comm, int root, double bytes_each);
void bx_profile_scatterv(bx_call *call, MPI_Comm comm, int root, const int *counts,
                         MPI_Datatype type);
void bx_profile_ring(bx_call *call, MPI_Comm comm, double bytes);

#endif
