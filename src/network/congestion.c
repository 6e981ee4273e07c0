/* What other traffic does to the exchanges of users' codes: victims on some ranks, quiet and under
 * aggressors on others (after GPCNeT: S. Chunduri et al., SC 2019).  A step is a cycle: it deals
 * the nodes anew, and measures one victim in windows, quiet, quiet again and under each aggressor,
 * in random order.  The second quiet window is the control. */
#include "congestion.h"

#include "grid.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
#define VICTIM_NUMBER(name, ...) VICTIM_##name,
    BX_METHODS(VICTIM_NUMBER) VICTIMS,
    ALONE = VICTIMS, /* the aggressors without a victim */
    METHODS
};
enum {
#define AGGRESSOR_NUMBER(name) AGGRESSOR_##name,
    BX_AGGRESSORS(AGGRESSOR_NUMBER) AGGRESSORS,
    QUIET = AGGRESSORS,
    QUIET_REPEAT,
    WINDOWS,
    NONE = -1
};
enum { BATCH = 8, ROUNDS = 4 }; /* exchanges, rounds of load between two looks */

/* The calls of MPI of aggressors, and around the windows. */
#define LOADED "Send Irecv Waitall Alltoall Bcast Barrier Reduce"
static const bx_choice methods[METHODS] = {
#define CHOICE(name, summary, wins, calls) {#name, summary, wins, false, NULL, LOADED " " calls},
    BX_METHODS(CHOICE)
    /* the baseline */
    {"alone", "the aggressors without a victim", "what they move when nothing is in their way",
     true, NULL, NULL},
};
static const char *const window_names[WINDOWS] = {
#define NAME(name) #name,
    BX_AGGRESSORS(NAME) "quiet", "again"};
static const bx_victim *const victims[VICTIMS] = {
#define VICTIM(name, ...) &bx_victim_##name,
    BX_METHODS(VICTIM)};
static const bx_aggressor *const aggressors[AGGRESSORS] = {
#define AGGRESSOR(name) &bx_aggressor_##name,
    BX_AGGRESSORS(AGGRESSOR)};

/* One window as rank 0 keeps it. */
typedef struct {
    double mean, p99, count; /* s per exchange of the slowest rank; exchanges */
    double load;             /* B/s of the aggressor */
} window;

/* What one rank sends, and in how many calls. */
typedef struct {
    double bytes, calls;
} traffic;

typedef struct {
    bx_run *run;
    MPI_Comm world;
    int rank, size, node, local, nodes;
    bool shares_nodes,
        aggresses; /* whether the roles share nodes; this rank's role in this cycle */
    bx_party party;
    bx_comm_buffer memory;     /* of both buffers */
    size_t victim_words;       /* of a buffer, for an exchange of victims */
    double *seconds, *slowest; /* [room] of the exchanges of a window */
    size_t room;
    int64_t cycles[METHODS];                                   /* so far */
    double wrong_victim[WINDOWS], wrong_aggressor[AGGRESSORS]; /* bytes, in the last step */
    /* between what was asked and what was done in it: in the worst window; rounds; s; of a number
     * of a window */
    traffic amiss_victim, amiss_aggressor;
    double rounds_missing, time_missing, misstated;
    uint64_t inspected[METHODS]; /* cycles */
    window *kept[METHODS];       /* [cycles][WINDOWS] on rank 0 */
    bx_json *list;               /* details.congestion.windows on rank 0 */
} congestion;

static double window_seconds = 0.1;

/* ---- setup ---- */

