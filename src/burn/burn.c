/* Each node under full load for minutes, with its sensors: does it keep its rate?
 *
 * A step is as many passes as took --slice seconds when the launch began.  What it has shown is a
 * point of its node's curve: rate, clock, temperature, power.  The sensors are read between steps,
 * by the first rank of each node. */
#include "burn.def"
#include "burn_work.h"
#include "charge.h"
#include "host.h"
#include "sensors.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME = 64, MOST_PASSES = 1 << 20 };        /* of a step */
static const double MINUTE = 60;                  /* s; see part() */
static const double BYTES_PER_ELEMENT = 3 * 8;    /* of a triad, as STREAM counts */
static const double CACHES = 4, UNKNOWN = 0x1p28; /* STREAM's rule; B where no size is known */

/* A step of a node. */
typedef struct {
    double at, busy; /* s since the launch began; of this method's steps, to the end of this one */
    double seconds;
    double rate;
    double clock, temperature, power, corrected; /* NaN: no sensor */
} burn_step;
enum { COLUMNS = sizeof(burn_step) / sizeof(double) };

/* What rank 0 knows of a node by one method; NaN: no sensor, or too few steps. */
typedef struct {
    char host[NAME];
    double cores;
    double rate, best; /* the median step's, the fastest pass's */
    double first, last;
    double clock_first, clock_last, temperature, joules;
    double corrected, uncorrected, throttled; /* since the launch began */
} burn_node;

typedef struct {
    burn_step *points;
    size_t count;
    int64_t passes;   /* of a step */
    double best;      /* s, of the fastest pass of all ranks; of the triad alone */
    burn_node *nodes; /* [nodes] on rank 0 */
} burn_curve;

typedef struct {
    bx_run *run;
    MPI_Comm firsts; /* the first ranks of nodes, in their order */
    bool first;      /* rank of its node */
    double began;
    bx_burn_work work;
    double caches;          /* B of the node's last-level caches together; 0: unknown */
    double *took;           /* [passes of a step] s, of the triad */
    double seconds, energy; /* of the step; J before it */
    bx_sensors start;
    burn_curve curves[BX_BURN_METHODS];
    bx_json *details;
} burn;

static double slice = 1;
static int64_t rows = 1024, bytes_per_pair = 65536, array_bytes = 0;

static const bx_choice methods[BX_BURN_METHODS] = {
#define CHOICE(name, summary, wins, calls) {#name, summary, wins, false, NULL, calls},
    BX_METHODS(CHOICE)};
/* Of the rates: what a pass is counted in, and its unit. */
static const char *const units[BX_BURN_METHODS] = {"Gflop/s", "B/s", "B/s"};

static double work_of_pass(const burn *b, int method)
{
    const bx_burn_work *w = &b->work;
    double ranks = w->ranks,
           all[] = {2e-9 * pow(w->rows, 3) * ranks, BYTES_PER_ELEMENT * (double)w->elements * ranks,
                    ranks * (ranks - 1) * (double)w->words * sizeof(uint64_t)};
    return all[method];
}

/* ---- set-up ---- */

static bool applicable(void *state, size_t method, char *why, size_t size)
{
    int fewest;
#ifndef BX_HAVE_BLAS
    if (method == BX_DGEMM) {
        snprintf(why, size, BX_BUILT_WITHOUT "BLAS");
        return false;
    }
#endif
    MPI_Allreduce(&((burn *)state)->work.ranks, &fewest, 1, MPI_INT, MPI_MIN,
                  bx_run_comm(((burn *)state)->run));
    if (method != BX_ALLTOALL || fewest > 1) return true;
    snprintf(why, size, "a node has one rank, which has none to exchange blocks with");
    return false;
}

