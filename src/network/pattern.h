/* A communication pattern: one file pattern_NAME.c, and one line in patterns.def.
 *
 * A pattern moves blocks of one size.  A rank sends `sent_blocks` blocks and receives
 * `received_blocks` in one exchange; a step has `count` exchanges, each with blocks of its own, so
 * that every byte of every exchange is there to be verified when the step has ended. */
#pragma once

#include "bx.h"
#include "patterns.def"

enum { BX_WORD = sizeof(uint64_t) };
enum { BX_WINDOW = 64 }; /* messages in flight of message-rate */

struct bx_pattern;

/* The launch and the exchange that is measured. */
typedef struct {
    bx_run *run;
    const struct bx_pattern *pattern; /* whose route is laid */
    MPI_Comm comm;
    int rank, size;
    /* Units are nodes, or ranks where there is one node. */
    int units;
    int *unit_first;           /* [units + 1] places */
    int *order, *place;        /* [size] the rank at a place, unit by unit; the place of a rank */
    uint64_t deal;             /* number of the block of steps: seeds random patterns */
    int words;                 /* of a block */
    int count;                 /* exchanges in a step */
    uint64_t *sent;            /* [count][sent_blocks][words] */
    uint64_t *received;        /* [count][received_blocks][words] */
    size_t capacity;           /* bytes of each of these buffers */
    double before[3], made[3]; /* of the profile before a step; by the steps of a block */
    int sent_blocks, received_blocks;
    int *to, *from;        /* [blocks] the rank that a block goes to, comes from; see bx_pattern */
    int *counts, *offsets; /* [size] words, for vector forms */
    MPI_Request *requests;
    MPI_Win windows[2]; /* of what is sent, of what is received; only for one-sided patterns */
} bx_patterns;

/* The value of from[] for a sum over all ranks, of to[] for a block to all ranks. */
enum { BX_EVERYONE = -1 };

typedef struct bx_pattern {
    const char *summary, *wins;
    /* A block is known by its source, its destination and its slot.  With slots, block b of a
     * sender is block b of the receiver; without, there is one block from each rank to each. */
    bool slots;
    bool to_everyone; /* a block goes to all ranks alike: of to[], only the number counts */
    bool reduced;     /* what arrives is the sum over all ranks */
    bool one_sided;   /* needs the windows */
    bool single;      /* an exchange does not hold its ranks together: one in a step */
    int items;        /* messages one after the other in an exchange; 0: 1 */
    /* Returns whether it can run here; if not, writes the reason.  NULL: always. */
    bool (*applicable)(const bx_patterns *s, char *why, size_t why_size);
    /* Sets sent_blocks, received_blocks, to and from of this rank.  Local.  The numbers of blocks
     * must not depend on `deal`. */
    void (*route)(bx_patterns *s);
    /* One exchange.  Collective over the world. */
    void (*exchange)(const bx_patterns *s, int number);
    /* Messages of an exchange, of all ranks together, as the profile counts them: what was asked,
     * without a look at the route.  Local.  NULL: barriers, one of each rank. */
    double (*messages)(const bx_patterns *s);
    /* Blocks that the busiest unit (a node; a rank where there is one node) sends to other units,
     * or receives from them, in one exchange, at least.  Local.  NULL: no bandwidth is reported. */
    double (*volume)(const bx_patterns *s);
    /* Verifies more than content; after a step.  Collective.  NULL: nothing. */
    double (*inspect)(bx_patterns *s);
} bx_pattern;

/* Members that one-sided patterns between the two halves share. */
#define BX_PATTERN_ONE_SIDED                                                                       \
    .slots = true, .one_sided = true, .applicable = bx_pattern_needs_two_ranks,                    \
    .route = bx_pattern_route_across, .messages = bx_pattern_messages_across,                      \
    .volume = bx_pattern_volume_across

/* A line of patterns.def. */
typedef struct {
    const char *name;
    const bx_pattern *pattern;
    int64_t smallest, largest; /* B; 0: without a size */
    int factor;
} bx_pattern_entry;

#define BX_DECLARE(name, ...) extern const bx_pattern bx_pattern_##name;
BX_METHODS(BX_DECLARE)

/* [bx_pattern_count] in the order of patterns.def (pattern_table.c). */
extern const bx_pattern_entry bx_pattern_table[];
extern const size_t bx_pattern_count;

/* ---- for patterns (pattern_common.c; all local) ---- */

/* The first block of an exchange in a buffer. */
static inline uint64_t *bx_pattern_sent(const bx_patterns *s, int number)
{
    return &s->sent[(size_t)number * (size_t)s->sent_blocks * (size_t)s->words];
}
static inline uint64_t *bx_pattern_received(const bx_patterns *s, int number)
{
    return &s->received[(size_t)number * (size_t)s->received_blocks * (size_t)s->words];
}

/* Adds a block to a route; a rank of MPI_PROC_NULL adds none. */
void bx_pattern_send_to(bx_patterns *s, int rank);
void bx_pattern_receive_from(bx_patterns *s, int rank);
/* The unit of a rank. */
int bx_pattern_unit(const bx_patterns *s, int rank);
/* The rank that has the place in unit `other` which this rank has in its own; MPI_PROC_NULL: none
 * has, or `other` is -1. */
int bx_pattern_counterpart(const bx_patterns *s, int other);
/* The unit opposite to a unit: first half to second half; -1: the middle one of an odd number. */
int bx_pattern_opposite(const bx_patterns *s, int unit);
/* Writes a random order of 0 .. count-1, the same on every rank, new in each deal. */
void bx_pattern_shuffle(const bx_patterns *s, int count, int *shuffled);
/* Sends and receives the blocks of the route, all at once. */
void bx_pattern_exchange(const bx_patterns *s, int number);

/* Ranks of the fullest and of the emptiest unit. */
int bx_pattern_fullest(const bx_patterns *s);
int bx_pattern_emptiest(const bx_patterns *s);
/* Pairs of ranks between two units: the ranks of the smaller one; 0 where `other` is -1. */
int bx_pattern_pairs(const bx_patterns *s, int unit, int other);
/* Volumes: the most ranks that two units of one pair both have, however units are matched in pairs,
 * as more than half of the units have them; all ranks less those of the emptiest unit (each unit
 * gets the blocks of the others). */
double bx_pattern_volume_matched(const bx_patterns *s);
double bx_pattern_volume_others(const bx_patterns *s);

/* A block to each rank and one from each. */
void bx_pattern_route_to_each(bx_patterns *s);
double bx_pattern_volume_alltoall(const bx_patterns *s);
/* A message from each rank to each other one. */
double bx_pattern_messages_to_each(const bx_patterns *s);
/* One block to all ranks alike, and one from each. */
void bx_pattern_route_gather(bx_patterns *s);

/* One block from each rank of the first half to its counterpart in the second. */
void bx_pattern_route_across(bx_patterns *s);
double bx_pattern_messages_across(const bx_patterns *s);
double bx_pattern_volume_across(const bx_patterns *s);

/* Reasons why a pattern cannot run. */
bool bx_pattern_needs_two_ranks(const bx_patterns *s, char *why, size_t why_size);
bool bx_pattern_needs_two_nodes(const bx_patterns *s, char *why, size_t why_size);
