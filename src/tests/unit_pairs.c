/* Who meets whom in bisection-pairs, and whom it measures again. */
#include "pairs.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

static int hosts_of_switch(int switches, uint64_t seed, int node)
{
    return (int)(bx_random_hash(seed, (uint64_t)node) % (uint64_t)switches);
}

/* Every rule of one round.  Returns its number of slots. */
static int check_round(const bx_pairs_schedule *s, const bx_pairs_meeting *meetings, int count)
{
    static int last_slot[MOST], last_switch[MOST]; /* + 1, so that 0 is never */
    memset(last_slot, 0, sizeof last_slot);
    memset(last_switch, 0, sizeof last_switch);
    int slots = 0, in_slot = 0, most = 0;
    CHECK(count == s->nodes / 2);
    for (int i = 0; i < count; i++) {
        bx_pairs_meeting m = meetings[i];
        CHECK(m.a != m.b && m.a >= 0 && m.b >= 0 && m.a < s->nodes && m.b < s->nodes);
        CHECK(!last_slot[m.a] && !last_slot[m.b]); /* once in a round, and so in a slot */
        last_slot[m.a] = last_slot[m.b] = 1;
        CHECK(m.slot == slots - 1 || m.slot == slots); /* in order, none empty */
        in_slot = m.slot == slots ? 1 : in_slot + 1;
        slots = m.slot + 1;
        most = in_slot > most ? in_slot : most;
        if (s->mode != BX_PAIRS_thin || !s->switch_of) continue;
        int *a = &last_switch[s->switch_of[m.a]], *b = &last_switch[s->switch_of[m.b]];
        CHECK(*a != m.slot + 1 && *b != m.slot + 1);
        *a = *b = m.slot + 1;
    }
    if (s->mode == BX_PAIRS_serial) CHECK(most <= 1);
    if (s->mode == BX_PAIRS_concurrent) CHECK(slots <= 1);
    if (s->mode == BX_PAIRS_thin && !s->switch_of)
        CHECK(most <= (s->nodes < 256 ? 1 : s->nodes / 128));
    return slots;
}

/* Plays `rounds` of the tournament, or all.  Returns the mean number of slots of a round. */
static double check_tournament(int nodes, bx_pairs_mode mode, int switches, int rounds)
{
    static int switch_of[MOST];
    static bx_pairs_meeting meetings[MOST];
    for (int i = 0; i < nodes && switches > 0; i++)
        switch_of[i] = switches * 32 == nodes ? i / 32 : hosts_of_switch(switches, 7, i);
    bx_pairs_schedule s;
    bx_pairs_schedule_create(&s, nodes, mode, switches > 0 ? switch_of : NULL, switches, 3);
    CHECK(s.rounds == nodes - 1 + nodes % 2);
    bool *met = bx_memory_alloc((size_t)nodes * (size_t)nodes, sizeof *met);
    int *played = bx_memory_alloc((size_t)nodes, sizeof *played);
    bool all = rounds == 0;
    long slots = 0;
    if (all) rounds = s.rounds;
    for (int round = 0; round < rounds; round++) {
        int count = bx_pairs_schedule_round(&s, round, meetings);
        slots += check_round(&s, meetings, count);
        for (int i = 0; i < count; i++) {
            int low = meetings[i].a < meetings[i].b ? meetings[i].a : meetings[i].b,
                high = meetings[i].a + meetings[i].b - low;
            bool *pair = &met[(size_t)low * (size_t)nodes + (size_t)high];
            CHECK(!*pair);
            *pair = true;
            played[low]++;
            played[high]++;
        }
    }
    for (int i = 0; i < nodes; i++) { /* nobody rests more than once in a tournament */
        CHECK(played[i] <= rounds && played[i] >= rounds - nodes % 2);
        if (all) CHECK(played[i] == nodes - 1);
    }
    free(met);
    free(played);
    bx_pairs_schedule_free(&s);
    return (double)slots / rounds;
}

static void check_schedules(void)
{
    for (int nodes = 2; nodes <= 40; nodes++)
        for (bx_pairs_mode mode = 0; mode < BX_PAIRS_MODES; mode++)
            for (int switches = 0; switches <= 5; switches++)
                check_tournament(nodes, mode, switches, 0);
    check_tournament(300, BX_PAIRS_thin, 0, 0);
    check_tournament(513, BX_PAIRS_thin, 20, 16);
    CHECK(check_tournament(512, BX_PAIRS_thin, 16, 16) < 38); /* 34.5 by simulation */
    CHECK(check_tournament(4096, BX_PAIRS_thin, 128, 16) < 40);
}

/* ---- the second stage ---- */

static double noise(uint64_t index) /* sigma about 5% */
{
    double sum = 0;
    for (uint64_t i = 0; i < 3; i++) sum += bx_random_uniform(5, 3 * index + i);
    return exp(0.05 * sum);
}

typedef struct {
    int node;                              /* -1: none */
    double latency, sends, receives, both; /* factors */
    int path_a, path_b;                    /* -1: none */
    int slow_switch;                       /* to others, 0.8; -1: none */
} fault;

static double one_way(fault f, int from, int to)
{
    return (from == f.node ? f.sends : 1) * (to == f.node ? f.receives : 1);
}

