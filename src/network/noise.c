/* What a node does alone: the same work on every core, and copies of memory.  A slow node is so
 * told from a slow link. */
#include "noise.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUANTUM, COPY_CORE, COPY_NODE, METHODS };
enum { NAME = 64 };

/* What a rank knows of itself, and the first of a node of all its ranks. */
typedef struct {
    char host[NAME];
    double most[2];       /* s: quantum of the slowest core, longest interruption */
    double sum[3];        /* s lost, all s, cores */
    double rate[METHODS]; /* B/s of all cores, the medians of their copies; 0: they do not copy */
} account;

typedef struct {
    bx_run *run;
    MPI_Comm comm;
    int rank, threads;
    bool first; /* rank of its node */
    bx_noise_memory memory;
    bx_noise_quanta *quanta;  /* [threads] since the measurement began */
    double asked, wall;       /* quanta of each core, and seconds of their steps, since then */
    double *seconds[METHODS]; /* [count] of the copies */
    size_t count[METHODS];
    MPI_Comm firsts;                   /* the first ranks of nodes, in their order */
    account mine, *accounts;           /* [nodes] on rank 0 */
    double worst[2], slowest[METHODS]; /* of all nodes: lost, longest; B/s of copies; NaN: none */
    bx_json *details;
} noise;

static int64_t quanta_per_step = 500, bytes_per_core = 32 << 20;

static const bx_choice methods[METHODS] = {
#define CHOICE(name, summary, wins) {#name, summary, wins, false, NULL, ""},
    BX_METHODS(CHOICE)};

/* Cores of this rank that copy. */
static int copying(const noise *n, size_t method)
{
    return method == COPY_NODE ? n->threads : n->first ? 1 : 0;
}

static int setup(bx_run *run, void **state)
{
    static noise the_noise;
    noise *n = &the_noise;
    int local;
    *state = n;
    n->run = run;
    n->comm = bx_run_comm(run);
    n->threads = bx_run_threads(run);
    n->mine.sum[2] = n->threads;
    n->firsts = MPI_COMM_NULL;
    MPI_Comm_rank(n->comm, &n->rank);
    MPI_Comm_rank(bx_run_node_comm(run), &local);
    n->first = local == 0;
    size_t bytes = bx_memory_whole_pages((size_t)bytes_per_core) * (size_t)n->threads;
    int code = bx_resources_claim_memory(run, 2 * (double)bytes, "--bytes: two buffers per core");
    if (code != BX_OK) return code;
    n->memory = (bx_noise_memory){bx_memory_alloc_pages(bytes),
                                  bx_memory_alloc_pages(bytes),
                                  bytes / (size_t)n->threads / sizeof(uint64_t),
                                  n->threads,
                                  bx_run_seed(run) + ((uint64_t)n->rank << 32),
                                  0,
                                  bx_memory_alloc((size_t)n->threads, sizeof(int))};
    if (!n->memory.from || !n->memory.to)
        return bx_run_refuse(run, BX_RESOURCES, "--bytes %lld: out of memory",
                             (long long)bytes_per_core);
    bx_noise_fill(&n->memory);
    BX_ALLOC((size_t)n->threads, n->quanta);
    MPI_Comm_split(n->comm, n->first ? 0 : MPI_UNDEFINED, n->rank, &n->firsts);
    if (n->rank == 0)
        n->accounts = bx_memory_alloc((size_t)bx_run_node_count(run), sizeof *n->accounts);
    gethostname(n->mine.host, NAME - 1);
    return BX_OK;
}

static void prepare(void *state, size_t method, size_t point)
{
    noise *n = state;
    if (method == QUANTUM)
        n->asked += (double)quanta_per_step;
    else
        bx_noise_renew(&n->memory);
}

static void step(void *state, size_t method, size_t point)
{
    noise *n = state;
    double start = MPI_Wtime();
    if (method == QUANTUM) {
        bx_noise_measure_quanta(n->quanta, n->threads, quanta_per_step);
        n->wall += MPI_Wtime() - start;
        return;
    }
    bx_noise_copy(&n->memory, copying(n, method));
    double seconds = MPI_Wtime() - start;
    n->seconds[method] = bx_memory_grow(n->seconds[method], n->count[method] + 1, sizeof(double));
    n->seconds[method][n->count[method]++] = seconds;
}

