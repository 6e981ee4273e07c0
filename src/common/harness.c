/* A launch from start to end; `measure` reads as the method of measurement. */
#include "harness.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static const double WRITE_INTERVAL = 1.0; /* s between two writes of the incremental result, */
static const double WRITE_SHARE = 0.01;   /* and more, so that they take at most this of the time */

/* ---- what kernels call ---- */

MPI_Comm bx_comm(const bx_run *run) { return run->world; }
MPI_Comm bx_node_comm(const bx_run *run) { return run->node; }
const int *bx_node_of(const bx_run *run) { return run->node_of; }
int bx_node_count(const bx_run *run) { return run->node_count; }
int bx_threads(const bx_run *run) { return run->threads; }
uint64_t bx_seed(const bx_run *run) { return (uint64_t)run->common.seed; }
const char *bx_case(const bx_run *run) { return run->common.case_name; }
int64_t bx_block_steps(const bx_run *run) { return run->common.warmup + run->common.block; }
void bx_case_is(bx_run *run, const char *name) { run->common.case_name = name; }

bool bx_case_given(const bx_run *run)
{
    return run->common.case_name != run->kernel->cases[0].name; /* the default's own text */
}

bool bx_selected(const bx_run *run, const char *method)
{
    for (size_t m = 0; m < run->kernel->method_count; m++)
        if (run->selected[m] && strcmp(run->kernel->methods[m].name, method) == 0) return true;
    return false;
}

int bx_refuse(bx_run *run, int code, const char *format, ...)
{
    if (run->refusal != BX_OK) return run->refusal; /* the first reason is the one to tell */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run->message, sizeof run->message, format, arguments);
    va_end(arguments);
    run->refusal = code;
    return code;
}

/* The lowest rank with the largest code speaks, through rank 0. */
int bx_agree(bx_run *run)
{
    struct {
        int code, rank;
    } mine = {run->refusal, run->rank}, worst;
    PMPI_Allreduce(&mine, &worst, 1, MPI_2INT, MPI_MAXLOC, run->world);
    if (worst.code == BX_OK) return BX_OK;
    PMPI_Bcast(run->message, sizeof run->message, MPI_CHAR, worst.rank, run->world);
    run->refusal = worst.code;
    return worst.code;
}

void bx_lap(bx_run *run, size_t phase)
{
    double now = MPI_Wtime(), mpi = bx_profile_seconds();
    run->phase[phase] += now - run->lap_start;
    run->phase_mpi[phase] += mpi - run->lap_mpi;
    run->lap_start = now;
    run->lap_mpi = mpi;
}

void bx_check(bx_verification *verification, const char *name, double error, double tolerance,
              const char *unit)
{
    if (!isfinite(error)) error = INFINITY; /* NaN would win or lose a maximum by chance */
    for (int i = 0; i < verification->count; i++) {
        bx_outcome *seen = &verification->outcomes[i];
        if (strcmp(seen->name, name) != 0) continue;
        /* the same check again (another block): keep the worst in units of its tolerance */
        double old_excess = seen->tolerance > 0 ? seen->error / seen->tolerance : seen->error;
        double new_excess = tolerance > 0 ? error / tolerance : error;
        if (new_excess > old_excess) {
            seen->error = error;
            seen->tolerance = tolerance;
        }
        return;
    }
    bx_outcome outcome = {.error = error, .tolerance = tolerance};
    bool fits = strlen(name) < sizeof outcome.name && strlen(unit) < sizeof outcome.unit;
    if (verification->count == BX_MAX_CHECKS || !fits) {
        fprintf(stderr, "bx_check: '%s' in '%s': %s\n", name, unit,
                fits ? "too many checks in one method" : "the name or the unit is too long");
        MPI_Abort(MPI_COMM_WORLD, 70);
    }
    strcpy(outcome.name, name); /* the caller's need not live on */
    strcpy(outcome.unit, unit);
    verification->outcomes[verification->count++] = outcome;
}

bool bx_passed(const bx_run *run, const bx_verification *verification)
{
    int wrong = 0, any;
    for (int i = 0; i < verification->count; i++)
        wrong |= !(verification->outcomes[i].error <= verification->outcomes[i].tolerance);
    PMPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_MAX, run->world);
    return !any;
}

void bx_note(bx_run *run, const char *format, ...)
{
    if (run->rank != 0 || run->note_count == BX_MAX_NOTES) return;
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    run->notes[run->note_count++] = strdup(line);
}

