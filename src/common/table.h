/* The result for people, printed from its JSON (all on rank 0, local). */
#ifndef BX_TABLE_H
#define BX_TABLE_H

#include "run.h"

/* Prints the methods with their metrics, wrong answers, and the kernel's notes. */
void bx_table_print(const bx_run *run, const cJSON *root);
/* Prints, for --profile, where each method's time goes. */
void bx_table_print_profile(const cJSON *root);

#endif