/* Cores of this rank that must copy: all, or one of the first rank of each node. */
static int asked_to_copy(const noise *n, size_t method)
{
    const int *node_of = bx_run_node_of(n->run);
    if (method == COPY_NODE) return bx_run_threads(n->run);
    for (int rank = 0; rank < n->rank; rank++)
        if (node_of[rank] == node_of[n->rank]) return 0;
    return 1;
}

static void check_copies(const noise *n, size_t method, bx_verification *verification)
{
    int cores = asked_to_copy(n, method), elsewhere = 0;
    double wrong = bx_noise_wrong_bytes(&n->memory, cores);
    double bytes = (double)bx_memory_whole_pages((size_t)bytes_per_core),
           words = (double)(n->memory.words * sizeof(uint64_t));
    for (int t = 0; t < cores; t++) elsewhere += n->memory.copied_by[t] != t;
    bx_verification_check_always(verification, "content", wrong, 0, "bytes");
    bx_verification_check_always(verification, "size of a copy", fabs(words - bytes), 0, "bytes");
    bx_verification_check(verification, "copies on a shared thread", elsewhere, 0, "cores");
}

/* The shortest, the mean and the longest are in this order, and all fit into the steps. */
static void check_quanta(const noise *n, bx_verification *verification)
{
    double wrong = 0, missing = 0, disorder = 0, time = 0;
    int elsewhere = 0;
    for (int t = 0; t < n->threads; t++) {
        const bx_noise_quanta *core = &n->quanta[t];
        double mean = core->sum / core->count;
        wrong += core->wrong;
        elsewhere += core->thread != t;
        missing = fmax(missing, fabs(n->asked - core->count));
        disorder = bx_verification_worse(disorder, core->least / mean - 1);
        disorder = bx_verification_worse(disorder, mean / core->most - 1);
        time = bx_verification_worse(time, core->sum / n->wall);
    }
    bx_verification_check(verification, "work", wrong, 0, "quanta");
    bx_verification_check(verification, "quanta missing", missing, 0, "quanta");
    bx_verification_check(verification, "quanta on a shared thread", elsewhere, 0, "cores");
    bx_verification_check(verification, "order of least, mean and most", disorder, 1e-9,
                          "of the mean");
    bx_verification_check(verification, "quanta within their steps", time, 1.01, "of the time");
}

static void inspect(void *state, size_t method, size_t point, bx_verification *verification)
{
    if (method == QUANTUM)
        check_quanta(state, verification);
    else
        check_copies(state, method, verification);
}

static void verify(void *state, size_t method, size_t point, bx_verification *verification)
{
    noise *n = state;
    prepare(state, method, point);
    step(state, method, point);
    inspect(state, method, point, verification);
    memset(n->quanta, 0, (size_t)n->threads * sizeof *n->quanta); /* the first step is a warm-up */
    n->asked = n->wall = 0;
    n->count[method] = 0;
}

/* The cores of this rank as one: the slowest core's quantum, the longest interruption, all sums. */
static void join_cores(noise *n)
{
    account *a = &n->mine;
    *a->most = a->most[1] = *a->sum = a->sum[1] = 0;
    for (const bx_noise_quanta *core = n->quanta; core < n->quanta + n->threads; core++) {
        a->most[0] = fmax(a->most[0], core->least);
        a->most[1] = fmax(a->most[1], core->most - core->least);
        a->sum[0] += core->sum - core->least * core->count; /* what was lost */
        a->sum[1] += core->sum;
    }
}

static int compare_hosts(const void *a, const void *b) { return strcmp(a, b); }

/* Whether several of the sorted hosts[count] have this name: their nodes are emulated. */
static bool is_repeated(char (*hosts)[NAME], size_t count, const char *host)
{
    char (*at)[NAME] = bsearch(host, hosts, count, sizeof *hosts, compare_hosts);
    return (at > hosts && strcmp(at[-1], host) == 0) ||
           (at + 1 < hosts + count && strcmp(at[1], host) == 0);
}

