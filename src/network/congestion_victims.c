#include "congestion.h"

#include "grid.h"

#include <string.h>

enum { TRANSPOSE = 32768 }; /* TRANSPOSE: words of a rank, 256 KiB */

void bx_congestion_write(const bx_party *party, uint64_t *words, int from, int to, size_t count)
{
    for (size_t w = 0; w < count; w++) words[w] = bx_congestion_word(party, from, to, w);
}

double bx_congestion_differ(const bx_party *party, const uint64_t *words, int from, int to,
                            size_t first, size_t end)
{
    double wrong = 0;
    for (size_t w = first; w < end; w++)
        wrong += bx_verification_wrong_bytes(words[w], bx_congestion_word(party, from, to, w));
    return wrong;
}

/* Blocks of a transpose may differ: every other pair exchanges a word more. */
static int block_words(const bx_party *party, int other)
{
    int words = TRANSPOSE / party->size;
    return (words > 0 ? words : 1) + (party->rank + other) % 2;
}

size_t bx_victims_words(int size)
{
    size_t transpose = TRANSPOSE + 2 * (size_t)size,
           halo = BX_GRID_SIDES * (size_t)BX_CONGESTION_FACE;
    return transpose > halo ? transpose : halo;
}

void bx_victim_exchange(const bx_victim *victim, bx_party *party)
{
    size_t bytes = victim->words(party) * sizeof *party->sent;
    bx_comm_buffer_stage_out(party->memory, party->sent, bytes);
    victim->exchange(party);
    bx_comm_buffer_stage_in(party->memory, party->received, bytes);
}

/* ---- allreduce ---- */

static double value_of(const bx_party *party, int rank)
{
    return (double)(rank + (int)(party->generation % 4096)); /* sums are exact */
}

static void prepare_allreduce(bx_party *party)
{
    double value = value_of(party, party->rank);
    memcpy(bx_congestion_host(party, party->sent), &value, sizeof value);
}

static size_t words_allreduce(const bx_party *party) { return 1; }

static void exchange_allreduce(bx_party *party)
{
    MPI_Allreduce(party->sent, party->received, 1, MPI_DOUBLE, MPI_SUM, party->comm);
}

static double wrong_allreduce(const bx_party *party)
{
    double sum, n = party->size;
    memcpy(&sum, bx_congestion_host(party, party->received), sizeof sum);
    return sum == n * value_of(party, 0) + n * (n - 1) / 2 ? 0 : sizeof sum;
}

const bx_victim bx_victim_allreduce = {prepare_allreduce, words_allreduce, exchange_allreduce,
                                       wrong_allreduce};

/* ---- alltoallv ---- */

static void prepare_alltoallv(bx_party *party)
{
    int at = 0;
    for (int other = 0; other < party->size; other++) {
        party->counts[other] = block_words(party, other);
        party->offsets[other] = at;
        bx_congestion_write(party, bx_congestion_host(party, &party->sent[at]), party->rank, other,
                            (size_t)party->counts[other]);
        at += party->counts[other];
    }
}

static size_t words_alltoallv(const bx_party *party)
{
    int last = party->size - 1;
    return (size_t)(party->offsets[last] + party->counts[last]);
}

static void exchange_alltoallv(bx_party *party)
{
    MPI_Alltoallv(party->sent, party->counts, party->offsets, MPI_UINT64_T, party->received,
                  party->counts, party->offsets, MPI_UINT64_T, party->comm);
}

static double wrong_alltoallv(const bx_party *party)
{
    double wrong = 0;
    for (int other = 0; other < party->size; other++)
        wrong += bx_congestion_differ(
            party, bx_congestion_host(party, &party->received[party->offsets[other]]), other,
            party->rank, 0, (size_t)party->counts[other]);
    return wrong;
}

const bx_victim bx_victim_alltoallv = {prepare_alltoallv, words_alltoallv, exchange_alltoallv,
                                       wrong_alltoallv};

/* ---- halo ---- */

static uint64_t *face(uint64_t *words, int side)
{
    return &words[(size_t)side * BX_CONGESTION_FACE];
}

static void prepare_halo(bx_party *party)
{
    for (int d = 0; d < BX_GRID_SIDES; d++) {
        party->counts[d] = bx_grid_neighbour(party->rank, party->size, d);
        bx_congestion_write(party, bx_congestion_host(party, face(party->sent, d)), party->rank, d,
                            BX_CONGESTION_FACE);
    }
}

/* Extents of a grid do not rise: the first sides have the neighbours. */
static size_t words_halo(const bx_party *party)
{
    size_t sides = 0;
    for (int d = 0; d < BX_GRID_SIDES; d++) sides += party->counts[d] != MPI_PROC_NULL;
    return sides * BX_CONGESTION_FACE;
}

/* A message has the side on which it leaves as its tag. */
static void exchange_halo(bx_party *party)
{
    int count = 0;
    for (int d = 0; d < BX_GRID_SIDES; d++)
        if (party->counts[d] != MPI_PROC_NULL)
            MPI_Irecv(face(party->received, d), BX_CONGESTION_FACE, MPI_UINT64_T, party->counts[d],
                      d ^ 1, party->comm, &party->requests[count++]);
    for (int d = 0; d < BX_GRID_SIDES; d++)
        if (party->counts[d] != MPI_PROC_NULL)
            MPI_Isend(face(party->sent, d), BX_CONGESTION_FACE, MPI_UINT64_T, party->counts[d], d,
                      party->comm, &party->requests[count++]);
    MPI_Waitall(count, party->requests, MPI_STATUSES_IGNORE);
}

static double wrong_halo(const bx_party *party)
{
    double wrong = 0;
    for (int d = 0; d < BX_GRID_SIDES; d++)
        if (party->counts[d] != MPI_PROC_NULL)
            wrong +=
                bx_congestion_differ(party, bx_congestion_host(party, face(party->received, d)),
                                     party->counts[d], d ^ 1, 0, BX_CONGESTION_FACE);
    return wrong;
}

const bx_victim bx_victim_halo = {prepare_halo, words_halo, exchange_halo, wrong_halo};
