#include "mutant.h"

#include <stdlib.h>
#include <string.h>

bool bx_is_mutant(const char *name)
{
    static const char *chosen;
    if (!chosen && !(chosen = getenv("BX_MUTANT"))) chosen = "";
    return strcmp(chosen, name) == 0;
}
