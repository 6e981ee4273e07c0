
#include "result.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 10 }; /* of phases; where there are more, --profile lists them */

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
    printf("%s %s: %d rank%s on %d node%s%s, %d thread%s per rank\n", kernel->name,
           get(root, "case")->valuestring, run->size, run->size == 1 ? "" : "s", run->node_count,
           run->node_count == 1 ? "" : "s",
           cJSON_IsTrue(get(layout, "emulated_nodes")) ? " (emulated)" : "", run->threads,
           run->threads == 1 ? "" : "s");
    bool points = kernel->point != NULL;
    printf("  %-15s %s%-8s %11s %11s %11s", "method", points ? "point              " : "", "answer",
           "median", "min", "p99");
    bool *compared = bx_memory_alloc(kernel->ratio_count + 1, sizeof *compared), families = false;
    char alias[64];
    for (size_t r = 0; r < kernel->ratio_count; r++) {
        compared[r] = bx_run_is_selected(run, bx_metrics_ratio_method(kernel->ratios[r], alias));
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
            bx_metrics_ratio_method(kernel->ratios[r], alias);
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
    const cJSON **members = bx_memory_alloc((size_t)cJSON_GetArraySize(parts) + 1, sizeof *members);
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

void bx_table_print_profile(const cJSON *root)
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
