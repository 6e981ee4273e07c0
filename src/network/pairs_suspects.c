/* Which nodes and pairs the second stage measures: candidates, of which blame.py is the judge.
 *
 * The logarithm of a value is the level of its class (same switch or not) + the effect of the node
 * that sends + that of the node that receives + the pair's own.  Effects are medians. */
#include "pairs.h"

#include <stdlib.h>
#include <string.h>

/* Suspicious is what is worse than usual by so much, and by so many robust standard deviations. */
static const double NODE_EFFECT = 0.03, NODE_SPREADS = 2, PATH_EFFECT = 0.08, PATH_SPREADS = 3;
/* The level of a class, as a quantile: of four switches a slow one is in half of all pairs. */
static const double USUAL = 0.25;

/* How bad one value is (its logarithm; more is worse), and the two nodes that it counts for: of
 * `groups` 0 .. 2 nodes - 1, senders then receivers, or nodes twice. */
typedef struct {
    int group[2];
    size_t record;
    bool same_switch;
    double badness, rest; /* rest: without the level and, at the end, the nodes' effects */
} value;

typedef struct {
    const bx_pairs_record *records;
    int nodes;
    const int *switch_of;
    value *values;
    size_t count;                    /* of values */
    double *node_score, *pair_score; /* [nodes], [records] 0: not suspicious */
} judgement;

/* 1.4826 times the median absolute deviation; sorts and changes values[count]. */
static double spread(double *values, size_t count)
{
    double middle = bx_statistics_quantile(values, count, 0.5);
    for (size_t i = 0; i < count; i++) values[i] = fabs(values[i] - middle);
    return 1.4826 * bx_statistics_quantile(values, count, 0.5);
}

/* Writes the places of the largest scores above 0 to list[most], in descending order; returns their
 * number. */
static int find_worst(const double *scores, size_t count, int most, size_t *list)
{
    int listed = 0;
    for (size_t i = 0; i < count; i++) {
        if (scores[i] <= (listed < most ? 0 : scores[list[listed - 1]])) continue;
        int at = listed < most ? listed++ : most - 1;
        for (; at > 0 && scores[list[at - 1]] < scores[i]; at--) list[at] = list[at - 1];
        list[at] = i;
    }
    return listed;
}

/* Medians of the rest of each group's values, over the median of all groups of a side; 0 where a
 * group has no value.  some[2 count + nodes]: scratch. */
static void find_effects(const judgement *j, int groups, double *effects, double *some)
{
    size_t *start = bx_memory_alloc((size_t)groups + 1, sizeof *start), nodes = (size_t)j->nodes;
    for (size_t i = 0; i < j->count; i++)
        for (int end = 0; end < 2; end++) start[j->values[i].group[end]]++;
    for (int g = 0; g < groups; g++) start[g + 1] += start[g]; /* ends, until filled from behind */
    for (size_t i = 0; i < j->count; i++)
        for (int end = 0; end < 2; end++)
            some[--start[j->values[i].group[end]]] = j->values[i].rest;
    for (int g = 0; g < groups; g++) {
        size_t members = start[g + 1] - start[g];
        effects[g] = members ? bx_statistics_quantile(&some[start[g]], members, 0.5) : 0;
    }
    for (int side = 0; side < groups; side += j->nodes) {
        memcpy(some, &effects[side], nodes * sizeof *some);
        double middle = bx_statistics_quantile(some, nodes, 0.5);
        for (int g = side; g < side + j->nodes; g++) effects[g] -= middle;
    }
    free(start);
}

/* Raises the scores of what is suspicious by one quantity.  Returns exp(largest effect), and its
 * typical value. */
static double judge(judgement *j, int groups, double *level)
{
    double *effects = bx_memory_alloc((size_t)groups, sizeof *effects), worst = 0;
    double *some = bx_memory_alloc(2 * j->count + (size_t)groups, sizeof *some);
    for (size_t i = 0; i < j->count; i++) some[i] = j->values[i].badness;
    *level = exp(bx_statistics_quantile(some, j->count, 0.5));
    for (int same = 0; same < 2; same++) {
        size_t members = 0;
        for (size_t i = 0; i < j->count; i++)
            if (j->values[i].same_switch == same) some[members++] = j->values[i].badness;
        double usual = bx_statistics_quantile(some, members, USUAL);
        for (size_t i = 0; i < j->count; i++)
            if (j->values[i].same_switch == same) j->values[i].rest = j->values[i].badness - usual;
    }
    find_effects(j, groups, effects, some);
    memcpy(some, effects, (size_t)groups * sizeof *some);
    double width = spread(some, (size_t)groups);
    for (int g = 0; g < groups; g++) {
        double *score = &j->node_score[g % j->nodes];
        worst = fmax(worst, effects[g]);
        if (effects[g] > fmax(NODE_EFFECT, NODE_SPREADS * width))
            *score = fmax(*score, effects[g] / fmax(NODE_EFFECT, width));
    }
    for (size_t i = 0; i < j->count; i++)
        for (int end = 0; end < 2; end++)
            j->values[i].rest -= fmax(0, effects[j->values[i].group[end]]);
    for (size_t i = 0; i < j->count; i++) some[i] = j->values[i].rest;
    width = spread(some, j->count);
    for (size_t i = 0; i < j->count; i++) {
        double rest = j->values[i].rest, *score = &j->pair_score[j->values[i].record];
        if (rest > fmax(PATH_EFFECT, PATH_SPREADS * width))
            *score = fmax(*score, rest / fmax(PATH_EFFECT, width));
    }
    BX_FREE(effects, some);
    return exp(worst);
}

