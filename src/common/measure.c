/* The measurement: interleaved rounds of blocks of samples. */
#include "measure.h"

#include "charge.h"
#include "comm_buffers.h"
#include "host.h"
#include "start.h"
#include "watchdog.h"

#include <stdlib.h>
#include <string.h>

/* Seconds between two writes of the result so far: at least WRITE_INTERVAL, and so many that
 * writing takes at most WRITE_SHARE of the time. */
static const double WRITE_INTERVAL = 1.0, WRITE_SHARE = 0.01;
/* A sample is disturbed if a thread waited for a core longer than this share of it. */
static const double WAITED_MOST = 0.05;

void bx_run_lap(bx_run *run, size_t phase)
{
    bx_charge_pay();
    double now = bx_profile_clock(), mpi = bx_profile_lap(phase);
    run->phase[phase] += now - run->lap_start;
    run->phase_mpi[phase] += mpi - run->lap_mpi;
    run->lap_start = now;
    run->lap_mpi = mpi;
}

/* Lets the other ranks sleep while rank 0 computes alone: a spinning barrier would compete. */
static void quiet_barrier(const bx_run *run)
{
    bx_profile_enter_harness("the harness's barrier");
    bx_run_sleep_barrier(run->world);
    bx_profile_enter_harness(NULL);
}

/* What the samples of a block have shown, beside what the method's name promises. */
static void compare_shown(bx_run *run, bx_result *result, const bx_recording *block)
{
    const bx_kernel *kernel = run->kernel;
    const bx_choice *method = &kernel->methods[result->method];
    bx_verification *verification = &result->verification;
    bx_shown shown = {block, (double)run->common.block};
    char other[BX_ROUTINE_NAME] = "other routines", name[BX_ROUTINE_NAME + 16];
    if (method->baseline) return;
    if (method->calls) {
        double calls = bx_shown_other_calls(run->world, &shown, method->calls, other);
        snprintf(name, sizeof name, "calls of %s", other);
        bx_verification_count(verification, name, calls, 0, 0);
    } else {
        bx_verification_check(verification, "declared calls of MPI", 1, 0, "missing");
    }
    if (kernel->promise)
        kernel->promise(run->state, result->method, result->point, &shown, verification);
}

/* The samples of a block on this rank. */
typedef struct {
    double *seconds, *waited; /* [block] */
    double (*ends)[2];        /* [block] of bx_start_ends */
    double *phases;           /* [block][phase_count] */
    bx_recording *recording;
} block_samples;

/* One block: fresh input, `warmup` untimed steps, then `block` samples of this rank. */
static void measure_block(bx_run *run, bx_result *result, int64_t round, block_samples *block,
                          bx_cost *cost)
{
    const bx_kernel *kernel = run->kernel;
    size_t m = result->method, p = result->point;
    bool baseline = kernel->methods[m].baseline;
    int64_t steps = bx_run_block_steps(run);
    double elapsed = 0;
    bx_watchdog_tick("preparing", kernel->methods[m].name, round + 1);
    double mark = MPI_Wtime();
    if (kernel->begin) kernel->begin(run->state, m, p);
    cost->input += MPI_Wtime() - mark;
    bx_watchdog_tick("timing", kernel->methods[m].name, round + 1);
    for (int64_t i = 0; i < steps; i++) {
        /* by the last step of the warm-up; without one, all are behind a barrier */
        if (round == 0 && i <= run->common.warmup)
            result->by_window = bx_start_choose(run, elapsed);
        mark = MPI_Wtime();
        if (kernel->prepare) kernel->prepare(run->state, m, p);
        cost->input += MPI_Wtime() - mark;
        int64_t sample = i - run->common.warmup;
        run->sampling = sample >= 0;
        memset(run->phase, 0, sizeof run->phase);
        memset(run->phase_mpi, 0, sizeof run->phase_mpi);
        bx_profile_into(sample >= 0 ? block->recording : NULL);
        bx_comm_buffers_count(NULL);
        run->lap_mpi = bx_profile_seconds();
        bx_host_waited();
        double paused = bx_profile_paused(), due = bx_start_meet(run, result->by_window), start;
        /* Nothing stands in between: others would wait for it within their samples. */
        do start = bx_profile_clock();
        while (start < due);
        run->lap_start = start;
        kernel->step(run->state, m, p);
        bx_charge_pay();
        elapsed = bx_profile_clock() - start;
        double wait = bx_host_waited();
        bx_profile_into(NULL);
        cost->step += elapsed;
        bx_comm_buffers_count(sample >= 0 ? result->copied : NULL);
        bx_comm_buffers_inspect(&result->verification);
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
        bx_start_ends(run, start + paused, block->ends[sample]);
        block->seconds[sample] = elapsed;
        block->waited[sample] = wait;
        memcpy(&block->phases[(size_t)sample * kernel->phase_count], run->phase,
               kernel->phase_count * sizeof(double));
    }
    run->sampling = false;
    mark = MPI_Wtime();
    if (kernel->end) kernel->end(run->state, m, p, steps, &result->verification);
    cost->input += MPI_Wtime() - mark;
    compare_shown(run, result, block->recording);
    bx_recording_move(block->recording, result->recording);
    result->verified = bx_verification_settle(&result->verification, run->world);
}

