#include "result.h"

#include <errno.h>
#include <string.h>

int bx_result_write(const char *path, const bx_json *root)
{
    FILE *file = bx_file_open(path);
    if (!file) return errno;
    bx_json_write(file, root, 2);
    putc('\n', file);
    return bx_file_close(file, path);
}

static void add_verification(bx_json *json, const bx_result *result)
{
    bx_json_bool(json, "passed", result->verified);
    bx_json *list = bx_json_array(json, "checks");
    for (int i = 0; i < result->verification.count; i++) {
        const bx_outcome *outcome = &result->verification.outcomes[i];
        bx_json *entry = bx_json_object(list, NULL);
        BX_TEXTS(entry, {"name", outcome->name}, {"unit", outcome->unit});
        BX_NUMBERS(entry, {"error", outcome->error}, {"tolerance", outcome->tolerance});
        if (bx_outcome_is_count(outcome))
            BX_NUMBERS(entry, {"shown", outcome->shown}, {"least", outcome->least},
                       {"most", outcome->most});
        bx_json_bool(entry, "passed", outcome->error <= outcome->tolerance);
    }
}

static void add_samples(bx_json *json, const bx_run *run, const bx_result *result)
{
    size_t count = result->sample_count, np = run->kernel->phase_count;
    bx_json_list(json, "seconds", count, result->seconds);
    bx_json_list(json, "waited", count, result->waited);
    bx_json *rounds = bx_json_array(json, "rounds"), *disturbed = bx_json_array(json, "disturbed"),
            *phases = bx_json_object(json, "phases");
    for (size_t i = 0; i < count; i++) {
        bx_json_number(rounds, NULL, (double)(i / (size_t)run->common.block));
        bx_json_number(disturbed, NULL, result->disturbed[i]);
    }
    for (size_t k = 0; k < np; k++) {
        bx_json *column = bx_json_array(phases, run->kernel->phases[k]);
        for (size_t i = 0; i < count; i++) bx_json_number(column, NULL, result->phases[i * np + k]);
    }
}

static void add_metrics(bx_json *json, const bx_result *result)
{
    for (size_t i = 0; i < result->metric_count; i++) {
        const bx_metric *metric = &result->metrics[i];
        bx_json *entry = bx_json_object(json, metric->name);
        bx_json_number(entry, "value", metric->value);
        BX_TEXTS(entry, {"unit", metric->unit}, {"better", metric->better});
        if (metric->rank >= 0) bx_json_number(entry, "rank", metric->rank);
        if (metric->has_quartiles) BX_NUMBERS(entry, {"low", metric->low}, {"high", metric->high});
    }
}

static void add_shares(bx_json *json, const bx_shares *shares)
{
    for (int group = 0; group < 3; group++)
        bx_json_number(json, bx_share_groups[group], shares->of_group[group]);
    bx_json *list = bx_json_array(json, "parts");
    for (const bx_part *p = shares->parts; p < shares->parts + shares->part_count; p++) {
        bx_json *part = bx_json_object(list, NULL);
        BX_TEXTS(part, {"group", bx_share_groups[p->group]}, {"name", p->name});
        bx_json_number(part, "share", p->share);
    }
}

void bx_result_add(bx_json *list, const bx_run *run, const bx_result *result)
{
    const bx_choice *method = &run->kernel->methods[result->method];
    bx_json *json = bx_json_object(list, NULL);
    bx_json_text(json, "method", method->name);
    bx_json_bool(json, "baseline", method->baseline);
    bx_json_text(json, "point", NULL);
    if (run->kernel->point)
        run->kernel->point(run->state, result->point, bx_json_object(json, "point"));
    bx_json_bool(json, "applicable", result->applicable);
    bx_json_text(json, "why", result->applicable ? NULL : result->why);
    size_t lacks = strlen(BX_BUILT_WITHOUT);
    bx_json_bool(json, "lacks_library",
                 !result->applicable && !strncmp(result->why, BX_BUILT_WITHOUT, lacks));
    add_verification(bx_json_object(json, "verification"), result);
    add_samples(bx_json_object(json, "samples"), run, result);
    add_metrics(bx_json_object(json, "metrics"), result);
    if (result->metric_count > 0) {
        bx_json *start = bx_json_object(json, "start");
        bx_json_text(start, "by", result->by_window ? "window" : "barrier");
        BX_NUMBERS(start, {"skew", result->skew}, {"share", result->skew_share});
    }
    if (result->ranks) {
        bx_json *ranks = bx_json_object(json, "ranks"), *phases;
        bx_spread_add(ranks, "step", &result->ranks[0]);
        bx_spread_add(ranks, "outside_mpi", &result->ranks[1]);
        phases = bx_json_object(ranks, "phases");
        for (size_t k = 0; k < run->kernel->phase_count; k++)
            bx_spread_add(phases, run->kernel->phases[k], &result->ranks[2 + k]);
    }
    if (result->communication)
        bx_profile_add_spread(bx_json_object(json, "communication"), result->communication);
    if (result->copies) {
        bx_json *copies = bx_json_object(json, "copies");
        for (int i = 0; i < BX_COPIED; i++)
            bx_spread_add(copies, bx_comm_buffers_copied[i], &result->copies[i]);
    }
    if (result->shares) add_shares(bx_json_object(json, "profile"), result->shares);
}
