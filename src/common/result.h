/* The result: metrics, JSON (checks/bisection/kernels/result.schema.json), the table for people.
 * All on rank 0 and local, unless it says otherwise. */
#pragma once

#include "json.h"
#include "measure.h"

/* Adds a result, whose metrics are there, to the array "results". */
void bx_result_add(bx_json *list, const bx_run *run, const bx_result *result);
/* Writes a result to a file, whole or not at all.  Returns 0 or an errno. */
int bx_result_write(const char *path, const bx_json *root);
/* Adds "build" of the result: version, commit, compiler, libraries. */
void bx_build_add(bx_json *object);

/* ---- metrics.c: times, ratios, shares, from samples ---- */

/* Fills the metrics of one of the results. */
void bx_metrics_fill(const bx_run *run, const bx_result *results, size_t count, bx_result *result);
/* Returns a metric's value; NaN if it is not there. */
double bx_metrics_get(const bx_result *result, const char *name);
/* Adds the name of the fastest method of each family at the first point. */
void bx_metrics_add_best(bx_json *object, const bx_run *run, const bx_result *results,
                         size_t count);
/* Reads "ALIAS=NAME" or "NAME" of bx_kernel.ratios: writes the name of the ratio to `alias`,
 * returns that of the method, a part of `entry`. */
const char *bx_metrics_ratio_method(const char *entry, char alias[64]);

/* ---- table.c ---- */

/* Prints the methods with their metrics, wrong answers, and the kernel's notes. */
void bx_table_print(const bx_run *run, const bx_result *results, size_t count);
/* Prints, for --profile, where each method's time goes. */
void bx_table_print_profile(const bx_run *run, const bx_result *results, size_t count);

/* ---- carried.c: what the network adapters of each node did during the measurement ---- */

/* The counters of this rank's host and its payload when the measurement begins. */
typedef struct bx_carried bx_carried;

/* Reads the counters; one rank of each host does.  Local. */
bx_carried *bx_carried_begin(const bx_run *run);
/* Reads them again and adds the result's "adapters" to an array of rank 0; frees `begun`.
 * Collective. */
void bx_carried_end(const bx_run *run, bx_carried *begun, bx_json *list);
