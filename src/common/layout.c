/* Nodes, host names, and the cores that ranks and threads may use. */
#include "layout.h"

#include "charge.h"
#include "cpus.h"
#include "host.h"
#include "json.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_TEXT = 64, MOST_THREADS = 1024 };

/* Nodes are numbered in the order of their first rank. */
static void number_nodes(bx_run *run)
{
    int first = run->rank;
    PMPI_Bcast(&first, 1, MPI_INT, 0, run->node);
    BX_ALLOC((size_t)run->size, run->node_of);
    int *first_of = bx_memory_alloc((size_t)run->size, sizeof *first_of);
    PMPI_Allgather(&first, 1, MPI_INT, first_of, 1, MPI_INT, run->world);
    run->node_count = 0;
    for (int r = 0; r < run->size; r++)
        run->node_of[r] = first_of[r] == r ? run->node_count++ : run->node_of[first_of[r]];
    free(first_of);
}

/* Threads per rank: one unless OMP_NUM_THREADS says otherwise, as OpenMP's own default is all cores
 * for every rank of the node.  A value that is refused must not reach the runtime, which may crash
 * on it. */
static int ask_threads(bx_run *run)
{
    const char *text = getenv("OMP_NUM_THREADS");
    char *end = NULL;
    long threads = text ? strtol(text, &end, 10) : 1;
    if (text && (end == text || (*end && *end != ',') || threads < 1 || threads > MOST_THREADS)) {
        bx_run_refuse(run, BX_USAGE, "OMP_NUM_THREADS %.40s: not a whole number from 1 to %d", text,
                      MOST_THREADS);
        return 1;
    }
    omp_set_dynamic(0); /* the runtime may not choose fewer from region to region */
    omp_set_num_threads(BX_IS_SIMULATED ? 1 : (int)threads);
    return (int)threads;
}

/* Refuses threads that OpenMP or the MPI library does not grant. */
static void check_threads(bx_run *run)
{
    int granted, team = 1;
    if (BX_IS_SIMULATED || run->refusal != BX_OK) return;
    PMPI_Query_thread(&granted);
    if (run->threads > 1 && granted < MPI_THREAD_FUNNELED)
        bx_run_refuse(run, BX_RESOURCES,
                      "OMP_NUM_THREADS %d: this MPI library grants MPI_THREAD_SINGLE, which allows "
                      "1 thread per rank",
                      run->threads);
#pragma omp parallel
#pragma omp single
    team = omp_get_num_threads();
    if (team != run->threads)
        bx_run_refuse(run, BX_RESOURCES,
                      "OMP_NUM_THREADS %d: OpenMP grants %d per rank; OMP_THREAD_LIMIT and "
                      "OMP_MAX_ACTIVE_LEVELS must allow %d",
                      run->threads, team, run->threads);
}

int bx_layout_discover(bx_run *run)
{
    int64_t per_node = run->common.ranks_per_node;
    if (per_node > 0)
        PMPI_Comm_split(run->world, (int)(run->rank / per_node), run->rank, &run->node);
    else
        PMPI_Comm_split_type(run->world, MPI_COMM_TYPE_SHARED, run->rank, MPI_INFO_NULL,
                             &run->node);
    PMPI_Comm_rank(run->node, &run->node_rank);
    PMPI_Comm_size(run->node, &run->node_size);
    number_nodes(run);
    /* an emulated node lies within a real one, whose memory its ranks share */
    MPI_Comm both;
    int both_size, threads[2];
    PMPI_Comm_split_type(run->world, MPI_COMM_TYPE_SHARED, run->rank, MPI_INFO_NULL, &run->host);
    PMPI_Comm_split_type(run->node, MPI_COMM_TYPE_SHARED, run->rank, MPI_INFO_NULL, &both);
    PMPI_Comm_size(both, &both_size);
    PMPI_Comm_free(&both);
    if (both_size < run->node_size)
        bx_run_refuse(run, BX_USAGE, "--ranks-per-node %lld: more ranks than a node holds here",
                      (long long)per_node);
    run->threads = ask_threads(run);
    check_threads(run);
    int mine[2] = {run->threads, -run->threads};
    PMPI_Allreduce(mine, threads, 2, MPI_INT, MPI_MAX, run->world);
    if (threads[0] != -threads[1])
        bx_run_refuse(run, BX_USAGE,
                      "OMP_NUM_THREADS: ranks have from %d to %d threads, not the same",
                      -threads[1], threads[0]);
    return bx_run_agree(run);
}

void bx_layout_free(bx_run *run)
{
    if (!run->node_of) return;
    PMPI_Comm_free(&run->node);
    PMPI_Comm_free(&run->host);
    free(run->node_of);
}

/* texts[threads + 1]: the CPUs that each thread may use, where the OpenMP runtime has placed it,
 * then those of the rank.  A bound main thread has fewer than its process. */
static void thread_cpus(char *texts[], int threads)
{
    size_t size;
    cpu_set_t *of_rank = bx_cpus_allowed(&size);
    CPU_ZERO_S(size, of_rank);
#pragma omp parallel for schedule(static, 1)
    for (int t = 0; t < threads; t++) {
        size_t same; /* on one host */
        cpu_set_t *mine = bx_cpus_allowed(&same);
        texts[t] = bx_cpus_text(mine, same);
#pragma omp critical
        CPU_OR_S(size, of_rank, of_rank, mine);
        free(mine);
    }
    texts[threads] = bx_cpus_text(of_rank, size);
    free(of_rank);
}

