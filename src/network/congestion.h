/* The parts of bisection-congestion: what victims and aggressors exchange. */
#pragma once

#include "bx.h"
#include "congestion.def"

/* The ranks that play one role in a cycle, and their memory. */
typedef struct {
    MPI_Comm comm;
    int rank, size;
    uint64_t seed, generation; /* of the content: each exchange of victims has its own */
    uint64_t round;            /* of aggressors, from 1; in the first word of each block */
    double wrong;              /* bytes, that aggressors have seen in their rounds */
    uint64_t *sent, *received; /* [words]; of victims, for one exchange of a batch */
    size_t words;
    int *counts, *offsets; /* [size] words */
    MPI_Request *requests; /* [BX_CONGESTION_SLOTS] */
} bx_party;

enum { BX_CONGESTION_SLOTS = 32 };  /* messages under way at one rank at most */
enum { BX_CONGESTION_FACE = 8192 }; /* words: 64 KiB, of a halo and of aggressors */

/* Words of a party's two buffers, of `size` ranks at most; of victims for one exchange. */
size_t bx_victims_words(int size);
size_t bx_aggressors_words(int size);

/* A victim: writes what it sends and clears what it receives; one exchange, which alone is timed;
 * the bytes that came out wrong.  All collective over it, but the first and the last local. */
typedef struct {
    void (*prepare)(bx_party *party);
    void (*exchange)(bx_party *party);
    double (*wrong)(const bx_party *party);
} bx_victim;

/* An aggressor: writes what it sends and clears what it receives; one round of its traffic, which
 * returns the bytes that this rank has sent to others and looks at a part of what has arrived; the
 * bytes that the last one left wrong, in all parts. */
typedef struct {
    void (*prepare)(bx_party *party);
    double (*load)(bx_party *party);
    double (*wrong)(const bx_party *party);
} bx_aggressor;

#define BX_DECLARE_VICTIM(name, ...) extern const bx_victim bx_victim_##name;
#define BX_DECLARE_AGGRESSOR(name) extern const bx_aggressor bx_aggressor_##name;
BX_METHODS(BX_DECLARE_VICTIM)
BX_AGGRESSORS(BX_DECLARE_AGGRESSOR)

/* Word w of what `from` sends to `to`, -1: to all (local). */
static inline uint64_t bx_congestion_word(const bx_party *party, int from, int to, size_t w)
{
    uint64_t pair = (uint64_t)from * (uint64_t)(party->size + 8) + (uint64_t)(to + 1);
    return bx_random_hash(party->seed + pair, w) ^ party->generation ^ (w == 0 ? party->round : 0);
}

/* Writes `count` words of `from` to `to`; returns how many bytes differ from them, from word
 * `first` to word `end` - 1 (local). */
void bx_congestion_write(const bx_party *party, uint64_t *words, int from, int to, size_t count);
double bx_congestion_differ(const bx_party *party, const uint64_t *words, int from, int to,
                            size_t first, size_t end);