static void measure(const bx_pairs_schedule *s, int rounds, fault f, bx_pairs_summary *summary)
{
    bx_pairs_meeting *meetings = bx_memory_alloc((size_t)s->nodes, sizeof *meetings);
    bx_pairs_record *records = bx_memory_alloc((size_t)rounds * (size_t)s->nodes, sizeof *records);
    size_t count = 0;
    for (int round = 0; round < rounds; round++) {
        int n = bx_pairs_schedule_round(s, round, meetings);
        for (int i = 0; i < n; i++) {
            int a = meetings[i].a, b = meetings[i].b;
            bool near = s->switch_of[a] == s->switch_of[b], hit = a == f.node || b == f.node;
            bool path = (a == f.path_a && b == f.path_b) || (a == f.path_b && b == f.path_a);
            bool crosses =
                !near && (s->switch_of[a] == f.slow_switch || s->switch_of[b] == f.slow_switch);
            double slow = path ? 0.5 : crosses ? 0.8 : hit ? f.both : 1;
            uint64_t at = 4 * (uint64_t)count;
            records[count++] = (bx_pairs_record){
                .a = a,
                .b = b,
                .values = {(float)((near ? 1e-6 : 2e-6) * noise(at) * (hit ? f.latency : 1)),
                           (float)(1e10 * noise(at + 1) * slow * one_way(f, a, b)),
                           (float)(1e10 * noise(at + 2) * slow * one_way(f, b, a)),
                           (float)(2e10 * noise(at + 3) * slow)}};
        }
    }
    bx_pairs_summarise(records, count, s->nodes, s->switch_of, summary);
    free(meetings);
    free(records);
}

static void check_second_stage(int nodes)
{
    static int switch_of[MOST];
    static bx_pairs_meeting retests[BX_PAIRS_SUSPECTS * 2 * BX_PAIRS_PARTNERS + BX_PAIRS_PATHS];
    for (int i = 0; i < nodes; i++) switch_of[i] = i / 16;
    bx_pairs_schedule s;
    bx_pairs_schedule_create(&s, nodes, BX_PAIRS_thin, switch_of, nodes / 16, 11);
    bx_pairs_meeting first[MOST];
    bx_pairs_schedule_round(&s, 0, first);
    const fault faults[] = {
        {-1, 1, 1, 1, 1, -1, -1, -1},   {21, 1, 1, 1, 0.8, -1, -1, -1},
        {21, 1.2, 1, 1, 1, -1, -1, -1}, {21, 1, 0.5, 1, 1, -1, -1, -1},
        {21, 1, 1, 0.5, 1, -1, -1, -1}, {-1, 1, 1, 1, 1, first[3].a, first[3].b, -1},
        {-1, 1, 1, 1, 1, -1, -1, 2},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        bx_pairs_summary summary;
        fault f = faults[i];
        measure(&s, 16, f, &summary);
        double near = f.slow_switch < 0 ? 0.02 : 0.25; /* a slow switch is in half of all pairs */
        CHECK(fabs(log(summary.bandwidth / 1e10)) < near);
        CHECK(fabs(log(summary.both / 2e10)) < near);
        int on_slow_switch = 0;
        for (int k = 0; k < summary.suspect_count; k++)
            on_slow_switch += switch_of[summary.suspects[k]] == f.slow_switch;
        if (f.slow_switch >= 0) CHECK(on_slow_switch >= 15);
        CHECK(summary.suspect_count <= BX_PAIRS_SUSPECTS && summary.path_count <= BX_PAIRS_PATHS);
        if (f.node >= 0) CHECK(summary.suspect_count > 0 && summary.suspects[0] == f.node);
        double slowest = fmin(fmin(f.sends, f.receives), f.both);
        if (slowest < 1) CHECK(fabs(log(summary.worst_bandwidth / slowest)) < 0.1);
        if (f.latency > 1) CHECK(fabs(log(summary.worst_latency / f.latency)) < 0.1);
        if (f.path_a >= 0)
            CHECK(summary.path_count > 0 && summary.paths[0].a == f.path_a &&
                  summary.paths[0].b == f.path_b);
        int count = bx_pairs_second_stage(&s, &summary, retests), same_switch = 0, others = 0;
        CHECK(count <= (int)(sizeof retests / sizeof *retests));
        for (int k = 0; k < count; k++) {
            CHECK(retests[k].a != retests[k].b && retests[k].slot == k);
            if (retests[k].a != f.node || k >= count - summary.path_count) continue;
            bool same = switch_of[retests[k].a] == switch_of[retests[k].b];
            same_switch += same;
            others += !same;
        }
        if (f.node >= 0) CHECK(same_switch == BX_PAIRS_PARTNERS && others == BX_PAIRS_PARTNERS);
    }
    bx_pairs_schedule_free(&s);
}

/* Nodes that nobody can compare with others. */
static void check_few(void)
{
    bx_pairs_summary summary;
    bx_pairs_record record = {.a = 1, .b = 0, .values = {1e-6f, 1e9f, 2e9f, NAN}};
    bx_pairs_summarise(&record, 1, 2, NULL, &summary);
    CHECK(summary.suspect_count == 0 && summary.worst_latency == 1 && isnan(summary.both));
    bx_pairs_summarise(&record, 0, 2, NULL, &summary);
    CHECK(isnan(summary.latency) && summary.path_count == 0);
}

int main(void)
{
    check_schedules();
    check_second_stage(64);
    check_second_stage(512);
    check_few();
    return unit_failures > 0;
}