static void add(judgement *j, size_t record, int from, int to, double badness)
{
    const bx_pairs_record *r = &j->records[record];
    bool same = j->switch_of && j->switch_of[r->a] == j->switch_of[r->b];
    if (isfinite(badness)) j->values[j->count++] = (value){{from, to}, record, same, badness, 0};
}

void bx_pairs_summarise(const bx_pairs_record *records, size_t count, int nodes,
                        const int *switch_of, bx_pairs_summary *summary)
{
    judgement j = {.records = records, .nodes = nodes, .switch_of = switch_of};
    size_t nodes_listed[BX_PAIRS_SUSPECTS], paths_listed[BX_PAIRS_PATHS];
    double level;
    BX_ALLOC(2 * count, j.values);
    j.node_score = bx_memory_alloc((size_t)nodes, sizeof *j.node_score);
    BX_ALLOC(count, j.pair_score);
    *summary = (bx_pairs_summary){0};
    for (size_t i = 0; i < count; i++)
        add(&j, i, records[i].a, records[i].b, log(records[i].values.latency));
    summary->worst_latency = judge(&j, nodes, &summary->latency);

    j.count = 0;
    for (size_t i = 0; i < count; i++)
        add(&j, i, records[i].a, records[i].b, -log(records[i].values.both));
    double worst_both = judge(&j, nodes, &level);
    summary->both = 1 / level;

    j.count = 0;
    for (size_t i = 0; i < count; i++) {
        const bx_pairs_record *r = &records[i];
        add(&j, i, r->a, nodes + r->b, -log(r->values.out));
        add(&j, i, r->b, nodes + r->a, -log(r->values.back));
    }
    double worst_way = judge(&j, 2 * nodes, &level);
    summary->bandwidth = 1 / level;
    summary->worst_bandwidth = 1 / fmax(worst_both, worst_way);

    summary->suspect_count =
        find_worst(j.node_score, (size_t)nodes, BX_PAIRS_SUSPECTS, nodes_listed);
    for (int i = 0; i < summary->suspect_count; i++) summary->suspects[i] = (int)nodes_listed[i];
    summary->path_count = find_worst(j.pair_score, count, BX_PAIRS_PATHS, paths_listed);
    for (int i = 0; i < summary->path_count; i++)
        summary->paths[i] =
            (bx_pairs_meeting){records[paths_listed[i]].a, records[paths_listed[i]].b, 0};
    BX_FREE(j.values, j.node_score, j.pair_score);
}

static bool suspected(const bx_pairs_summary *summary, int node)
{
    for (int i = 0; i < summary->suspect_count; i++)
        if (summary->suspects[i] == node) return true;
    return false;
}

int bx_pairs_second_stage(const bx_pairs_schedule *schedule, const bx_pairs_summary *summary,
                          bx_pairs_meeting *meetings)
{
    int count = 0;
    for (int i = 0; i < summary->suspect_count; i++) {
        int node = summary->suspects[i], near = 0, far = 0;
        for (int k = 0; k < schedule->seats; k++) { /* the seats are dealt at random */
            int other = schedule->node_at[(node + k) % schedule->seats];
            if (other >= schedule->nodes || other == node || suspected(summary, other)) continue;
            bool is_near =
                schedule->switch_of && schedule->switch_of[node] == schedule->switch_of[other];
            int *taken = is_near ? &near : &far;
            int most = schedule->switch_of ? BX_PAIRS_PARTNERS : 2 * BX_PAIRS_PARTNERS;
            if (*taken == most) continue;
            ++*taken;
            meetings[count] = (bx_pairs_meeting){node, other, count};
            count++;
        }
    }
    for (int i = 0; i < summary->path_count; i++) {
        meetings[count] = (bx_pairs_meeting){summary->paths[i].a, summary->paths[i].b, count};
        count++;
    }
    return count;
}
