/* A kernel on a host that is built otherwise than this one.  BX_HOST=large: it has 2,048 CPUs, of
 * which every other one may be used, and 2000.  BX_HOST=single: the MPI library grants no thread
 * beside the main one.  BX_HOST=endless: MPI does not end. */
#include <errno.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CPUS = 2048 };

static int is_host(const char *name)
{
    const char *host = getenv("BX_HOST");
    return host && strcmp(host, name) == 0;
}

int sched_getaffinity(pid_t task, size_t size, cpu_set_t *set)
{
    memset(set, 0, size);
    if (!is_host("large")) return syscall(SYS_sched_getaffinity, task, size, set) < 0 ? -1 : 0;
    errno = EINVAL;
    if (size < CPU_ALLOC_SIZE(CPUS)) return -1;
    for (int cpu = 1; cpu < CPUS; cpu += 2) CPU_SET_S(cpu, size, set);
    CPU_SET_S(2000, size, set);
    return 0;
}

int PMPI_Query_thread(int *granted)
{
    *granted = is_host("single") ? MPI_THREAD_SINGLE : MPI_THREAD_FUNNELED;
    return MPI_SUCCESS;
}

int MPI_Finalize(void)
{
    while (is_host("endless")) pause();
    return PMPI_Finalize();
}