static int setup(bx_run *run, void **state)
{
    static congestion the_congestion;
    congestion *c = &the_congestion;
    *state = c;
    c->run = run;
    c->world = bx_run_comm(run);
    c->nodes = bx_run_node_count(run);
    c->shares_nodes = strcmp(bx_run_case(run), "beside") == 0;
    MPI_Comm_rank(c->world, &c->rank);
    MPI_Comm_size(c->world, &c->size);
    MPI_Comm_rank(bx_run_node_comm(run), &c->local);
    c->node = bx_run_node_of(run)[c->rank];
    c->victim_words = bx_victims_words(c->size);
    size_t words[2] = {BATCH * c->victim_words, bx_aggressors_words(c->size)};
    c->party.words = words[words[1] > words[0]];
    double bytes = 2.0 * (double)c->party.words * sizeof(uint64_t);
    int code = bx_comm_buffers_open(run, bytes, 0, "the buffers");
    double windows = VICTIMS * WINDOWS + AGGRESSORS;
    if (code == BX_OK)
        code = bx_resources_claim_time(run, 0, windows * 1.5 * window_seconds, "--window");
    if (code != BX_OK) return code;
    if (!bx_comm_buffer_create(&c->memory, (size_t)bytes, "messages"))
        return bx_run_refuse(run, BX_RESOURCES, "the buffers: out of memory");
    bx_comm_buffer_fill(&c->memory, 0, c->memory.exchanged, (size_t)bytes);
    c->party.memory = &c->memory;
    size_t peers = (size_t)(c->size > BX_GRID_SIDES ? c->size : BX_GRID_SIDES);
    BX_ALLOC(peers, c->party.counts, c->party.offsets);
    BX_ALLOC(BX_CONGESTION_SLOTS, c->party.requests);
    return BX_OK;
}

static bool applicable(void *state, size_t method, char *why, size_t why_size)
{
    const congestion *c = state;
    int *on_node = bx_memory_alloc((size_t)c->nodes, sizeof *on_node), fewest = c->size;
    for (int r = 0; r < c->size; r++) on_node[bx_run_node_of(c->run)[r]]++;
    for (int i = 0; i < c->nodes; i++)
        if (on_node[i] < fewest) fewest = on_node[i];
    free(on_node);
    const char *are = c->nodes == 1 ? "is" : "are";
    if (c->shares_nodes)
        snprintf(why, why_size, "needs 2 nodes with 2 ranks each; there %s %d, one with %d", are,
                 c->nodes, fewest);
    else
        snprintf(why, why_size, "needs 4 nodes, 2 for victims and 2 for aggressors; there %s %d",
                 are, c->nodes);
    return c->shares_nodes ? c->nodes >= 2 && fewest >= 2 : c->nodes >= 4;
}

/* ---- a cycle ---- */

/* Deals the nodes of a cycle, the same for all methods: the first half has the victims.  Beside
 * each other, every other rank of a node is an aggressor. */
static void assign_roles(congestion *c, int64_t cycle)
{
    uint64_t seed = bx_random_hash(bx_run_seed(c->run), (uint64_t)cycle);
    int *order = bx_random_order(c->nodes, seed), place = 0;
    while (order[place] != c->node) place++;
    free(order);
    c->aggresses = c->shares_nodes ? c->local % 2 : place >= (c->nodes + 1) / 2;
    MPI_Comm_split(c->world, c->aggresses, place, &c->party.comm);
    MPI_Comm_rank(c->party.comm, &c->party.rank);
    MPI_Comm_size(c->party.comm, &c->party.size);
    c->party.seed = seed;
}

/* Loads the network until the victims are in the barrier `end`; returns bytes sent by this rank,
 * the seconds, and the looks.  Aggressors agree to stop one look late, so that no look interrupts
 * the load.  PMPI: what they agree by is no load. */
static void run_aggressor(congestion *c, const bx_aggressor *aggressor, MPI_Request *end,
                          double *bytes, double *seconds, int64_t *looks)
{
    int seen = 0, all = 0, mine = 0, agreed = 0;
    MPI_Request agreement = MPI_REQUEST_NULL;
    double start = MPI_Wtime();
    while (!all) {
        for (int i = 0; i < ROUNDS; i++) {
            c->party.round++;
            *bytes += aggressor->load(&c->party);
        }
        if (*looks > 0) {
            PMPI_Wait(&agreement, MPI_STATUS_IGNORE);
            all = agreed;
        }
        if (all) break;
        if (!seen) PMPI_Test(end, &seen, MPI_STATUS_IGNORE);
        mine = seen;
        PMPI_Iallreduce(&mine, &agreed, 1, MPI_INT, MPI_MIN, c->party.comm, &agreement);
        ++*looks;
    }
    *seconds = MPI_Wtime() - start;
}

