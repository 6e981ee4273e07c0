/* The plan's report before any measurement: the distribution, and the messages of each method
 * here and at the published core counts. */
#include "input.h"

#include <stdlib.h>
#include <string.h>

static void add_counts(bx_json *object, const char *name, bx_counts counts)
{
    bx_json *json = bx_json_object(object, name);
    BX_NUMBERS(json, {"messages", counts.messages}, {"off_node_messages", counts.off_node_messages},
               {"bytes", counts.bytes}, {"off_node_bytes", counts.off_node_bytes},
               {"padding_bytes", counts.padding_bytes});
}

/* "14 ranks 2, 2 ranks 1": how many ranks hold how many things. */
static void shares_text(const int *first, int ranks, char *text, size_t size, bx_json *list)
{
    text[0] = '\0';
    for (int r = 0; r < ranks;) {
        int held = first[r + 1] - first[r], from = r;
        while (r < ranks && first[r + 1] - first[r] == held) r++;
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%d rank%s hold%s %d", used ? ", " : "", r - from,
                 r - from == 1 ? "" : "s", r - from == 1 ? "s" : "", held);
        BX_NUMBERS(bx_json_object(list, NULL), {"ranks", r - from}, {"each", held});
    }
}

enum { MOST_SIZES = 8 };

static void mark_size(void *context, int from, int to, int64_t elements)
{
    bool *has = context;
    has[elements] = true;
}

/* The different non-empty block sizes, largest first; at most MOST_SIZES of them are listed, and
 * the number of all is returned.  Of planes shares come in at most two sizes. */
static int block_sizes(const bx_geometry *g, int64_t sizes[MOST_SIZES])
{
    bool *has = bx_memory_alloc((size_t)g->largest_block + 1, sizeof *has);
    int count = 0;
    bx_geometry_blocks(g, mark_size, has);
    for (int64_t size = g->largest_block; size > 0; size--) {
        if (has[size] && count < MOST_SIZES) sizes[count] = size;
        count += has[size];
    }
    free(has);
    return count;
}

static void report_exchange(const bx_transpose_state *t, const bx_geometry *g, const char *from,
                            const char *to, bx_run *run, bx_json *json)
{
    char planes[160], columns[160], text[160] = "";
    shares_text(g->plane_first, g->ranks, planes, sizeof planes, bx_json_array(json, "planes"));
    shares_text(g->column_first, g->ranks, columns, sizeof columns, bx_json_array(json, "columns"));
    int64_t sizes[MOST_SIZES];
    int count = block_sizes(g, sizes), listed = count < MOST_SIZES ? count : MOST_SIZES;
    double mean = (double)g->columns * g->length / g->ranks;
    double padded = (double)g->largest_block * g->ranks;
    for (int i = 0; i < listed; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, " %lld", (long long)sizes[i]);
    }
    if (listed < count) snprintf(text + strlen(text), sizeof text - strlen(text), " and smaller");
    bx_run_note(run, "%dx%dx%d, %d of %d %s%s: %s %s; %s columns", g->nx, g->ny, g->nz, g->columns,
                g->batches * g->plane_nx * g->plane_ny, from,
                t->teams > 1 ? ", first of the teams" : "", planes, to, columns);
    bx_run_note(run,
                "blocks of%s elements; %.0f elements per rank on average, %.0f padded (%+.0f%%)",
                text, mean, padded, 100 * (padded / mean - 1));
    if (!json) return;
    bx_json_number(json, "columns_total", g->columns);
    bx_json *list = bx_json_array(json, "block_sizes");
    for (int i = 0; i < listed; i++) bx_json_number(list, NULL, (double)sizes[i]);
    BX_NUMBERS(json, {"elements_mean", mean}, {"elements_padded", padded});
}

static void report_distribution(const bx_transpose_state *t, bx_run *run, bx_json *details)
{
    const bx_geometry *g = t->geometry;
    bx_json *json = bx_json_object(details, "distribution");
    report_exchange(t, g, "columns", g->inner ? "columns along y" : "planes", run, json);
    bx_json_number(json, "teams", t->teams);
    if (!g->inner) return;
    json = bx_json_object(details, "second_exchange");
    report_exchange(t, g->inner, "columns along y", "rows along x", run, json);
}

/* Layouts whose message counts Bethune 2010 states (sections 4.1 and 5.1.2). */
static const struct {
    int ranks, per_node;
    const char *name;
} PUBLISHED[] = {{64, 4, "64 ranks, 4 per node"}, {288, 24, "288 ranks, 24 per node"}};
enum { PUBLISHED_COUNT = sizeof PUBLISHED / sizeof *PUBLISHED };

static void report_counts(const bx_transpose_state *t, bx_run *run, bx_json *details)
{
    bx_geometry *published[PUBLISHED_COUNT];
    char head[256];
    snprintf(head, sizeof head, "%-16s %20s", "messages", "this run (off node)");
    for (int i = 0; i < PUBLISHED_COUNT; i++) {
        double radius_squared = t->options->radius * t->options->radius;
        published[i] = bx_geometry_create(t->options->grid, radius_squared * (1 + 1e-12),
                                          (int)t->options->exchanges, PUBLISHED[i].ranks, NULL,
                                          PUBLISHED[i].per_node);
        size_t used = strlen(head);
        snprintf(head + used, sizeof head - used, " %24s", PUBLISHED[i].name);
    }
    bx_run_note(run, "%s   bytes (padding)", head);
    bx_json *json = bx_json_object(details, "counts");
    for (int m = 0; m < bx_transpose_method_count; m++) {
        if (!t->methods[m]) continue;
        const bx_transpose_method *method = bx_transpose_methods[m];
        char line[256], cell[64];
        bx_counts here = bx_transpose_planned_counts(t, m, BX_FORWARD);
        snprintf(cell, sizeof cell, "%.0f (%.0f)", here.messages, here.off_node_messages);
        snprintf(line, sizeof line, "%-16s %20s", method->about.name, cell);
        bx_json *entry = bx_json_object(json, method->about.name);
        add_counts(entry, "forward", here);
        for (int i = 0; i < PUBLISHED_COUNT; i++) {
            bx_counts there = bx_exchange_counts(published[i], method, BX_FORWARD, t->leaders);
            size_t used = strlen(line);
            snprintf(cell, sizeof cell, "%.0f (%.0f)", there.messages, there.off_node_messages);
            snprintf(line + used, sizeof line - used, " %24s", cell);
            add_counts(entry, PUBLISHED[i].name, there);
        }
        bx_run_note(run, "%s   %.0f (%.0f)", line, here.bytes, here.padding_bytes);
    }
    for (int i = 0; i < PUBLISHED_COUNT; i++) bx_geometry_free(published[i]);
}

void bx_transpose_report(void *state, bx_run *run, bx_json *details)
{
    const bx_transpose_state *t = state;
    report_distribution(t, run, details);
    report_counts(t, run, details);
}