static void add_node(noise *n, bx_json *list, int node, bool emulated)
{
    const account *a = &n->accounts[node];
    double quantum = a->most[0], longest = a->most[1], lost = a->sum[0], all = a->sum[1];
    const double *rate = a->rate;
    char host[NAME + 16] = "";
    strcpy(host, a->host);
    if (emulated) snprintf(host + strlen(host), 16, "/%d", node); /* several on one host */
    n->worst[0] = fmax(n->worst[0], lost / all);
    n->worst[1] = fmax(n->worst[1], all > 0 ? longest : NAN);
    for (int m = COPY_CORE; m <= COPY_NODE; m++)
        n->slowest[m] = fmin(n->slowest[m], rate[m] > 0 ? rate[m] : NAN);
    bx_json *json = bx_json_object(list, NULL);
    bx_json_text(json, "host", host);
    BX_NUMBERS(json, {"cores", a->sum[2]}, {"quantum", quantum > 0 ? quantum : NAN},
               {"longest", all > 0 ? longest : NAN}, {"lost", lost / all},
               {"copy_core", rate[COPY_CORE] > 0 ? rate[COPY_CORE] : NAN},
               {"copy_node", rate[COPY_NODE] > 0 ? rate[COPY_NODE] : NAN});
}

/* A list of the nodes in details.noise: host, cores that work, quantum (s, of the slowest core),
 * longest (s), lost (share of the time), copy_core and copy_node (B/s); null where not measured. */
static void describe_nodes(noise *n)
{
    n->worst[0] = n->worst[1] = n->slowest[COPY_CORE] = n->slowest[COPY_NODE] = NAN;
    bx_json *list = bx_json_array(n->details, "noise");
    size_t nodes = (size_t)bx_run_node_count(n->run);
    char (*hosts)[NAME] = bx_memory_alloc(nodes, sizeof *hosts);
    for (size_t node = 0; node < nodes; node++) strcpy(hosts[node], n->accounts[node].host);
    qsort(hosts, nodes, sizeof *hosts, compare_hosts);
    for (size_t node = 0; node < nodes; node++)
        add_node(n, list, (int)node, is_repeated(hosts, nodes, n->accounts[node].host));
    free(hosts);
}

/* The numbers of a node that rank 0 has, and the worst of all nodes that it reports, against those
 * of each core: lost is what the shortest quantum, as often as there were quanta, does not take. */
static void check_node(noise *n, size_t method, bx_verification *verification)
{
    MPI_Comm node = bx_run_node_comm(n->run);
    account stated = {0};
    double sums[3] = {0, 0, bx_run_threads(n->run)}, worst[2] = {0}, error = 0;
    if (n->first)
        MPI_Scatter(n->accounts, sizeof stated, MPI_BYTE, &stated, sizeof stated, MPI_BYTE, 0,
                    n->firsts);
    MPI_Bcast(&stated, sizeof stated, MPI_BYTE, 0, node);
    if (method == QUANTUM) {
        for (const bx_noise_quanta *core = n->quanta; core < n->quanta + n->threads; core++) {
            sums[0] += core->least * core->count;
            sums[1] += core->sum;
            worst[1] = fmax(worst[1], core->most - core->least);
        }
        MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_DOUBLE, MPI_SUM, node);
        MPI_Allreduce(MPI_IN_PLACE, &worst[1], 1, MPI_DOUBLE, MPI_MAX, node);
        worst[0] = 1 - sums[0] / sums[1];
        error = bx_verification_worse(error, fabs(stated.sum[0] / stated.sum[1] - worst[0]));
        error = bx_verification_worse(error, fabs(stated.most[1] - worst[1]) / sums[1]);
        error = bx_verification_worse(error, fabs(stated.sum[2] - sums[2]));
        MPI_Allreduce(MPI_IN_PLACE, worst, 2, MPI_DOUBLE, MPI_MAX, n->comm);
        for (int i = 0; i < 2 && n->rank == 0; i++)
            error = bx_verification_worse(error, fabs(n->worst[i] - worst[i]) / sums[1]);
    } else {
        size_t count = n->count[method];
        const double *seconds = n->seconds[method]; /* in their order */
        double bytes = (double)bx_memory_whole_pages((size_t)bytes_per_core),
               rate = 2 * bytes * asked_to_copy(n, method) /
                      (seconds[(count - 1) / 2] + seconds[count / 2]);
        MPI_Allreduce(MPI_IN_PLACE, &rate, 1, MPI_DOUBLE, MPI_SUM, node);
        error = bx_verification_worse(error, fabs(stated.rate[method] / rate - 1));
        MPI_Allreduce(MPI_IN_PLACE, &rate, 1, MPI_DOUBLE, MPI_MIN, n->comm);
        if (n->rank == 0) error = bx_verification_worse(error, fabs(n->slowest[method] / rate - 1));
    }
    bx_verification_check(verification, "numbers of nodes", error, 1e-9, "of the whole");
}

