/* Whom to measure again.  The rule is over-inclusive: it spares time, and blames nobody.
 *
 * The logarithm of a value is the level of its class (same switch or not) + the effect of the node
 * that sends + that of the node that receives + the pair's own; effects are medians (J. W. Tukey,
 * Exploratory Data Analysis, 1977, chapter 11), in small steps: of four switches a slow one is in
 * half of all pairs between switches, and one step would take its fault for the level. */
#include "pairs.h"

#include <stdlib.h>
#include <string.h>

/* Suspicious is what is worse than usual by so much, and by so many robust standard deviations. */
static const double NODE_EFFECT = 0.03, NODE_SPREADS = 2, PATH_EFFECT = 0.08, PATH_SPREADS = 3;

/* Of the median polish, and of as many values per node: more do not change what is suspected. */
enum { TURNS = 40, ENOUGH = 128 };
static const double LAST_STEP = 1e-3; /* of the logarithm: no effect moves further */

/* How bad one value is (its logarithm; more is worse), and the two nodes that it counts for: of
 * `groups` 0 .. 2 nodes - 1, senders then receivers, or nodes twice. */
typedef struct {
    int group[2];
    int a, b; /* nodes */
    bool same_switch;
    double badness, rest; /* rest: without the level and the nodes' effects */
} value;

typedef struct {
    double score;
    bx_pairs_meeting who; /* of a node: a */
} candidate;

/* 1.4826 times the median absolute deviation; sorts and changes values[count]. */
static double spread(double *values, size_t count)
{
    double middle = bx_statistics_quantile(values, count, 0.5);
    for (size_t i = 0; i < count; i++) values[i] = fabs(values[i] - middle);
    return 1.4826 * bx_statistics_quantile(values, count, 0.5);
}

/* Keeps the worst of each `who`, in descending order. */
static int insert(candidate *list, int count, int most, candidate fresh)
{
    int at = count;
    for (int i = 0; i < count; i++)
        if (list[i].who.a == fresh.who.a && list[i].who.b == fresh.who.b) {
            if (list[i].score >= fresh.score) return count;
            memmove(&list[i], &list[i + 1], (size_t)(count - i - 1) * sizeof *list);
            at = --count;
        }
    if (count == most && list[count - 1].score >= fresh.score) return count;
    if (count == most) at = --count;
    while (at > 0 && list[at - 1].score < fresh.score) at--;
    memmove(&list[at + 1], &list[at], (size_t)(count - at) * sizeof *list);
    list[at] = fresh;
    return count + 1;
}

/* medians[groups] of what is left of the values of each; 0 where there is none. */
static void find_medians(const value *values, size_t count, int groups, double *medians)
{
    size_t *start = bx_memory_alloc((size_t)groups + 1, sizeof *start);
    double *sorted = bx_memory_alloc(2 * count, sizeof *sorted);
    for (size_t i = 0; i < count; i++)
        for (int end = 0; end < 2; end++) start[values[i].group[end]]++;
    for (int g = 0; g < groups; g++) start[g + 1] += start[g]; /* ends, until filled from behind */
    for (size_t i = 0; i < count; i++)
        for (int end = 0; end < 2; end++) sorted[--start[values[i].group[end]]] = values[i].rest;
    for (int g = 0; g < groups; g++) {
        size_t members = start[g + 1] - start[g];
        medians[g] = members ? bx_statistics_quantile(&sorted[start[g]], members, 0.5) : 0;
    }
    free(start);
    free(sorted);
}

/* Median polish: effects[groups], groups of a side being `nodes`, and the level of each class. */
static void polish(value *values, size_t count, int nodes, int groups, double *effects,
                   double levels[2])
{
    double *some = bx_memory_alloc(count + (size_t)nodes, sizeof *some),
           *steps = bx_memory_alloc((size_t)groups, sizeof *steps);
    double largest = INFINITY;
    for (int turn = 0; turn < TURNS && largest > LAST_STEP; turn++) {
        for (size_t i = 0; i < count; i++)
            values[i].rest =
                values[i].badness - effects[values[i].group[0]] - effects[values[i].group[1]];
        for (int class = 0; class < 2; class++) {
            size_t members = 0;
            for (size_t i = 0; i < count; i++)
                if (values[i].same_switch == (class == 1)) some[members++] = values[i].rest;
            levels[class] = bx_statistics_quantile(some, members, 0.5);
        }
        for (size_t i = 0; i < count; i++) values[i].rest -= levels[values[i].same_switch];
        find_medians(values, count, groups, steps);
        largest = 0;
        for (int g = 0; g < groups; g++) {
            effects[g] += steps[g] / 2;
            largest = fmax(largest, fabs(steps[g]));
        }
        for (int side = 0; side < groups; side += nodes) {
            memcpy(some, &effects[side], (size_t)nodes * sizeof *some);
            double middle = bx_statistics_quantile(some, (size_t)nodes, 0.5);
            for (int g = side; g < side + nodes; g++) effects[g] -= middle;
        }
    }
    free(some);
    free(steps);
}

