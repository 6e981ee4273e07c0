#include "result.h"

#include <stdlib.h>
#include <string.h>

enum { FEWEST_CLEAN = 5 }; /* with fewer samples that were not disturbed than this, all are used */

static bool clean(const bx_result *result, size_t sample) { return !result->disturbed[sample]; }

/* Times of a method's samples: of whole steps, or of a phase of them; max over ranks. */
typedef struct {
    const bx_result *result;
    const double *seconds;
    size_t stride; /* from one sample to the next */
} timing;

static timing whole_steps(const bx_result *result) { return (timing){result, result->seconds, 1}; }

/* Copies the samples to use, of from .. to-1: the clean ones, or all if fewer than `fewest` are
 * clean.  Returns their number. */
static size_t pick(const timing *of, size_t from, size_t to, size_t fewest, double *picked)
{
    size_t clean_samples = 0, count = 0;
    for (size_t i = from; i < to; i++) clean_samples += clean(of->result, i);
    for (size_t i = from; i < to; i++)
        if (clean_samples < fewest || clean(of->result, i))
            picked[count++] = of->seconds[i * of->stride];
    return count;
}

struct bx_metrics {
    const bx_run *run;
    const bx_result *results; /* [count] */
    size_t count;
    bx_result *result; /* whose metrics these are */
};

static bx_metric *add_metric(const bx_metrics *list, const char *name, double value,
                             const char *unit, const char *better)
{
    bx_result *of = list->result;
    of->metrics = bx_memory_grow(of->metrics, of->metric_count + 1, sizeof *of->metrics);
    bx_metric *metric = &of->metrics[of->metric_count++];
    *metric = (bx_metric){.value = value, .rank = -1};
    snprintf(metric->name, sizeof metric->name, "%s", name);
    snprintf(metric->unit, sizeof metric->unit, "%s", unit);
    snprintf(metric->better, sizeof metric->better, "%s", better);
    return metric;
}

static void add_quartiles(bx_metric *metric, double *values, size_t count)
{
    metric->has_quartiles = true;
    metric->low = bx_statistics_quantile(values, count, 0.25);
    metric->high = bx_statistics_quantile(values, count, 0.75);
}

static double items(const bx_run *run, const bx_result *result)
{
    return run->kernel->items ? run->kernel->items(run->state, result->method, result->point) : 1;
}

static const bx_result *find(const bx_run *run, const bx_result *results, size_t count,
                             const char *method, size_t point)
{
    for (size_t i = 0; i < count; i++)
        if (results[i].point == point && results[i].sample_count > 0 &&
            strcmp(run->kernel->methods[results[i].method].name, method) == 0)
            return &results[i];
    return NULL;
}

/* Whether a round has a clean sample. */
static bool clean_round(const bx_result *result, size_t round, size_t block)
{
    for (size_t i = round * block; i < (round + 1) * block; i++)
        if (clean(result, i)) return true;
    return false;
}

/* Ratio of medians round by round, so that both sides of each saw the same machine; the metric is
 * the median of the rounds, of those with clean samples if there are enough. */
static void add_ratio(const bx_metrics *list, timing over, timing under, const char *name,
                      const char *better)
{
    const bx_run *run = list->run;
    size_t block = (size_t)run->common.block;
    const bx_result *mine = over.result, *base = under.result;
    size_t rounds = mine->sample_count / block;
    if (base->sample_count / block < rounds) rounds = base->sample_count / block;
    double *ratios = bx_memory_alloc(rounds, sizeof *ratios),
           *picked = bx_memory_alloc(block, sizeof *picked);
    size_t taken = 0, clean_rounds = 0;
    for (size_t r = 0; r < rounds; r++)
        clean_rounds += clean_round(mine, r, block) && clean_round(base, r, block);
    for (size_t r = 0; r < rounds; r++) {
        bool usable = clean_round(mine, r, block) && clean_round(base, r, block);
        if (clean_rounds >= FEWEST_CLEAN && !usable) continue;
        double medians[2];
        const timing *sides[2] = {&over, &under};
        for (int side = 0; side < 2; side++) {
            size_t count = pick(sides[side], r * block, (r + 1) * block, 1, picked);
            medians[side] =
                bx_statistics_quantile(picked, count, 0.5) / items(run, sides[side]->result);
        }
        ratios[taken++] = medians[0] / medians[1];
    }
    double median = bx_statistics_quantile(ratios, taken, 0.5);
    add_quartiles(add_metric(list, name, median, "ratio", better), ratios, taken);
    BX_FREE(ratios, picked);
}

