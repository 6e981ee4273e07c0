/* How ranks begin a step, who was last, and what daemons take, on made-up clocks: time passes only
 * where this test says so, so that other processes of the machine change no number.
 *
 * Every rank has the true time, by Lamport's rule: what arrives from another rank is not seen
 * before it was sent.  What MPI_Wtime returns is another one: rank r is 1000 r s ahead. */
#include "measure.h"
#include "result.h"
#include "start.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

static const double READING = 1e-7, LATENCY = 1e-6, LEAVING = 5e-5; /* s */
static const double NEAR = 1e-5; /* s: some readings of a clock */

static int rank, size;
static double now;    /* the true time */
static double ahead;  /* of this rank's clock, s */
static double detour; /* s: messages from a parent in the tree take longer */

/* ---- MPI ---- */

double __wrap_PMPI_Wtime(void);
double __wrap_PMPI_Wtime(void)
{
    static uint64_t readings;
    bool takes_long = bx_random_hash((uint64_t)rank, readings++) % 10 == 0;
    now += READING * (takes_long ? 20 : 1);
    return now + ahead;
}

int __real_PMPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                          MPI_Comm comm);
int __wrap_PMPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                          MPI_Comm comm);
int __real_PMPI_Send(const void *from, int count, MPI_Datatype type, int to, int tag,
                     MPI_Comm comm);
int __wrap_PMPI_Send(const void *from, int count, MPI_Datatype type, int to, int tag,
                     MPI_Comm comm);
int __real_PMPI_Recv(void *to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                     MPI_Status *status);
int __wrap_PMPI_Recv(void *to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                     MPI_Status *status);
int __wrap_PMPI_Barrier(MPI_Comm comm);

/* The ranks leave one after the other. */
static void meet(void)
{
    __real_PMPI_Allreduce(MPI_IN_PLACE, &now, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    now += LATENCY + rank * LEAVING;
}

int __wrap_PMPI_Barrier(MPI_Comm comm)
{
    meet();
    return MPI_SUCCESS;
}

int __wrap_PMPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op,
                          MPI_Comm comm)
{
    int code = __real_PMPI_Allreduce(from, to, count, type, op, comm);
    meet();
    return code;
}

int __wrap_PMPI_Send(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    __real_PMPI_Send(&now, 1, MPI_DOUBLE, to, 1, comm);
    return __real_PMPI_Send(from, count, type, to, tag, comm);
}

int __wrap_PMPI_Recv(void *to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                     MPI_Status *status)
{
    double sent;
    __real_PMPI_Recv(&sent, 1, MPI_DOUBLE, from, 1, comm, MPI_STATUS_IGNORE);
    now = fmax(now, sent) + LATENCY + (from < rank ? detour : 0);
    return __real_PMPI_Recv(to, count, type, from, tag, comm, status);
}

/* ---- the machine ---- */

double __wrap_bx_resources_threads_per_core(const bx_run *run);
static double threads_per_core = 1;
double __wrap_bx_resources_threads_per_core(const bx_run *run) { return threads_per_core; }

double __wrap_bx_host_waited(void);
static double waited;
double __wrap_bx_host_waited(void)
{
    double since = waited;
    waited = 0;
    return since;
}

/* The steps' clock stands still while calls are counted. */
double __wrap_bx_profile_paused(void);
static double paused;
double __wrap_bx_profile_paused(void) { return paused; }
double __wrap_bx_profile_clock(void);
double __wrap_bx_profile_clock(void) { return PMPI_Wtime() - paused; }

/* ---- the kernel ---- */

enum { WORK, PHASES };
static double step_seconds, taken_by_daemon;
static int steps, every; /* the daemon comes in all steps but every so many; 0: in none */
static bx_run *the_run;

static void step(void *state, size_t method, size_t point)
{
    now += step_seconds * (rank == size / 2 ? 1.5 : 1);
    bx_run_lap(the_run, WORK);
    now += step_seconds + rank;
    paused += rank;
    if (every > 0 ? steps % every != 0 : every < 0 && steps % -every == 0) {
        now += taken_by_daemon;
        waited = taken_by_daemon;
    }
    steps++;
}

static void metrics(void *state, size_t method, size_t point, bx_metrics *list)
{
    const bx_rank_series series = {.sums = {.min_rank = 3, .max_rank = 7}};
    bx_metrics_add(list, "of all", 1, "s", "lower");
    bx_metrics_add_series(list, "imbalance", 2, "ratio", "lower", &series);
}

