/* For sources that mutants.py wrote. */
#pragma once

#include <stdbool.h>

/* True if the environment variable BX_MUTANT has this name. */
bool bx_is_mutant(const char *name);
