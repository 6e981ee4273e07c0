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

/* The kind of core of each CPU of this rank's host, as bx_host_kinds has it. */
static int *kinds_here(const bx_run *run, int *cpus)
{
    int rank, *kinds = NULL;
    PMPI_Comm_rank(run->host, &rank);
    *cpus = 0;
    if (rank == 0 && !BX_IS_SIMULATED)
        kinds = bx_host_kinds(bx_host_root("/sys/devices/system/cpu"), cpus);
    PMPI_Bcast(cpus, 1, MPI_INT, 0, run->host);
    if (*cpus && rank > 0) BX_ALLOC((size_t)*cpus, kinds);
    if (*cpus) PMPI_Bcast(kinds, *cpus, MPI_INT, 0, run->host);
    return kinds;
}

/* The kind of core of the CPUs of a set; -1 where they are of several, or it is unknown. */
static int kind_of(const cpu_set_t *set, size_t size, const int *kinds, int cpus)
{
    int kind = -1;
    for (int cpu = 0; cpu < (int)(8 * size); cpu++) {
        if (!CPU_ISSET_S(cpu, size, set)) continue;
        int of_cpu = cpu < cpus ? kinds[cpu] : -1;
        if (of_cpu < 0 || (kind >= 0 && kind != of_cpu)) return -1;
        kind = of_cpu;
    }
    return kind;
}

cpu_set_t *bx_layout_cpus(int threads, cpu_set_t *by_thread[], size_t *size)
{
    cpu_set_t *of_rank = bx_cpus_allowed(size);
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int t = 0; t < threads; t++) {
        size_t same; /* on one host */
        cpu_set_t *mine = bx_cpus_allowed(&same);
#pragma omp critical
        CPU_OR_S(*size, of_rank, of_rank, mine);
        if (by_thread)
            by_thread[t] = mine;
        else
            free(mine);
    }
    return of_rank;
}

/* texts[threads + 2]: the CPUs that each thread may use, then those of the rank; then the kinds of
 * core of its threads, listed as CPUs are, "any" where a thread may be on several, "" where all
 * cores of the host are alike. */
static void thread_cpus(const bx_run *run, char *texts[], int threads)
{
    size_t size;
    int cpus, *kinds = kinds_here(run, &cpus);
    bool unknown = false;
    cpu_set_t **by_thread = bx_memory_alloc((size_t)threads, sizeof *by_thread);
    cpu_set_t *of_rank = bx_layout_cpus(threads, by_thread, &size);
    cpu_set_t *kinds_of_rank = bx_memory_alloc(size, 1);
    for (int t = 0; t < threads; t++) {
        int kind = kind_of(by_thread[t], size, kinds, cpus);
        if (kind >= 0) CPU_SET_S((size_t)kind, size, kinds_of_rank);
        unknown = unknown || kind < 0;
        texts[t] = bx_cpus_text(by_thread[t], size);
        free(by_thread[t]);
    }
    texts[threads] = bx_cpus_text(of_rank, size);
    texts[threads + 1] = !kinds    ? bx_memory_copy_text("")
                         : unknown ? bx_memory_copy_text("any")
                                   : bx_cpus_text(kinds_of_rank, size);
    BX_FREE(kinds, by_thread, of_rank, kinds_of_rank);
}

/* Adds the CPUs that the ranks of this node and their threads may use to `seats` on its first rank.
 */
