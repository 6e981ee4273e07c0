/* The result: JSON for machines, and a table made from that JSON for people. */
#include "harness.h"

#include "build_info.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_CLEAN = 5 }; /* with fewer undisturbed samples than this, all are used */

/* ---- writing ---- */

int bx_result_write(const char *path, const cJSON *root)
{
    char *text = cJSON_Print(root);
    FILE *file = text ? bx_file_open(path) : NULL;
    int code = text ? errno : ENOMEM;
    if (file) {
        fputs(text, file);
        fputc('\n', file);
        code = bx_file_close(file, path);
    }
    free(text);
    return code;
}

/* ---- one result ---- */

/* How the samples of one block are used: the undisturbed ones, or all if they are too few. */
static size_t pick(const bx_result *result, size_t from, size_t to, size_t fewest, double *picked)
{
    size_t count = 0;
    for (size_t i = from; i < to; i++)
        if (result->switches[i] == 0) picked[count++] = result->seconds[i];
    if (count >= fewest) return count;
    memcpy(picked, &result->seconds[from], (to - from) * sizeof *picked);
    return to - from;
}

static cJSON *add_metric(cJSON *metrics, const char *name, double value, const char *unit)
{
    cJSON *metric = cJSON_AddObjectToObject(metrics, name);
    cJSON_AddNumberToObject(metric, "value", value); /* cJSON writes non-finite numbers as null */
    cJSON_AddStringToObject(metric, "unit", unit);
    cJSON_AddStringToObject(metric, "better", "lower");
    return metric;
}