static const char *const phases[] = {"work"};
static const bx_choice methods[] = {{"one", "", "", false, NULL, ""}};
static const bx_kernel kernel = {.name = "unit",
                                 .methods = methods,
                                 .method_count = 1,
                                 .phases = phases,
                                 .phase_count = PHASES,
                                 .step = step,
                                 .metrics = metrics};
static bool selected[] = {true};

static bx_run run_of(const char *start)
{
    return (bx_run){.kernel = &kernel,
                    .common = {.repeats = 10, .block = 10, .warmup = 1, .start = start},
                    .world = MPI_COMM_WORLD,
                    .host = MPI_COMM_WORLD,
                    .rank = rank,
                    .size = size,
                    .threads = 1,
                    .selected = selected};
}

/* A launch; rank 0 has its metrics. */
static bx_result *measured(bx_run *run)
{
    size_t count;
    the_run = run;
    steps = 0;
    bx_start_create(run);
    bx_result *result = bx_results_create(run, &count);
    result->verified = true;
    bx_measure_all(run, result, count, NULL, NULL);
    bx_results_compare_ranks(run, result, count);
    if (rank == 0) bx_metrics_fill(run, result, count, result);
    bx_start_free(run);
    return result;
}

/* ---- tests ---- */

static void test_options(void)
{
    bx_run run = run_of("late");
    CHECK(bx_start_create(&run) == BX_USAGE && strstr(run.message, "auto, barrier, window"));
    threads_per_core = 1.5;
    run = run_of("window");
    CHECK(bx_start_create(&run) == BX_RESOURCES && strstr(run.message, "--start window"));
    run = run_of("auto"); /* ranks share cores */
    step_seconds = 1;
    bx_result *result = measured(&run);
    CHECK(!result->by_window && (rank > 0 || isnan(result->skew)));
    bx_results_free(result, 1);
    threads_per_core = 1;
}

/* Ranks know each other's clocks, also when one jumps, and when answers take long, where what was
 * known stays. */
