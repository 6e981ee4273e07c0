/* The result as JSON; result.schema.json describes it (all on rank 0, local). */
#ifndef BX_RESULT_H
#define BX_RESULT_H

#include "measure.h"

cJSON *bx_result_json(const bx_run *run, const bx_result *results, size_t count, size_t index);
int bx_result_write(const char *path, const cJSON *root); /* 0 or an errno */
cJSON *bx_build_json(void);

#endif