/* STREAM's rule: each array has at least 4 times the bytes of the last-level caches together. */
static size_t elements(burn *b)
{
    bx_host_caches(&b->caches);
    double least = CACHES * (b->caches > 0 ? b->caches : UNKNOWN),
           bytes = array_bytes > 0 ? (double)array_bytes : fmax(least, 8e6);
    MPI_Bcast(&bytes, 1, MPI_DOUBLE, 0, b->work.comm); /* CPUs may come and go meanwhile */
    return (size_t)ceil(bytes / sizeof(double) / b->work.ranks);
}

static int setup(bx_run *run, void **state)
{
    static burn the_burn;
    burn *b = &the_burn;
    bx_burn_work *w = &b->work;
    double bytes = 0;
    *state = b;
    b->run = run;
    if (BX_IS_SIMULATED)
        return bx_run_refuse(run, BX_USAGE, "a simulated node has no load, and no sensors");
    b->firsts = MPI_COMM_NULL;
    *w = (bx_burn_work){
        .comm = bx_run_node_comm(run),
        .threads = bx_run_threads(run),
        .key = bx_random_hash(bx_run_seed(run), (uint64_t)bx_run_node_of(run)[bx_run_rank(run)]),
        .rows = (int)rows,
        .words = (size_t)bytes_per_pair / sizeof(uint64_t)};
    MPI_Comm_rank(w->comm, &w->rank);
    MPI_Comm_size(w->comm, &w->ranks);
    w->elements = elements(b);
    b->first = w->rank == 0;
    for (int m = 0; m < BX_BURN_METHODS; m++)
        if (bx_run_is_selected(run, methods[m].name)) bytes += bx_burn_bytes(w, m);
    int code = bx_resources_claim_memory(run, bytes, "--rows, --array, --bytes");
    if (code != BX_OK) return code;
    for (int m = 0; m < BX_BURN_METHODS; m++)
        if (bx_run_is_selected(run, methods[m].name) && !bx_burn_allocate(w, m))
            bx_run_refuse(run, BX_RESOURCES, "%s: out of memory", methods[m].name);
    code = bx_run_agree(run);
    if (code != BX_OK) return code;
    bx_blas_set_threads(w->threads);
    bx_blas_name_library();
    MPI_Comm_split(bx_run_comm(run), b->first ? 0 : MPI_UNDEFINED, bx_run_rank(run), &b->firsts);
    for (int m = 0; m < BX_BURN_METHODS && bx_run_rank(run) == 0; m++)
        BX_ALLOC((size_t)bx_run_node_count(run), b->curves[m].nodes);
    if (b->first) bx_sensors_read(&b->start);
    b->began = MPI_Wtime();
    return BX_OK;
}

/* ---- a step ---- */

static void prepare(void *state, size_t method, size_t at)
{
    bx_burn_prepare(&((burn *)state)->work, (int)method);
}

static void step(void *state, size_t method, size_t at)
{
    burn *b = state;
    if (b->first) b->energy = bx_sensors_energy(); /* not while other nodes were waited for */
    double start = MPI_Wtime();
    bx_burn_run(&b->work, (int)method, b->curves[method].passes, b->took);
    b->seconds = MPI_Wtime() - start;
}

/* The slowest core of the node: what its CPU's frequency driver says, or else what is measured. */
static double read_clock(const burn *b)
{
    double clock = INFINITY, slowest = NAN;
    bool unknown = false;
#pragma omp parallel num_threads(b->work.threads) reduction(min : clock) reduction(|| : unknown)
    {
        double mine = bx_sensors_clock();
        unknown = isnan(mine);
        clock = unknown ? clock : mine;
    }
    if (unknown) clock = bx_host_clock_ghz(b->work.threads);
    MPI_Reduce(&clock, &slowest, 1, MPI_DOUBLE, MPI_MIN, 0, b->work.comm);
    return slowest;
}