static void end(void *state, size_t method, size_t point, int64_t steps,
                bx_verification *verification)
{
    noise *n = state;
    if (method == QUANTUM)
        join_cores(n);
    else {
        double bytes = (double)(n->memory.words * sizeof(uint64_t)) * copying(n, method);
        n->mine.rate[method] =
            bytes / bx_statistics_quantile(n->seconds[method], n->count[method], 0.5);
    }
    account of_node = n->mine;
    MPI_Comm node = bx_run_node_comm(n->run);
    MPI_Reduce(n->mine.most, of_node.most, 2, MPI_DOUBLE, MPI_MAX, 0, node);
    MPI_Reduce(n->mine.sum, of_node.sum, 3, MPI_DOUBLE, MPI_SUM, 0, node);
    MPI_Reduce(n->mine.rate, of_node.rate, METHODS, MPI_DOUBLE, MPI_SUM, 0, node);
    if (n->first)
        MPI_Gather(&of_node, sizeof of_node, MPI_BYTE, n->accounts, sizeof of_node, MPI_BYTE, 0,
                   n->firsts);
    if (n->details) describe_nodes(n);
    check_node(n, method, verification);
}

static double items(void *state, size_t method, size_t point)
{
    return method == QUANTUM ? (double)quanta_per_step : 1;
}

static void report(void *state, bx_run *run, bx_json *details)
{
    noise *n = state;
    n->details = details;
}

/* Of the worst node: the launch as a whole waits for it. */
static void metrics(void *state, size_t method, size_t point, bx_metrics *metrics)
{
    noise *n = state;
    if (method == QUANTUM) {
        bx_metrics_add(metrics, "lost_share", n->worst[0], "share", "lower");
        bx_metrics_add(metrics, "longest", n->worst[1], "s", "lower");
    } else {
        bx_metrics_add(metrics, "rate", n->slowest[method], "B/s", "higher");
    }
}

static void teardown(void *state)
{
    noise *n = state;
    BX_FREE(n->memory.from, n->memory.to, n->memory.copied_by, n->quanta, n->accounts);
    for (int m = 0; m < METHODS; m++) free(n->seconds[m]);
    if (n->firsts != MPI_COMM_NULL) MPI_Comm_free(&n->firsts);
}

const bx_kernel *bx_kernel_get(void)
{
    static const bx_choice cases[] = {
        {.name = "nodes", .summary = "each node alone, all at the same time"},
    };
    static const bx_option options[] = {
        {"quanta", "N", "quanta of about 50 us in a step", BX_INTEGER, 1, 1e6, &quanta_per_step},
        {"bytes", "BYTES", "memory that each core copies", BX_INTEGER, 4096, 1e12, &bytes_per_core},
    };
    static const bx_kernel kernel = {
        .name = "noise",
        .summary = "what a node does alone: interruptions of its cores, copies of its memory",
        .cases = BX_COUNTED(cases),
        .methods = BX_COUNTED(methods),
        .options = BX_COUNTED(options),
        .setup = setup,
        .verify = verify,
        .prepare = prepare,
        .inspect = inspect,
        .end = end,
        .step = step,
        .items = items,
        .report = report,
        .metrics = metrics,
        .teardown = teardown,
    };
    return &kernel;
}
