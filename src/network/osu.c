/* What OSU's micro-benchmarks measure, by their rules: the numbers that vendors quote. */
#include "osu.h"
#include "charge.h"
#include "sizes.h"

#include <stdlib.h>

enum { LARGE = 8192 }; /* B; longer messages have fewer iterations */
enum { WARM_UP = 10 }; /* iterations per one of warm-up */
enum { TERMS = 64 };   /* of a sum: a float holds it on up to 170,000 ranks */
enum { FLOAT = sizeof(float) };
static const double LONGEST = 30; /* s of a loop */

static const struct {
    const char *name;
    const bx_osu_benchmark *benchmark;
    int64_t smallest, largest; /* B */
} table[] = {
#define ENTRY(name, smallest, largest, factor) {#name, &bx_osu_##name, smallest, largest},
    BX_METHODS(ENTRY)};

enum { METHODS = sizeof table / sizeof *table };

typedef struct {
    bx_osu s;
    bx_run *run;
    int opposite;          /* the rank that rank 0 talks to */
    uint64_t generation;   /* of the content */
    double seconds;        /* that this rank has counted in the last step */
    int iterations;        /* in it */
    bx_series *seconds_of; /* [METHODS][points] s of an iteration, by rank 0 */
    int *most;             /* likewise: iterations that a loop has; 0: as many as the rule says */
} osu;

static int64_t smallest = 1, largest = 4 << 20; /* B */
static int64_t memory = 64;                     /* MiB */
static int64_t asked;                           /* iterations; 0: OSU's */

static const bx_choice *methods;

static const bx_osu_benchmark *benchmark_of(size_t method) { return table[method].benchmark; }

/* ---- points: powers of two ---- */

static size_t point_count(void *state) { return bx_sizes_count(smallest, largest); }

static int64_t point_bytes(size_t point) { return smallest << point; }

static void describe(void *state, size_t point, bx_json *description)
{
    bx_json_number(description, "bytes", (double)point_bytes(point));
}

static bool is_size_of(size_t method, int64_t bytes)
{
    return table[method].smallest <= bytes && bytes <= table[method].largest;
}

static bool is_alltoall(size_t method) { return benchmark_of(method) == &bx_osu_alltoall; }
static bool is_sum(size_t method) { return benchmark_of(method) == &bx_osu_allreduce; }

static int blocks_of(const osu *o, size_t method) { return is_alltoall(method) ? o->s.size : 1; }

static bool fits(const osu *o, size_t method, int64_t bytes)
{
    return 2.0 * blocks_of(o, method) * (double)bytes <= (double)memory * 0x1p20;
}

static bool has_point(void *state, size_t method, size_t point)
{
    int64_t bytes = point_bytes(point);
    return is_size_of(method, bytes) && fits(state, method, bytes);
}

static bool applicable(void *state, size_t method, char *why, size_t why_size)
{
    const osu *o = state;
    int64_t first = smallest > table[method].smallest ? smallest : table[method].smallest;
    if (o->s.size < 2)
        snprintf(why, why_size, "needs two ranks");
    else if (first > table[method].largest || first > largest)
        snprintf(why, why_size, "has sizes from %lld to %lld B", (long long)table[method].smallest,
                 (long long)table[method].largest);
    else if (!fits(o, method, first))
        snprintf(why, why_size, "%lld B for each of %d ranks exceed half of --memory %lld MiB",
                 (long long)first, o->s.size, (long long)memory);
    else
        return true;
    return false;
}

static int iterations_of(const osu *o, size_t method, size_t point)
{
    if (asked) return (int)asked;
    if (BX_IS_SIMULATED) return 1; /* whose clock is exact */
    int rule = benchmark_of(method)->loops[point_bytes(point) > LARGE],
        most = o->most[method * point_count(NULL) + point];
    return most && most < rule ? most : rule;
}

static int pairs_of(const osu *o, size_t method)
{
    bx_osu_who who = benchmark_of(method)->who;
    return who == BX_OSU_PAIR ? 1 : who == BX_OSU_PAIRS ? o->s.size / 2 : 0;
}

/* ---- content: each byte depends on sender, receiver and place; the first and the last one of a
 * block also on the step ---- */

static char byte_of(const osu *o, int source, int destination, int64_t place)
{
    uint64_t pair = (uint64_t)source << 32 | (uint32_t)destination,
             key = bx_random_hash(bx_run_seed(o->run), pair) +
                   (uint64_t)(place + 1) * UINT64_C(0x9e3779b97f4a7c15);
    bool stamped = place == 0 || place == o->s.bytes - 1;
    return (char)((key >> 56) + (stamped ? o->generation : 0));
}