/* The seconds of the step on the slowest rank; notes the fastest pass of the triad. */
static double slowest_rank(burn *b, burn_curve *c, size_t method)
{
    double seconds = NAN;
    MPI_Reduce(&b->seconds, &seconds, 1, MPI_DOUBLE, MPI_MAX, 0, b->work.comm);
    if (method != BX_TRIAD) return seconds;
    MPI_Reduce(b->first ? MPI_IN_PLACE : b->took, b->took, (int)c->passes, MPI_DOUBLE, MPI_MAX, 0,
               b->work.comm);
    for (int64_t p = 0; p < c->passes && bx_run_is_sampling(b->run); p++)
        c->best = fmin(c->best, b->took[p]);
    return seconds;
}

/* The growth of a counter that may begin anew. */
static double growth(double before, double after) { return after < before ? NAN : after - before; }

static void inspect(void *state, size_t method, size_t at, bx_verification *verification)
{
    burn *b = state;
    burn_curve *c = &b->curves[method];
    bx_sensors now = {0};
    double seconds = slowest_rank(b, c, method), energy = b->first ? bx_sensors_energy() : NAN;
    if (b->first) bx_sensors_read(&now);
    double clock = read_clock(b), power = growth(b->energy, energy) / seconds;
    bx_burn_check(&b->work, (int)method, c->passes, verification);
    if (!b->first || !bx_run_is_sampling(b->run)) return;
    c->points = bx_memory_grow(c->points, c->count + 1, sizeof *c->points);
    c->points[c->count] = (burn_step){
        .at = MPI_Wtime() - b->began,
        .busy = seconds + (c->count ? c->points[c->count - 1].busy : 0),
        .seconds = seconds,
        .rate = work_of_pass(b, (int)method) * (double)c->passes / seconds,
        .clock = clock,
        .temperature = now.temperature,
        .power = isnan(power) ? now.power : power,
        .corrected = growth(b->start.corrected, now.corrected),
    };
    c->count++;
}

static void set_passes(burn *b, size_t method, double passes)
{
    burn_curve *c = &b->curves[method];
    c->passes = (int64_t)fmin(fmax(1, passes), MOST_PASSES);
    if (method == BX_TRIAD) b->took = bx_memory_grow(b->took, (size_t)c->passes, sizeof *b->took);
}

/* Each step is verified; the next has more passes, until one takes a part of --slice.  Steps then
 * have as many as take --slice on the slowest node. */
static void verify(void *state, size_t method, size_t at, bx_verification *verification)
{
    static const double ENOUGH = 0.25, GROWTH = 8;
    burn *b = state;
    burn_curve *c = &b->curves[method];
    double seconds = 0, next = 1;
    c->best = INFINITY;
    while (seconds < ENOUGH * slice && next < MOST_PASSES) {
        set_passes(b, method, next);
        seconds = INFINITY;
        for (int turn = 0; turn < 2; turn++) { /* the first may load libraries, or be disturbed */
            prepare(state, method, at);
            step(state, method, at);
            double slowest = b->seconds;
            inspect(state, method, at, verification);
            MPI_Allreduce(MPI_IN_PLACE, &slowest, 1, MPI_DOUBLE, MPI_MAX, bx_run_comm(b->run));
            seconds = fmin(seconds, slowest);
        }
        next = (double)c->passes * fmin(GROWTH, slice / seconds);
    }
    set_passes(b, method, round(next));
}

/* Each pass of the triad is between two barriers, each of alltoall is a call. */
static void promise(void *state, size_t method, size_t at, const bx_shown *shown,
                    bx_verification *verification)
{
    const burn *b = state;
    const bx_burn_work *w = &b->work;
    double passes = (double)b->curves[method].passes, sent[4];
    if (method == BX_DGEMM) return; /* counted by what it adds up */
    double calls = bx_shown_calls(shown, method == BX_TRIAD ? "Barrier" : "Alltoall", NULL);
    double promised = passes + (method == BX_TRIAD);
    bx_verification_count(verification, "passes", calls, promised, promised);
    if (method == BX_TRIAD) return;
    double messages = passes * (w->ranks - 1),
           bytes = messages * (double)w->words * sizeof(uint64_t);
    bx_shown_sent(shown, sent);
    bx_verification_sent(verification, sent, (double[]){messages, 0, bytes, 0});
}