/* Directs the party to its memory for one exchange of a batch; the content is that of generation
 * `before` + 1 + i. */
static void turn_to(congestion *c, uint64_t before, int i)
{
    c->party.generation = before + 1 + (uint64_t)i;
    c->party.sent = (uint64_t *)c->memory.exchanged + (size_t)i * c->victim_words;
    c->party.received = c->party.sent + c->party.words;
}

/* One batch of a victim's exchanges, seconds[BATCH]; returns the wrong bytes.  Each exchange has
 * memory of its own: all are written before the first and compared after the last.  Ranks enter the
 * batch together, however long they write.  PMPI: that is no exchange of the victim's. */
static double run_batch(congestion *c, const bx_victim *victim, double *seconds)
{
    double wrong = 0;
    uint64_t before = c->party.generation;
    for (int i = 0; i < BATCH; i++) {
        turn_to(c, before, i);
        victim->prepare(&c->party);
        size_t bytes = victim->words(&c->party) * sizeof(uint64_t);
        bx_comm_buffer_bring(&c->memory, c->party.sent, bytes);
        bx_comm_buffer_fill(&c->memory, 0xa5, c->party.received, bytes);
    }
    PMPI_Barrier(c->party.comm);
    for (int i = 0; i < BATCH; i++) {
        turn_to(c, before, i);
        double start = MPI_Wtime();
        bx_victim_exchange(victim, &c->party);
        seconds[i] = MPI_Wtime() - start;
    }
    for (int i = 0; i < BATCH; i++) {
        turn_to(c, before, i);
        bx_comm_buffer_fetch(&c->memory, c->party.received,
                             victim->words(&c->party) * sizeof(uint64_t));
        wrong += victim->wrong(&c->party);
    }
    return wrong;
}

/* Repeats a victim's exchange for `seconds`, after a quarter of them to warm up; returns how many
 * are in c->seconds. */
static size_t run_victim(congestion *c, const bx_victim *victim, double seconds, double *wrong)
{
    size_t count = 0;
    double until = MPI_Wtime() + 0.25 * seconds;
    for (bool warm = false;;) {
        if (count + BATCH > c->room) {
            c->room = 2 * c->room + BATCH;
            c->seconds = bx_memory_grow(c->seconds, c->room, sizeof *c->seconds);
            c->slowest = bx_memory_grow(c->slowest, c->room, sizeof *c->slowest);
        }
        *wrong += run_batch(c, victim, c->seconds + count);
        if (warm) count += BATCH;
        int over = MPI_Wtime() > until;
        PMPI_Bcast(&over, 1, MPI_INT, 0, c->party.comm); /* no exchange of the victim's */
        if (over && warm) return count;
        if (over) until = MPI_Wtime() + seconds;
        if (over) warm = true;
    }
}

/* Sleeps in place of a victim. */
static void idle(double seconds)
{
    double until = MPI_Wtime() + seconds;
    do usleep(1000);
    while (MPI_Wtime() < until);
}

/* ---- what was asked for, without a look at what exchanges ---- */

enum { KIB = 1024 };

/* By this rank in an exchange of a victim. */
static traffic asked_of_victim(const bx_party *party, size_t victim)
{
    int others = party->size - 1, odd = party->rank % 2, extent[3] = {0, 0, 0};
    int block = 256 * KIB / 8 / party->size; /* words, and one more to every other rank */
    switch (victim) {
    case VICTIM_allreduce:
        return (traffic){others > 0 ? 8 : 0, 1};
    case VICTIM_alltoallv:
        return (traffic){8.0 * ((double)others * (block > 0 ? block : 1) + (others + 1 + odd) / 2),
                         1};
    case VICTIM_halo: { /* all faces under way, then one wait */
        MPI_Dims_create(party->size, 3, extent);
        double faces = 2 * ((extent[0] > 1) + (extent[1] > 1) + (extent[2] > 1));
        return (traffic){faces * 64 * KIB, 2 * faces + 1};
    }
    default:
        return (traffic){0, 0};
    }
}

