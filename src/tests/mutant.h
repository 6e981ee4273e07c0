/* For sources that mutants.py wrote. */
#ifndef BX_MUTANT_H
#define BX_MUTANT_H

#include <stdbool.h>

/* True if the environment variable BX_MUTANT has this name. */
bool bx_is_mutant(const char *name);

#endif
