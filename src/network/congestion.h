/* The parts of bisection-congestion: what victims and aggressors exchange. */
#pragma once

#include "comm_buffers.h"
#include "congestion.def"

/* The ranks that play one role in a cycle, and their memory. */
typedef struct bx_party {
    MPI_Comm comm;
    int rank, size;
    uint64_t seed, generation; /* of the content: each exchange of victims has its own */
    uint64_t round;            /* of aggressors, from 1 */
    double wrong;              /* bytes, that aggressors have seen in their rounds */
    bx_comm_buffer *memory;    /* of both buffers */
    uint64_t *sent, *received; /* [words] for MPI; of victims, for one exchange of a batch */
    size_t words;
    int *counts, *offsets; /* [size] words */
    MPI_Request *requests; /* [BX_CONGESTION_SLOTS] */
} bx_party;

enum { BX_CONGESTION_SLOTS = 32 };  /* messages under way at one rank at most */
enum { BX_CONGESTION_FACE = 8192 }; /* words: 64 KiB, of a halo and of aggressors */

/* Words of a party's two buffers, of `size` ranks at most; of victims for one exchange. */
size_t bx_victims_words(int size);
size_t bx_aggressors_words(int size);

/* A victim: writes what it sends; the words that it then sends, and receives; one exchange, which
 * alone is timed; the bytes that came out wrong.  All are local but the exchange. */
typedef struct bx_victim {
    void (*prepare)(bx_party *party);
    size_t (*words)(const bx_party *party);
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

/* The exchange of a victim, with the copies of staged buffers. */
void bx_victim_exchange(const bx_victim *victim, bx_party *party);

#define BX_DECLARE_VICTIM(name, ...) extern const bx_victim bx_victim_##name;
#define BX_DECLARE_AGGRESSOR(name) extern const bx_aggressor bx_aggressor_##name;
BX_METHODS(BX_DECLARE_VICTIM)
BX_AGGRESSORS(BX_DECLARE_AGGRESSOR)

/* In one of so many rounds of load the first word of each block is another.  From and to a device
 * it is brought there, and fetched, in that round alone: in each, that would take longer than the
 * round (local). */
static inline uint64_t bx_congestion_renewed(const bx_party *party)
{
    return party->memory->device ? 16 : 1;
}
/* Word w of what `from` sends to `to`, -1: to all (local). */
static inline uint64_t bx_congestion_word(const bx_party *party, int from, int to, size_t w)
{
    uint64_t pair = (uint64_t)from * (uint64_t)(party->size + 8) + (uint64_t)(to + 1);
    uint64_t round = w == 0 ? party->round / bx_congestion_renewed(party) : 0;
    return bx_random_hash(party->seed + pair, w) ^ party->generation ^ round;
}
/* Where content is made and looked at, of an address of MPI's (local). */
static inline uint64_t *bx_congestion_host(const bx_party *party, const uint64_t *at)
{
    return bx_comm_buffer_host(party->memory, at);
}

/* Writes `count` words of `from` to `to`; returns how many bytes differ from them, from word
 * `first` to word `end` - 1 (local). */
void bx_congestion_write(const bx_party *party, uint64_t *words, int from, int to, size_t count);
double bx_congestion_differ(const bx_party *party, const uint64_t *words, int from, int to,
                            size_t first, size_t end);
