
#include "result.h"
#include "start.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 10 }; /* of phases; where there are more, --profile lists them */

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

/* The numbers that describe a point, in the space of `width` letters. */
static void print_point(const bx_run *run, size_t point, int width)
{
    char text[64] = "";
    bx_json *description = bx_json_create();
    run->kernel->point(run->state, point, description);
    for (const bx_json *item = description->first; item; item = item->next) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s %s", used ? ", " : "", item->name,
                 item->text);
    }
    bx_json_free(description);
    printf(" %-*s", width, text);
}

static void print_failures(const char *method, const bx_verification *verification)
{
    for (int i = 0; i < verification->count; i++) {
        const bx_outcome *outcome = &verification->outcomes[i];
        if (outcome->error <= outcome->tolerance) continue;
        if (bx_outcome_is_count(outcome)) {
            char text[160];
            bx_outcome_tell(outcome, text, sizeof text);
            printf("  %-15s   not what its name says: %s: %s\n", method, outcome->name, text);
        } else if (isfinite(outcome->error))
            printf("  %-15s   wrong: %s error %.3g, allowed %.3g %s\n", method, outcome->name,
                   outcome->error, outcome->tolerance, outcome->unit);
        else
            printf("  %-15s   wrong: %s is not finite\n", method, outcome->name);
    }
}

void bx_table_print(const bx_run *run, const bx_result *results, size_t count)
{
    const bx_kernel *kernel = run->kernel;
    printf("%s %s: %d rank%s on %d node%s%s, %d thread%s per rank\n", kernel->name,
           run->common.case_name, run->size, run->size == 1 ? "" : "s", run->node_count,
           run->node_count == 1 ? "" : "s", bx_run_is_emulated(run) ? " (emulated)" : "",
           run->threads, run->threads == 1 ? "" : "s");
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
    for (const bx_result *result = results; result < results + count; result++) {
        char name[96];
        const char *method = kernel->methods[result->method].name;
        printf("  %-15s", method);
        if (points) print_point(run, result->point, 18);
        if (!result->applicable) {
            printf(" not here: %s\n", result->why);
            continue;
        }
        printf(" %-8s", result->verified ? "verified" : "WRONG");
        print_time(bx_metrics_get(result, "time"));
        print_time(bx_metrics_get(result, "time_min"));
        print_time(bx_metrics_get(result, "time_p99"));
        for (size_t r = 0; r < kernel->ratio_count; r++) {
            if (!compared[r]) continue;
            bx_metrics_ratio_method(kernel->ratios[r], alias);
            snprintf(name, sizeof name, "ratio_%s", alias);
            print_number(bx_metrics_get(result, name), 10);
        }
        if (families) print_number(bx_metrics_get(result, "ratio_best"), 10);
        for (size_t k = 0; k < shown; k++) {
            snprintf(name, sizeof name, "%s_share", kernel->phases[k]);
            double share = bx_metrics_get(result, name);
            if (isfinite(share))
                printf(" %7.1f%%", 100 * share);
            else
                printf(" %8s", "-");
        }
        if (result->skew_share > bx_start_most_skew)
            printf("  starts are %.2g us apart: %.0f%%", 1e6 * result->skew,
                   100 * result->skew_share);
        printf("\n");
        print_failures(method, &result->verification);
    }
    free(compared);
    for (int i = 0; i < run->note_count; i++) printf("  %s\n", run->notes[i]);
    fflush(stdout);
}

static int by_share(const void *a, const void *b)
{
    double x = ((const bx_part *)a)->share, y = ((const bx_part *)b)->share;
    return (x < y) - (x > y);
}

void bx_table_print_profile(const bx_run *run, const bx_result *results, size_t count)
{
    for (const bx_result *result = results; result < results + count; result++) {
        const bx_shares *shares = result->shares;
        if (!shares) continue;
        bx_part *parts = bx_memory_alloc(shares->part_count, sizeof *parts);
        memcpy(parts, shares->parts, shares->part_count * sizeof *parts);
        qsort(parts, shares->part_count, sizeof *parts, by_share);
        printf("time of %s, mean over ranks", run->kernel->methods[result->method].name);
        const bx_spread *own = result->ranks ? &result->ranks[1] : NULL; /* outside of MPI */
        if (own && own->max > own->mean)
            printf("; rank %d has most outside of MPI, %.2f times the mean", own->max_rank,
                   own->max / own->mean);
        printf("\n");
        for (int group = 0; group < 3; group++) {
            printf("  %5.1f%% %s\n", 100 * shares->of_group[group], bx_share_groups[group]);
            for (size_t i = 0; i < shares->part_count && parts[i].share >= 0.01; i++)
                if (parts[i].group == group)
                    printf("    %5.1f%% %s\n", 100 * parts[i].share, parts[i].name);
        }
        free(parts);
    }
    fflush(stdout);
}