/* By this rank in a round of an aggressor; nothing in a quiet window. */
static traffic asked_of_aggressor(const bx_party *party, int kind)
{
    double others = party->size - 1;
    switch (kind) {
    case AGGRESSOR_incast: /* from 32 at once, then one wait */
        if (party->rank > 0) return (traffic){64 * KIB, 1};
        return (traffic){0, others + ceil(others / 32)};
    case AGGRESSOR_alltoall:
        return (traffic){
            others * fmin(64 * KIB, fmax(8, 8 * floor(4096.0 * KIB / 8 / party->size))), 1};
    case AGGRESSOR_broadcast:
        return (traffic){party->rank == 0 ? others * 64 * KIB : 0, 1};
    default:
        return (traffic){0, 0};
    }
}

static traffic sent_so_far(void)
{
    bx_traffic of[BX_CLASS_COUNT];
    traffic sent = {0};
    bx_profile_read(of);
    for (int class = 0; class < BX_CLASS_COUNT; class++) {
        sent.bytes += of[class].bytes;
        sent.calls += of[class].calls;
    }
    return sent;
}

/* Keeps in *worst by how much what was sent since `before` differs from `times` what was asked. */
static void compare_traffic(traffic *worst, traffic before, double times, traffic asked)
{
    traffic now = sent_so_far();
    worst->bytes = fmax(worst->bytes, fabs(now.bytes - before.bytes - times * asked.bytes));
    worst->calls = fmax(worst->calls, fabs(now.calls - before.calls - times * asked.calls));
}

/* A victim's rank: so many exchanges were made, of which `count` are in the result.  The first rank
 * ends the window. */
static void compare_victim(congestion *c, size_t method, double exchanges, double count,
                           traffic before, double missing)
{
    compare_traffic(&c->amiss_victim, before, exchanges, asked_of_victim(&c->party, method));
    if (method != ALONE && count + BATCH > exchanges)
        c->amiss_victim.calls = INFINITY; /* warm-up */
    if (c->party.rank == 0) c->time_missing = fmax(c->time_missing, missing);
}

/* An aggressor's rank: rounds without a pause until no victim exchanges, and their bytes. */
static void compare_aggressor(congestion *c, int kind, bool ended, int64_t looks, traffic before,
                              double claimed)
{
    traffic asked = asked_of_aggressor(&c->party, kind);
    double rounds = (double)c->party.round,
           rounds_asked = kind < AGGRESSORS ? ROUNDS * ((double)looks + 1) : 0;
    if (kind < AGGRESSORS && !ended) rounds_asked = INFINITY;
    c->rounds_missing = fmax(c->rounds_missing, fabs(rounds_asked - rounds));
    compare_traffic(&c->amiss_aggressor, before, rounds, asked);
    c->amiss_aggressor.bytes = fmax(c->amiss_aggressor.bytes, fabs(claimed - rounds * asked.bytes));
}

/* The victims' ranks: `stated` has mean and p99 of the slowest rank in each of `count` exchanges.
 */
static void compare_times(congestion *c, size_t count, const double stated[2])
{
    double shown[2] = {stated[0], stated[1]}, mean = 0, low = 0, high = 0;
    PMPI_Bcast(shown, 2, MPI_DOUBLE, 0, c->party.comm);
    PMPI_Allreduce(c->seconds, c->slowest, (int)count, MPI_DOUBLE, MPI_MAX, c->party.comm);
    for (size_t i = 0; i < count; i++) {
        mean += c->slowest[i] / (double)count;
        low += c->slowest[i] <= shown[1] * (1 + 1e-12);
        high += c->slowest[i] >= shown[1] * (1 - 1e-12);
    }
    double below = floor(0.99 * (double)(count - 1)); /* and p99 is not above the next one */
    bool between = low > below && high >= (double)count - 1 - below;
    c->misstated = fmax(c->misstated, between ? fabs(shown[0] / mean - 1) : INFINITY);
}

