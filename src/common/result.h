/* The result: metrics, JSON, of which result.schema.json is the schema, and the table for people.
 * All on rank 0 and local, unless it says otherwise; the caller deletes JSON. */
#pragma once

#include "measure.h"

/* Returns the entry of results[index] in "results". */
cJSON *bx_result_json(const bx_run *run, const bx_result *results, size_t count, size_t index);
/* Writes a result to a file, whole or not at all.  Returns 0 or an errno. */
int bx_result_write(const char *path, const cJSON *root);
/* Returns "build" of the result: version, commit, compiler, libraries. */
cJSON *bx_build_json(void);

/* ---- metrics.c: times, ratios, shares, from samples ---- */

/* Returns the metrics of one of the results, as an object by name. */
cJSON *bx_metrics_json(const bx_run *run, const bx_result *results, size_t count,
                       const bx_result *result);
/* Returns the fastest method of each family at the first point, as an object of names. */
cJSON *bx_metrics_best_json(const bx_run *run, const bx_result *results, size_t count);
/* Reads "ALIAS=NAME" or "NAME" of bx_kernel.ratios: writes the name of the ratio to `alias`,
 * returns that of the method, a part of `entry`. */
const char *bx_metrics_ratio_method(const char *entry, char alias[64]);

/* ---- table.c: printed from the JSON ---- */

/* Prints the methods with their metrics, wrong answers, and the kernel's notes. */
void bx_table_print(const bx_run *run, const cJSON *root);
/* Prints, for --profile, where each method's time goes. */
void bx_table_print_profile(const cJSON *root);

/* ---- carried.c: what the network adapters of each node did during the measurement ---- */

/* The counters of this rank's host and its payload when the measurement begins. */
typedef struct bx_carried bx_carried;

/* Reads the counters; one rank of each host does.  Local. */
bx_carried *bx_carried_begin(const bx_run *run);
/* Reads them again and returns the result's "adapters" on rank 0 (the caller deletes it), NULL on
 * the others; frees `begun`.  Collective. */
cJSON *bx_carried_end(const bx_run *run, bx_carried *begun);