/* ---- the result ---- */

/* The median of a column over the first or the last part of a method's time: a minute, or a third
 * of it where that is less.  NaN where no step lies in it, or its sensor is absent. */
static double part(const burn_curve *c, size_t column, bool last)
{
    double *values = bx_memory_alloc(c->count + 1, sizeof *values),
           whole = c->count ? c->points[c->count - 1].busy : 0, length = fmin(MINUTE, whole / 3);
    size_t count = 0;
    for (const burn_step *p = c->points; p < c->points + c->count; p++) {
        double middle = p->busy - p->seconds / 2, value = ((const double *)p)[column];
        bool at_end = c->count > 1 && p == &c->points[last ? c->count - 1 : 0]; /* however long */
        if (!isnan(value) && (at_end || (last ? middle >= whole - length : middle <= length)))
            values[count++] = value;
    }
    double median = bx_statistics_quantile(values, count, 0.5);
    free(values);
    return median;
}
#define COLUMN(name) (offsetof(burn_step, name) / sizeof(double))

static double most(const burn_curve *c, size_t column)
{
    double largest = NAN;
    for (size_t i = 0; i < c->count; i++)
        largest = fmax(largest, ((const double *)&c->points[i])[column]); /* drops a NaN */
    return largest;
}

static burn_node facts_of(burn *b, size_t method)
{
    const burn_curve *c = &b->curves[method];
    bx_series rates = {0}, joules = {0};
    bx_sensors now;
    bx_sensors_read(&now);
    for (const burn_step *p = c->points; p < c->points + c->count; p++) {
        bx_series_add(&rates, p->rate);
        if (!isnan(p->power)) bx_series_add(&joules, p->power * p->seconds / (double)c->passes);
    }
    burn_node a = {
        .cores = (double)b->work.ranks * b->work.threads,
        .rate = bx_series_quantile(&rates, 0.5),
        .best = method == BX_TRIAD ? work_of_pass(b, BX_TRIAD) / c->best : NAN,
        .first = part(c, COLUMN(rate), false),
        .last = part(c, COLUMN(rate), true),
        .clock_first = part(c, COLUMN(clock), false),
        .clock_last = part(c, COLUMN(clock), true),
        .temperature = most(c, COLUMN(temperature)),
        .joules = bx_series_quantile(&joules, 0.5),
        .corrected = growth(b->start.corrected, now.corrected),
        .uncorrected = growth(b->start.uncorrected, now.uncorrected),
        .throttled = growth(b->start.throttled, now.throttled),
    };
    BX_FREE(rates.values, joules.values);
    gethostname(a.host, NAME - 16);
    size_t length = strlen(a.host);
    if (bx_run_is_emulated(b->run))
        snprintf(a.host + length, NAME - length, "/%d",
                 bx_run_node_of(b->run)[bx_run_rank(b->run)]);
    return a;
}

static double sustained(const burn_node *a) { return a->last / a->first; }

/* The node that keeps least of its rate; the slowest where no rate's course is known. */
static int worst_node(const burn *b, size_t method)
{
    const burn_node *nodes = b->curves[method].nodes;
    int worst = 0;
    for (int node = 1; node < bx_run_node_count(b->run); node++) {
        double mine = sustained(&nodes[node]), other = sustained(&nodes[worst]);
        if (mine < other ||
            (isnan(other) && (!isnan(mine) || nodes[node].rate < nodes[worst].rate)))
            worst = node;
    }
    return worst;
}

static void add_known(bx_json *json, const char *name, double value)
{
    if (!isnan(value)) bx_json_number(json, name, value);
}