/* All ranks: `load` is the bytes of all aggressors over the longest time of one. */
static void compare_load(congestion *c, int kind, double busy, double load)
{
    double bytes = 0, rate;
    if (c->aggresses) bytes = (double)c->party.round * asked_of_aggressor(&c->party, kind).bytes;
    PMPI_Allreduce(MPI_IN_PLACE, &bytes, 1, MPI_DOUBLE, MPI_SUM, c->world);
    rate = busy > 0 ? bytes / busy : INFINITY;
    PMPI_Allreduce(MPI_IN_PLACE, &rate, 1, MPI_DOUBLE, MPI_MIN, c->world);
    if (c->rank == 0 && kind < AGGRESSORS)
        c->misstated = bx_verification_worse(c->misstated, fabs(load / rate - 1));
}

/* Returns whether this rank's role in a cycle, and its place among those that share it, are those
 * of the cycle's order of nodes. */
static bool is_dealt(const congestion *c, uint64_t cycle)
{
    const int *node_of = bx_run_node_of(c->run);
    size_t nodes = (size_t)c->nodes;
    int *order = bx_random_order(c->nodes, bx_random_hash(bx_run_seed(c->run), cycle)), before = 0;
    int *place, *seats;
    BX_ALLOC(nodes, place, seats);
    for (int i = 0; i < c->nodes; i++) place[order[i]] = i;
    bool mine = c->shares_nodes ? c->local % 2 : 2 * place[c->node] >= c->nodes;
    for (int rank = 0; rank < c->size; rank++) {
        int at = place[node_of[rank]], seat = seats[node_of[rank]]++;
        bool first = at != place[c->node] ? at < place[c->node] : rank < c->rank;
        before += first && (c->shares_nodes ? seat % 2 : 2 * at >= c->nodes) == mine;
    }
    BX_FREE(order, place, seats);
    return mine == c->aggresses && before == c->party.rank;
}

/* ---- windows ---- */

/* One window; its numbers on rank 0. */
static window measure(congestion *c, size_t method, int kind, double seconds)
{
    double mine[4] = {0}, sums[4], busy = 0, longest; /* mean, p99, count, bytes */
    MPI_Request end;
    c->party.generation = (uint64_t)kind << 40;
    c->party.round = 0;
    c->party.wrong = 0;
    c->party.sent = c->memory.exchanged;
    c->party.received = c->party.sent + c->party.words;
    if (c->aggresses && kind < AGGRESSORS) aggressors[kind]->prepare(&c->party);
    MPI_Barrier(c->world);
    double start = MPI_Wtime();
    if (c->aggresses) {
        int64_t looks = 0;
        PMPI_Ibarrier(c->world, &end);
        traffic sent = sent_so_far();
        if (kind < AGGRESSORS) run_aggressor(c, aggressors[kind], &end, &mine[3], &busy, &looks);
        compare_aggressor(c, kind, end == MPI_REQUEST_NULL, looks, sent, mine[3]);
        bx_run_sleep_until(&end);
        if (kind < AGGRESSORS) {
            bx_comm_buffer_fetch(&c->memory, c->party.received, c->party.words * sizeof(uint64_t));
            c->wrong_aggressor[kind] += c->party.wrong + aggressors[kind]->wrong(&c->party);
        }
    } else {
        size_t count = 0;
        traffic sent = sent_so_far();
        if (method == ALONE)
            idle(seconds);
        else
            count = run_victim(c, victims[method], seconds, &c->wrong_victim[kind]);
        compare_victim(c, method, (double)(c->party.generation & ((UINT64_C(1) << 40) - 1)),
                       (double)count, sent,
                       (method == ALONE ? 1 : 1.25) * seconds - (MPI_Wtime() - start));
        PMPI_Ibarrier(c->world, &end);
        bx_run_sleep_until(&end);
        if (count > 0)
            MPI_Reduce(c->seconds, c->slowest, (int)count, MPI_DOUBLE, MPI_MAX, 0, c->party.comm);
        if (count > 0 && c->party.rank == 0) {
            for (size_t i = 0; i < count; i++) mine[0] += c->slowest[i] / (double)count;
            mine[1] = bx_statistics_quantile(c->slowest, count, 0.99);
            mine[2] = (double)count;
        }
        if (count > 0) compare_times(c, count, mine);
    }
    MPI_Reduce(mine, sums, 4, MPI_DOUBLE, MPI_SUM, 0, c->world);
    MPI_Reduce(&busy, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, c->world);
    double load = longest > 0 ? sums[3] / longest : NAN;
    compare_load(c, kind, busy, load);
    return c->rank == 0 ? (window){sums[0], sums[1], sums[2], load} : (window){0};
}

