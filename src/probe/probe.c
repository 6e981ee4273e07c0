/* Where a launcher put the ranks, and what carries their messages: one line of JSON.
 *
 *     probe             who is where, then a ping-pong between the first rank and each other node
 *     probe seats       who is where
 *     probe leave CODE  the last rank exits with CODE, the others wait for it in a barrier
 *
 * It needs an MPI library and nothing else, so that a bare `mpicc` builds it. The line is
 *
 *     PROBE {"size": ranks of MPI_COMM_WORLD, "library": text, "ranks": [[host, CPUs], ...],
 *            "links": [[host, host, latency in s, bandwidth in B/s], ...],
 *            "messages": bytes that the first rank sent, "sent": [[device, bytes], ...]}
 *
 * A launcher that does not know the MPI library starts a world per rank, and so prints several such
 * lines. "sent" is of the first rank's node, from the kernel's counters and those of RDMA ports,
 * which the kernel's do not include: whatever the library calls its transport, the device whose
 * counter grows with the messages carries them.
 *
 * Exit code: 0, or 2 for an unknown argument. */
#define _GNU_SOURCE
#include "../common/adapters.c" /* one file to be compiled */

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT = 512 };
enum { ROUNDS = 5, TURNS = 4, SHORT = 8, LONG = 1 << 20 }; /* 5 x 4 x 1 MiB = 20 MiB */
enum { SHORT_TURNS = 100 };

typedef struct {
    char host[256], cpus[TEXT];
} seat;

/* The CPUs that this process may use, in the kernel's list format. */
static void read_cpus(char text[TEXT])
{
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    *text = '\0';
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        int last = cpu;
        if (!CPU_ISSET(cpu, &set)) continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) last++;
        size_t length = strlen(text);
        snprintf(text + length, TEXT - length, last > cpu ? "%s%d-%d" : "%s%d", *text ? "," : "",
                 cpu, last);
        cpu = last;
    }
}

/* A barrier that sleeps: waiting ranks leave their cores to those that measure. */
static void wait_for_all(void)
{
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (!done) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (!done) usleep(300);
    }
}

/* ---- messages ---- */

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

/* The first rank prints latency and bandwidth to each other node, the best of ROUNDS, and what its
 * node's devices have sent meanwhile. */
static void print_links(int rank, int size, const seat *seats)
{
    static bx_adapters before, after;
    char *buffer = calloc(1, LONG);
    double messages = 0;
    if (!buffer) MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0) {
        bx_adapters_read(&before);
        printf(", \"links\": [");
    }
    const char *comma = "";
    for (int other = 1; other < size; other++) {
        int first = 0; /* of its node */
        while (strcmp(seats[first].host, seats[other].host) != 0) first++;
        if (first != other || strcmp(seats[0].host, seats[other].host) == 0) continue;
        wait_for_all();
        if (rank != 0 && rank != other) continue;
        double latency = 0, transfer = 0;
        for (int round = -1; round < ROUNDS; round++) { /* the first connects */
            double brief = ping_pong(rank, other, buffer, SHORT, round < 0 ? 10 : SHORT_TURNS);
            double lengthy = ping_pong(rank, other, buffer, LONG, round < 0 ? 1 : TURNS);
            if (round <= 0 || brief < latency) latency = brief;
            if (round <= 0 || lengthy < transfer) transfer = lengthy;
        }
        messages += (1.0 + ROUNDS * TURNS) * LONG;
        if (rank == 0)
            printf("%s[\"%s\", \"%s\", %.4g, %.5g]", comma, seats[0].host, seats[other].host,
                   latency, LONG / transfer);
        comma = ", ";
    }
    wait_for_all();
    if (rank == 0) {
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
    free(buffer);
}

int main(int argc, char **argv)
{
    int rank, size, length;
    seat own = {"", ""};
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
        wait_for_all();
        if (rank == size - 1) _exit(atoi(argv[2])); /* as a crash would, without MPI_Finalize */
        wait_for_all();
    }
    gethostname(own.host, sizeof own.host - 1);
    read_cpus(own.cpus);
    seat *seats = malloc((size_t)size * sizeof own);
    if (!seats) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Allgather(&own, sizeof own, MPI_CHAR, seats, sizeof own, MPI_CHAR, MPI_COMM_WORLD);
    MPI_Get_library_version(library, &length);
    library[strcspn(library, ",\n\"\\\t")] = '\0';
    if (rank == 0) {
        printf("PROBE {\"size\": %d, \"library\": \"%s\", \"ranks\": [", size, library);
        for (int r = 0; r < size; r++)
            printf("%s[\"%s\", \"%s\"]", r ? ", " : "", seats[r].host, seats[r].cpus);
        printf("]");
    }
    if (strcmp(task, "links") == 0) print_links(rank, size, seats);
    if (rank == 0) printf("}\n");
    free(seats);
    MPI_Finalize();
    return 0;
}