static void add_node(bx_json *list, const burn_node *a)
{
    const bx_number numbers[] = {
        {"cores", a->cores},
        {"rate", a->rate},
        {"best", a->best},
        {"first", a->first},
        {"last", a->last},
        {"clock_first", a->clock_first},
        {"clock_last", a->clock_last},
        {"temperature", a->temperature},
        {"joules", a->joules},
        {"corrected_errors", a->corrected},
        {"uncorrected_errors", a->uncorrected},
        {"throttled", a->throttled},
    };
    bx_json *json = bx_json_object(list, NULL);
    bx_json_text(json, "host", a->host);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        add_known(json, numbers[i].name, numbers[i].value);
}

static void add_curve(bx_json *json, const burn_step *points, size_t count)
{
    static const char *const names[COLUMNS] = {"at",    "busy",        "seconds", "rate",
                                               "clock", "temperature", "power",   "corrected"};
    double *values = bx_memory_alloc(count + 1, sizeof *values);
    for (size_t column = 0; column < COLUMNS; column++) {
        size_t known = 0;
        for (size_t i = 0; i < count; i++) {
            values[i] = ((const double *)&points[i])[column];
            known += !isnan(values[i]);
        }
        if (known > 0) bx_json_list(json, names[column], count, values);
    }
    free(values);
}

/* In details.burn.METHOD: unit (of rates), passes (of a step), nodes, and the curve of the worst.
 * first, last: medians of the rate (part()); best: of the fastest pass; clocks in GHz; joules: of a
 * pass.  at (s since the launch began), seconds of a step, power (W).  Without a sensor, without
 * the field. */
static void describe(burn *b, size_t method, int worst, const burn_step *points, size_t count)
{
    burn_curve *c = &b->curves[method];
    bx_json *json = bx_json_object(b->details, methods[method].name);
    bx_json_text(json, "unit", units[method]);
    bx_json_number(json, "passes", (double)c->passes);
    if (method == BX_TRIAD)
        BX_NUMBERS(json,
                   {"array_bytes", (double)(b->work.elements * sizeof(double)) * b->work.ranks},
                   {"cache_bytes", b->caches > 0 ? b->caches : NAN});
    bx_json *nodes = bx_json_array(json, "nodes");
    for (int node = 0; node < bx_run_node_count(b->run); node++) add_node(nodes, &c->nodes[node]);
    bx_json *drawn = bx_json_object(json, "curve");
    bx_json_text(drawn, "host", c->nodes[worst].host);
    add_curve(drawn, points, count);
}

static void end(void *state, size_t method, size_t at, int64_t steps, bx_verification *verification)
{
    burn *b = state;
    burn_curve *c = &b->curves[method];
    if (!b->first) return;
    burn_node mine = facts_of(b, method);
    MPI_Gather(&mine, sizeof mine, MPI_BYTE, c->nodes, sizeof mine, MPI_BYTE, 0, b->firsts);
    int self, worst = c->nodes ? worst_node(b, method) : 0;
    MPI_Comm_rank(b->firsts, &self);
    MPI_Bcast(&worst, 1, MPI_INT, 0, b->firsts);
    burn_step *points = c->points; /* of all nodes as many: steps are the launch's */
    if (self != worst) points = bx_memory_alloc(c->count, sizeof *points);
    MPI_Bcast(points, (int)(c->count * COLUMNS), MPI_DOUBLE, worst, b->firsts);
    if (b->details) describe(b, method, worst, points, c->count);
    if (points != c->points) free(points);
}

static void report(void *state, bx_run *run, bx_json *details)
{
    burn *b = state;
    double bytes = (double)(b->work.elements * sizeof(double)) * b->work.ranks;
    b->details = bx_json_object(details, "burn");
    if (bx_run_is_selected(run, "triad") && !(bytes >= CACHES * b->caches))
        bx_run_note(run,
                    "triad: arrays of %.3g MiB, below 4 times the last-level caches of %.3g MiB: "
                    "not a rate by STREAM's rules",
                    bytes / 0x1p20, b->caches / 0x1p20);
    if (bx_run_is_selected(run, "triad") && !(b->caches > 0))
        bx_run_note(run, "triad: the system names no size of a cache: %s",
                    array_bytes > 0 ? "it is not known whether --array is large enough"
                                    : "256 MiB are assumed");
}

