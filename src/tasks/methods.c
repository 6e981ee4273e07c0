#include "tasks.h"

const bx_tasks_method *const bx_tasks_table[] = {
#define ENTRY(name) &bx_tasks_##name,
    BX_METHODS(ENTRY)};
const size_t bx_tasks_count = sizeof bx_tasks_table / sizeof *bx_tasks_table;