/* The time of a method over another's, as ratio_ALIAS. */
static void add_method_ratio(const bx_metrics *list, const bx_result *base, const char *alias)
{
    char name[96];
    snprintf(name, sizeof name, "ratio_%s", alias);
    add_ratio(list, whole_steps(list->result), whole_steps(base), name, "lower");
}

/* Each phase's share of a sample's time: the median of the clean samples, or of all.  Medians need
 * not add up, so that all are divided by their sum. */
static void add_shares(const bx_metrics *list)
{
    const bx_run *run = list->run;
    const bx_result *result = list->result;
    size_t np = run->kernel->phase_count, clean_samples = 0;
    for (size_t i = 0; i < result->sample_count; i++) clean_samples += clean(result, i);
    double *shares = bx_memory_alloc(result->sample_count + 1, sizeof *shares),
           *medians = bx_memory_alloc(np + 1, sizeof *medians), sum = 0;
    for (size_t k = 0; k < np; k++) {
        size_t count = 0;
        for (size_t i = 0; i < result->sample_count; i++) {
            const double *phases = &result->phases[i * np];
            double total = 0;
            for (size_t other = 0; other < np; other++) total += phases[other];
            bool usable = clean_samples < FEWEST_CLEAN || clean(result, i);
            if (usable && total > 0) shares[count++] = phases[k] / total;
        }
        if (count > 0) sum += medians[k] = bx_statistics_quantile(shares, count, 0.5);
    }
    for (size_t k = 0; k < np && sum > 0; k++) {
        char name[96];
        snprintf(name, sizeof name, "%s_share", run->kernel->phases[k]);
        add_metric(list, name, medians[k] / sum, "share", "lower");
    }
    BX_FREE(medians, shares);
}

void bx_metrics_add(bx_metrics *metrics, const char *name, double value, const char *unit,
                    const char *better)
{
    add_metric(metrics, name, value, unit, better);
}

void bx_metrics_add_series(bx_metrics *metrics, const char *name, double value, const char *unit,
                           const char *better, const bx_rank_series *series)
{
    add_metric(metrics, name, value, unit, better)->rank = series->sums.max_rank;
}

void bx_metrics_add_ratio(bx_metrics *metrics, const char *name, const char *better,
                          const char *method, int phase, const char *base)
{
    const bx_result *mine = metrics->result, *other;
    size_t point = mine->point, np = metrics->run->kernel->phase_count;
    if (method) mine = find(metrics->run, metrics->results, metrics->count, method, point);
    other = find(metrics->run, metrics->results, metrics->count, base, point);
    if (!mine || !other) return;
    timing over = whole_steps(mine);
    if (phase >= 0) over = (timing){mine, &mine->phases_most[phase], np};
    add_ratio(metrics, over, whole_steps(other), name, better);
}

double bx_metrics_get(const bx_result *result, const char *name)
{
    for (size_t i = 0; i < result->metric_count; i++)
        if (strcmp(result->metrics[i].name, name) == 0) return result->metrics[i].value;
    return NAN;
}

double bx_metrics_value(const bx_metrics *metrics, const char *name)
{
    const bx_result *result = metrics->result;
    if (strchr(name, '.'))
        return result->communication ? bx_profile_mean(result->communication, name) : NAN;
    if (strcmp(name, "time_mean") != 0) return bx_metrics_get(result, name);
    double sum = 0;
    for (size_t i = 0; i < result->sample_count; i++) sum += result->seconds[i];
    return sum / (double)result->sample_count / items(metrics->run, result);
}