/* ---- a launch ---- */

/* Maxima over the ranks; a method is verified when every outcome is within its tolerance. */
static void settle(bx_run *run, bx_result *result)
{
    bx_verification *verification = &result->verification;
    double errors[BX_MAX_CHECKS];
    for (int i = 0; i < verification->count; i++) errors[i] = verification->outcomes[i].error;
    PMPI_Allreduce(MPI_IN_PLACE, errors, verification->count, MPI_DOUBLE, MPI_MAX, run->world);
    result->verified = verification->count > 0;
    for (int i = 0; i < verification->count; i++) {
        verification->outcomes[i].error = errors[i];
        if (!(errors[i] <= verification->outcomes[i].tolerance)) result->verified = false;
    }
}

/* Lets the other ranks sleep while rank 0 computes alone: a spinning barrier would compete. */
static void quiet_barrier(const bx_run *run)
{
    const struct timespec pause = {0, 20000};
    MPI_Request request;
    int done = 0;
    bx_profile_enter_own("the harness's barrier");
    PMPI_Ibarrier(run->world, &request);
    while (PMPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
        nanosleep(&pause, NULL);
    bx_profile_enter_own(NULL);
}

static double involuntary_switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_nivcsw;
}

/* Where the time of the measurement went, on this rank; the rest is the harness's own. */
typedef struct {
    double wall, step, input; /* s: all, in `step`, in begin / prepare / end */
} bx_cost;

/* One block: fresh input, `warmup` untimed steps, then `block` samples of this rank. */
static void measure_block(bx_run *run, bx_result *result, int64_t round, double *seconds,
                          double *switches, double *phases, bx_cost *cost)
{
    const bx_kernel *kernel = run->kernel;
    size_t m = result->method, p = result->point;
    bool baseline = kernel->methods[m].baseline;
    int64_t steps = bx_block_steps(run);
    bx_watchdog_tick("preparing", kernel->methods[m].name, round + 1);
    double mark = MPI_Wtime();
    if (kernel->begin) kernel->begin(run->state, m, p);
    cost->input += MPI_Wtime() - mark;
    for (int64_t i = 0; i < steps; i++) {
        mark = MPI_Wtime();
        if (kernel->prepare) kernel->prepare(run->state, m, p);
        cost->input += MPI_Wtime() - mark;
        int64_t sample = i - run->common.warmup;
        memset(run->phase, 0, sizeof run->phase);
        memset(run->phase_mpi, 0, sizeof run->phase_mpi);
        bx_profile_enter_own("the harness's barrier");
        PMPI_Barrier(run->world);
        bx_profile_enter_own(NULL);
        bx_profile_into(sample >= 0 ? result->recording : NULL);
        run->lap_mpi = bx_profile_seconds();
        double switches_before = involuntary_switches();
        double start = run->lap_start = MPI_Wtime();
        kernel->step(run->state, m, p);
        double elapsed = MPI_Wtime() - start;
        double switches_after = involuntary_switches();
        bx_profile_into(NULL);
        cost->step += elapsed;
        if (baseline) quiet_barrier(run);
        bx_watchdog_tick("timing", kernel->methods[m].name, round + 1);
        if (kernel->inspect) {
            mark = MPI_Wtime();
            kernel->inspect(run->state, m, p, &result->verification);
            cost->input += MPI_Wtime() - mark;
        }
        if (sample < 0) continue;
        result->parts.step += elapsed;
        for (size_t k = 0; k < kernel->phase_count; k++) {
            result->parts.phase[k] += run->phase[k];
            result->parts.phase_mpi[k] += run->phase_mpi[k];
        }
        seconds[sample] = elapsed;
        switches[sample] = switches_after - switches_before;
        memcpy(&phases[(size_t)sample * kernel->phase_count], run->phase,
               kernel->phase_count * sizeof(double));
    }
    mark = MPI_Wtime();
    if (kernel->end) kernel->end(run->state, m, p, steps, &result->verification);
    cost->input += MPI_Wtime() - mark;
    if (kernel->end || kernel->inspect) settle(run, result);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        fprintf(stderr, "out of memory for %zu samples\n", count);
        MPI_Abort(MPI_COMM_WORLD, BX_RESOURCES);
    }
    return memory;
}

