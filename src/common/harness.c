/* A launch from start to end. */

#include "charge.h"
#include "device.h"
#include "layout.h"
#include "profile.h"
#include "result.h"
#include "run.h"
#include "start.h"
#include "watchdog.h"
#include "window.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Adds the results so far; on rank 0.  Returns whether all are verified. */
static bool record(bx_run *run, bx_json *root, bx_result *results, size_t count, const char *status)
{
    bool wrong = count == 0; /* a launch that verified nothing is not verified */
    bx_json_text(root, "status", status);
    bx_metrics_add_best(bx_json_object(root, "best"), run, results, count);
    bx_json *list = bx_json_array(root, "results");
    for (size_t i = 0; i < count; i++) {
        wrong = wrong || (results[i].applicable && !results[i].verified);
        bx_metrics_fill(run, results, count, &results[i]);
        bx_result_add(list, run, &results[i]);
    }
    bx_json_bool(root, "verified", !wrong);
    return !wrong;
}

/* The result before any measurement, on rank 0; NULL on the others.  Collective. */
static bx_json *describe(bx_run *run, int argc, char **argv)
{
    bx_json *root = run->rank == 0 ? bx_json_create() : NULL;
    char started[32];
    time_t now = time(NULL);
    strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    bx_json_text(root, "schema", "bisection-result");
    bx_json_number(root, "version", 5);
    BX_TEXTS(root, {"kernel", run->kernel->name}, {"case", run->common.case_name},
             {"status", "running"});
    bx_json_bool(root, "verified", false);
    bx_json_text(root, "started", started);
    bx_json *command = bx_json_array(root, "command"), *labels = bx_json_object(root, "labels");
    for (int i = 0; i < argc; i++) bx_json_text(command, NULL, argv[i]);
    for (int i = 0; i < run->common.label_count; i++) {
        const char *label = run->common.labels[i], *equals = strchr(label, '=');
        char key[128];
        snprintf(key, sizeof key, "%.*s", (int)(equals - label), label);
        bx_json_text(labels, key, equals + 1);
    }
    bx_options_add(run, bx_json_object(root, "parameters"));
    bx_json *layout = bx_json_object(root, "layout");
    bx_layout_add(run, layout);
    bx_layout_add_clock(run, layout);
    bx_device_add(run, layout);
    bx_build_add(bx_json_object(root, "build"));
    bx_charge_describe(run, root);
    bx_layout_add_hosts(run, bx_json_array(root, "hosts"));
    bx_json_object(root, "details");
    return root;
}

/* Writes the results so far, for a launch that dies. */
typedef struct {
    bx_run *run;
    bx_json *root;
    bx_result *results;
    size_t count;
} unfinished;

static void write_unfinished(void *context)
{
    const unfinished *u = context;
    record(u->run, u->root, u->results, u->count, "running");
    bx_result_write(u->run->common.output, u->root);
}

/* Frees what a launch has that was refused after its set-up; returns the code of the refusal. */
static int end_refused(unfinished u)
{
    bx_json_free(u.root);
    bx_results_free(u.results, u.count);
    if (u.run->kernel->teardown) u.run->kernel->teardown(u.run->state);
    return u.run->refusal;
}

/* Runs a launch with valid options; returns its exit code. */
static int launch(bx_run *run, int argc, char **argv)
{
    const bx_kernel *kernel = run->kernel;
    double began = MPI_Wtime();
    clock_t used = clock();
    if (run->common.output) bx_file_claim(run, "output", run->common.output, BX_FILE_WRITTEN);
    if (bx_run_agree(run) != BX_OK) return run->refusal;
    int code = kernel->setup(run, &run->state);
    if (code != BX_OK) bx_run_refuse(run, code, "the kernel cannot be set up");
    if (bx_run_agree(run) != BX_OK) return run->refusal;
    bx_resources_print(run);

    bx_json *root = describe(run, argc, argv);
    bool write = root && run->common.output;
    /* The layout is written early: a badly placed launch may die before its first sample.  A launch
     * that is refused below leaves no result, and an earlier one as it is. */
    bool early = write && access(run->common.output, F_OK) != 0;
    if (early) write_unfinished(&(unfinished){run, root, NULL, 0});
    size_t count;
    bx_result *results = bx_results_create(run, &count);
    if (bx_results_verify(run, results, count) != BX_OK) {
        if (early) unlink(run->common.output);
        return end_refused((unfinished){run, root, results, count});
    }
    if (kernel->report) kernel->report(run->state, run, bx_json_get(root, "details"));
    unfinished so_far = {run, root, results, count};
    if (write) write_unfinished(&so_far);

    bx_carried *begun = bx_carried_begin(run);
    bx_cost cost = bx_measure_all(run, results, count, write ? write_unfinished : NULL, &so_far);
    if (bx_run_agree(run) != BX_OK) return end_refused(so_far); /* in a step: a disk is full */
    bx_watchdog_tick("ending", NULL, 0);
    bx_carried_end(run, begun, bx_json_array(root, "adapters"));
    bx_layout_add_clock(run, bx_json_get(root, "layout"));

    bx_results_compare_ranks(run, results, count);
    bx_profile_add_regions(run->world, bx_json_object(root, "communication"));
    double processor = (double)(clock() - used) / CLOCKS_PER_SEC; /* of all threads */
    PMPI_Reduce(run->rank ? &processor : MPI_IN_PLACE, &processor, 1, MPI_DOUBLE, MPI_SUM, 0,
                run->world);
    if (run->rank == 0) {
        if (!record(run, root, results, count, "complete")) code = BX_WRONG;
        bx_json *harness = bx_json_object(root, "harness");
        BX_NUMBERS(harness, {"launch_s", MPI_Wtime() - began},
                   {"processor_s", processor / run->size}, {"measure_s", cost.wall},
                   {"step_s", cost.step}, {"input_s", cost.input},
                   {"overhead_s", cost.wall - cost.step - cost.input});
        if (run->seconds_needed > 0) bx_json_number(harness, "claimed_s", run->seconds_needed);
        bx_table_print(run, results, count);
        if (run->common.profile) bx_table_print_profile(run, results, count);
        int failed = run->common.output ? bx_result_write(run->common.output, root) : 0;
        if (failed) {
            fprintf(stderr, "bisection-%s: --output %s: %s\n", kernel->name, run->common.output,
                    strerror(failed));
            code = BX_RESOURCES;
        }
        bx_json_free(root);
    }
    bx_results_free(results, count);
    if (kernel->teardown) kernel->teardown(run->state);
    PMPI_Bcast(&code, 1, MPI_INT, 0, run->world);
    return code;
}