/* The median time of an item, of clean samples if there are enough. */
static double typical(const bx_run *run, const bx_result *result)
{
    size_t samples = result->sample_count;
    double *picked = bx_memory_alloc(samples + 1, sizeof *picked);
    timing steps = whole_steps(result);
    size_t used = pick(&steps, 0, samples, FEWEST_CLEAN, picked);
    double median = bx_statistics_quantile(picked, used, 0.5) / items(run, result);
    free(picked);
    return median;
}

/* The fastest method of a family at one point; NULL if none has been measured. */
static const bx_result *fastest(const bx_run *run, const bx_result *results, size_t count,
                                const char *family, size_t point)
{
    const bx_result *best = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *other = run->kernel->methods[results[i].method].family;
        if (!other || strcmp(other, family) != 0 || results[i].point != point ||
            results[i].sample_count == 0)
            continue;
        if (!best || typical(run, &results[i]) < typical(run, best)) best = &results[i];
    }
    return best;
}

void bx_metrics_add_best(bx_json *object, const bx_run *run, const bx_result *results, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *family = run->kernel->methods[results[i].method].family;
        if (!family || bx_json_get(object, family)) continue;
        const bx_result *best = fastest(run, results, count, family, 0);
        if (best) bx_json_text(object, family, run->kernel->methods[best->method].name);
    }
}

const char *bx_metrics_ratio_method(const char *entry, char alias[64])
{
    const char *equals = strchr(entry, '=');
    snprintf(alias, 64, "%.*s", equals ? (int)(equals - entry) : 63, entry);
    return equals ? equals + 1 : entry;
}

void bx_metrics_fill(const bx_run *run, const bx_result *results, size_t count, bx_result *result)
{
    bx_metrics list = {run, results, count, result};
    size_t samples = result->sample_count;
    result->metric_count = 0;
    if (samples == 0) return;
    double scale = 1 / items(run, result), *picked = bx_memory_alloc(samples, sizeof *picked);
    timing steps = whole_steps(result);
    size_t used = pick(&steps, 0, samples, FEWEST_CLEAN, picked);
    for (size_t i = 0; i < used; i++) picked[i] *= scale;
    double median = bx_statistics_quantile(picked, used, 0.5);
    add_quartiles(add_metric(&list, "time", median, "s", "lower"), picked, used);
    timing starts = {result, result->apart, 1};
    used = pick(&starts, 0, samples, FEWEST_CLEAN, picked);
    result->skew = bx_statistics_quantile(picked, used, 0.5);
    result->skew_share = result->skew * scale / median;
    memcpy(picked, result->seconds, samples * sizeof *picked); /* of all samples */
    double all = bx_statistics_quantile(picked, samples, 0.5) * scale;
    add_metric(&list, "time_all", all, "s", "lower");
    double least = bx_statistics_quantile(picked, samples, 0) * scale;
    add_metric(&list, "time_min", least, "s", "lower");
    double tail = bx_statistics_quantile(picked, samples, 0.99) * scale;
    add_metric(&list, "time_p99", tail, "s", "lower");
    free(picked);
    const bx_choice *method = &run->kernel->methods[result->method];
    if (method->baseline) return;
    for (size_t r = 0; r < run->kernel->ratio_count; r++) {
        char alias[64];
        const char *name = bx_metrics_ratio_method(run->kernel->ratios[r], alias);
        const bx_result *base = find(run, results, count, name, result->point);
        bool (*comparable)(size_t, size_t) = run->kernel->comparable;
        if (base && (!comparable || comparable(result->method, base->method)))
            add_method_ratio(&list, base, alias);
    }
    if (method->family)
        add_method_ratio(&list, fastest(run, results, count, method->family, result->point),
                         "best");
    add_shares(&list);
    if (run->kernel->metrics)
        run->kernel->metrics(run->state, result->method, result->point, &list);
}