/* [size][bytes] of all ranks on rank 0; NULL elsewhere. */
static void *gather(const bx_run *run, const void *mine, int bytes)
{
    void *all = run->rank == 0 ? bx_memory_alloc((size_t)run->size, (size_t)bytes) : NULL;
    PMPI_Gather(mine, bytes, MPI_CHAR, all, bytes, MPI_CHAR, 0, run->world);
    return all;
}

void bx_layout_add(const bx_run *run, bx_json *json)
{
    char host[HOST_TEXT] = "";
    gethostname(host, sizeof host - 1);
    int threads = run->threads, width = 0;
    char **texts = bx_memory_alloc((size_t)threads + 1, sizeof *texts);
    thread_cpus(texts, threads);
    for (int t = 0; t <= threads; t++)
        if (width <= (int)strlen(texts[t])) width = (int)strlen(texts[t]) + 1;
    PMPI_Allreduce(MPI_IN_PLACE, &width, 1, MPI_INT, MPI_MAX, run->world);
    char *mine = bx_memory_alloc((size_t)threads + 1, (size_t)width);
    for (int t = 0; t <= threads; t++) {
        strcpy(mine + (size_t)t * (size_t)width, texts[t]);
        free(texts[t]);
    }
    free(texts);
    char *hosts = gather(run, host, HOST_TEXT);
    char *places = gather(run, mine, width * (threads + 1));
    free(mine);
    int largest;
    PMPI_Reduce(&run->node_size, &largest, 1, MPI_INT, MPI_MAX, 0, run->world);
    if (run->rank != 0) return;
    BX_NUMBERS(json, {"nodes", run->node_count}, {"ranks", run->size}, {"threads", threads},
               {"ranks_per_node", largest});
    bx_json_bool(json, "emulated_nodes", run->common.ranks_per_node > 0);
    bx_json *list = bx_json_array(json, "per_rank");
    for (int r = 0; r < run->size; r++) {
        bx_json *entry = bx_json_object(list, NULL);
        BX_NUMBERS(entry, {"rank", r}, {"node", run->node_of[r]});
        const char *seat = places + (size_t)r * (size_t)(threads + 1) * (size_t)width;
        BX_TEXTS(entry, {"host", hosts + (size_t)r * HOST_TEXT}, {"cpus", seat + threads * width});
        bx_json *of_threads = bx_json_array(entry, "threads");
        for (int t = 0; t < threads; t++) bx_json_text(of_threads, NULL, seat + t * width);
    }
    BX_FREE(hosts, places);
}

void bx_layout_add_clock(const bx_run *run, bx_json *layout)
{
    PMPI_Barrier(run->world); /* all cores work at once, as they do in a step */
    double ghz = bx_host_clock_ghz(run->threads);
    double *of_rank = gather(run, &ghz, sizeof ghz);
    if (run->rank != 0) return;
    bx_json *entry = bx_json_get(layout, "per_rank")->first;
    for (int r = 0; r < run->size; r++, entry = entry->next) {
        bx_json *clock = bx_json_get(entry, "ghz");
        if (!clock) clock = bx_json_array(entry, "ghz");
        if (!isnan(of_rank[r])) bx_json_number(clock, NULL, round(of_rank[r] * 1e4) / 1e4);
    }
    free(of_rank);
}

/* Of a host's first rank. */
typedef struct {
    bx_host host;
    char name[HOST_TEXT]; /* "": listed */
    int first_rank;
} bx_first;

/* Only the first ranks of hosts take part, as a description takes half a kilobyte. */
void bx_layout_add_hosts(const bx_run *run, bx_json *list)
{
    MPI_Comm firsts;
    int rank_on_host, hosts;
    PMPI_Comm_rank(run->host, &rank_on_host);
    PMPI_Comm_split(run->world, rank_on_host == 0 ? 0 : MPI_UNDEFINED, run->rank, &firsts);
    if (firsts == MPI_COMM_NULL) return;
    bx_first mine = {.first_rank = run->rank}, *all = NULL;
    bx_host_describe(&mine.host);
    gethostname(mine.name, sizeof mine.name - 1);
    PMPI_Comm_size(firsts, &hosts);
    if (run->rank == 0) all = bx_memory_alloc((size_t)hosts, sizeof *all);
    PMPI_Gather(&mine, sizeof mine, MPI_CHAR, all, sizeof mine, MPI_CHAR, 0, firsts);
    PMPI_Comm_free(&firsts);
    for (bx_first *host = all; run->rank == 0 && host < all + hosts; host++) {
        if (!*host->name) continue;
        bx_json *entry = bx_json_object(list, NULL);
        BX_TEXTS(entry, {"cpu", host->host.cpu}, {"kernel", host->host.kernel},
                 {"architecture", host->host.architecture}, {"firmware", host->host.firmware});
        bx_json_number(entry, "first_rank", host->first_rank);
        bx_json *alike = bx_json_array(entry, "names");
        for (bx_first *other = host; other < all + hosts; other++) {
            if (!*other->name || memcmp(&host->host, &other->host, sizeof host->host) != 0)
                continue;
            bx_json_text(alike, NULL, other->name);
            *other->name = '\0';
        }
    }
    free(all);
}