static void add_seats(const bx_run *run, bx_json *seats)
{
    int threads = run->threads, count = threads + 2, width = 0;
    char **texts = bx_memory_alloc((size_t)count, sizeof *texts);
    thread_cpus(run, texts, threads);
    for (int t = 0; t < count; t++)
        if (width <= (int)strlen(texts[t])) width = (int)strlen(texts[t]) + 1;
    PMPI_Allreduce(MPI_IN_PLACE, &width, 1, MPI_INT, MPI_MAX, run->node);
    size_t bytes = (size_t)count * (size_t)width;
    char *mine = bx_memory_alloc(bytes, 1),
         *all = seats ? bx_memory_alloc((size_t)run->node_size, bytes) : NULL;
    for (int t = 0; t < count; t++) {
        strcpy(mine + (size_t)t * (size_t)width, texts[t]);
        free(texts[t]);
    }
    PMPI_Gather(mine, (int)bytes, MPI_CHAR, all, (int)bytes, MPI_CHAR, 0, run->node);
    bx_json *cpus = bx_json_array(seats, "cpus"), *by_thread = bx_json_array(seats, "threads"),
            *kinds = all && all[(threads + 1) * width] ? bx_json_array(seats, "kinds") : NULL;
    for (int r = 0; all && r < run->node_size; r++) {
        const char *of_rank = all + (size_t)r * bytes;
        bx_json_text(cpus, NULL, of_rank + threads * width);
        if (kinds) bx_json_text(kinds, NULL, of_rank + (threads + 1) * width);
        bx_json *of_threads = bx_json_array(by_thread, NULL);
        for (int t = 0; t < threads; t++) bx_json_text(of_threads, NULL, of_rank + t * width);
    }
    BX_FREE(texts, mine, all);
}

static void name_host(char host[HOST_TEXT])
{
    memset(host, 0, HOST_TEXT);
    gethostname(host, HOST_TEXT - 1);
}

/* This rank's node: its number, its host, its ranks. */
static bx_json *describe_node(const bx_run *run)
{
    char host[HOST_TEXT];
    bx_json *node = bx_json_create();
    int me = run->node_of[run->rank];
    size_t bytes = CPU_ALLOC_SIZE((size_t)run->size);
    cpu_set_t *ranks = bx_memory_alloc(bytes, 1); /* as a set of CPUs, which can be written */
    for (int r = 0; r < run->size; r++)
        if (run->node_of[r] == me) CPU_SET_S((size_t)r, bytes, ranks);
    char *text = bx_cpus_text(ranks, bytes);
    name_host(host);
    bx_json_number(node, "node", me);
    BX_TEXTS(node, {"host", host}, {"ranks", text});
    BX_FREE(ranks, text);
    return node;
}

/* ---- equal descriptions of nodes or hosts are stored once, with their list ---- */

/* A rank, a hash of what it may have in common with others, and the first rank that has the same.
 */
typedef struct {
    uint64_t hash;
    int rank, first;
} bx_member;

static int by_hash(const void *a, const void *b)
{
    const bx_member *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int by_first(const void *a, const void *b)
{
    const bx_member *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The ranks of `comm` on its rank 0, group by group, in the order of their first ranks; NULL
 * elsewhere.  Sets *is_first where a rank is the first of its group. */
static bx_member *find_groups(MPI_Comm comm, const char *common, int *is_first)
{
    int rank, size;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &size);
    bx_member mine = {.rank = rank}, *members = NULL;
    int *firsts = NULL;
    for (const char *c = common; *c; c++) mine.hash = bx_random_hash(mine.hash, (unsigned char)*c);
    if (rank == 0) BX_ALLOC((size_t)size, members);
    PMPI_Gather(&mine, sizeof mine, MPI_BYTE, members, sizeof mine, MPI_BYTE, 0, comm);
    if (rank == 0) {
        qsort(members, (size_t)size, sizeof *members, by_hash);
        BX_ALLOC((size_t)size, firsts);
        for (int i = 0, first = 0; i < size; i++) {
            if (members[i].hash != members[first].hash) first = i;
            members[i].first = members[first].rank;
            firsts[members[i].first] = 1;
        }
        qsort(members, (size_t)size, sizeof *members, by_first);
    }
    PMPI_Scatter(firsts, 1, MPI_INT, is_first, 1, MPI_INT, 0, comm);
    free(firsts);
    return members;
}

char *bx_layout_gather_texts(MPI_Comm comm, const char *text)
{
    int rank, size, bytes = 0, length = text ? (int)strlen(text) + 1 : 0, *lengths = NULL,
                    *at = NULL;
    char *all = NULL;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &size);
    if (rank == 0) BX_ALLOC((size_t)size, lengths, at);
    PMPI_Gather(&length, 1, MPI_INT, lengths, 1, MPI_INT, 0, comm);
    for (int r = 0; lengths && r < size; bytes += lengths[r++]) at[r] = bytes;
    if (rank == 0) all = bx_memory_alloc((size_t)bytes + 1, 1);
    PMPI_Gatherv(text, length, MPI_CHAR, all, lengths, at, MPI_CHAR, 0, comm);
    BX_FREE(lengths, at);
    return all;
}

