/* What the wrappers of MPI's routines do (all local).  It is in a header, to be compiled into each:
 * a call may take no more than 10 ns.
 *
 * What a call sends is counted before its clock starts.  The steps' clock (bx_profile_clock) stands
 * still while each of many peers is looked at, and for one of a call's two readings of the clock,
 * which its time would have. */
#pragma once

#include "charge.h"
#include "peers.h"
#include "profile.h"
#include "ticks.h"

#include <stdatomic.h>

enum { BX_MAX_REGIONS = 8 };

/* One wrapper: its routine, and where its calls are counted. */
typedef struct {
    const char *name;                            /* without MPI_: Allreduce, of Fortran too */
    int row[1 + BX_MAX_REGIONS][BX_CLASS_COUNT]; /* 1 + number of the row; 0: none yet */
} bx_routine;

/* What every call reads or writes. */
extern struct bx_calls {
    bool counted; /* the next call: MPI libraries call themselves, only the outermost call counts */
    bool separate_waiting;
    int region;   /* -1: none */
    int requests; /* of non-blocking collectives under way */
    int bound;    /* persistent requests of collectives */
    /* Requests under way, of which done_at_once have no handle and end with the next wait; the
     * fewest since the last lap; the most of this recording. */
    int open, done_at_once, fewest_open, most_open;
    bx_traffic *rows;              /* of the recording in force: all rows that there are */
    double seconds, paused_s;      /* in all calls; that the steps' clock stood still */
    double resumed_at;             /* ticks, for the call to start at; 0: none in this call */
    _Atomic(const char *) routine; /* that this rank is in */
} bx_calls;

/* Returns a new row's number, from 1. */
int bx_calls_new_row(const char *routine, bx_class class);

/* Begins a call; returns where it is counted, until the next; NULL inside another call. */
static inline bx_traffic *bx_calls_enter(bx_routine *routine, bx_class class)
{
    if (!bx_calls.counted) return NULL;
    bx_calls.counted = false;
    bx_calls.resumed_at = 0;
    bx_charge_pay();
    atomic_store_explicit(&bx_calls.routine, routine->name, memory_order_relaxed);
    int *number = &routine->row[1 + bx_calls.region][class];
    if (*number == 0) *number = bx_calls_new_row(routine->name, class);
    bx_traffic *row = &bx_calls.rows[*number - 1];
    row->calls++;
    return row;
}

/* Starts its clock; `comm` is used for `blocking_collective` ones alone (the barrier of
 * --separate-waiting).  Returns the ticks at the start. */
static inline double bx_calls_start(bx_traffic *row, MPI_Comm comm, bool blocking_collective)
{
    if (!row) return 0;
    double start = bx_calls.resumed_at > 0 ? bx_calls.resumed_at : bx_ticks_now();
    if (blocking_collective && bx_calls.separate_waiting) {
        PMPI_Barrier(comm);
        row->waiting += (bx_ticks_now() - start) * bx_ticks_second;
    }
    return start;
}

/* Ends the call.  A core that clocks faster than at the start reads its counter in less time. */
static inline void bx_calls_leave(bx_traffic *row, double start)
{
    if (!row) return;
    double ticks = bx_ticks_now() - start,
           reading = ticks < bx_ticks_reading ? ticks : bx_ticks_reading,
           seconds = (ticks - reading) * bx_ticks_second;
    row->seconds += seconds;
    bx_calls.seconds += seconds;
    bx_calls.paused_s += reading * bx_ticks_second;
    atomic_store_explicit(&bx_calls.routine, NULL, memory_order_relaxed);
    bx_calls.counted = true;
}

/* ---- requests that are under way ---- */

/* Returns how many of these requests are one. */
static inline int bx_calls_active(int count, const MPI_Request *requests)
{
    int active = 0;
    for (int i = 0; i < count; i++) active += requests[i] != MPI_REQUEST_NULL;
    return active;
}

/* Notes that requests are under way; `done` of them were null from the beginning. */
static inline void bx_calls_open(int started, int done)
{
    bx_calls.open += started;
    bx_calls.done_at_once += done;
    if (bx_calls.open > bx_calls.most_open) bx_calls.most_open = bx_calls.open;
}

static inline void bx_calls_close(int ended)
{
    ended += bx_calls.done_at_once;
    bx_calls.done_at_once = 0;
    bx_calls.open = bx_calls.open > ended ? bx_calls.open - ended : 0;
    if (bx_calls.open < bx_calls.fewest_open) bx_calls.fewest_open = bx_calls.open;
}

