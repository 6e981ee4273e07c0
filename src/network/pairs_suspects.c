/* Whom to measure again.  The rule is over-inclusive: it spares time, and blames nobody.
 *
 * The logarithm of a value is the level of its class (same switch or not) + the effect of the node
 * that sends + that of the node that receives + the pair's own; effects are medians. */
#include "pairs.h"

#include "statistics.h"

#include <stdlib.h>
#include <string.h>

/* Suspicious is what is worse than usual by so much, and by so many robust standard deviations. */
static const double NODE_EFFECT = 0.03, NODE_SPREADS = 2, PATH_EFFECT = 0.08, PATH_SPREADS = 3;

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

/* Takes the level of each class off; returns exp(median) of all. */
static double take_levels(value *values, size_t count)
{
    double *some = bx_memory_alloc(count, sizeof *some);
    for (int class = 0; class < 2; class++) {
        size_t members = 0;
        for (size_t i = 0; i < count; i++)
            if (values[i].same_switch == (class == 1)) some[members++] = values[i].badness;
        double level = bx_statistics_quantile(some, members, 0.5);
        for (size_t i = 0; i < count; i++)
            if (values[i].same_switch == (class == 1)) values[i].rest = values[i].badness - level;
    }
    for (size_t i = 0; i < count; i++) some[i] = values[i].badness;
    double middle = bx_statistics_quantile(some, count, 0.5);
    free(some);
    return exp(middle);
}

/* effects[groups]: the median of what counts for each, 0 where nothing does. */
static void find_effects(const value *values, size_t count, int groups, double *effects)
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
        effects[g] = members ? bx_statistics_quantile(&sorted[start[g]], members, 0.5) : 0;
    }
    free(start);
    free(sorted);
}

typedef struct {
    candidate nodes[BX_PAIRS_SUSPECTS], paths[BX_PAIRS_PATHS];
    int node_count, path_count;
} candidates;

/* Adds the suspects by one quantity.  Returns exp(largest effect), and its typical value. */
static double judge(value *values, size_t count, int nodes, int groups, double *level,
                    candidates *all)
{
    *level = take_levels(values, count);
    double *effects = bx_memory_alloc((size_t)groups, sizeof *effects),
           *copy = bx_memory_alloc(count > (size_t)groups ? count : (size_t)groups, sizeof *copy);
    find_effects(values, count, groups, effects);
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
        for (int end = 0; end < 2; end++) values[i].rest -= fmax(0, effects[values[i].group[end]]);
    for (size_t i = 0; i < count; i++) copy[i] = values[i].rest;
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