/* A small whole number, so that sums of floats are exact in any order. */
static float base_of(const osu *o, int64_t place)
{
    bool stamped = place == 0 || place == o->s.bytes / FLOAT - 1;
    uint64_t key = bx_random_hash(bx_run_seed(o->run), (uint64_t)place);
    return (float)((key + (stamped ? o->generation : 0)) % TERMS);
}

static float term_of(const osu *o, int64_t place)
{
    return base_of(o, place) + (float)(o->s.rank % TERMS);
}

static float sum_of(const osu *o, int64_t place)
{
    int rounds = o->s.size / TERMS, rest = o->s.size % TERMS;
    float ranks = (float)(rounds * (TERMS * (TERMS - 1) / 2) + rest * (rest - 1) / 2);
    return (float)o->s.size * base_of(o, place) + ranks;
}

/* Bytes that arrive in a block of this rank. */
static int64_t arriving(const osu *o, size_t method)
{
    const bx_osu_benchmark *benchmark = benchmark_of(method);
    if (benchmark->who != BX_OSU_ALL && o->s.partner == MPI_PROC_NULL) return 0;
    return benchmark->receipt && o->s.first ? BX_OSU_RECEIPT : o->s.bytes;
}

/* Writes content to be sent, and something else where it is to arrive: all of it, or the first and
 * the last of each block. */
static void write_blocks(osu *o, size_t method, bool all)
{
    bx_osu *s = &o->s;
    o->generation++;
    if (is_sum(method)) {
        int64_t count = s->bytes / FLOAT, stride = all || count == 1 ? 1 : count - 1;
        for (int64_t i = 0; i < count; i += stride) {
            ((float *)s->sent)[i] = term_of(o, i);
            ((float *)s->received)[i] = -1;
        }
        return;
    }
    for (int b = 0; b < blocks_of(o, method); b++) {
        int other = is_alltoall(method) ? b : s->partner;
        int64_t most = s->bytes, at = (int64_t)b * s->bytes;
        if (!is_alltoall(method) && most < BX_OSU_RECEIPT) most = BX_OSU_RECEIPT;
        int64_t stride = all || s->bytes <= BX_OSU_RECEIPT ? 1 : s->bytes - 1;
        for (int64_t i = 0; i < most; i += stride) {
            s->sent[at + i] = byte_of(o, s->rank, other, i);
            s->received[at + i] = (char)~byte_of(o, other, s->rank, i);
        }
    }
}

static double wrong_bytes(const osu *o, size_t method)
{
    const bx_osu *s = &o->s;
    double wrong = 0;
    if (is_sum(method)) {
        for (int64_t i = 0; i < s->bytes / FLOAT; i++)
            wrong += ((const float *)s->received)[i] != sum_of(o, i) ? FLOAT : 0;
        return wrong;
    }
    for (int b = 0; b < blocks_of(o, method); b++)
        for (int64_t i = 0; i < arriving(o, method); i++)
            wrong += s->received[(int64_t)b * s->bytes + i] !=
                     byte_of(o, is_alltoall(method) ? b : s->partner, s->rank, i);
    return wrong;
}

/* ---- the kernel ---- */

static void take_part(osu *o, size_t method, size_t point)
{
    bx_osu *s = &o->s;
    int half = s->size / 2;
    s->bytes = (int)point_bytes(point);
    s->partner = MPI_PROC_NULL;
    if (benchmark_of(method)->who == BX_OSU_PAIRS && s->rank < 2 * half)
        s->partner = s->rank < half ? s->rank + half : s->rank - half;
    if (benchmark_of(method)->who == BX_OSU_PAIR && (s->rank == 0 || s->rank == o->opposite))
        s->partner = o->opposite - s->rank;
    s->first = s->rank < s->partner;
}

static void run_loop(osu *o, size_t method, int iterations)
{
    bool takes_part = benchmark_of(method)->who == BX_OSU_ALL || o->s.partner != MPI_PROC_NULL;
    o->iterations = iterations;
    o->seconds = takes_part ? benchmark_of(method)->loop(&o->s, iterations) : 0;
}

/* The warm-up, which finds all content new; then so does the step at both ends of each block. */
static void prepare(void *state, size_t method, size_t point)
{
    osu *o = state;
    take_part(o, method, point);
    write_blocks(o, method, true);
    int iterations = iterations_of(o, method, point) / WARM_UP;
    if (iterations > 0) {
        run_loop(o, method, iterations);
        bx_run_sleep_barrier(o->s.comm); /* ranks that have no part leave the cores to the others */
        write_blocks(o, method, false);
    }
}

static void step(void *state, size_t method, size_t point)
{
    run_loop(state, method, iterations_of(state, method, point));
}

