#include "congestion.h"

enum { ROUND = 524288 }; /* words that a rank sends in a round of alltoall at most: 4 MiB */
enum { PARTS = 64 };     /* of a block: a round looks at one, which takes little of its time */

/* Before a round sends words, and when they have arrived. */
static void leave(const bx_party *party, uint64_t *at, size_t words)
{
    size_t bytes = words * sizeof *at;
    if (party->round % bx_congestion_renewed(party) == 0)
        bx_comm_buffer_bring(party->memory, at, bytes);
    bx_comm_buffer_stage_out(party->memory, at, bytes);
}

/* Returns whether they are to be looked at. */
static bool arrive(const bx_party *party, uint64_t *at, size_t words)
{
    uint64_t renewed = bx_congestion_renewed(party);
    size_t bytes = words * sizeof *at;
    bx_comm_buffer_stage_in(party->memory, at, bytes);
    if (party->round % renewed != renewed - 1) return false;
    bx_comm_buffer_fetch(party->memory, at, bytes);
    return true;
}

static int block_words(int size)
{
    int words = ROUND / size;
    return words < 1 ? 1 : words > BX_CONGESTION_FACE ? BX_CONGESTION_FACE : words;
}

size_t bx_aggressors_words(int size)
{
    size_t alltoall = (size_t)size * (size_t)block_words(size),
           incast = BX_CONGESTION_SLOTS * (size_t)BX_CONGESTION_FACE;
    return alltoall > incast ? alltoall : incast;
}

static void clear(bx_party *party)
{
    bx_comm_buffer_fill(party->memory, 0xa5, party->received, party->words * sizeof(uint64_t));
}

static void bring(bx_party *party, const uint64_t *at, size_t words)
{
    bx_comm_buffer_bring(party->memory, at, words * sizeof *at);
}

/* The first word, which has the round, and the part of a block whose turn it is. */
static void look(bx_party *party, const uint64_t *block, int from, int to, size_t count)
{
    const uint64_t *words = bx_congestion_host(party, block);
    size_t part = party->round / bx_congestion_renewed(party) % PARTS, first = count * part / PARTS,
           end = count * (part + 1) / PARTS;
    party->wrong += bx_congestion_differ(party, words, from, to, 0, 1);
    party->wrong += bx_congestion_differ(party, words, from, to, first > 0 ? first : 1, end);
}

/* ---- incast: all send to the first, which receives as many as it has slots for at a time ---- */

static int slots_from(const bx_party *party, int first)
{
    return party->size - first < BX_CONGESTION_SLOTS ? party->size - first : BX_CONGESTION_SLOTS;
}

static void prepare_one(bx_party *party)
{
    bx_congestion_write(party, bx_congestion_host(party, party->sent), party->rank, -1,
                        BX_CONGESTION_FACE);
    bring(party, party->sent, BX_CONGESTION_FACE);
    clear(party);
}

static double load_incast(bx_party *party)
{
    if (party->rank > 0) {
        *bx_congestion_host(party, party->sent) = bx_congestion_word(party, party->rank, -1, 0);
        leave(party, party->sent, BX_CONGESTION_FACE);
        MPI_Send(party->sent, BX_CONGESTION_FACE, MPI_UINT64_T, 0, 0, party->comm);
        return BX_CONGESTION_FACE * sizeof(uint64_t);
    }
    for (int first = 1; first < party->size; first += BX_CONGESTION_SLOTS) {
        int count = slots_from(party, first);
        for (int i = 0; i < count; i++)
            MPI_Irecv(&party->received[(size_t)i * BX_CONGESTION_FACE], BX_CONGESTION_FACE,
                      MPI_UINT64_T, first + i, 0, party->comm, &party->requests[i]);
        MPI_Waitall(count, party->requests, MPI_STATUSES_IGNORE);
        bool looks = arrive(party, party->received, (size_t)count * (size_t)BX_CONGESTION_FACE);
        for (int i = 0; i < count && looks; i++)
            look(party, &party->received[(size_t)i * BX_CONGESTION_FACE], first + i, -1,
                 BX_CONGESTION_FACE);
    }
    return 0;
}