static void add_quartiles(cJSON *metric, double *values, size_t count)
{
    cJSON_AddNumberToObject(metric, "low", bx_quantile(values, count, 0.25));
    cJSON_AddNumberToObject(metric, "high", bx_quantile(values, count, 0.75));
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

/* Whether a round has a sample that no rank was interrupted in. */
static bool undisturbed(const bx_result *result, size_t round, size_t block)
{
    for (size_t i = round * block; i < (round + 1) * block; i++)
        if (result->switches[i] == 0) return true;
    return false;
}

/* Ratio of medians round by round, so that both sides of each saw the same machine; the metric is
 * the median of the rounds, of those with undisturbed samples if there are enough. */
static void add_ratio(const bx_run *run, cJSON *metrics, const bx_result *mine,
                      const bx_result *base, const char *base_name)
{
    size_t block = (size_t)run->common.block;
    size_t rounds = mine->sample_count / block;
    if (base->sample_count / block < rounds) rounds = base->sample_count / block;
    double *ratios = malloc(rounds * sizeof *ratios), *picked = malloc(block * sizeof *picked);
    size_t taken = 0, clean = 0;
    for (size_t r = 0; r < rounds; r++)
        clean += undisturbed(mine, r, block) && undisturbed(base, r, block);
    for (size_t r = 0; r < rounds; r++) {
        bool usable = undisturbed(mine, r, block) && undisturbed(base, r, block);
        if (clean >= FEWEST_CLEAN && !usable) continue;
        double medians[2];
        const bx_result *sides[2] = {mine, base};
        for (int side = 0; side < 2; side++) {
            size_t count = pick(sides[side], r * block, (r + 1) * block, 1, picked);
            medians[side] = bx_quantile(picked, count, 0.5) / items(run, sides[side]);
        }
        ratios[taken++] = medians[0] / medians[1];
    }
    char name[96];
    snprintf(name, sizeof name, "ratio_%s", base_name);
    add_quartiles(add_metric(metrics, name, bx_quantile(ratios, taken, 0.5), "ratio"), ratios,
                  taken);
    free(ratios);
    free(picked);
}

/* Each phase's share of a sample's time: the median of the undisturbed samples, or of all. */
static void add_shares(const bx_run *run, cJSON *metrics, const bx_result *result)
{
    size_t np = run->kernel->phase_count, clean = 0;
    for (size_t i = 0; i < result->sample_count; i++) clean += result->switches[i] == 0;
    double *shares = malloc((result->sample_count + 1) * sizeof *shares);
    for (size_t k = 0; k < np; k++) {
        size_t count = 0;
        for (size_t i = 0; i < result->sample_count; i++) {
            const double *phases = &result->phases[i * np];
            double total = 0;
            for (size_t other = 0; other < np; other++) total += phases[other];
            bool usable = clean < FEWEST_CLEAN || result->switches[i] == 0;
            if (usable && total > 0) shares[count++] = phases[k] / total;
        }
        char name[96];
        snprintf(name, sizeof name, "%s_share", run->kernel->phases[k]);
        if (count > 0) add_metric(metrics, name, bx_quantile(shares, count, 0.5), "share");
    }
    free(shares);
}

struct bx_metrics {
    cJSON *json;
};

void bx_metric(bx_metrics *metrics, const char *name, double value, const char *unit,
               const char *better)
{
    cJSON *metric = add_metric(metrics->json, name, value, unit);
    cJSON_SetValuestring(cJSON_GetObjectItem(metric, "better"), better);
}

double bx_metric_value(const bx_metrics *metrics, const char *name)
{
    const cJSON *metric = cJSON_GetObjectItem(metrics->json, name);
    const cJSON *value = metric ? cJSON_GetObjectItem(metric, "value") : NULL;
    return cJSON_IsNumber(value) ? value->valuedouble : NAN;
}

/* The median time of an item, of undisturbed samples if there are enough. */
static double typical(const bx_run *run, const bx_result *result)
{
    size_t samples = result->sample_count;
    double *picked = malloc((samples + 1) * sizeof *picked);
    size_t used = pick(result, 0, samples, FEWEST_CLEAN, picked);
    double median = bx_quantile(picked, used, 0.5) / items(run, result);
    free(picked);
    return median;
}

/* The fastest of a family at one point; NULL if none has been measured. */
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

/* Family -> its fastest method, at the first point. */
cJSON *bx_best_json(const bx_run *run, const bx_result *results, size_t count)
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

/* "ALIAS=NAME" or "NAME": what the ratio is called; returns the method. */
static const char *ratio_of(const char *entry, char alias[64])
{
    const char *equals = strchr(entry, '=');
    snprintf(alias, 64, "%.*s", equals ? (int)(equals - entry) : 63, entry);
    return equals ? equals + 1 : entry;
}

static cJSON *metrics_json(const bx_run *run, const bx_result *results, size_t count,
                           const bx_result *result)
{
    cJSON *metrics = cJSON_CreateObject();
    size_t samples = result->sample_count;
    if (samples == 0) return metrics;
    double scale = 1 / items(run, result), *picked = malloc(samples * sizeof *picked);
    size_t used = pick(result, 0, samples, FEWEST_CLEAN, picked);
    for (size_t i = 0; i < used; i++) picked[i] *= scale;
    add_quartiles(add_metric(metrics, "time", bx_quantile(picked, used, 0.5), "s"), picked, used);
    memcpy(picked, result->seconds, samples * sizeof *picked); /* the tail: of all samples */
    add_metric(metrics, "time_min", bx_quantile(picked, samples, 0) * scale, "s");
    add_metric(metrics, "time_p99", bx_quantile(picked, samples, 0.99) * scale, "s");
    free(picked);
    const bx_choice *method = &run->kernel->methods[result->method];
    if (method->baseline) return metrics;
    for (size_t r = 0; r < run->kernel->ratio_count; r++) {
        char alias[64];
        const char *name = ratio_of(run->kernel->ratios[r], alias);
        const bx_result *base = find(run, results, count, name, result->point);
        if (base) add_ratio(run, metrics, result, base, alias);
    }
    if (method->family)
        add_ratio(run, metrics, result, fastest(run, results, count, method->family, result->point),
                  "best");
    if (run->kernel->metrics)
        run->kernel->metrics(run->state, result->method, result->point, &(bx_metrics){metrics});
    add_shares(run, metrics, result);
    return metrics;
}

static cJSON *verification_json(const bx_result *result)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddBoolToObject(json, "passed", result->verified);
    cJSON *list = cJSON_AddArrayToObject(json, "checks");
    for (int i = 0; i < result->verification.count; i++) {
        const bx_outcome *outcome = &result->verification.outcomes[i];
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddStringToObject(entry, "name", outcome->name);
        cJSON_AddNumberToObject(entry, "error", outcome->error);
        cJSON_AddNumberToObject(entry, "tolerance", outcome->tolerance);
        cJSON_AddStringToObject(entry, "unit", outcome->unit);
        cJSON_AddBoolToObject(entry, "passed", outcome->error <= outcome->tolerance);
        cJSON_AddItemToArray(list, entry);
    }
    return json;
}

static cJSON *samples_json(const bx_run *run, const bx_result *result)
{
    size_t count = result->sample_count, np = run->kernel->phase_count;
    cJSON *json = cJSON_CreateObject();
    cJSON_AddItemToObject(json, "seconds", cJSON_CreateDoubleArray(result->seconds, (int)count));
    cJSON_AddItemToObject(json, "switches", cJSON_CreateDoubleArray(result->switches, (int)count));
    double *column = malloc((count ? count : 1) * sizeof *column);
    for (size_t i = 0; i < count; i++) column[i] = (double)(i / (size_t)run->common.block);
    cJSON_AddItemToObject(json, "rounds", cJSON_CreateDoubleArray(column, (int)count));
    cJSON *phases = cJSON_AddObjectToObject(json, "phases");
    for (size_t k = 0; k < np; k++) {
        for (size_t i = 0; i < count; i++) column[i] = result->phases[i * np + k];
        cJSON_AddItemToObject(phases, run->kernel->phases[k],
                              cJSON_CreateDoubleArray(column, (int)count));
    }
    free(column);
    return json;
}