/* The seconds of an iteration: of rank 0, of each pair, or of all ranks. */
static void inspect(void *state, size_t method, size_t point, bx_verification *verification)
{
    osu *o = state;
    const bx_osu_benchmark *benchmark = benchmark_of(method);
    bx_run_sleep_barrier(o->s.comm); /* likewise */
    bx_verification_check_always(verification, "content", wrong_bytes(o, method), 0, "bytes");
    double counted = benchmark->who == BX_OSU_ALL || o->s.first ? o->seconds : 0, sum = 0;
    int clocks = benchmark->who == BX_OSU_ALL ? o->s.size : pairs_of(o, method);
    MPI_Reduce(&counted, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, o->s.comm);
    if (o->s.rank == 0 && bx_run_is_sampling(o->run))
        bx_series_add(&o->seconds_of[method * point_count(o) + point],
                      sum / clocks / o->iterations);
}

static void verify(void *state, size_t method, size_t point, bx_verification *verification)
{
    osu *o = state;
    double least = INFINITY;
    take_part(o, method, point);
    for (int turn = 0; turn < 2; turn++) { /* the first may have to connect */
        write_blocks(o, method, true);
        run_loop(o, method, 1);
        inspect(state, method, point, verification);
        least = fmin(least, o->seconds);
    }
    MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_DOUBLE, MPI_MAX, o->s.comm);
    int *most = &o->most[method * point_count(o) + point], rule = iterations_of(o, method, point);
    *most = least * rule > LONGEST && !asked ? (int)fmax(1, LONGEST / least) : 0;
}

static void note_fewer(const osu *o)
{
    for (size_t i = 0; i < METHODS * point_count(NULL); i++)
        if (o->most[i])
            bx_run_note(o->run, "%s at %lld B: loops of %d iterations, as OSU's would take minutes",
                        table[i / point_count(NULL)].name,
                        (long long)point_bytes(i % point_count(NULL)), o->most[i]);
}

/* The seconds are of as many messages, in windows, as the rule says. */
static void promise(void *state, size_t method, size_t point, const bx_shown *shown,
                    bx_verification *verification)
{
    const osu *o = state;
    const bx_osu_benchmark *benchmark = benchmark_of(method);
    double sent[4], ranks = o->s.size, iterations = iterations_of(o, method, point),
                    bytes = (double)point_bytes(point);
    bx_shown_sent(shown, sent);
    MPI_Allreduce(MPI_IN_PLACE, sent, 4, MPI_DOUBLE, MPI_SUM, o->s.comm);
    double pairs = pairs_of(o, method), receipts = benchmark->receipt ? pairs : 0;
    double messages = pairs > 0             ? pairs * benchmark->messages
                      : is_alltoall(method) ? ranks * (ranks - 1)
                                            : ranks;
    bx_verification_count(verification, "messages sent", sent[0],
                          iterations * (messages + receipts), iterations * (messages + receipts));
    double expected = iterations * (messages * bytes + receipts * BX_OSU_RECEIPT);
    bx_verification_count(verification, "bytes sent", sent[2], expected, expected);
    double at_once = o->s.partner == MPI_PROC_NULL ? 0 : benchmark->at_once;
    bx_verification_count(verification, "messages under way at once", bx_shown_requests(shown),
                          at_once, at_once);
    if (benchmark->who == BX_OSU_ALL)
        bx_verification_count(verification, "barriers", bx_shown_calls(shown, "Barrier", NULL),
                              iterations, iterations);
}

static double items(void *state, size_t method, size_t point)
{
    return (double)iterations_of(state, method, point) * benchmark_of(method)->messages;
}

static void metrics(void *state, size_t method, size_t point, bx_metrics *metrics_of_point)
{
    const osu *o = state;
    const bx_osu_benchmark *benchmark = benchmark_of(method);
    const bx_series *series = &o->seconds_of[method * point_count(state) + point];
    double seconds = bx_series_quantile(series, 0.5);
    if (!benchmark->rate) {
        bx_metrics_add(metrics_of_point, "latency", seconds, "s", "lower");
        return;
    }
    double rate = pairs_of(o, method) * benchmark->messages / seconds;
    bx_metrics_add(metrics_of_point, "bandwidth", rate * (double)point_bytes(point), "B/s",
                   "higher");
    if (benchmark->who == BX_OSU_PAIRS)
        bx_metrics_add(metrics_of_point, "message_rate", rate, "messages/s", "higher");
}

/* Numbers the ranks node by node; finds the one opposite to the first. */
static void number_ranks(osu *o)
{
    const int *node_of = bx_run_node_of(o->run);
    int world = bx_run_rank(o->run), nodes = bx_run_node_count(o->run);
    MPI_Comm_split(bx_run_comm(o->run), 0, node_of[world], &o->s.comm);
    MPI_Comm_rank(o->s.comm, &o->s.rank);
    MPI_Comm_size(o->s.comm, &o->s.size);
    o->opposite = nodes > 1 ? 0 : o->s.size / 2;
    for (int rank = 0; nodes > 1 && rank < o->s.size; rank++)
        o->opposite += node_of[rank] < nodes / 2;
}

