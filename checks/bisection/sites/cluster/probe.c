/* Where a launcher put the ranks, and what carries their messages: one line of JSON.
 *
 *     probe             who is where, then a ping-pong between the first rank and each other node
 *     probe seats       who is where
 *     probe leave CODE  the last rank exits with CODE, the others wait for it in a barrier; the
 *                       first rank prints LEFT and the Unix time before
 *
 * It needs an MPI library and nothing else, so that a bare `mpicc` builds it. The line is
 *
 *     PROBE {"size": ranks of MPI_COMM_WORLD, "library": text, "ranks": [[host, CPUs], ...],
 *            "links": [[host, host, latency in s, bandwidth in B/s, waited], ...],
 *            "messages": bytes that the first rank sent, "sent": [[device, bytes], ...]}
 *
 * "waited" is the share of the measurement in which one of the two ranks was ready to run and had
 * no core, as others had it: then the link is not what was measured.
 *
 * A launcher that does not know the MPI library starts a world per rank, and so prints several such
 * lines. "sent" is of the first rank's node, from the kernel's counters and those of RDMA ports,
 * which the kernel's do not include: whatever the library calls its transport, the device whose
 * counter grows with the messages carries them.
 *
 * Exit code: 0, or 2 for an unknown argument. */
#define _GNU_SOURCE
#include "../../../../src/common/adapters.c" /* one file to be compiled */
#include "../../../../src/common/cpus.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 5, TURNS = 4, SHORT_TURNS = 100, SHORT = 8, LONG = 1 << 20 }; /* 20 x 1 MiB */
enum { PAUSE = 100000000, PAUSES = 5 * PAUSE }; /* ns before a round: at most, over all links */
enum { REPORT = 1 };                            /* the tag of what a rank says of its link */

typedef struct {
    char host[256];
} seat;

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory) MPI_Abort(MPI_COMM_WORLD, 1);
    return memory;
}

/* Waits asleep for a message or a barrier: the ranks that measure have the cores. */
static void sleep_until(MPI_Request *request)
{
    int done = 0;
    while (!done) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (!done) usleep(300);
    }
}

/* A barrier in which ranks sleep. */
static void wait_for_all(void)
{
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    sleep_until(&request);
}

/* ---- messages ---- */

/* Seconds in which this process was ready to run and had no core; 0 where Linux does not say so
 * (Documentation/scheduler/sched-stats.rst). */
static double waited(void)
{
    unsigned long long nanoseconds = 0;
    FILE *file = fopen("/proc/self/schedstat", "r");
    if (file && fscanf(file, "%*u %llu", &nanoseconds) != 1) nanoseconds = 0;
    if (file) fclose(file);
    return 1e-9 * (double)nanoseconds;
}

/* Seconds per message, of messages between the first rank and `other`, both of which call it. */
static double ping_pong(int rank, int other, char *buffer, int bytes, int turns)
{
    const MPI_Comm world = MPI_COMM_WORLD;
    double start = MPI_Wtime();
    for (int turn = 0; turn < turns; turn++) {
        if (rank == 0) {
            MPI_Send(buffer, bytes, MPI_CHAR, other, 0, world);
            MPI_Recv(buffer, bytes, MPI_CHAR, other, 0, world, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, bytes, MPI_CHAR, 0, 0, world, MPI_STATUS_IGNORE);
            MPI_Send(buffer, bytes, MPI_CHAR, 0, 0, world);
        }
    }
    return (MPI_Wtime() - start) / turns / 2;
}

/* leads[rank]: 1 for the first rank of each node but that of rank 0, else 0. */
static void choose_leaders(const seat *seats, int size, int *leads)
{
    int *firsts = allocate((size_t)size, sizeof *firsts), nodes = 0;
    for (int r = 0; r < size; r++) {
        int node = nodes - 1; /* most ranks are on the node of the one before */
        while (node >= 0 && strcmp(seats[firsts[node]].host, seats[r].host)) node--;
        if (node < 0) firsts[nodes++] = r;
        leads[r] = r != 0 && node < 0;
    }
    free(firsts);
}

/* Latency in s and bandwidth in B/s between the first rank and `other`, the best of ROUNDS. The
 * first rank sleeps `pause` ns before each, so that another process on its cores for some
 * milliseconds does not slow all of them. Returns the share of the rounds in which this rank waited
 * for a core. */
static double measure_link(int rank, int other, long pause, char *buffer, double *latency,
                           double *bandwidth)
{
    const struct timespec interval = {0, pause};
    double transfer = 0, waiting = 0, seconds = 0;
    for (int round = -1; round < ROUNDS; round++) { /* the first connects */
        if (rank == 0) nanosleep(&interval, NULL);
        double before = waited(), start = MPI_Wtime();
        ping_pong(rank, other, buffer, SHORT, 10); /* cores and connection wake up */
        double brief = ping_pong(rank, other, buffer, SHORT, SHORT_TURNS);
        double lengthy = ping_pong(rank, other, buffer, LONG, round < 0 ? 1 : TURNS);
        if (round <= 0 || brief < *latency) *latency = brief;
        if (round <= 0 || lengthy < transfer) transfer = lengthy;
        waiting += waited() - before;
        seconds += MPI_Wtime() - start;
    }
    *bandwidth = LONG / transfer;
    return waiting / seconds;
}

