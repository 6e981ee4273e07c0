/* Claims of memory and time: a launch states its needs before it uses them, and is refused where
 * they are too large. */
#include "run.h"

#include "charge.h"
#include "host.h"
#include "layout.h"

#include <stdlib.h>

/* "35 s", "2.5 h" */
static void duration(char *text, size_t size, double seconds)
{
    static const struct {
        double seconds;
        const char *unit;
    } UNITS[] = {{86400, "days"}, {3600, "h"}, {60, "min"}};
    for (size_t i = 0; i < sizeof UNITS / sizeof *UNITS; i++)
        if (seconds >= 2 * UNITS[i].seconds) {
            snprintf(text, size, "%.3g %s", seconds / UNITS[i].seconds, UNITS[i].unit);
            return;
        }
    snprintf(text, size, "%.*f s", seconds < 10, seconds);
}

/* A simulation has the memory of one real host. */
static MPI_Comm node_of(const bx_run *run) { return BX_IS_SIMULATED ? run->world : run->host; }

/* The bytes that this rank's node has free: `left` beside the claims of all its ranks, and what
 * they need of that. */
static void ask_node(const bx_run *run, double claimed, double bytes, double *need, double *left)
{
    int rank;
    PMPI_Comm_rank(node_of(run), &rank);
    double all[2], mine[] = {bytes, (rank == 0 ? bx_host_memory_free() : 0) - claimed};
    PMPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, node_of(run));
    *need = all[0];
    *left = all[1];
}

int bx_resources_claim_memory(bx_run *run, double bytes, const char *sized_by)
{
    double need, have, largest;
    ask_node(run, 0, bytes, &need, &have);
    PMPI_Allreduce(&need, &largest, 1, MPI_DOUBLE, MPI_MAX, run->world);
    run->bytes_needed += largest;
    if (need > have)
        bx_run_refuse(run, BX_RESOURCES, "%s: needs %.3g GiB on this node, which has %.3g GiB free",
                      sized_by, need / 0x1p30, have / 0x1p30);
    return bx_run_agree(run);
}

void bx_resources_by_node(const bx_run *run, int count, const double *bytes, double *need)
{
    PMPI_Allreduce(bytes, need, count, MPI_DOUBLE, MPI_SUM, node_of(run));
    PMPI_Allreduce(MPI_IN_PLACE, need, count, MPI_DOUBLE, MPI_MAX, run->world);
}

bool bx_resources_fits(const bx_run *run, double claimed, double bytes, double *need, double *left)
{
    struct {
        double lacks;
        int rank;
    } mine, worst;
    double node[2];
    ask_node(run, claimed, bytes, &node[0], &node[1]);
    mine.lacks = node[0] - node[1];
    mine.rank = run->rank;
    PMPI_Allreduce(&mine, &worst, 1, MPI_DOUBLE_INT, MPI_MAXLOC, run->world);
    PMPI_Bcast(node, 2, MPI_DOUBLE, worst.rank, run->world);
    *need = node[0];
    *left = fmax(0, node[1]);
    return !(worst.lacks > 0);
}

/* The cost of verification in steps of a method: about one step in each direction, and the
 * reference. */
enum { VERIFYING_STEPS = 3 };

double bx_resources_threads_per_core(const bx_run *run)
{
    int ranks;
    size_t size; /* the same on all ranks of a host */
    cpu_set_t *usable = bx_layout_cpus(bx_run_threads(run), NULL, &size);
    PMPI_Comm_size(run->host, &ranks);
    PMPI_Allreduce(MPI_IN_PLACE, usable, (int)size, MPI_BYTE, MPI_BOR, run->host);
    double share = (double)ranks * run->threads / fmax(1, CPU_COUNT_S(size, usable));
    free(usable);
    return fmax(1, share);
}

int bx_resources_claim_time(bx_run *run, double setup_seconds, double round_seconds,
                            const char *sized_by)
{
    double steps = VERIFYING_STEPS + (double)run->common.repeats * (double)bx_run_block_steps(run);
    double mine = (setup_seconds + steps * round_seconds) * bx_resources_threads_per_core(run);
    PMPI_Allreduce(&mine, &run->seconds_needed, 1, MPI_DOUBLE, MPI_MAX, run->world);
    char need[32], limit[32];
    duration(need, sizeof need, run->seconds_needed);
    duration(limit, sizeof limit, run->common.limit);
    if (run->seconds_needed > run->common.limit)
        bx_run_refuse(
            run, BX_RESOURCES,
            "%s: takes about %s here, longer than --limit, which is %s; raise --limit, or "
            "choose a smaller size or fewer methods or --repeats",
            sized_by, need, limit);
    return bx_run_agree(run);
}

void bx_resources_print(const bx_run *run)
{
    bool memory = run->bytes_needed > 0, time = run->seconds_needed > 0;
    char text[32];
    if (run->rank != 0 || !(memory || time)) return;
    printf("%s %s: needs", run->kernel->name, run->common.case_name);
    if (memory) printf(" %.2g GiB of memory per node", run->bytes_needed / 0x1p30);
    duration(text, sizeof text, run->seconds_needed);
    if (time) printf("%s about %s", memory ? "," : "", text);
    printf("\n");
    fflush(stdout);
}
