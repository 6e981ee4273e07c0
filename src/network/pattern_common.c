/* What patterns share: routes, units, exchanges. */
#include "pattern.h"

#include <stdlib.h>

void bx_pattern_send_to(bx_patterns *s, int rank)
{
    if (rank != MPI_PROC_NULL) s->to[s->sent_blocks++] = rank;
}

void bx_pattern_receive_from(bx_patterns *s, int rank)
{
    if (rank != MPI_PROC_NULL) s->from[s->received_blocks++] = rank;
}

int bx_pattern_unit(const bx_patterns *s, int rank)
{
    int low = 0, high = s->units; /* unit_first[low] <= place < unit_first[high] */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (s->unit_first[middle] <= s->place[rank])
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int ranks_of(const bx_patterns *s, int unit)
{
    return s->unit_first[unit + 1] - s->unit_first[unit];
}

int bx_pattern_counterpart(const bx_patterns *s, int other)
{
    if (other < 0) return MPI_PROC_NULL;
    int seat = s->place[s->rank] - s->unit_first[bx_pattern_unit(s, s->rank)];
    return seat < ranks_of(s, other) ? s->order[s->unit_first[other] + seat] : MPI_PROC_NULL;
}

int bx_pattern_opposite(const bx_patterns *s, int unit)
{
    int half = s->units / 2, distance = s->units - half;
    if (unit < half) return unit + distance;
    return unit >= distance ? unit - distance : -1;
}

int bx_pattern_fullest(const bx_patterns *s)
{
    int most = 0;
    for (int unit = 0; unit < s->units; unit++)
        if (ranks_of(s, unit) > most) most = ranks_of(s, unit);
    return most;
}

int bx_pattern_emptiest(const bx_patterns *s)
{
    int fewest = s->size;
    for (int unit = 0; unit < s->units; unit++)
        if (ranks_of(s, unit) < fewest) fewest = ranks_of(s, unit);
    return fewest;
}

int bx_pattern_pairs(const bx_patterns *s, int unit, int other)
{
    if (other < 0) return 0;
    return ranks_of(s, unit) < ranks_of(s, other) ? ranks_of(s, unit) : ranks_of(s, other);
}

double bx_pattern_volume_matched(const bx_patterns *s)
{
    int ranks = bx_pattern_fullest(s), as_full = 0;
    for (; as_full <= s->units - s->units / 2 && ranks > 0; ranks--) {
        as_full = 0;
        for (int unit = 0; unit < s->units; unit++) as_full += ranks_of(s, unit) >= ranks;
    }
    return ranks + 1;
}

double bx_pattern_volume_others(const bx_patterns *s) { return s->size - bx_pattern_emptiest(s); }

void bx_pattern_route_to_each(bx_patterns *s)
{
    for (int rank = 0; rank < s->size; rank++) {
        bx_pattern_send_to(s, rank);
        bx_pattern_receive_from(s, rank);
    }
}

double bx_pattern_volume_alltoall(const bx_patterns *s)
{
    double most = 0;
    for (int unit = 0; unit < s->units; unit++)
        most = fmax(most, (double)ranks_of(s, unit) * (s->size - ranks_of(s, unit)));
    return most;
}

double bx_pattern_messages_to_each(const bx_patterns *s) { return s->size * (s->size - 1.0); }

void bx_pattern_route_gather(bx_patterns *s)
{
    s->to[s->sent_blocks++] = BX_EVERYONE;
    for (int rank = 0; rank < s->size; rank++) bx_pattern_receive_from(s, rank);
}

void bx_pattern_route_across(bx_patterns *s)
{
    int unit = bx_pattern_unit(s, s->rank), other = bx_pattern_opposite(s, unit);
    int partner = bx_pattern_counterpart(s, other);
    if (unit < other)
        bx_pattern_send_to(s, partner);
    else
        bx_pattern_receive_from(s, partner);
}

double bx_pattern_messages_across(const bx_patterns *s)
{
    double pairs = 0;
    for (int unit = 0; unit < s->units / 2; unit++)
        pairs += bx_pattern_pairs(s, unit, bx_pattern_opposite(s, unit));
    return pairs;
}

double bx_pattern_volume_across(const bx_patterns *s)
{
    double most = 0;
    for (int unit = 0; unit < s->units / 2; unit++)
        most = fmax(most, bx_pattern_pairs(s, unit, bx_pattern_opposite(s, unit)));
    return most;
}

/* Fisher and Yates. */
void bx_pattern_shuffle(const bx_patterns *s, int count, int *shuffled)
{
    uint64_t seed = bx_random_hash(bx_run_seed(s->run), s->deal);
    for (int i = 0; i < count; i++) shuffled[i] = i;
    for (int i = count - 1; i > 0; i--) {
        int other = (int)(bx_random_hash(seed, (uint64_t)i) % ((uint64_t)i + 1));
        int kept = shuffled[i];
        shuffled[i] = shuffled[other];
        shuffled[other] = kept;
    }
}

void bx_pattern_exchange(const bx_patterns *s, int number)
{
    uint64_t *sent = bx_pattern_sent(s, number), *received = bx_pattern_received(s, number);
    int requests = 0;
    for (int b = 0; b < s->received_blocks; b++)
        MPI_Irecv(&received[(size_t)b * (size_t)s->words], s->words, MPI_UINT64_T, s->from[b], b,
                  s->comm, &s->requests[requests++]);
    for (int b = 0; b < s->sent_blocks; b++)
        MPI_Isend(&sent[(size_t)b * (size_t)s->words], s->words, MPI_UINT64_T, s->to[b], b, s->comm,
                  &s->requests[requests++]);
    MPI_Waitall(requests, s->requests, MPI_STATUSES_IGNORE);
}

bool bx_pattern_needs_two_ranks(const bx_patterns *s, char *why, size_t why_size)
{
    if (s->size >= 2) return true;
    snprintf(why, why_size, "needs two ranks");
    return false;
}

bool bx_pattern_needs_two_nodes(const bx_patterns *s, char *why, size_t why_size)
{
    if (bx_run_node_count(s->run) >= 2) return true;
    snprintf(why, why_size, "needs two nodes");
    return false;
}
