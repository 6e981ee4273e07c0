/* Memory and cores that are wrong as BX_FAULT says: "copy", "core"; "slow": a copy takes 20 ms
 * more. */
#include "faulty.h"

#include <unistd.h>

void *bx_faulty_copy(void *to, const void *from, size_t bytes)
{
    memmove(to, from, bytes);
    if (faulty("slow")) usleep(20000);
    if (faulty("copy")) ((unsigned char *)to)[bytes / 2] ^= 1;
    return to;
}

double bx_host_run_chain(int turns, bool *right);

double bx_faulty_chain(int turns, bool *right)
{
    double seconds = bx_host_run_chain(turns, right);
    *right = *right && !faulty("core");
    return seconds;
}
