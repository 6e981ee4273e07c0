#include "result.h"

#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bx_statistics_quantile(double *values, size_t count, double q)
{
    if (count == 0) return NAN;
    qsort(values, count, sizeof *values, ascending);
    double at = q * (double)(count - 1);
    size_t below = (size_t)at;
    if (below + 1 >= count) return values[count - 1];
    return values[below] + (at - (double)below) * (values[below + 1] - values[below]);
}

enum { FEWEST_CLEAN = 5 }; /* with fewer samples that were not preempted than this, all are used */

static bool clean(const bx_result *result, size_t sample) { return !result->preempted[sample]; }

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

static cJSON *add_metric(cJSON *metrics, const char *name, double value, const char *unit)
{
    cJSON *metric = cJSON_AddObjectToObject(metrics, name);
    cJSON_AddNumberToObject(metric, "value", value); /* cJSON writes non-finite numbers as null */
    BX_TEXTS(metric, {"unit", unit}, {"better", "lower"});
    return metric;
}

static void add_quartiles(cJSON *metric, double *values, size_t count)
{
    BX_NUMBERS(metric, {"low", bx_statistics_quantile(values, count, 0.25)},
               {"high", bx_statistics_quantile(values, count, 0.75)});
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
static cJSON *add_ratio(const bx_run *run, cJSON *metrics, timing over, timing under,
                        const char *name)
{
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
    cJSON *metric = add_metric(metrics, name, bx_statistics_quantile(ratios, taken, 0.5), "ratio");
    add_quartiles(metric, ratios, taken);
    BX_FREE(ratios, picked);
    return metric;
}

/* The time of a method over another's, as ratio_ALIAS. */
static void add_method_ratio(const bx_run *run, cJSON *metrics, const bx_result *mine,
                             const bx_result *base, const char *alias)
{
    char name[96];
    snprintf(name, sizeof name, "ratio_%s", alias);
    add_ratio(run, metrics, whole_steps(mine), whole_steps(base), name);
}

/* Each phase's share of a sample's time: the median of the clean samples, or of all.  Medians need
 * not add up, so that all are divided by their sum. */
static void add_shares(const bx_run *run, cJSON *metrics, const bx_result *result)
{
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
        add_metric(metrics, name, medians[k] / sum, "share");
    }
    BX_FREE(medians, shares);
}

struct bx_metrics {
    cJSON *json;
    const bx_run *run;
    const bx_result *results; /* [count] */
    size_t count;
    const bx_result *result; /* whose metrics these are */
};

void bx_metrics_add(bx_metrics *metrics, const char *name, double value, const char *unit,
                    const char *better)
{
    cJSON *metric = add_metric(metrics->json, name, value, unit);
    cJSON_SetValuestring(cJSON_GetObjectItem(metric, "better"), better);
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
    cJSON *metric = add_ratio(metrics->run, metrics->json, over, whole_steps(other), name);
    cJSON_SetValuestring(cJSON_GetObjectItem(metric, "better"), better);
}

double bx_metrics_value(const bx_metrics *metrics, const char *name)
{
    const cJSON *metric = cJSON_GetObjectItem(metrics->json, name);
    const cJSON *value = metric ? cJSON_GetObjectItem(metric, "value") : NULL;
    const bx_result *result = metrics->result;
    const char *dot = strchr(name, '.');
    if (dot && result->communication) {
        char class[24];
        snprintf(class, sizeof class, "%.*s", (int)(dot - name), name);
        metric = cJSON_GetObjectItem(result->communication, class);
        value = cJSON_GetObjectItem(cJSON_GetObjectItem(metric, dot + 1), "mean");
    } else if (strcmp(name, "time_mean") == 0) {
        double sum = 0;
        for (size_t i = 0; i < result->sample_count; i++) sum += result->seconds[i];
        return sum / (double)result->sample_count / items(metrics->run, result);
    }
    return cJSON_IsNumber(value) ? value->valuedouble : NAN;
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

cJSON *bx_metrics_best_json(const bx_run *run, const bx_result *results, size_t count)
{
    cJSON *json = cJSON_CreateObject();
    for (size_t i = 0; i < count; i++) {
        const char *family = run->kernel->methods[results[i].method].family;
        if (!family || cJSON_HasObjectItem(json, family)) continue;
        const bx_result *best = fastest(run, results, count, family, 0);
        if (best) cJSON_AddStringToObject(json, family, run->kernel->methods[best->method].name);
    }
    return json;
}

const char *bx_metrics_ratio_method(const char *entry, char alias[64])
{
    const char *equals = strchr(entry, '=');
    snprintf(alias, 64, "%.*s", equals ? (int)(equals - entry) : 63, entry);
    return equals ? equals + 1 : entry;
}

cJSON *bx_metrics_json(const bx_run *run, const bx_result *results, size_t count,
                       const bx_result *result)
{
    cJSON *metrics = cJSON_CreateObject();
    size_t samples = result->sample_count;
    if (samples == 0) return metrics;
    double scale = 1 / items(run, result), *picked = bx_memory_alloc(samples, sizeof *picked);
    timing steps = whole_steps(result);
    size_t used = pick(&steps, 0, samples, FEWEST_CLEAN, picked);
    for (size_t i = 0; i < used; i++) picked[i] *= scale;
    add_quartiles(add_metric(metrics, "time", bx_statistics_quantile(picked, used, 0.5), "s"),
                  picked, used);
    memcpy(picked, result->seconds, samples * sizeof *picked); /* the tail needs all samples */
    add_metric(metrics, "time_min", bx_statistics_quantile(picked, samples, 0) * scale, "s");
    add_metric(metrics, "time_p99", bx_statistics_quantile(picked, samples, 0.99) * scale, "s");
    free(picked);
    const bx_choice *method = &run->kernel->methods[result->method];
    if (method->baseline) return metrics;
    for (size_t r = 0; r < run->kernel->ratio_count; r++) {
        char alias[64];
        const char *name = bx_metrics_ratio_method(run->kernel->ratios[r], alias);
        const bx_result *base = find(run, results, count, name, result->point);
        bool (*comparable)(size_t, size_t) = run->kernel->comparable;
        if (base && (!comparable || comparable(result->method, base->method)))
            add_method_ratio(run, metrics, result, base, alias);
    }
    if (method->family)
        add_method_ratio(run, metrics, result,
                         fastest(run, results, count, method->family, result->point), "best");
    add_shares(run, metrics, result);
    if (run->kernel->metrics)
        run->kernel->metrics(run->state, result->method, result->point,
                             &(bx_metrics){metrics, run, results, count, result});
    return metrics;
}