/* Joins one block's samples of all ranks on rank 0. */
static void collect_block(bx_run *run, bx_result *result, double *seconds, double *switches,
                          double *phases)
{
    size_t block = (size_t)run->common.block, np = run->kernel->phase_count;
    bool root = run->rank == 0;
    size_t at = result->sample_count;
    PMPI_Reduce(seconds, root ? &result->seconds[at] : NULL, (int)block, MPI_DOUBLE, MPI_MAX, 0,
                run->world);
    PMPI_Reduce(switches, root ? &result->switches[at] : NULL, (int)block, MPI_DOUBLE, MPI_MAX, 0,
                run->world);
    if (np > 0) {
        PMPI_Reduce(phases, root ? &result->phases[at * np] : NULL, (int)(block * np), MPI_DOUBLE,
                    MPI_SUM, 0, run->world);
        for (size_t i = at * np; root && i < (at + block) * np; i++) result->phases[i] /= run->size;
    }
    result->sample_count += block;
}

static void refresh(cJSON *object, const char *name, cJSON *value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, name);
    cJSON_AddItemToObject(object, name, value);
}

/* Rank 0: the results as they stand. */
static void record(bx_run *run, cJSON *root, const bx_result *results, size_t count,
                   const char *status)
{
    bool wrong = false, any = false; /* a launch that verified nothing is not verified */
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < count; i++) {
        if (results[i].applicable) {
            wrong = wrong || !results[i].verified;
            any = any || !run->kernel->methods[results[i].method].baseline;
        }
        cJSON_AddItemToArray(list, bx_result_json(run, results, count, i));
    }
    refresh(root, "status", cJSON_CreateString(status));
    refresh(root, "best", bx_best_json(run, results, count));
    refresh(root, "verified", cJSON_CreateBool(any && !wrong));
    refresh(root, "results", list);
}

/* Rounds of all methods, interleaved, so that a drift of the machine hits all alike. */
static bx_cost measure(bx_run *run, bx_result *results, size_t count, cJSON *root)
{
    const bx_common *common = &run->common;
    double *seconds = allocate((size_t)common->block, sizeof *seconds);
    double *switches = allocate((size_t)common->block, sizeof *switches);
    double *phases = allocate((size_t)common->block * BX_MAX_PHASES, sizeof *phases);
    bx_cost cost = {0};
    double start = MPI_Wtime(), next_write = start + WRITE_INTERVAL;
    for (int64_t round = 0; round < common->repeats; round++) {
        for (size_t i = 0; i < count; i++) {
            /* a wrong answer is not worth timing */
            if (!results[i].applicable || !results[i].verified) continue;
            measure_block(run, &results[i], round, seconds, switches, phases, &cost);
            collect_block(run, &results[i], seconds, switches, phases);
        }
        double now = MPI_Wtime();
        if (run->rank == 0 && common->output && now >= next_write) {
            record(run, root, results, count, "running");
            bx_result_write(common->output, root);
            double spent = MPI_Wtime() - now;
            next_write = now + fmax(WRITE_INTERVAL, spent / WRITE_SHARE);
        }
    }
    cost.wall = MPI_Wtime() - start;
    free(seconds);
    free(switches);
    free(phases);
    return cost;
}

static bx_result *list_results(bx_run *run, size_t *count)
{
    const bx_kernel *kernel = run->kernel;
    size_t points = kernel->point_count ? kernel->point_count(run->state) : 1;
    size_t samples = (size_t)(run->common.repeats * run->common.block);
    bx_result *results = allocate(kernel->method_count * points, sizeof *results);
    *count = 0;
    for (size_t p = 0; p < points; p++)
        for (size_t m = 0; m < kernel->method_count; m++) {
            if (!run->selected[m]) continue;
            bx_result *result = &results[(*count)++];
            result->method = m;
            result->point = p;
            result->applicable = !kernel->applicable ||
                                 kernel->applicable(run->state, m, result->why, sizeof result->why);
            result->recording = bx_recording_create();
            if (run->rank != 0) continue;
            result->seconds = allocate(samples, sizeof(double));
            result->switches = allocate(samples, sizeof(double));
            result->phases = allocate(samples * kernel->phase_count, sizeof(double));
        }
    return results;
}

static void free_results(bx_result *results, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(results[i].seconds);
        free(results[i].switches);
        free(results[i].phases);
    }
    free(results);
}

