/* The functions that kernels call: facts of the run, refusals, laps, notes, tables. */
#include "charge.h"
#include "watchdog.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

MPI_Comm bx_run_comm(const bx_run *run) { return run->world; }
int bx_run_rank(const bx_run *run) { return run->rank; }
int bx_run_ranks(const bx_run *run) { return run->size; }
MPI_Comm bx_run_node_comm(const bx_run *run) { return run->node; }
const int *bx_run_node_of(const bx_run *run) { return run->node_of; }
int bx_run_node_count(const bx_run *run) { return run->node_count; }
/* Where threads are simulated, one computes what all are charged for. */
int bx_run_threads(const bx_run *run) { return BX_IS_SIMULATED ? 1 : run->threads; }
uint64_t bx_run_seed(const bx_run *run) { return (uint64_t)run->common.seed; }
const char *bx_run_case(const bx_run *run) { return run->common.case_name; }

size_t bx_run_case_index(const bx_run *run)
{
    for (size_t i = 0; i < run->kernel->case_count; i++)
        if (strcmp(run->kernel->cases[i].name, run->common.case_name) == 0) return i;
    return 0;
}
const char *bx_run_output(const bx_run *run) { return run->common.output; }
bool bx_run_is_emulated(const bx_run *run) { return run->common.ranks_per_node > 0; }
int64_t bx_run_block_steps(const bx_run *run) { return run->common.warmup + run->common.block; }
bool bx_run_is_sampling(const bx_run *run) { return run->sampling; }
void bx_run_set_case(bx_run *run, const char *name) { run->common.case_name = name; }

bool bx_run_case_is_given(const bx_run *run)
{
    return run->common.case_name != run->kernel->cases[0].name; /* the default's own text */
}

bool bx_run_is_selected(const bx_run *run, const char *method)
{
    for (size_t m = 0; m < run->kernel->method_count; m++)
        if (run->selected[m] && strcmp(run->kernel->methods[m].name, method) == 0) return true;
    return false;
}

bool bx_mpi_4_applies(char *why, size_t why_size)
{
#ifdef BX_MPI_4
    return true;
#else
    snprintf(why, why_size, BX_BUILT_WITHOUT "MPI 4");
    return false;
#endif
}

int bx_run_refuse(bx_run *run, int code, const char *format, ...)
{
    if (run->refusal != BX_OK) return run->refusal; /* the first reason counts */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run->message, sizeof run->message, format, arguments);
    va_end(arguments);
    run->refusal = code;
    return code;
}

int bx_run_one_of(bx_run *run, const char *option, const char *value, const char *names)
{
    int index = bx_text_index(value, names, ", ");
    if (index < 0)
        bx_run_refuse(run, BX_USAGE, "--%s %s: unknown; choose from %s", option, value, names);
    return index;
}

/* Every rank takes the message of the lowest rank with the largest code. */
int bx_run_agree(bx_run *run)
{
    struct {
        int code, rank;
    } mine = {run->refusal, run->rank}, worst;
    PMPI_Allreduce(&mine, &worst, 1, MPI_2INT, MPI_MAXLOC, run->world);
    if (worst.code == BX_OK) return BX_OK;
    PMPI_Bcast(run->message, sizeof run->message, MPI_CHAR, worst.rank, run->world);
    run->refusal = worst.code;
    return worst.code;
}

void bx_run_progress(bx_run *run, int64_t part) { bx_watchdog_part(part); }

void bx_run_await(bx_run *run, int rank, const char *host) { bx_watchdog_await(rank, host); }

#ifdef BX_SIMULATED /* a rank has a core for itself; SimGrid 3.32's MPI_Ibarrier holds nobody */
void bx_run_sleep_until(MPI_Request *request) { PMPI_Wait(request, MPI_STATUS_IGNORE); }

void bx_run_sleep_barrier(MPI_Comm comm) { PMPI_Barrier(comm); }
#else
void bx_run_sleep_until(MPI_Request *request)
{
    double start = MPI_Wtime();
    int done = 0;
    while (PMPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
        double seconds = fmin(fmax((MPI_Wtime() - start) / 16, 20e-6), 300e-6);
        nanosleep(&(struct timespec){.tv_nsec = (long)(seconds * 1e9)}, NULL);
    }
}

void bx_run_sleep_barrier(MPI_Comm comm)
{
    MPI_Request request;
    PMPI_Ibarrier(comm, &request);
    bx_run_sleep_until(&request);
}
#endif

void bx_run_note(bx_run *run, const char *format, ...)
{
    if (run->rank != 0) return;
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    run->notes = bx_memory_grow(run->notes, (size_t)run->note_count + 1, sizeof *run->notes);
    run->notes[run->note_count++] = bx_memory_copy_text(line);
}

static void add(const bx_choice **list, size_t *count, const bx_choice *about)
{
    bx_choice *longer = bx_memory_grow((bx_choice *)*list, *count + 1, sizeof *longer);
    longer[(*count)++] = *about;
    *list = longer;
}

void bx_kernel_add_case(bx_kernel *kernel, const bx_choice *about)
{
    add(&kernel->cases, &kernel->case_count, about);
}

void bx_kernel_add_method(bx_kernel *kernel, const bx_choice *about)
{
    bx_choice method = *about;
    char *name = bx_memory_copy_text(about->name);
    for (char *c = name; *c; c++)
        if (*c == '_') *c = '-';
    method.name = name;
    add(&kernel->methods, &kernel->method_count, &method);
}

int *bx_random_order(int count, uint64_t seed)
{
    int *order = bx_memory_alloc((size_t)count, sizeof *order);
    for (int i = 0; i < count; i++) order[i] = i;
    for (int i = count - 1; i > 0; i--) {
        int k = (int)(bx_random_hash(seed, (uint64_t)i) % (uint64_t)(i + 1)), kept = order[i];
        order[i] = order[k];
        order[k] = kept;
    }
    return order;
}
