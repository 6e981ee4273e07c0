/* The command line. */
#ifndef BX_OPTIONS_H
#define BX_OPTIONS_H

#include "run.h"

/* Fills run->common and the kernel's own options; BX_OK, or what bx_run_refuse returned (local). */
int bx_options_parse(bx_run *run, int argc, char **argv);
void bx_options_help(const bx_run *run); /* prints; local */
void bx_options_list(const bx_run *run); /* prints; local */
cJSON *bx_options_json(const bx_run *run);

#endif