/* The first rank measures the link to a rank of each other node, one after the other, and prints
 * them and what its node's devices have sent meanwhile. `seats` and `leads` are of rank 0. */
static void print_links(int size, const seat *seats, const int *leads, char *buffer)
{
    static bx_adapters before, after;
    double messages = 0;
    int links = 0;
    const char *comma = "";
    for (int other = 1; other < size; other++) links += leads[other];
    bx_adapters_read(&before);
    printf(", \"links\": [");
    for (int other = 1; other < size; other++) {
        double latency = 0, bandwidth = 0, theirs, ours;
        if (!leads[other]) continue;
        MPI_Send(NULL, 0, MPI_CHAR, other, 0, MPI_COMM_WORLD); /* its turn */
        ours = measure_link(0, other, links < PAUSES / PAUSE ? PAUSE : PAUSES / links, buffer,
                            &latency, &bandwidth);
        MPI_Recv(&theirs, 1, MPI_DOUBLE, other, REPORT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        messages += (1.0 + ROUNDS * TURNS) * LONG;
        printf("%s[\"%s\", \"%s\", %.4g, %.5g, %.3f]", comma, seats[0].host, seats[other].host,
               latency, bandwidth, ours > theirs ? ours : theirs);
        comma = ", ";
    }
    bx_adapters_read(&after);
    printf("], \"messages\": %.0f, \"sent\": [", messages);
    comma = "";
    for (int i = 0; i < before.count && i < after.count; i++) {
        const char *name = before.adapters[i].name; /* of RDMA with its port, mlx5_0:1 */
        double sent = after.adapters[i].sent - before.adapters[i].sent;
        if (isnan(sent)) continue;
        printf("%s[\"%.*s\", %.0f]", comma, (int)strcspn(name, ":"), name, sent);
        comma = ", ";
    }
    printf("]");
}

/* Measures the links between nodes; all ranks call it. Those that do not measure sleep. */
static void measure_links(int rank, int size, const seat *seats)
{
    int leads = 0, *all = rank == 0 ? allocate((size_t)size, sizeof *all) : NULL;
    char *buffer = allocate(1, LONG);
    if (rank == 0) choose_leaders(seats, size, all);
    MPI_Scatter(all, 1, MPI_INT, &leads, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0) print_links(size, seats, all, buffer);
    if (leads) {
        double latency, bandwidth;
        MPI_Request turn;
        MPI_Irecv(NULL, 0, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &turn);
        sleep_until(&turn);
        double share = measure_link(rank, rank, 0, buffer, &latency, &bandwidth);
        MPI_Send(&share, 1, MPI_DOUBLE, 0, REPORT, MPI_COMM_WORLD);
    }
    wait_for_all();
    free(buffer);
    free(all);
}

int main(int argc, char **argv)
{
    int rank, size, length, width;
    seat own = {""};
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *task = argc > 1 ? argv[1] : "links";
    const int leaves = strcmp(task, "leave") == 0 && argc == 3;
    if (!leaves && (argc > 2 || (strcmp(task, "links") != 0 && strcmp(task, "seats") != 0))) {
        if (rank == 0) fprintf(stderr, "probe: %s: allowed are seats, leave CODE\n", task);
        MPI_Finalize();
        return 2;
    }
    if (leaves) {
        struct timespec now;
        wait_for_all();
        clock_gettime(CLOCK_REALTIME, &now); /* of the first host, whose clock times the launch */
        if (rank == 0) printf("LEFT %lld.%03ld\n", (long long)now.tv_sec, now.tv_nsec / 1000000);
        fflush(stdout);
        if (rank == size - 1) _exit(atoi(argv[2])); /* as a crash would, without MPI_Finalize */
        wait_for_all();
    }
    gethostname(own.host, sizeof own.host - 1);
    seat *seats = rank == 0 ? allocate((size_t)size, sizeof own) : NULL;
    MPI_Gather(&own, sizeof own, MPI_CHAR, seats, sizeof own, MPI_CHAR, 0, MPI_COMM_WORLD);
    size_t bytes;
    cpu_set_t *allowed = bx_cpus_allowed(&bytes);
    char *cpus = bx_cpus_text(allowed, bytes);
    length = (int)strlen(cpus) + 1;
    MPI_Allreduce(&length, &width, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    char *all_cpus = rank == 0 ? allocate((size_t)size, (size_t)width) : NULL;
    cpus = realloc(cpus, (size_t)width);
    if (!cpus) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Gather(cpus, width, MPI_CHAR, all_cpus, width, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Get_library_version(library, &length);
    library[strcspn(library, ",\n\"\\\t")] = '\0';
    if (rank == 0) {
        printf("PROBE {\"size\": %d, \"library\": \"%s\", \"ranks\": [", size, library);
        for (int r = 0; r < size; r++)
            printf("%s[\"%s\", \"%s\"]", r ? ", " : "", seats[r].host,
                   all_cpus + (size_t)r * (size_t)width);
        printf("]");
    }
    if (strcmp(task, "links") == 0) measure_links(rank, size, seats);
    if (rank == 0) printf("}\n");
    free(allowed);
    free(cpus);
    free(seats);
    free(all_cpus);
    MPI_Finalize();
    return 0;
}