/* ---- what a call sends; messages to oneself do not count ---- */

/* Adds one message; a number that is no rank, as MPI_PROC_NULL, sends nothing. */
static inline void bx_count_message(bx_traffic *row, const bx_peers *peers, int peer, double bytes)
{
    if (peer < 0 || peer >= peers->size || peer == peers->rank) return;
    double off_node = peers->node[peer] != peers->own_node;
    row->messages++;
    row->bytes += bytes;
    row->off_node_messages += off_node;
    row->off_node_bytes += off_node * bytes;
}

/* Adds a message to every other rank. */
static inline void bx_count_messages(bx_traffic *row, const bx_peers *peers, double bytes,
                                     double off_node_bytes)
{
    row->messages += peers->size - (peers->rank >= 0);
    row->off_node_messages += peers->off_node;
    row->bytes += bytes;
    row->off_node_bytes += off_node_bytes;
}

/* Returns the bytes of `count` items; 0 for MPI_DATATYPE_NULL. */
static inline double bx_count_bytes(int count, MPI_Datatype type)
{
    int size = 0;
    if (count > 0 && type != MPI_DATATYPE_NULL) PMPI_Type_size(type, &size);
    return (double)count * size;
}

/* Adds one message to rank `peer` of `comm`. */
static inline void bx_count_to(bx_traffic *row, MPI_Comm comm, int peer, double bytes)
{
    if (peer != MPI_PROC_NULL) bx_count_message(row, bx_peers_of_comm(comm), peer, bytes);
}

/* Adds one message to every other rank of `comm`. */
static inline void bx_count_to_all(bx_traffic *row, MPI_Comm comm, double bytes_each)
{
    const bx_peers *peers = bx_peers_of_comm(comm);
    double others = peers->size - (peers->rank >= 0);
    bx_count_messages(row, peers, others * bytes_each, peers->off_node * bytes_each);
}

/* Whether this rank is the root, on which arguments may mean something that mean nothing elsewhere;
 * false between two groups of ranks, where `root` may be no rank. */
static inline bool bx_count_is_root(MPI_Comm comm, int root)
{
    return root >= 0 && bx_peers_of_comm(comm)->rank == root;
}

/* Adds the one message of a reduction or scan, to the next rank: each contributes its vector once.
 */
static inline void bx_count_ring(bx_traffic *row, MPI_Comm comm, double bytes)
{
    const bx_peers *peers = bx_peers_of_comm(comm);
    int next = peers->rank + 1;
    bx_count_message(row, peers, next < peers->size ? next : 0, bytes);
}

/* Adds one access to rank `target` of a window. */
static inline void bx_count_to_window(bx_traffic *row, MPI_Win win, int target, double bytes)
{
    if (target != MPI_PROC_NULL) bx_count_message(row, bx_peers_of_window(win), target, bytes);
}

/* Adds a message per rank of `comm`, of counts[ranks] items of `type`. */
void bx_count_alltoallv(bx_traffic *row, MPI_Comm comm, const int *counts, MPI_Datatype type);
/* Adds a message per rank of `comm`, of counts[ranks] items of types[ranks]. */
void bx_count_alltoallw(bx_traffic *row, MPI_Comm comm, const int *counts,
                        const MPI_Datatype *types);
/* Adds a message per neighbour of `comm`, a graph's, of counts[neighbours] items of `type`. */
void bx_count_neighbours(bx_traffic *row, MPI_Comm comm, const int *counts, MPI_Datatype type);

/* Persistent requests: each start sends what was bound to the request. */

/* Returns the traffic that is bound to a request from now on, of a collective or of a message, for
 * the caller to fill before the next call. */
bx_traffic *bx_count_bind(MPI_Request request, bx_class class);
/* Returns the class of what is bound to the first of requests[count]. */
bx_class bx_count_class_of(int count, const MPI_Request *requests);
/* Adds the messages that are bound to requests[count]. */
void bx_count_started(bx_traffic *row, int count, const MPI_Request *requests);
/* Forgets what is bound to a request. */
void bx_count_unbind(MPI_Request request);

/* Requests of non-blocking collectives, so that the wait for one is counted as collective. */

/* Remembers the request that a call has started. */
void bx_calls_remember(MPI_Request request);
/* Returns the class of a wait for requests[count]: collective if one of them is remembered. */
bx_class bx_calls_class_of(int count, const MPI_Request *requests);
/* Forgets the completed ones, after the wait that bx_calls_class_of was called for. */
void bx_calls_forget(int count, const MPI_Request *requests);
