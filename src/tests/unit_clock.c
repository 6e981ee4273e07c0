/* Between the barrier before a step and the step itself, its clock is read once, and the operating
 * system is not called: others would wait for what a rank does there, within their samples.
 *
 * Times would show that on a quiet machine alone.  So a system call in between raises a signal,
 * whatever makes it (Linux 5.11, Documentation/admin-guide/syscall-user-dispatch.rst), and readings
 * of the clock are counted. */
#include "measure.h"
#include "unit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON 1
#endif
enum { ALLOW, BLOCK, SKIPPED = 77 };

static volatile char calls_are = ALLOW; /* the operating system reads it before each call */
static volatile int call;               /* the last that was made in between */
static bool watches, prepared, between;
static int readings, steps;

static void note_call(int signal, siginfo_t *about, void *context)
{
    call = about->si_syscall;
    calls_are = ALLOW; /* for the return from here */
}

static void watch_calls(void)
{
    struct sigaction action = {.sa_sigaction = note_call, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, NULL);
    watches = prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &calls_are) == 0;
    calls_are = watches ? BLOCK : ALLOW;
    getppid();
    CHECK(!watches || call == SYS_getppid);
}

double __real_PMPI_Wtime(void);
double __wrap_PMPI_Wtime(void);
double __wrap_PMPI_Wtime(void)
{
    if (between) readings++;
    return __real_PMPI_Wtime();
}

int __real_PMPI_Barrier(MPI_Comm comm);
int __wrap_PMPI_Barrier(MPI_Comm comm);
int __wrap_PMPI_Barrier(MPI_Comm comm)
{
    int code = __real_PMPI_Barrier(comm);
    if (!prepared) return code;
    prepared = false;
    between = true;
    calls_are = BLOCK;
    return code;
}

static void prepare(void *state, size_t method, size_t point)
{
    prepared = true;
    readings = call = 0;
}

static void step(void *state, size_t method, size_t point)
{
    calls_are = ALLOW;
    steps += between;
    between = false;
    CHECK(readings == 1);
    if (call == SYS_clock_gettime) watches = false; /* the clock is a system call here */
    if (call && watches) fprintf(stderr, "step %d: system call %d\n", steps, call);
    CHECK(!call || !watches);
}

int main(int argc, char **argv)
{
    static const bx_choice methods[] = {{"one", "", "", false, NULL}};
    static const bx_kernel kernel = {
        .name = "unit", .methods = methods, .method_count = 1, .prepare = prepare, .step = step};
    const int node_of[] = {0};
    bool selected[] = {true};
    size_t count;
    MPI_Init(&argc, &argv);
    bx_run run = {.kernel = &kernel,
                  .common = {.repeats = 2, .block = 2, .warmup = 1},
                  .world = MPI_COMM_SELF,
                  .size = 1,
                  .threads = 1,
                  .selected = selected};
    watch_calls();
    bx_profile_start(run.world, node_of, false);
    bx_result *results = bx_results_create(&run, &count);
    results[0].verified = true;
    bx_measure_all(&run, results, count, NULL, NULL);
    CHECK(steps == 6 && results[0].sample_count == 4);
    bx_results_free(results, count);
    bx_profile_stop();
    MPI_Finalize();
    if (!watches) fprintf(stderr, "skipped: system calls cannot be watched here\n");
    return unit_failures ? 1 : watches ? 0 : SKIPPED;
}