static int setup(bx_run *run, void **state)
{
    static osu the_osu = {.s.comm = MPI_COMM_NULL};
    osu *o = &the_osu;
    *state = o;
    o->run = run;
    int code = bx_sizes_check(run, smallest, largest);
    if (code != BX_OK) return code;
    number_ranks(o);
    double bytes = BX_OSU_RECEIPT;
    for (size_t m = 0; m < METHODS; m++)
        for (size_t p = 0; bx_run_is_selected(run, methods[m].name) && p < point_count(o); p++)
            if (has_point(o, m, p))
                bytes = fmax(bytes, (double)blocks_of(o, m) * (double)point_bytes(p));
    code = bx_resources_claim_memory(run, 2 * bytes, "--memory: two buffers for each rank");
    if (code != BX_OK) return code;
    o->s.sent = bx_memory_alloc_pages((size_t)bytes);
    o->s.received = bx_memory_alloc_pages((size_t)bytes);
    if (!o->s.sent || !o->s.received)
        bx_run_refuse(run, BX_RESOURCES, "--memory %lld: out of memory", (long long)memory);
    BX_ALLOC(METHODS * point_count(o), o->seconds_of, o->most);
    return bx_run_agree(run);
}

/* Lists the sizes of each method, without those that memory leaves out. */
static void report(void *state, bx_run *run, bx_json *details)
{
    const osu *o = state;
    note_fewer(o);
    if (!details) return;
    bx_json *points = bx_json_object(details, "points");
    for (size_t m = 0; m < METHODS; m++) {
        char why[160];
        if (!bx_run_is_selected(run, methods[m].name)) continue;
        if (!applicable(state, m, why, sizeof why)) continue;
        bx_json *sizes = bx_json_array(points, methods[m].name);
        bool left_out = false;
        for (size_t p = 0; p < point_count(state); p++) {
            if (has_point(state, m, p)) bx_json_number(sizes, NULL, (double)point_bytes(p));
            left_out = left_out || (is_size_of(m, point_bytes(p)) && !has_point(state, m, p));
        }
        if (left_out)
            bx_run_note(run, "%s: large blocks are left out: --memory %lld MiB", methods[m].name,
                        (long long)memory);
    }
    bx_json_number(details, "pairs", o->s.size / 2);
}

static void teardown(void *state)
{
    osu *o = state;
    for (size_t i = 0; o->seconds_of && i < METHODS * point_count(o); i++)
        free(o->seconds_of[i].values);
    if (o->s.comm != MPI_COMM_NULL) MPI_Comm_free(&o->s.comm);
    BX_FREE(o->s.sent, o->s.received, o->seconds_of, o->most);
}

const bx_kernel *bx_kernel_get(void)
{
    static const bx_choice cases[] = {
        {.name = "sweep", .summary = "messages of --smallest to --largest bytes, in powers of two"},
    };
    static const bx_option options[] = {
        {"smallest", "BYTES", "first message size, a power of two", BX_INTEGER, 1, 1 << 22,
         &smallest},
        {"largest", "BYTES", "last message size, a power of two", BX_INTEGER, 1, 1 << 22, &largest},
        {"iterations", "N", "of each loop; 0: by the rules, fewer beyond 8 KiB", BX_INTEGER, 0,
         1000000, &asked},
        {"memory", "MIB", "buffers of a rank at most; larger blocks are left out", BX_INTEGER, 1,
         16384, &memory},
    };
    static const int64_t sampling[] = {3, 1, 0};
    static bx_kernel kernel = {
        .name = "osu",
        .summary = "what OSU's micro-benchmarks measure, by their rules",
        .cases = BX_COUNTED(cases),
        .options = BX_COUNTED(options),
        .sampling = sampling,
        .setup = setup,
        .point_count = point_count,
        .point = describe,
        .has_point = has_point,
        .applicable = applicable,
        .verify = verify,
        .prepare = prepare,
        .inspect = inspect,
        .promise = promise,
        .step = step,
        .items = items,
        .metrics = metrics,
        .report = report,
        .teardown = teardown,
    };
    if (methods) return &kernel;
    for (size_t m = 0; m < METHODS; m++)
        bx_kernel_add_method(&kernel, &(bx_choice){.name = table[m].name,
                                                   .summary = benchmark_of(m)->summary,
                                                   .wins = benchmark_of(m)->wins,
                                                   .calls = benchmark_of(m)->calls});
    methods = kernel.methods;
    return &kernel;
}
