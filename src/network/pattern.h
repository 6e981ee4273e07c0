/* A communication pattern: a bx_pattern in pattern_collectives.c or pattern_messages.c, and one
 * line in patterns.def.
 *
 * A pattern moves blocks of one size.  A rank sends `sent_blocks` blocks and receives
 * `received_blocks` in one exchange; a step has `count` exchanges, each with blocks of its own, so
 * that every byte of every exchange is there to be verified when the step has ended. */
#pragma once

#include "comm_buffers.h"
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
    int *unit_first;       /* [units + 1] places */
    int *order, *place;    /* [size] the rank at a place, unit by unit; the place of a rank */
    uint64_t block_number; /* number of the block of steps: seeds random patterns */
    uint64_t ended;        /* blocks of steps */
    int words;             /* of a block */
    int count;             /* exchanges in a step */
    int sets, set;         /* of blocks; which one is this step's: with --cold each has its own */
    uint64_t *sent;        /* [sets][count][sent_blocks][words] */
    uint64_t *received;    /* [sets][count][received_blocks][words] */
    bx_comm_buffer sending, receiving; /* which these are */
    int sent_blocks, received_blocks;
    int *to, *from;        /* [blocks] the rank that a block goes to, comes from; see bx_pattern */
    int *counts, *offsets; /* [size] words, for vector forms */
    MPI_Request *requests;
    MPI_Request *persistent; /* [sets][count] of the block of steps */
    MPI_Win windows[2];      /* of what is sent, of what is received; only for one-sided patterns */
} bx_patterns;

/* The value of from[] for a sum over all ranks, of to[] for a block to all ranks. */
enum { BX_EVERYONE = -1 };

typedef struct bx_pattern {
    const char *summary, *wins, *calls; /* of bx_choice */
    /* A block is known by its source, its destination and its slot.  With slots, block b of a
     * sender is block b of the receiver; without, there is one block from each rank to each. */
    bool slots;
    bool to_everyone; /* a block goes to all ranks alike: of to[], only the number counts */
    bool reduced;     /* what arrives is the sum over all ranks */
    bool one_sided;   /* needs the windows */
    bool single;      /* an exchange does not hold its ranks together: one in a step */
    bool at_once;     /* all messages of an exchange are under way at once */
    bool stages;      /* an exchange makes the copies of staged buffers: they are not around it */
    int items;        /* messages one after the other in an exchange; 0: 1 */
    /* Returns whether it can run here; if not, writes the reason.  NULL: always. */
    bool (*applicable)(const bx_patterns *s, char *why, size_t why_size);
    /* Sets sent_blocks, received_blocks, to and from of this rank.  Local.  The numbers of blocks
     * must not depend on `block_number`. */
    void (*route)(bx_patterns *s);
    /* Makes the persistent requests of all sets, one an exchange, before a block of steps, and
     * frees them.  Collective over the world.  NULL: there are none. */
    void (*open)(bx_patterns *s);
    void (*close)(bx_patterns *s);
    /* One exchange.  Collective over the world. */
    void (*exchange)(const bx_patterns *s, int number);
    /* Messages of an exchange, of all ranks together, as the profile counts them: what was asked,
     * without a look at the route.  Local.  NULL: barriers, one of each rank. */
    double (*messages)(const bx_patterns *s);
    /* Blocks that the busiest unit (a node; a rank where there is one node) sends to other units,
     * or receives from them, in one exchange, at least.  Local.  NULL: no bandwidth is reported. */
    double (*volume)(const bx_patterns *s);
    /* Whether the route of this rank is the one of the order that `seed` draws, without a look at
     * `block_number` or at how the route was laid.  Local.  NULL: the route is always the same. */
    bool (*is_dealt)(const bx_patterns *s, uint64_t seed);
    /* Verifies more than content; after a step.  Collective.  NULL: nothing. */
    double (*inspect)(bx_patterns *s);
} bx_pattern;

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

/* ---- for patterns (all local) ---- */

/* The number of an exchange among those of all sets. */
static inline size_t bx_pattern_number(const bx_patterns *s, int number)
{
    return (size_t)s->set * (size_t)s->count + (size_t)number;
}
/* Bytes of so many blocks. */
static inline size_t bx_pattern_bytes(const bx_patterns *s, int blocks)
{
    return (size_t)blocks * (size_t)s->words * BX_WORD;
}
/* The first block of an exchange in a buffer. */
static inline uint64_t *bx_pattern_sent(const bx_patterns *s, int number)
{
    return &s->sent[bx_pattern_number(s, number) * (size_t)s->sent_blocks * (size_t)s->words];
}
static inline uint64_t *bx_pattern_received(const bx_patterns *s, int number)
{
    return &s->received[bx_pattern_number(s, number) * (size_t)s->received_blocks *
                        (size_t)s->words];
}

/* With staged buffers, around what is sent and received in an exchange. */
static inline void bx_pattern_stage_out(const bx_patterns *s, int number)
{
    bx_comm_buffer_stage_out(&s->sending, bx_pattern_sent(s, number),
                             bx_pattern_bytes(s, s->sent_blocks));
}
static inline void bx_pattern_stage_in(const bx_patterns *s, int number)
{
    bx_comm_buffer_stage_in(&s->receiving, bx_pattern_received(s, number),
                            bx_pattern_bytes(s, s->received_blocks));
}

/* Adds a block to a route; a rank of MPI_PROC_NULL adds none. */
static inline void bx_pattern_send_to(bx_patterns *s, int rank)
{
    if (rank != MPI_PROC_NULL) s->to[s->sent_blocks++] = rank;
}
static inline void bx_pattern_receive_from(bx_patterns *s, int rank)
{
    if (rank != MPI_PROC_NULL) s->from[s->received_blocks++] = rank;
}
/* Ranks of a unit. */
static inline int bx_pattern_ranks(const bx_patterns *s, int unit)
{
    return s->unit_first[unit + 1] - s->unit_first[unit];
}
