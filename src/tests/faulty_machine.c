/* A kernel on a faulty machine: one bit of one message is wrong when it arrives, or the disk is
 * full.  Linked in front of the MPI library, whose MPI_Irecv and MPI_Waitall it stands for, below
 * the harness's wrappers.
 *
 * BX_FLIP="PHASE RANK NTH WORD BIT": of the messages with doubles that reach RANK in PHASE (V:
 * until the first block, T: in timed steps), the NTH, from 0, gets BIT (0..63) of its number WORD
 * (modulo their count) flipped; with BIT 64 it is lost: zeros stand in its place.  What has been
 * done goes to stderr: "flip: BEFORE -> AFTER". Without it, rank 0 prints how many there are:
 * "messages: V T".
 *
 * BX_DISK=BYTES: no file gets larger. */
#include "run.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MOST_REQUESTS = 64 };

static char phase = 'V'; /* or T, or - */
static struct {
    char phase;
    int rank, bit;
    long nth, word;
} order = {.rank = -1};
static long seen[2]; /* in V and in T */
static struct {
    MPI_Request request;
    void *buffer;
    int count;
} posted[MOST_REQUESTS];
static int posted_count;

void __real_bx_watchdog_tick(const char *stage, const char *name, int64_t round);
void __wrap_bx_watchdog_tick(const char *stage, const char *name, int64_t round);
void __wrap_bx_watchdog_tick(const char *stage, const char *name, int64_t round)
{
    __real_bx_watchdog_tick(stage, name, round);
    const char *disk = getenv("BX_DISK");
    if (disk && strcmp(stage, "verifying") == 0) { /* MPI has its own files by now */
        rlim_t bytes = strtoul(disk, NULL, 10);
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){bytes, bytes});
    }
    if (strcmp(stage, "preparing") == 0) phase = '-';
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(stage, "ending") == 0 && order.rank < 0 && rank == 0)
        fprintf(stderr, "messages: %ld %ld\n", seen[0], seen[1]);
}

void __real_bx_profile_into(void *recording);
void __wrap_bx_profile_into(void *recording);
void __wrap_bx_profile_into(void *recording)
{
    phase = recording ? 'T' : '-';
    __real_bx_profile_into(recording);
}

__attribute__((constructor)) static void read_order(void)
{
    const char *text = getenv("BX_FLIP");
    if (text && sscanf(text, "%c %d %ld %ld %d", &order.phase, &order.rank, &order.nth, &order.word,
                       &order.bit) != 5)
        abort();
}

static void arrived(char *buffer, int count)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (phase == '-' || count == 0) return;
    bool is_nth = seen[phase == 'T']++ == order.nth;
    if (!is_nth || phase != order.phase || rank != order.rank) return;
    char *at = buffer + 8 * (order.word % count);
    double before, after;
    memcpy(&before, at, 8);
    if (order.bit == 64)
        memset(buffer, 0, 8 * (size_t)count);
    else
        at[order.bit / 8] = (char)(at[order.bit / 8] ^ (1 << order.bit % 8)); /* little-endian */
    memcpy(&after, at, 8);
    fprintf(stderr, "flip: %.17g -> %.17g\n", before, after);
}

int PMPI_Irecv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    static __typeof__(&PMPI_Irecv) real;
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Irecv");
    int code = real(buffer, count, type, source, tag, comm, request);
    if (type != MPI_DOUBLE && type != MPI_DOUBLE_PRECISION) return code;
    if (posted_count == MOST_REQUESTS) abort();
    posted[posted_count].request = *request;
    posted[posted_count].buffer = buffer;
    posted[posted_count++].count = count;
    return code;
}

/* Each rank's block is a message. */
int PMPI_Alltoallv(const void *send, const int send_counts[], const int send_at[],
                   MPI_Datatype send_type, void *receive, const int receive_counts[],
                   const int receive_at[], MPI_Datatype receive_type, MPI_Comm comm)
{
    static __typeof__(&PMPI_Alltoallv) real;
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Alltoallv");
    int code = real(send, send_counts, send_at, send_type, receive, receive_counts, receive_at,
                    receive_type, comm);
    if (receive_type != MPI_DOUBLE && receive_type != MPI_DOUBLE_PRECISION) return code;
    int ranks;
    PMPI_Comm_size(comm, &ranks);
    for (int r = 0; r < ranks; r++)
        arrived((char *)receive + 8 * (size_t)receive_at[r], receive_counts[r]);
    return code;
}

int PMPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    static __typeof__(&PMPI_Waitall) real;
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "PMPI_Waitall");
    int code = real(count, requests, statuses);
    for (int i = 0; i < posted_count; i++) arrived(posted[i].buffer, posted[i].count);
    posted_count = 0; /* all are waited for at once */
    return code;
}