/* Joins one block's samples of all ranks on rank 0. */
static void collect_block(bx_run *run, bx_result *result, block_samples *block)
{
    size_t at = result->sample_count, np = run->kernel->phase_count;
    int count = (int)run->common.block;
    bool root = run->rank == 0;
    PMPI_Reduce(block->seconds, root ? &result->seconds[at] : NULL, count, MPI_DOUBLE, MPI_MAX, 0,
                run->world);
    PMPI_Reduce(block->waited, root ? &result->waited[at] : NULL, count, MPI_DOUBLE, MPI_MAX, 0,
                run->world);
    PMPI_Reduce(root ? MPI_IN_PLACE : block->ends, block->ends, 2 * count, MPI_DOUBLE, MPI_MAX, 0,
                run->world);
    for (size_t i = 0; root && i < (size_t)count; i++) {
        result->disturbed[at + i] = result->waited[at + i] > WAITED_MOST * result->seconds[at + i];
        result->apart[at + i] = block->ends[i][0] + block->ends[i][1];
    }
    if (np > 0) {
        PMPI_Reduce(block->phases, root ? &result->phases_most[at * np] : NULL, count * (int)np,
                    MPI_DOUBLE, MPI_MAX, 0, run->world);
        PMPI_Reduce(block->phases, root ? &result->phases[at * np] : NULL, count * (int)np,
                    MPI_DOUBLE, MPI_SUM, 0, run->world);
        for (size_t i = at * np; root && i < (at + (size_t)count) * np; i++)
            result->phases[i] /= run->size;
    }
    result->sample_count += (size_t)count;
}

/* Rounds of all methods, interleaved, so that a drift of the machine hits all alike. */
bx_cost bx_measure_all(bx_run *run, bx_result *results, size_t count, bx_progress *progress,
                       void *context)
{
    const bx_common *common = &run->common;
    block_samples block = {.recording = bx_recording_create()};
    BX_ALLOC((size_t)common->block, block.seconds, block.waited, block.ends);
    block.phases = bx_memory_alloc((size_t)common->block * BX_MAX_PHASES, sizeof *block.phases);
    bx_cost cost = {0};
    bx_host_watch_threads(run->threads);
    double start = MPI_Wtime(), next_write = start + WRITE_INTERVAL;
    for (int64_t round = 0; round < common->repeats; round++) {
        double began = MPI_Wtime();
        for (size_t i = 0; i < count; i++) {
            /* a wrong answer is not worth timing */
            if (!results[i].applicable || !results[i].verified) continue;
            bx_start_adjust(run); /* clocks drift apart */
            measure_block(run, &results[i], round, &block, &cost);
            collect_block(run, &results[i], &block);
        }
        double now = MPI_Wtime();
        bx_watchdog_round(run, now - began);
        /* What cannot be written now cannot be written later. */
        if (run->kernel->inspect && bx_run_agree(run) != BX_OK) break;
        if (run->rank == 0 && progress && now >= next_write) {
            progress(context);
            double spent = MPI_Wtime() - now;
            next_write = now + fmax(WRITE_INTERVAL, spent / WRITE_SHARE);
        }
    }
    cost.wall = MPI_Wtime() - start;
    BX_FREE(block.seconds, block.waited, block.ends, block.phases);
    return cost;
}