/* Everything about the launch that is known before it measures; NULL but on rank 0. */
static cJSON *describe(bx_run *run, int argc, char **argv)
{
    cJSON *layout = bx_layout_json(run); /* collective */
    if (run->rank != 0) return NULL;
    char started[32];
    time_t now = time(NULL);
    strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "bisection-result");
    cJSON_AddNumberToObject(root, "version", 2);
    cJSON_AddStringToObject(root, "kernel", run->kernel->name);
    cJSON_AddStringToObject(root, "case", run->common.case_name);
    cJSON_AddStringToObject(root, "status", "running");
    cJSON_AddFalseToObject(root, "verified");
    cJSON_AddStringToObject(root, "started", started);
    cJSON_AddItemToObject(root, "command",
                          cJSON_CreateStringArray((const char *const *)argv, argc));
    cJSON *labels = cJSON_AddObjectToObject(root, "labels");
    for (int i = 0; i < run->common.label_count; i++) {
        const char *label = run->common.labels[i], *equals = strchr(label, '=');
        char key[128];
        snprintf(key, sizeof key, "%.*s", (int)(equals - label), label);
        cJSON_AddStringToObject(labels, key, equals + 1);
    }
    cJSON_AddItemToObject(root, "parameters", bx_options_json(run));
    cJSON_AddItemToObject(root, "layout", layout);
    cJSON_AddItemToObject(root, "build", bx_build_json());
    cJSON *host = bx_host_json();
    cJSON_AddItemToObject(host, "clock", cJSON_CreateObject());
    cJSON_AddItemToObject(cJSON_GetObjectItem(host, "clock"), "before", bx_clock_json());
    cJSON_AddItemToObject(root, "host", host);
    cJSON_AddItemToObject(root, "details", cJSON_CreateObject());
    return root;
}

/* Before the waiting begins: what the launch takes of this machine, by the kernel's estimates. */
static void print_needs(const bx_run *run)
{
    char memory[64] = "", duration[32], time[64] = "";
    if (run->bytes_needed > 0)
        snprintf(memory, sizeof memory, "%.2g GiB of memory per node", run->bytes_needed / 0x1p30);
    bx_duration(duration, sizeof duration, run->seconds_needed);
    if (run->seconds_needed > 0) snprintf(time, sizeof time, "about %s", duration);
    if (run->rank != 0 || (!*memory && !*time)) return;
    printf("%s %s: needs %s%s%s\n", run->kernel->name, run->common.case_name, memory,
           *memory && *time ? ", " : "", time);
    fflush(stdout);
}

/* Exit code of a launch whose options are in order. */
static int launch(bx_run *run, int argc, char **argv)
{
    const bx_kernel *kernel = run->kernel;
    if (run->common.output) bx_claim_file(run, "output", run->common.output, BX_FILE_WRITTEN);
    if (bx_agree(run) != BX_OK) return run->refusal;
    kernel->setup(run, &run->state);
    if (bx_agree(run) != BX_OK) return run->refusal;
    print_needs(run);

    cJSON *root = describe(run, argc, argv);
    size_t count;
    bx_result *results = list_results(run, &count);
    for (size_t i = 0; i < count; i++) {
        if (!results[i].applicable) continue;
        bx_watchdog_tick("verifying", kernel->methods[results[i].method].name, 0);
        kernel->verify(run->state, results[i].method, results[i].point, &results[i].verification);
        settle(run, &results[i]);
        if (bx_agree(run) == BX_OK) continue;
        kernel->teardown(run->state);
        return run->refusal;
    }
    if (kernel->report)
        kernel->report(run->state, run, root ? cJSON_GetObjectItem(root, "details") : NULL);
    if (root && run->common.output) {
        record(run, root, results, count, "running");
        bx_result_write(run->common.output, root);
    }

    bx_cost cost = measure(run, results, count, root);
    bx_watchdog_tick("ending", NULL, 0);

    cJSON **traffic = allocate(count, sizeof *traffic), **parts = allocate(count, sizeof *parts);
    for (size_t i = 0; i < count; i++) {
        bx_traffic sent[BX_CLASS_COUNT];
        bx_recording_read(results[i].recording, sent);
        traffic[i] = bx_traffic_json(run->world, sent,
                                     results[i].sample_count ? (double)results[i].sample_count : 1);
        parts[i] = bx_parts_json(run, &results[i].parts, results[i].recording);
    }
    cJSON *regions = bx_regions_json(run->world);
    int code = BX_OK;
    if (run->rank == 0) {
        record(run, root, results, count, "complete");
        cJSON *list = cJSON_GetObjectItem(root, "results");
        for (size_t i = 0; i < count; i++) {
            cJSON *entry = cJSON_GetArrayItem(list, (int)i);
            cJSON_AddItemToObject(entry, "communication", traffic[i]);
            if (parts[i]) cJSON_AddItemToObject(entry, "profile", parts[i]);
        }
        cJSON_AddItemToObject(root, "communication", regions);
        cJSON *clock = cJSON_GetObjectItem(cJSON_GetObjectItem(root, "host"), "clock");
        cJSON_AddItemToObject(clock, "after", bx_clock_json());
        cJSON *harness = cJSON_AddObjectToObject(root, "harness");
        cJSON_AddNumberToObject(harness, "measure_s", cost.wall);
        cJSON_AddNumberToObject(harness, "step_s", cost.step);
        cJSON_AddNumberToObject(harness, "input_s", cost.input);
        cJSON_AddNumberToObject(harness, "overhead_s", cost.wall - cost.step - cost.input);
        bx_table_print(run, root);
        if (run->common.profile) bx_profile_print(root);
        if (!cJSON_IsTrue(cJSON_GetObjectItem(root, "verified"))) code = BX_WRONG;
        int failed = run->common.output ? bx_result_write(run->common.output, root) : 0;
        if (failed) {
            fprintf(stderr, "bisection-%s: --output %s: %s\n", kernel->name, run->common.output,
                    strerror(failed));
            code = BX_RESOURCES;
        }
        cJSON_Delete(root);
    }
    free(traffic);
    free(parts);
    free_results(results, count);
    kernel->teardown(run->state);
    PMPI_Bcast(&code, 1, MPI_INT, 0, run->world);
    return code;
}