/* The last ones are still in their slots. */
static double wrong_incast(const bx_party *party)
{
    double wrong = 0;
    int first = 1 + (party->size - 2) / BX_CONGESTION_SLOTS * BX_CONGESTION_SLOTS;
    for (int i = 0; party->rank == 0 && i < slots_from(party, first); i++)
        wrong += bx_congestion_differ(
            party, bx_congestion_host(party, &party->received[(size_t)i * BX_CONGESTION_FACE]),
            first + i, -1, 0, BX_CONGESTION_FACE);
    return wrong;
}

const bx_aggressor bx_aggressor_incast = {prepare_one, load_incast, wrong_incast};

/* ---- alltoall ---- */

static void prepare_alltoall(bx_party *party)
{
    size_t words = (size_t)block_words(party->size);
    for (int other = 0; other < party->size; other++)
        bx_congestion_write(party, bx_congestion_host(party, &party->sent[(size_t)other * words]),
                            party->rank, other, words);
    bring(party, party->sent, (size_t)party->size * words);
    clear(party);
}

static double load_alltoall(bx_party *party)
{
    int words = block_words(party->size);
    size_t all = (size_t)party->size * (size_t)words;
    uint64_t *blocks = bx_congestion_host(party, party->sent);
    for (int other = 0; other < party->size; other++)
        blocks[(size_t)other * (size_t)words] = bx_congestion_word(party, party->rank, other, 0);
    leave(party, party->sent, all);
    MPI_Alltoall(party->sent, words, MPI_UINT64_T, party->received, words, MPI_UINT64_T,
                 party->comm);
    bool looks = arrive(party, party->received, all);
    for (int other = 0; other < party->size && looks; other++)
        look(party, &party->received[(size_t)other * (size_t)words], other, party->rank,
             (size_t)words);
    return (double)(party->size - 1) * words * sizeof(uint64_t);
}

static double wrong_alltoall(const bx_party *party)
{
    double wrong = 0;
    size_t words = (size_t)block_words(party->size);
    for (int other = 0; other < party->size; other++)
        wrong += bx_congestion_differ(
            party, bx_congestion_host(party, &party->received[(size_t)other * words]), other,
            party->rank, 0, words);
    return wrong;
}

const bx_aggressor bx_aggressor_alltoall = {prepare_alltoall, load_alltoall, wrong_alltoall};

/* ---- broadcast: of the first, in the same memory on all ranks ---- */

static void prepare_broadcast(bx_party *party)
{
    clear(party);
    if (party->rank != 0) return;
    bx_congestion_write(party, bx_congestion_host(party, party->received), 0, -1,
                        BX_CONGESTION_FACE);
    bring(party, party->received, BX_CONGESTION_FACE);
}

static double load_broadcast(bx_party *party)
{
    if (party->rank == 0) {
        *bx_congestion_host(party, party->received) = bx_congestion_word(party, 0, -1, 0);
        leave(party, party->received, BX_CONGESTION_FACE);
    }
    MPI_Bcast(party->received, BX_CONGESTION_FACE, MPI_UINT64_T, 0, party->comm);
    if (party->rank == 0 || arrive(party, party->received, BX_CONGESTION_FACE))
        look(party, party->received, 0, -1, BX_CONGESTION_FACE);
    return party->rank == 0 ? (double)(party->size - 1) * BX_CONGESTION_FACE * sizeof(uint64_t) : 0;
}

static double wrong_broadcast(const bx_party *party)
{
    return bx_congestion_differ(party, bx_congestion_host(party, party->received), 0, -1, 0,
                                BX_CONGESTION_FACE);
}

const bx_aggressor bx_aggressor_broadcast = {prepare_broadcast, load_broadcast, wrong_broadcast};
