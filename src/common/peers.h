/* The nodes of the ranks of communicators and windows: found once, then looked up in few
 * nanoseconds (all local). */
#pragma once

#include "bx.h"

typedef struct {
    int size, rank;  /* this rank's own number; -1: it is not among them (inter-communicators) */
    int own_node;    /* of this rank */
    const int *node; /* [size] of each, -1 if outside the launch */
    int off_node;    /* ranks on other nodes */
    const int *near; /* [size - off_node] the others, this rank included */
    const int *neighbours; /* [neighbour_count] that a graph communicator sends to */
    int neighbour_count;
} bx_peers;

/* Begins; `node_of` [ranks of world] must live until bx_peers_stop. */
void bx_peers_start(MPI_Comm world, const int *node_of);
void bx_peers_stop(void);
/* The last communicator and window of each place, and their peers (NULL: none). */
enum { BX_RECENT = 16 };
extern struct bx_peers_recent {
    struct {
        MPI_Comm comm;
        const bx_peers *peers;
    } comms[BX_RECENT];
    struct {
        MPI_Win win;
        const bx_peers *peers;
    } wins[BX_RECENT];
} bx_peers_recent;
/* The place of a handle, a pointer or a number. */
#define BX_PLACE(handle) ((uint64_t)(uintptr_t)(handle) * UINT64_C(0x9e3779b97f4a7c15) >> 60)

/* The same for any communicator and window. */
const bx_peers *bx_peers_find_comm(MPI_Comm comm);
const bx_peers *bx_peers_find_window(MPI_Win win);

/* Returns the ranks of `comm`, the remote ones of an inter-communicator; owned by `comm`.  Its
 * first call of a communicator that is not like the world takes a time that grows with its ranks
 * times the world's, in Open MPI 4. */
static inline const bx_peers *bx_peers_of_comm(MPI_Comm comm)
{
    size_t at = BX_PLACE(comm);
    const bx_peers *peers = bx_peers_recent.comms[at].peers;
    return peers && bx_peers_recent.comms[at].comm == comm ? peers : bx_peers_find_comm(comm);
}
/* Returns the ranks of a window, likewise. */
static inline const bx_peers *bx_peers_of_window(MPI_Win win)
{
    size_t at = BX_PLACE(win);
    const bx_peers *peers = bx_peers_recent.wins[at].peers;
    return peers && bx_peers_recent.wins[at].win == win ? peers : bx_peers_find_window(win);
}