static double items(void *state, size_t method, size_t at)
{
    return (double)((burn *)state)->curves[method].passes;
}

/* Adds the smallest, or the largest, of the nodes' values where there is one. */
static void add_metric(bx_metrics *metrics, const char *name, const char *unit, bool smallest,
                       const double *values, int count)
{
    double extreme = NAN;
    for (int i = 0; i < count; i++)
        extreme = smallest ? fmin(extreme, values[i]) : fmax(extreme, values[i]);
    if (!isnan(extreme))
        bx_metrics_add(metrics, name, extreme, unit, smallest ? "higher" : "lower");
}

/* Of the worst node by each. */
static void metrics(void *state, size_t method, size_t at, bx_metrics *list)
{
    const burn *b = state;
    const burn_node *nodes = b->curves[method].nodes;
    int count = bx_run_node_count(b->run);
    enum { SUSTAINED, RATE, CLOCK, TEMPERATURE, JOULES, ERRORS, ALL };
    double *values = bx_memory_alloc((size_t)count * ALL, sizeof *values);
    for (int node = 0; node < count; node++) {
        const burn_node *a = &nodes[node];
        const double of_node[ALL] = {sustained(a),  method == BX_TRIAD ? a->best : a->rate,
                                     a->clock_last, a->temperature,
                                     a->joules,     a->corrected};
        for (int i = 0; i < ALL; i++) values[i * count + node] = of_node[i];
    }
    add_metric(list, "sustained", "ratio", true, &values[SUSTAINED * count], count);
    add_metric(list, "rate", units[method], true, &values[RATE * count], count);
    add_metric(list, "clock_end", "GHz", true, &values[CLOCK * count], count);
    add_metric(list, "temperature_max", "degC", false, &values[TEMPERATURE * count], count);
    add_metric(list, "energy", "J", false, &values[JOULES * count], count);
    add_metric(list, "corrected_errors", "errors", false, &values[ERRORS * count], count);
    free(values);
}

static void teardown(void *state)
{
    burn *b = state;
    bx_burn_free(&b->work);
    free(b->took);
    for (int m = 0; m < BX_BURN_METHODS; m++) BX_FREE(b->curves[m].points, b->curves[m].nodes);
    if (b->firsts != MPI_COMM_NULL) MPI_Comm_free(&b->firsts);
}

const bx_kernel *bx_kernel_get(void)
{
    static const bx_choice cases[] = {
        {.name = "node", .summary = "each node alone, all at the same time"},
    };
    static const int64_t sampling[] = {3, 5, 0};
    static const bx_option options[] = {
        {"slice", "SECONDS", "time of a step, about", BX_REAL, 1e-3, 60, &slice},
        {"rows", "N", "rows and columns of the matrices of each rank", BX_INTEGER, 1, 32768, &rows},
        {"array", "BYTES", "each array of STREAM on a node; 0: 4 times its last-level caches",
         BX_INTEGER, 0, 1e13, &array_bytes},
        {"bytes", "BYTES", "block from a rank to each other one of its node", BX_INTEGER, 8, 1e9,
         &bytes_per_pair},
    };
    static const bx_kernel kernel = {
        .name = "burn",
        .summary = "a node under full load for minutes: does it keep its rate?",
        .cases = BX_COUNTED(cases),
        .methods = BX_COUNTED(methods),
        .options = BX_COUNTED(options),
        .sampling = sampling,
        .setup = setup,
        .applicable = applicable,
        .verify = verify,
        .prepare = prepare,
        .inspect = inspect,
        .end = end,
        .promise = promise,
        .step = step,
        .items = items,
        .report = report,
        .metrics = metrics,
        .teardown = teardown,
    };
    return &kernel;
}