bx_result *bx_results_create(bx_run *run, size_t *count)
{
    const bx_kernel *kernel = run->kernel;
    size_t points = kernel->point_count ? kernel->point_count(run->state) : 1;
    size_t samples = (size_t)(run->common.repeats * run->common.block);
    size_t selected = 0; /* npar has a method per divisor of the ranks */
    for (size_t m = 0; m < kernel->method_count; m++) selected += run->selected[m];
    bx_result *results = bx_memory_alloc(selected * points, sizeof *results);
    *count = 0;
    for (size_t p = 0; p < points; p++)
        for (size_t m = 0; m < kernel->method_count; m++) {
            if (!run->selected[m]) continue;
            bx_result *result = &results[*count];
            result->applicable = !kernel->applicable ||
                                 kernel->applicable(run->state, m, result->why, sizeof result->why);
            bool has_point = !kernel->has_point || kernel->has_point(run->state, m, p);
            if (result->applicable ? !has_point : p > 0) continue; /* a method says once why not */
            (*count)++;
            result->method = m;
            result->point = p;
            result->recording = bx_recording_create();
            if (run->rank != 0) continue;
            BX_ALLOC(samples, result->seconds, result->waited, result->disturbed, result->apart);
            BX_ALLOC(samples * kernel->phase_count, result->phases, result->phases_most);
        }
    return results;
}

void bx_results_free(bx_result *results, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        BX_FREE(results[i].seconds, results[i].waited, results[i].disturbed, results[i].apart,
                results[i].phases, results[i].phases_most, results[i].metrics,
                results[i].communication, results[i].ranks, results[i].copies);
        bx_shares_free(results[i].shares);
    }
    free(results);
}

/* The spread over ranks of a method's parts, of a sample; NULL but on rank 0. */
static bx_spread *spread_of_parts(const bx_run *run, const bx_result *result,
                                  const bx_traffic *sent, double steps)
{
    size_t np = run->kernel->phase_count;
    double values[2 + BX_MAX_PHASES] = {result->parts.step / steps, result->parts.step / steps};
    for (int c = 0; c < BX_CLASS_COUNT; c++) values[1] -= sent[c].seconds / steps;
    for (size_t k = 0; k < np; k++) values[2 + k] = result->parts.phase[k] / steps;
    bx_spread *spreads = run->rank == 0 ? bx_memory_alloc(2 + np, sizeof *spreads) : NULL;
    bx_spread_reduce(run->world, 2 + np, values, spreads);
    return spreads;
}

static bx_spread *spread_of_copies(const bx_run *run, const bx_result *result, double steps)
{
    if (!bx_comm_buffers_are_copied()) return NULL;
    double values[BX_COPIED];
    for (int i = 0; i < BX_COPIED; i++) values[i] = result->copied[i] / steps;
    bx_spread *spreads = run->rank == 0 ? bx_memory_alloc(BX_COPIED, sizeof *spreads) : NULL;
    bx_spread_reduce(run->world, BX_COPIED, values, spreads);
    return spreads;
}

void bx_results_compare_ranks(const bx_run *run, bx_result *results, size_t count)
{
    for (bx_result *result = results; result < results + count; result++) {
        double steps = result->sample_count ? (double)result->sample_count : 1;
        bx_traffic sent[BX_CLASS_COUNT];
        bx_recording_read(result->recording, sent);
        result->communication = bx_profile_spread(run->world, sent, steps);
        if (result->sample_count) result->copies = spread_of_copies(run, result, steps);
        result->shares = bx_profile_shares(run, &result->parts, result->recording);
        if (result->sample_count) result->ranks = spread_of_parts(run, result, sent, steps);
    }
}

/* Refuses a launch on which no method can run. */
static int require_some(bx_run *run, const bx_result *results, size_t count)
{
    const bx_choice *methods = run->kernel->methods;
    const bx_result *first = NULL;
    for (size_t i = 0; i < count; i++) {
        if (methods[results[i].method].baseline) continue;
        if (results[i].applicable) return BX_OK;
        if (!first) first = &results[i];
    }
    return bx_run_refuse(run, BX_RESOURCES, "no method can run here: %s: %s",
                         first ? methods[first->method].name : "none", first ? first->why : "");
}

int bx_results_verify(bx_run *run, bx_result *results, size_t count)
{
    const bx_kernel *kernel = run->kernel;
    if (require_some(run, results, count) != BX_OK) return bx_run_agree(run);
    for (size_t i = 0; i < count; i++) {
        bx_result *result = &results[i];
        if (!result->applicable) continue;
        bx_watchdog_tick("verifying", kernel->methods[result->method].name, 0);
        kernel->verify(run->state, result->method, result->point, &result->verification);
        result->verified = bx_verification_settle(&result->verification, run->world);
        if (bx_run_agree(run) != BX_OK) return run->refusal;
    }
    return BX_OK;
}
