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
/* Returns the ranks of `comm`, the remote ones of an inter-communicator; owned by `comm`.  Its
 * first call of a communicator that is not like the world takes a time that grows with its ranks
 * times the world's, in Open MPI 4. */
const bx_peers *bx_peers_of_comm(MPI_Comm comm);
/* Returns the ranks of a window, likewise. */
const bx_peers *bx_peers_of_window(MPI_Win win);
