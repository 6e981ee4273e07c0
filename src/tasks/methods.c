#include "tasks.h"

const bx_tasks_entry bx_tasks_table[] = {
#define BX_CASE(...)
#define BX_METHOD(name) {#name, &bx_tasks_##name},
#include "tasks.def"
};
const size_t bx_tasks_count = sizeof bx_tasks_table / sizeof *bx_tasks_table;
