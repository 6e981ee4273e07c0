/* Metrics from samples: times, ratios, shares (all on rank 0, local).  The caller deletes JSON. */
#ifndef BX_METRICS_H
#define BX_METRICS_H

#include "measure.h"

/* Returns the metrics of one of the results, as an object by name. */
cJSON *bx_metrics_json(const bx_run *run, const bx_result *results, size_t count,
                       const bx_result *result);
/* Returns the fastest method of each family at the first point, as an object of names. */
cJSON *bx_metrics_best_json(const bx_run *run, const bx_result *results, size_t count);
/* Reads "ALIAS=NAME" or "NAME" of bx_kernel.ratios: writes the name of the ratio to `alias`,
 * returns that of the method, a part of `entry`. */
const char *bx_metrics_ratio_method(const char *entry, char alias[64]);

#endif
