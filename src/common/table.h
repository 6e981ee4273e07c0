/* The result for people, made from its JSON (all on rank 0, local). */
#ifndef BX_TABLE_H
#define BX_TABLE_H

#include "run.h"

void bx_table_print(const bx_run *run, const cJSON *root);
void bx_table_print_profile(const cJSON *root);

#endif