static void test_clocks(void)
{
    double ends[2];
    bx_run run = run_of("window");
    bx_start_create(&run);
    for (int turn = 0; turn < 4; turn++) {
        if (turn == 2 && rank == size - 1) ahead += 50;
        detour = turn == 1 ? 20 * NEAR : turn == 2 ? NEAR / 10 : 0;
        now += 1; /* until they are compared again */
        bx_start_adjust(&run);
        detour = 0;
        bx_start_ends(&run, now + ahead, ends); /* at another moment on each rank */
        double middle = (ends[0] - ends[1]) / 2 - now, error = (ends[0] + ends[1]) / 2, first;
        first = middle;
        MPI_Bcast(&first, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        CHECK(fabs(middle - first) < NEAR);
        bool jumped = turn == 2 && rank == size - 1 && size > 1;
        CHECK(turn == 1 ? rank == 0 || error > NEAR : fabs(error - (jumped ? 50 : 0)) < NEAR);
    }
    double due, before = now;
    if (rank == size - 1) ahead += 50;
    due = bx_start_meet(&run, true); /* nobody waits for a clock that has jumped */
    CHECK(due + paused - now - ahead < NEAR + 10 * size * LEAVING && now - before < 1);
    if (rank == size - 1) ahead -= 50;
    due = bx_start_meet(&run, false);
    CHECK(due == -INFINITY);
    due = bx_start_meet(&run, true); /* nobody learns of it too late */
    CHECK(due > now + ahead - paused);
    bx_start_free(&run);
}

/* Where blocks are short, clocks are compared before few of them. */
static void test_cost(void)
{
    bx_run run = run_of("window");
    bx_start_create(&run);
    bx_start_adjust(&run);
    meet();
    double began = now, spent = 0;
    for (int block = 0; block < 5000; block++) {
        now += 1e-4;
        double before = now;
        bx_start_adjust(&run);
        spent += now - before;
    }
    double share = spent / (now - began);
    CHECK(share < 0.02 && (size == 1 || share > 0.005));
    bx_start_free(&run);
}

static void test_starts(void)
{
    double left = (size - 1) * LEAVING; /* by the last rank, after the first */
    static const struct {
        const char *start;
        double step;
        bool by_window;
    } cases[] = {
        {"barrier", 1, false}, {"window", 1e-9, true}, {"auto", 1e-3, true}, {"auto", 1e-9, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bx_run run = run_of(cases[i].start);
        step_seconds = cases[i].step;
        bx_result *result = measured(&run);
        bool alone = size == 1 && strcmp(cases[i].start, "auto") == 0;
        CHECK(result->by_window == (cases[i].by_window || alone));
        if (rank == 0) {
            CHECK(fabs(result->skew - (result->by_window ? 0 : left)) < NEAR);
            double median = result->skew / result->skew_share, whole = 2 * step_seconds;
            CHECK(size == 1 || (median > whole && median < 1.5 * whole + NEAR));
            CHECK(bx_metrics_get(result, "time") == bx_metrics_get(result, "time_all"));
        }
        bx_results_free(result, 1);
    }
    bx_run run = run_of("auto"); /* on emulated nodes */
    run.common.ranks_per_node = 1;
    step_seconds = 1;
    bx_result *result = measured(&run);
    CHECK(!result->by_window);
    CHECK(rank > 0 || fabs(result->skew - left) < NEAR);
    bx_results_free(result, 1);
}

static void test_who_was_last(void)
{
    bx_run run = run_of("window");
    step_seconds = 1e-3;
    bx_result *result = measured(&run);
    if (rank == 0) {
        const bx_spread *work = &result->ranks[2 + WORK], *whole = &result->ranks[0];
        CHECK(work->max_rank == size / 2);
        CHECK(fabs(work->max - 1.5e-3) < 1e-5 && fabs(whole->max - 2.5e-3) < 1e-5);
        CHECK(size == 1 || fabs(work->mean - 1e-3 * (size + 0.5) / size) < 1e-5);
        CHECK(whole->max_rank == size / 2);
        for (size_t i = 0; i < result->metric_count; i++)
            CHECK(result->metrics[i].rank ==
                  (strcmp(result->metrics[i].name, "imbalance") == 0 ? 7 : -1));
    }
    bx_results_free(result, 1);
    bx_spread spreads[2];
    bx_spread_reduce(MPI_COMM_WORLD, 2, (double[]){7, -rank}, spreads);
    if (rank == 0) {
        CHECK(spreads[0].min == 7 && spreads[0].mean == 7 && spreads[0].max == 7);
        CHECK(spreads[0].min_rank == 0 && spreads[0].max_rank == 0); /* the lowest of several */
        CHECK(spreads[1].min == 1 - size && spreads[1].min_rank == size - 1);
        CHECK(spreads[1].max == 0 && spreads[1].max_rank == 0);
        CHECK(spreads[1].mean == (1 - size) / 2.0);
    }
    bx_rank_series series = {0}; /* a rank is last in most steps, another one by its sum */
    for (int i = 0; i < 4; i++)
        bx_rank_series_add(&series, MPI_COMM_WORLD,
                           i == 0 ? 1 + 20 * (rank == size - 1) : 1 + (rank == 0));
    if (rank == 0) {
        CHECK(series.most.count == 4 && series.most.values[0] == 21 && series.most.values[3] == 2);
        CHECK(series.sums.max_rank == size - 1 && series.sums.max == 24 + 3 * (size == 1));
        CHECK(series.imbalance.values[3] == 2 / ((size + 1.0) / size));
    }
    bx_rank_series_free(&series);
}

/* A daemon that takes a tenth of a core.  On one node it is in each tenth short step; of 16 nodes,
 * it is on one of them in 1 - 0.9^16 of the steps: here in four of five. */
static void test_daemons(void)
{
    static const struct {
        int every;
        bool in_median, in_all, in_tail;
    } cases[] = {{0, false, false, false}, {-10, false, false, true}, {5, false, true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bx_run run = run_of("window");
        step_seconds = 1e-3;
        taken_by_daemon = 1e-3;
        every = cases[i].every;
        bx_result *result = measured(&run);
        if (rank == 0) {
            double usual = 2.5e-3, disturbed = usual + taken_by_daemon;
#define IS(name, shows) (fabs(bx_metrics_get(result, name) - ((shows) ? disturbed : usual)) < 1e-5)
            CHECK(IS("time", cases[i].in_median));
            CHECK(IS("time_all", cases[i].in_all));
            CHECK(IS("time_p99", cases[i].in_tail));
        }
        bx_results_free(result, 1);
    }
    every = 0;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int *node_of = bx_memory_alloc((size_t)size, sizeof *node_of);
    ahead = 1000.0 * rank;
    now = rank; /* processes start one after the other */
    bx_profile_start(MPI_COMM_WORLD, node_of, false);
    test_options();
    test_clocks();
    test_cost();
    test_starts();
    test_who_was_last();
    test_daemons();
    bx_profile_stop();
    free(node_of);
    __real_PMPI_Allreduce(MPI_IN_PLACE, &unit_failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return unit_failures ? 1 : 0;
}