/* Where bx_harness.f90 is linked. */
extern bool bx_fortran_sees_nan(double nan) __attribute__((weak));

/* Whether the compiler has left tests for NaN in, which verification rests on. */
static bool sees_nan(void)
{
    volatile double zero = 0;
    double nan = zero / zero;
    return isnan(nan) && !(nan <= 1) && !isfinite(nan) &&
           (!bx_fortran_sees_nan || bx_fortran_sees_nan(nan));
}

/* Ranks that were started with other arguments would run apart, or wait for each other for ever. */
static void compare_arguments(bx_run *run, int argc, char **argv)
{
    uint64_t sums[2] = {(uint64_t)argc, 0};
    for (int i = 1; i < argc; i++)
        for (const char *c = argv[i];; c++) {
            sums[0] = bx_hash(sums[0], (unsigned char)*c);
            if (*c == '\0') break;
        }
    sums[1] = ~sums[0];
    PMPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_UINT64_T, MPI_MAX, run->world);
    if (sums[0] != ~sums[1])
        bx_refuse(run, BX_USAGE, "ranks were started with different arguments");
}

int bx_main(int argc, char **argv, const bx_kernel *kernel)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    bx_run *run = &(bx_run){.kernel = kernel, .world = MPI_COMM_WORLD};
    MPI_Comm_rank(run->world, &run->rank);
    MPI_Comm_size(run->world, &run->size);
    if (kernel->arrange) kernel->arrange(run->size);

    bx_options_parse(run, argc, argv);
    compare_arguments(run, argc, argv);
    if (!sees_nan())
        bx_refuse(run, BX_RESOURCES,
                  "built with options that drop NaNs, as -ffast-math "
                  "does: no answer can be verified");
    int code = bx_agree(run);
    if (code == BX_OK && (run->common.help || run->common.list)) {
        if (run->rank == 0 && run->common.help) bx_options_help(run);
        if (run->rank == 0 && run->common.list) bx_options_list(run);
    } else if (code == BX_OK) {
        code = bx_layout_discover(run);
        if (code == BX_OK) {
            bx_profile_start(run->world, run->node_of, run->common.separate_waiting);
            bx_watchdog_start(run);
            code = launch(run, argc, argv);
            bx_watchdog_stop();
            bx_profile_stop();
        }
    }
    if (run->refusal != BX_OK && run->rank == 0)
        fprintf(stderr, "bisection-%s: %s\n", kernel->name, run->message);
    for (int i = 0; i < run->note_count; i++) free(run->notes[i]);
    for (int i = 0; i < run->claim_count; i++) free(run->claims[i].file);
    bx_layout_free(run);
    free(run->selected);
    MPI_Finalize();
    return code;
}
