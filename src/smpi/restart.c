/* No restart files: a simulated launch refuses them by name. */
#include "bx_restart.h"

#include <stdio.h>

static int refuse(const char *path, char *why, size_t why_size)
{
    snprintf(why, why_size, "%s: a simulated launch has no restart files", path);
    return 1;
}

int bx_restart_write(const char *path, MPI_Comm comm, const char *schema,
                     const bx_restart_number *numbers, size_t number_count,
                     const bx_restart_set *sets, size_t set_count, char *why, size_t why_size)
{
    (void)comm, (void)schema, (void)numbers, (void)number_count, (void)sets, (void)set_count;
    return refuse(path, why, why_size);
}

int bx_restart_read(const char *path, MPI_Comm comm, const char *schema, bx_restart_number *numbers,
                    size_t number_count, bx_restart_set *sets, size_t set_count, char *why,
                    size_t why_size)
{
    (void)comm, (void)schema, (void)numbers, (void)number_count, (void)sets, (void)set_count;
    return refuse(path, why, why_size);
}
