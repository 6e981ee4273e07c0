/* The command line. */
#ifndef BX_OPTIONS_H
#define BX_OPTIONS_H

#include "run.h"

/* Fills run->common, run->selected and the kernel's own options.  Refuses with BX_USAGE an unknown
 * option, method or case, and a value that is no number or is outside its bounds.  Returns BX_OK or
 * the code of the refusal.  Local. */
int bx_options_parse(bx_run *run, int argc, char **argv);
/* Prints the text of --help.  Local. */
void bx_options_help(const bx_run *run);
/* Prints the cases and methods of --list.  Local. */
void bx_options_list(const bx_run *run);
/* Returns the values of all options as an object by name; the caller deletes it.  Local. */
cJSON *bx_options_json(const bx_run *run);

#endif
