/* Collectives in no time, on a machine that has `at_once`: for launches of thousands of ranks, of
 * which nothing but the kernel's own work is looked at.  All ranks have one memory, so that each
 * takes what is for it where it lies. */
#pragma once

#include <mpi.h>
#include <stdbool.h>

/* Whether this machine has them. */
bool bx_at_once(void);

/* Whether messages carry no data: see bx_charge_hollow_messages. */
extern bool bx_at_once_are_hollow;

/* Waits for all ranks of a communicator, on any machine. */
void bx_at_once_meet(MPI_Comm comm);

/* What a rank sends or receives: counts[i] elements of types[i] for rank i, places[i] bytes behind
 * `buffer`.  Without counts: `count` each; without types: of one type, whose extents places are
 * counted in; without places: one behind the other. */
typedef struct {
    char *buffer;
    int count;
    MPI_Datatype type;
    const int *counts, *places;
    const MPI_Datatype *types;
} bx_part;

/* Each rank receives its block from every other. */
int bx_at_once_exchange(bx_part sent, bx_part received, MPI_Comm comm);