cJSON *bx_result_json(const bx_run *run, const bx_result *results, size_t count, size_t index)
{
    const bx_result *result = &results[index];
    const bx_choice *method = &run->kernel->methods[result->method];
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "method", method->name);
    cJSON_AddBoolToObject(json, "baseline", method->baseline);
    cJSON *point = run->kernel->point ? cJSON_AddObjectToObject(json, "point")
                                      : cJSON_AddNullToObject(json, "point");
    if (run->kernel->point) run->kernel->point(run->state, result->point, point);
    cJSON_AddBoolToObject(json, "applicable", result->applicable);
    cJSON_AddItemToObject(
        json, "why", result->applicable ? cJSON_CreateNull() : cJSON_CreateString(result->why));
    cJSON_AddItemToObject(json, "verification", verification_json(result));
    cJSON_AddItemToObject(json, "samples", samples_json(run, result));
    cJSON_AddItemToObject(json, "metrics", metrics_json(run, results, count, result));
    return json;
}

enum { MAX_LIBRARIES = 8 };
static struct {
    char name[32], version[64];
} libraries_used[MAX_LIBRARIES];
static int library_count;

void bx_library(const char *name, const char *version)
{
    if (library_count == MAX_LIBRARIES) return;
    snprintf(libraries_used[library_count].name, sizeof libraries_used->name, "%s", name);
    snprintf(libraries_used[library_count++].version, sizeof libraries_used->version, "%s",
             version);
}

cJSON *bx_build_json(void)
{
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(mpi, &length);
    mpi[strcspn(mpi, ",\n")] = '\0';
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "version", BX_VERSION);
    cJSON_AddStringToObject(json, "commit", BX_COMMIT);
    cJSON_AddStringToObject(json, "compiler", BX_COMPILER);
    cJSON_AddStringToObject(json, "flags", BX_FLAGS);
    cJSON_AddStringToObject(json, "build_type", BX_BUILD_TYPE);
    cJSON_AddStringToObject(json, "mpi", mpi);
    cJSON *libraries = cJSON_AddObjectToObject(json, "libraries");
    cJSON_AddStringToObject(libraries, "fftw", BX_FFTW_VERSION);
    cJSON_AddStringToObject(libraries, "cjson", cJSON_Version());
    for (int i = 0; i < library_count; i++)
        cJSON_AddStringToObject(libraries, libraries_used[i].name, libraries_used[i].version);
    return json;
}

/* ---- the table ---- */

enum { MOST_COLUMNS = 8 }; /* of phases; where there are more, --profile lists them */

static const cJSON *get(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static double metric(const cJSON *result, const char *name)
{
    const cJSON *value = get(get(get(result, "metrics"), name), "value");
    return cJSON_IsNumber(value) ? value->valuedouble : NAN;
}

static void print_time(double seconds)
{
    if (!isfinite(seconds))
        printf(" %11s", "-");
    else if (seconds < 1e-3)
        printf(" %8.2f us", seconds * 1e6);
    else if (seconds < 1)
        printf(" %8.3f ms", seconds * 1e3);
    else
        printf(" %8.3f s ", seconds);
}

static void print_number(double value, int width)
{
    if (isfinite(value))
        printf(" %*.3f", width, value);
    else
        printf(" %*s", width, "-");
}

static void point_text(const cJSON *result, char *text, size_t size)
{
    text[0] = '\0';
    for (const cJSON *item = get(result, "point") ? get(result, "point")->child : NULL; item;
         item = item->next) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s %.12g", used ? ", " : "", item->string,
                 item->valuedouble);
    }
}

static void print_failures(const cJSON *result)
{
    const cJSON *outcome;
    cJSON_ArrayForEach(outcome, get(get(result, "verification"), "checks"))
    {
        if (cJSON_IsTrue(get(outcome, "passed"))) continue;
        const cJSON *error = get(outcome, "error");
        if (cJSON_IsNumber(error))
            printf("  %-15s   wrong: %s error %.3g, allowed %.3g %s\n",
                   get(result, "method")->valuestring, get(outcome, "name")->valuestring,
                   error->valuedouble, get(outcome, "tolerance")->valuedouble,
                   get(outcome, "unit")->valuestring);
        else
            printf("  %-15s   wrong: %s is not finite\n", get(result, "method")->valuestring,
                   get(outcome, "name")->valuestring);
    }
}

