#include "result.h"

#include <errno.h>
#include <stdlib.h>

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

static cJSON *verification_json(const bx_result *result)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddBoolToObject(json, "passed", result->verified);
    cJSON *list = cJSON_AddArrayToObject(json, "checks");
    for (int i = 0; i < result->verification.count; i++) {
        const bx_outcome *outcome = &result->verification.outcomes[i];
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddStringToObject(entry, "name", outcome->name);
        BX_NUMBERS(entry, {"error", outcome->error}, {"tolerance", outcome->tolerance});
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
    cJSON_AddItemToObject(json, "waited", cJSON_CreateDoubleArray(result->waited, (int)count));
    double *column = bx_memory_alloc(count ? count : 1, sizeof *column);
    for (size_t i = 0; i < count; i++) column[i] = (double)(i / (size_t)run->common.block);
    cJSON_AddItemToObject(json, "rounds", cJSON_CreateDoubleArray(column, (int)count));
    for (size_t i = 0; i < count; i++) column[i] = result->preempted[i];
    cJSON_AddItemToObject(json, "preempted", cJSON_CreateDoubleArray(column, (int)count));
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
    cJSON_AddItemToObject(json, "metrics", bx_metrics_json(run, results, count, result));
    return json;
}
