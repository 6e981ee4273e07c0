/* What samples amount to: times, ratios, shares (all on rank 0, local). */
#ifndef BX_METRICS_H
#define BX_METRICS_H

#include "measure.h"

/* The rule for samples that other processes spoilt: whether a sample of so many seconds with so
 * many involuntary context switches was preempted. */
bool bx_metrics_preempted(double seconds, double switches);
cJSON *bx_metrics_json(const bx_run *run, const bx_result *results, size_t count,
                       const bx_result *result);
cJSON *bx_metrics_best_json(const bx_run *run, const bx_result *results, size_t count);
/* "ALIAS=NAME" or "NAME" of bx_kernel.ratios: what the ratio is called; returns the method. */
const char *bx_metrics_ratio_method(const char *entry, char alias[64]);

#endif
