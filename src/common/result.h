/* The result as JSON; result.schema.json describes it (all on rank 0, local). */
#ifndef BX_RESULT_H
#define BX_RESULT_H

#include "measure.h"

/* Returns the entry of results[index] in "results"; the caller deletes it. */
cJSON *bx_result_json(const bx_run *run, const bx_result *results, size_t count, size_t index);
/* Writes a result to a file, whole or not at all.  Returns 0 or an errno. */
int bx_result_write(const char *path, const cJSON *root);
/* Returns "build" of the result: version, commit, compiler, libraries; the caller deletes it. */
cJSON *bx_build_json(void);

#endif