/* Where bx_harness.f90 is linked. */
extern bool bx_harness_sees_nan(double nan) __attribute__((weak));

/* Whether the compiler has left tests for NaN in, which verification rests on. */
static bool sees_nan(void)
{
    volatile double zero = 0;
    double nan = zero / zero;
    return isnan(nan) && !(nan <= 1) && !isfinite(nan) &&
           (!bx_harness_sees_nan || bx_harness_sees_nan(nan));
}

/* Refuses ranks with different arguments, which would wait for each other for ever. */
static void compare_arguments(bx_run *run, int argc, char **argv)
{
    uint64_t sums[2] = {(uint64_t)argc, 0};
    for (int i = 1; i < argc; i++)
        for (const char *c = argv[i];; c++) {
            sums[0] = bx_random_hash(sums[0], (unsigned char)*c);
            if (*c == '\0') break;
        }
    sums[1] = ~sums[0];
    PMPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_UINT64_T, MPI_MAX, run->world);
    if (sums[0] != ~sums[1])
        bx_run_refuse(run, BX_USAGE, "ranks were started with different arguments");
}

/* A launcher and an MPI library that do not know each other start N worlds of one rank, which would
 * all write the same files. */
static bool has_other_ranks(const bx_run *run)
{
    return run->common.expect_ranks > 0 && run->common.expect_ranks != run->size;
}

int bx_harness_run(int argc, char **argv, const bx_kernel *kernel)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    bx_run *run = &(bx_run){.kernel = kernel, .world = MPI_COMM_WORLD};
    MPI_Comm_rank(run->world, &run->rank);
    MPI_Comm_size(run->world, &run->size);
    if (kernel->arrange) kernel->arrange(run->size);

    bx_options_parse(run, argc, argv);
    compare_arguments(run, argc, argv);
    if (has_other_ranks(run))
        bx_run_refuse(run, BX_RESOURCES, "--expect-ranks %lld: this MPI world has %d",
                      (long long)run->common.expect_ranks, run->size);
    if (!sees_nan())
        bx_run_refuse(run, BX_RESOURCES,
                      "built with options that drop NaNs, as -ffast-math "
                      "does: no answer can be verified");
    int code = bx_run_agree(run);
    if (code == BX_OK && (run->common.help || run->common.list)) {
        if (run->rank == 0 && run->common.help) bx_options_help(run);
        if (run->rank == 0 && run->common.list) bx_options_list(run);
    } else if (code == BX_OK) {
        code = bx_layout_discover(run);
        if (code == BX_OK) code = bx_start_create(run);
        if (code == BX_OK) {
            bx_profile_start(run->world, run->node_of, run->common.separate_waiting);
            bx_charge_start(run);
            bx_watchdog_start(run);
            code = launch(run, argc, argv);
            bx_window_end();
            bx_profile_stop();
            bx_profile_enter_harness("MPI_Finalize");
        }
    }
    if (run->refusal != BX_OK && run->rank == 0)
        fprintf(stderr, "bisection-%s: %s\n", kernel->name, run->message);
    if (has_other_ranks(run)) sleep(1); /* so do the other worlds, before the launcher ends them */
    for (int i = 0; i < run->note_count; i++) free(run->notes[i]);
    free(run->notes);
    for (int i = 0; i < run->claim_count; i++) free(run->claims[i].file);
    bx_start_free(run);
    bx_layout_free(run);
    free(run->selected);
    MPI_Finalize(); /* MPICH 4.0 (UCX, TCP) does not always return */
    bx_watchdog_stop();
    return code;
}