void bx_table_print(const bx_run *run, const cJSON *root)
{
    const bx_kernel *kernel = run->kernel;
    const cJSON *layout = get(root, "layout"), *result;
    printf("%s %s: %d rank%s on %d node%s%s, %d thread%s a rank\n", kernel->name,
           get(root, "case")->valuestring, run->size, run->size == 1 ? "" : "s", run->node_count,
           run->node_count == 1 ? "" : "s",
           cJSON_IsTrue(get(layout, "emulated_nodes")) ? " (emulated)" : "", run->threads,
           run->threads == 1 ? "" : "s");
    bool points = kernel->point != NULL;
    printf("  %-15s %s%-8s %11s %11s %11s", "method", points ? "point              " : "", "answer",
           "median", "min", "p99");
    bool *compared = calloc(kernel->ratio_count + 1, sizeof *compared), families = false;
    char alias[64];
    for (size_t r = 0; r < kernel->ratio_count; r++) {
        compared[r] = bx_selected(run, ratio_of(kernel->ratios[r], alias));
        if (compared[r]) printf("  /%-9s", alias);
    }
    for (size_t m = 0; m < kernel->method_count; m++)
        families = families || (kernel->methods[m].family && run->selected[m]);
    if (families) printf("  /%-9s", "best");
    size_t shown = kernel->phase_count <= MOST_COLUMNS ? kernel->phase_count : 0;
    for (size_t k = 0; k < shown; k++) printf(" %8s", kernel->phases[k]);
    printf("\n");
    cJSON_ArrayForEach(result, get(root, "results"))
    {
        char name[96], point[64];
        printf("  %-15s", get(result, "method")->valuestring);
        if (points) {
            point_text(result, point, sizeof point);
            printf(" %-18s", point);
        }
        if (!cJSON_IsTrue(get(result, "applicable"))) {
            printf(" not here: %s\n", get(result, "why")->valuestring);
            continue;
        }
        printf(" %-8s",
               cJSON_IsTrue(get(get(result, "verification"), "passed")) ? "verified" : "WRONG");
        print_time(metric(result, "time"));
        print_time(metric(result, "time_min"));
        print_time(metric(result, "time_p99"));
        for (size_t r = 0; r < kernel->ratio_count; r++) {
            if (!compared[r]) continue;
            ratio_of(kernel->ratios[r], alias);
            snprintf(name, sizeof name, "ratio_%s", alias);
            print_number(metric(result, name), 10);
        }
        if (families) print_number(metric(result, "ratio_best"), 10);
        for (size_t k = 0; k < shown; k++) {
            snprintf(name, sizeof name, "%s_share", kernel->phases[k]);
            double share = metric(result, name);
            if (isfinite(share))
                printf(" %7.1f%%", 100 * share);
            else
                printf(" %8s", "-");
        }
        printf("\n");
        print_failures(result);
    }
    free(compared);
    for (int i = 0; i < run->note_count; i++) printf("  %s\n", run->notes[i]);
    fflush(stdout);
}

static int by_share(const void *a, const void *b)
{
    double x = get(*(const cJSON *const *)a, "share")->valuedouble,
           y = get(*(const cJSON *const *)b, "share")->valuedouble;
    return (x < y) - (x > y);
}

/* One group of a profile: its share, then its members above 1%, the largest first. */
static void print_group(const cJSON *profile, const char *group)
{
    const cJSON *parts = get(profile, "parts"), *part;
    const cJSON **members = malloc(((size_t)cJSON_GetArraySize(parts) + 1) * sizeof *members);
    size_t count = 0;
    cJSON_ArrayForEach(part, parts) if (strcmp(get(part, "group")->valuestring, group) == 0)
        members[count++] = part;
    qsort(members, count, sizeof *members, by_share);
    printf("  %5.1f%% %s\n", 100 * get(profile, group)->valuedouble, group);
    for (size_t i = 0; i < count && get(members[i], "share")->valuedouble >= 0.01; i++)
        printf("    %5.1f%% %s\n", 100 * get(members[i], "share")->valuedouble,
               get(members[i], "name")->valuestring);
    free(members);
}

void bx_profile_print(const cJSON *root)
{
    const cJSON *result;
    cJSON_ArrayForEach(result, get(root, "results"))
    {
        const cJSON *profile = get(result, "profile");
        if (!profile) continue;
        printf("time of %s, mean over ranks\n", get(result, "method")->valuestring);
        print_group(profile, "user");
        print_group(profile, "library");
        print_group(profile, "MPI");
    }
    fflush(stdout);
}