/* Runs one cycle; windows[WINDOWS] on rank 0, zero where there is no window. */
static void run_cycle(congestion *c, size_t method, int64_t cycle, double seconds, window *windows)
{
    uint64_t seed = bx_random_hash(~bx_run_seed(c->run), (uint64_t)cycle * METHODS + method);
    int *order = bx_random_order(WINDOWS, seed);
    memset(c->wrong_victim, 0, sizeof c->wrong_victim);
    memset(c->wrong_aggressor, 0, sizeof c->wrong_aggressor);
    c->amiss_victim = c->amiss_aggressor = (traffic){0};
    c->rounds_missing = c->time_missing = c->misstated = 0;
    assign_roles(c, cycle);
    for (int i = 0; i < WINDOWS; i++)
        if (method != ALONE || order[i] < AGGRESSORS)
            windows[order[i]] = measure(c, method, order[i], seconds);
    MPI_Comm_free(&c->party.comm);
    free(order);
}

static void step(void *state, size_t method, size_t point)
{
    congestion *c = state;
    window windows[WINDOWS] = {0};
    int64_t cycle = c->cycles[method]++;
    run_cycle(c, method, cycle + 1, window_seconds, windows);
    if (c->rank != 0) return;
    size_t cycles = (size_t)c->cycles[method];
    c->kept[method] = bx_memory_grow(c->kept[method], cycles * WINDOWS, sizeof(window));
    memcpy(&c->kept[method][(cycles - 1) * WINDOWS], windows, sizeof windows);
    for (int kind = 0; kind < WINDOWS && c->list; kind++) {
        if (method == ALONE && kind >= AGGRESSORS) continue;
        bx_json *entry = bx_json_object(c->list, NULL);
        bx_json_number(entry, "cycle", (double)cycle);
        BX_TEXTS(entry, {"victim", methods[method].name}, {"window", window_names[kind]});
        BX_NUMBERS(entry, {"count", windows[kind].count},
                   {"mean", windows[kind].count > 0 ? windows[kind].mean : NAN},
                   {"p99", windows[kind].count > 0 ? windows[kind].p99 : NAN},
                   {"load", windows[kind].load});
    }
}

static void inspect(void *state, size_t method, size_t point, bx_verification *verification)
{
    congestion *c = state;
    char name[64];
    for (int kind = 0; kind < WINDOWS; kind++) {
        bool loaded = kind < AGGRESSORS;
        snprintf(name, sizeof name, loaded ? "content under %s" : "content, %s",
                 window_names[kind]);
        if (method != ALONE)
            bx_verification_check_always(verification, name, c->wrong_victim[kind], 0, "bytes");
        snprintf(name, sizeof name, "content of %s", window_names[kind]);
        if (loaded)
            bx_verification_check_always(verification, name, c->wrong_aggressor[kind], 0, "bytes");
    }
    bx_verification_check_always(verification, "bytes of victims", c->amiss_victim.bytes, 0,
                                 "bytes");
    bx_verification_check_always(verification, "bytes of aggressors", c->amiss_aggressor.bytes, 0,
                                 "bytes");
    bx_verification_check(verification, "calls of victims", c->amiss_victim.calls, 0, "calls");
    bx_verification_check(verification, "calls of aggressors", c->amiss_aggressor.calls, 0,
                          "calls");
    bx_verification_check(verification, "rounds of aggressors", c->rounds_missing, 0, "rounds");
    bx_verification_check(verification, "length of windows", c->time_missing, 1e-6, "s");
    bx_verification_check(verification, "mean, p99 and load", c->misstated, 1e-9, "of the number");
    bx_verification_check(verification, "not dealt for this cycle",
                          !is_dealt(c, c->inspected[method]++), 0, "ranks");
}