void bx_layout_add_groups(MPI_Comm comm, bx_json *common, bx_json *varied, bx_json *list,
                          const char *name)
{
    int size, is_first;
    char *text = bx_json_take_text(common), *varied_text = bx_json_take_text(varied);
    bx_member *members = find_groups(comm, text, &is_first);
    char *commons = bx_layout_gather_texts(comm, is_first ? text : NULL),
         *varied_texts = bx_layout_gather_texts(comm, varied_text);
    BX_FREE(text, varied_text);
    if (!members) return;
    PMPI_Comm_size(comm, &size);
    const char **varied_of = bx_memory_alloc((size_t)size, sizeof *varied_of), *next = varied_texts;
    for (int r = 0; r < size; next += strlen(next) + 1) varied_of[r++] = next;
    next = commons;
    for (int i = 0; i < size; next += strlen(next) + 1) {
        int first = members[i].first;
        size_t length;
        FILE *file = open_memstream(&text, &length);
        fprintf(file, "%.*s,\"%s\":[%s", (int)strlen(next) - 1, next, name, varied_of[first]);
        while (++i < size && members[i].first == first)
            fprintf(file, ",%s", varied_of[members[i].rank]);
        fprintf(file, "]}");
        fclose(file);
        bx_json_raw(list, NULL, text);
        free(text);
    }
    BX_FREE(members, commons, varied_texts, varied_of);
}

/* ---- the result's parts ---- */

/* A communicator of the first ranks of `of`'s; MPI_COMM_NULL on others. */
static MPI_Comm first_ranks(const bx_run *run, MPI_Comm of)
{
    MPI_Comm firsts;
    int rank;
    PMPI_Comm_rank(of, &rank);
    PMPI_Comm_split(run->world, rank == 0 ? 0 : MPI_UNDEFINED, run->rank, &firsts);
    return firsts;
}

void bx_layout_add(const bx_run *run, bx_json *json)
{
    int largest;
    PMPI_Reduce(&run->node_size, &largest, 1, MPI_INT, MPI_MAX, 0, run->world);
    BX_NUMBERS(json, {"nodes", run->node_count}, {"ranks", run->size}, {"threads", run->threads},
               {"ranks_per_node", largest});
    bx_json_bool(json, "emulated_nodes", run->common.ranks_per_node > 0);
    MPI_Comm firsts = first_ranks(run, run->node);
    bx_json *seats = firsts == MPI_COMM_NULL ? NULL : bx_json_create();
    add_seats(run, seats);
    bx_json *list = bx_json_array(json, "seats");
    bx_json_array(json, "ghz");
    if (!seats) return;
    bx_layout_add_groups(firsts, seats, describe_node(run), list, "nodes");
    PMPI_Comm_free(&firsts);
}

void bx_layout_add_clock(const bx_run *run, bx_json *layout)
{
    PMPI_Barrier(run->world); /* all cores work at once, as they do in a step */
    double ghz = round(bx_host_clock_ghz(run->threads) * 1e4) / 1e4, most = NAN, *all = NULL;
    if (run->rank == 0) BX_ALLOC((size_t)run->size, all);
    PMPI_Gather(&ghz, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, run->world);
    for (int r = 0; all && r < run->size; r++) most = fmax(most, all[r]);
    if (!isnan(most)) bx_json_list(bx_json_get(layout, "ghz"), NULL, (size_t)run->size, all);
    free(all);
}

void bx_layout_add_hosts(const bx_run *run, bx_json *list)
{
    MPI_Comm firsts = first_ranks(run, run->host);
    if (firsts == MPI_COMM_NULL) return;
    bx_host host;
    char name[HOST_TEXT];
    bx_host_describe(&host);
    name_host(name);
    bx_json *about = bx_json_create(), *host_name = bx_json_create();
    *host_name = (bx_json){.kind = '"', .text = bx_memory_copy_text(name)};
    BX_TEXTS(about, {"cpu", host.cpu}, {"kernel", host.kernel}, {"architecture", host.architecture},
             {"firmware", host.firmware});
    bx_layout_add_groups(firsts, about, host_name, list, "names");
    PMPI_Comm_free(&firsts);
}
