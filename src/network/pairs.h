/* The parts of bisection-pairs: who meets whom and when, what a meeting measures, whom to measure
 * again.  Nodes are numbered from 0, as bx_run_node_of does. */
#pragma once

#include "comm_buffers.h"
#include "pairs.def"

/* ---- schedule: local, the same on every rank ---- */

typedef enum {
#define BX_PAIRS_MODE(name, summary) BX_PAIRS_##name,
    BX_MODES(BX_PAIRS_MODE) BX_PAIRS_MODES
} bx_pairs_mode;

/* Two nodes that are measured against each other, and in which slot of their round. */
typedef struct {
    int a, b, slot;
} bx_pairs_meeting;

/* A tournament by the circle method on seats, to which nodes are dealt at random.  Its rounds are
 * in random order, so that the first k of them are a random k-regular design, no pair twice. */
typedef struct {
    int nodes, seats;     /* seats: nodes, or one more if they are odd: that one's partner rests */
    int rounds;           /* of all pairs: seats - 1 */
    int *node_at, *order; /* [seats] a permutation; [rounds] likewise */
    bx_pairs_mode mode;
    const int *switch_of; /* [nodes]; NULL: unknown */
    int switches;
    int *seen; /* [switches] scratch: the last slot that has a pair of the switch */
} bx_pairs_schedule;

/* Deals the seats.  switch_of[nodes], each below `switches`, or NULL, stays the caller's. */
void bx_pairs_schedule_create(bx_pairs_schedule *schedule, int nodes, bx_pairs_mode mode,
                              const int *switch_of, int switches, uint64_t seed);
void bx_pairs_schedule_free(bx_pairs_schedule *schedule);
/* Writes the pairs of a round (0 .. rounds - 1) to meetings[nodes / 2], in the order of their
 * slots. In a slot no node has two pairs; in thin mode no switch has, where switches are known.
 * Returns their number, nodes / 2. */
int bx_pairs_schedule_round(const bx_pairs_schedule *schedule, int round,
                            bx_pairs_meeting *meetings);

/* ---- the switches that nodes are on ---- */

enum { BX_PAIRS_NAME = 64 }; /* of a host, with its end */

typedef struct {
    int *switch_of; /* [nodes] */
    char **names;   /* [count] */
    int count;
} bx_pairs_switches;

/* Reads a file of lines "SWITCH HOST HOST ..."; # begins a comment.  A host may be given without
 * its domain.  Hosts that are no node of this launch are passed over.  Refuses with BX_USAGE a file
 * that cannot be read, or that names a node on no switch or on two.  Local: for rank 0. */
int bx_pairs_switches_read(bx_run *run, const char *path, const char (*hosts)[BX_PAIRS_NAME],
                           int nodes, bx_pairs_switches *switches);
void bx_pairs_switches_free(bx_pairs_switches *switches);

/* ---- one meeting ---- */

/* Values of a pair of nodes.  Bytes/s are of all ranks that talk. */
typedef struct {
    float latency;         /* s, half a round trip of 8 bytes between the nodes' first ranks */
    float out, back, both; /* B/s from a to b; from b to a; both ways at once, their sum */
} bx_pairs_values;

enum { BX_PAIRS_TRIPS = 10 }; /* there and back in a sample of the latency, each of its own word */

/* This rank's end of the lines to other nodes. Local rank l of one node talks to l of the other. */
typedef struct {
    uint64_t seed;
    MPI_Comm column;               /* the ranks of my local number; its rank i is of node i */
    MPI_Comm talkers;              /* of my node, those that talk; MPI_COMM_NULL where I do not */
    int local, talker_count;       /* my number of talker_count, the same on every node */
    size_t words;                  /* of 8 bytes, in a message */
    int samples;                   /* of each value; their median counts */
    bx_comm_buffer sent, received; /* [words], and BX_PAIRS_TRIPS at least */
} bx_pairs_line;

/* Measures a meeting of my node with another, whose talkers do the same at the same time.
 * `moment` is a number that no other meeting has; content goes by it.  Fills *values and *wrong,
 * the bytes from the other node that arrived wrong, on local rank 0. */
void bx_pairs_measure(bx_pairs_line *line, bx_pairs_meeting meeting, uint64_t moment,
                      bx_pairs_values *values, double *wrong);

/* ---- whom to measure again ---- */

/* A line of the matrix file, little-endian. */
typedef struct {
    int16_t stage, round; /* stage 0: the tournament; 1: measured again, `round` times before */
    int32_t a, b;
    bx_pairs_values values;
} bx_pairs_record;

enum { BX_PAIRS_SUSPECTS = 16, BX_PAIRS_PATHS = 64, BX_PAIRS_PARTNERS = 4 };

/* Summary of a tournament, by medians. */
typedef struct {
    double latency, bandwidth, both;       /* s, B/s, B/s: median pair, both ways of all pairs */
    double worst_latency, worst_bandwidth; /* ratio to what is usual: of the worst node */
    int suspects[BX_PAIRS_SUSPECTS], suspect_count; /* nodes, the worst first */
    bx_pairs_meeting paths[BX_PAIRS_PATHS]; /* pairs that are slower than their nodes explain */
    int path_count;
} bx_pairs_summary;

/* Judges records[count] of stage 0, over-inclusively: what is named here is measured again. */
void bx_pairs_summarise(const bx_pairs_record *records, size_t count, int nodes,
                        const int *switch_of, bx_pairs_summary *summary);
/* Writes to meetings[BX_PAIRS_SUSPECTS * 2 * BX_PAIRS_PARTNERS + BX_PAIRS_PATHS] what to measure
 * again, a slot each: suspects against nodes of their own switch and against others that are not
 * suspected, then the paths.  Returns their number. */
int bx_pairs_second_stage(const bx_pairs_schedule *schedule, const bx_pairs_summary *summary,
                          bx_pairs_meeting *meetings);