/* The first cycle: of the shortest windows. */
static void verify(void *state, size_t method, size_t point, bx_verification *verification)
{
    window unused[WINDOWS];
    run_cycle(state, method, 0, 0, unused);
    inspect(state, method, point, verification);
}

/* ---- what is reported ---- */

static void report(void *state, bx_run *run, bx_json *details)
{
    congestion *c = state;
    if (!details) return;
    bx_json *json = bx_json_object(details, "congestion");
    bx_json_text(json, "place", bx_run_case(run));
    bx_json_number(json, "window", window_seconds);
    c->list = bx_json_array(json, "windows");
}

/* The median over the cycles of a number of one window, over that of another one unless `under` is
 * NONE; NaN without cycles. */
static double median(const congestion *c, size_t method, int over, int under, size_t member)
{
    size_t cycles = (size_t)c->cycles[method];
    double *values = bx_memory_alloc(cycles + 1, sizeof *values), sides[2] = {0, 1};
    for (size_t i = 0; i < cycles; i++) {
        const window *windows = &c->kept[method][i * WINDOWS];
        memcpy(&sides[0], (const char *)&windows[over] + member, sizeof *sides);
        if (under != NONE) memcpy(&sides[1], (const char *)&windows[under] + member, sizeof *sides);
        values[i] = sides[0] / sides[1];
    }
    double middle = bx_statistics_quantile(values, cycles, 0.5);
    free(values);
    return middle;
}

static void metrics(void *state, size_t method, size_t point, bx_metrics *metrics)
{
    const congestion *c = state;
    size_t mean = offsetof(window, mean), p99 = offsetof(window, p99);
    char name[64];
    if (method == ALONE) return;
    bx_metrics_add(metrics, "quiet", median(c, method, QUIET, NONE, mean), "s", "lower");
    for (int kind = 0; kind < WINDOWS; kind++) {
        if (kind == QUIET) continue;
        snprintf(name, sizeof name, "impact_%s", window_names[kind]);
        bx_metrics_add(metrics, name, median(c, method, kind, QUIET, mean), "ratio", "lower");
        snprintf(name, sizeof name, "impact_%s_p99", window_names[kind]);
        bx_metrics_add(metrics, name, median(c, method, kind, QUIET, p99), "ratio", "lower");
    }
}

static void teardown(void *state)
{
    congestion *c = state;
    bx_comm_buffer_free(&c->memory);
    BX_FREE(c->party.counts, c->party.offsets, c->party.requests, c->seconds, c->slowest);
    for (int m = 0; m < METHODS; m++) free(c->kept[m]);
}

const bx_kernel *bx_kernel_get(void)
{
    static const bx_choice cases[] = {
        {.name = "apart",
         .summary = "victims and aggressors on nodes of their own: they share the network"},
        {.name = "beside", .summary = "both on every node: they share its adapters too"},
    };
    static const bx_option options[] = {
        {"window", "SECONDS", "length of a window of a cycle", BX_REAL, 1e-6, 3600,
         &window_seconds},
        BX_COMM_BUFFER_OPTIONS,
    };
    static const bx_kernel kernel = {
        .name = "congestion",
        .summary = "what other traffic does to small messages, transposes and halos",
        .cases = BX_COUNTED(cases),
        .methods = BX_COUNTED(methods),
        .options = BX_COUNTED(options),
        .baselines = "alone",
        .setup = setup,
        .applicable = applicable,
        .verify = verify,
        .step = step,
        .inspect = inspect,
        .report = report,
        .metrics = metrics,
        .teardown = teardown,
    };
    return &kernel;
}