typedef struct {
    candidate nodes[BX_PAIRS_SUSPECTS], paths[BX_PAIRS_PATHS];
    int node_count, path_count;
} candidates;

/* Adds the suspects by one quantity.  Returns exp(largest effect), and its typical value. */
static double judge(value *values, size_t count, int nodes, int groups, double *level,
                    candidates *all)
{
    double *effects = bx_memory_alloc((size_t)groups, sizeof *effects),
           *copy = bx_memory_alloc(count > (size_t)groups ? count : (size_t)groups, sizeof *copy),
           levels[2];
    for (size_t i = 0; i < count; i++) copy[i] = values[i].badness;
    *level = exp(bx_statistics_quantile(copy, count, 0.5));
    size_t enough = (size_t)ENOUGH * (size_t)nodes;
    polish(values, count < enough ? count : enough, nodes, groups, effects, levels);
    memcpy(copy, effects, (size_t)groups * sizeof *copy);
    double width = spread(copy, (size_t)groups), worst = 0;
    for (int g = 0; g < groups; g++) {
        worst = fmax(worst, effects[g]);
        if (effects[g] > fmax(NODE_EFFECT, NODE_SPREADS * width))
            all->node_count = insert(all->nodes, all->node_count, BX_PAIRS_SUSPECTS,
                                     (candidate){effects[g] / fmax(NODE_EFFECT, width),
                                                 {.a = g % nodes, .b = g % nodes}});
    }
    for (size_t i = 0; i < count; i++)
        copy[i] = values[i].rest = values[i].badness - levels[values[i].same_switch] -
                                   fmax(0, effects[values[i].group[0]]) -
                                   fmax(0, effects[values[i].group[1]]);
    width = spread(copy, count);
    for (size_t i = 0; i < count; i++)
        if (values[i].rest > fmax(PATH_EFFECT, PATH_SPREADS * width))
            all->path_count = insert(all->paths, all->path_count, BX_PAIRS_PATHS,
                                     (candidate){values[i].rest / fmax(PATH_EFFECT, width),
                                                 {.a = values[i].a, .b = values[i].b}});
    free(effects);
    free(copy);
    return exp(worst);
}

static void add(value *values, size_t *count, const bx_pairs_record *record, const int *switch_of,
                int from, int to, double badness)
{
    if (!isfinite(badness)) return;
    values[(*count)++] = (value){
        .group = {from, to},
        .a = record->a,
        .b = record->b,
        .same_switch = switch_of && switch_of[record->a] == switch_of[record->b],
        .badness = badness,
    };
}

void bx_pairs_summarise(const bx_pairs_record *records, size_t count, int nodes,
                        const int *switch_of, bx_pairs_summary *summary)
{
    value *values = bx_memory_alloc(2 * count, sizeof *values);
    candidates *all = bx_memory_alloc(1, sizeof *all);
    double level;
    *summary = (bx_pairs_summary){0};

    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        add(values, &used, &records[i], switch_of, records[i].a, records[i].b,
            log(records[i].values.latency));
    summary->worst_latency = judge(values, used, nodes, nodes, &summary->latency, all);

    used = 0;
    for (size_t i = 0; i < count; i++)
        add(values, &used, &records[i], switch_of, records[i].a, records[i].b,
            -log(records[i].values.both));
    double worst_both = judge(values, used, nodes, nodes, &level, all);
    summary->both = 1 / level;

    used = 0;
    for (size_t i = 0; i < count; i++) {
        const bx_pairs_record *r = &records[i];
        add(values, &used, r, switch_of, r->a, nodes + r->b, -log(r->values.out));
        add(values, &used, r, switch_of, r->b, nodes + r->a, -log(r->values.back));
    }
    double worst_way = judge(values, used, nodes, 2 * nodes, &level, all);
    summary->bandwidth = 1 / level;
    summary->worst_bandwidth = 1 / fmax(worst_both, worst_way);

    summary->suspect_count = all->node_count;
    for (int i = 0; i < all->node_count; i++) summary->suspects[i] = all->nodes[i].who.a;
    summary->path_count = all->path_count;
    for (int i = 0; i < all->path_count; i++) summary->paths[i] = all->paths[i].who;
    free(values);
    free(all);
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
