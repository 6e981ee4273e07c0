/* A kernel in which one bit of what one MPI call of a timed step has received is wrong: linked in
 * front of the MPI library, whose receiving routines it stands for, below the harness's wrappers.
 *
 * BX_FLIP="RANK BIT SEED": in the first round the calls of each method's steps are counted; in the
 * second, one call of one step of that rank gets BIT (0..63) of one number flipped, chosen by SEED
 * and the method: the largest of a few of the numbers received, as most are next to nothing.
 * Numbers are doubles; integers are left alone.  What has been done is printed to stderr, one line
 * a method: flip METHOD, step S of N, call C of N, ROUTINE, number I of N, BEFORE -> AFTER, phase
 * P, laps L, ends E where L is the number of laps of the step when each phase, from 0 on, ended
 * last (0: not yet), and E the number of times that it has ended in the step.
 */
#include "bx.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct bx_recording bx_recording;

enum { MOST_METHODS = 64, MOST_REQUESTS = 4096, MOST_PHASES = 24, DRAWS = 8 };

typedef struct {
    char name[64];
    int64_t calls, step_calls, steps, step; /* of the first round; of the step that runs */
    bool flipped;
} method;

static method methods[MOST_METHODS];
static int method_count, current = -1;
static int64_t round_now;
static bool in_step;
static char note[256]; /* of a flip, until its phase is known */
static int laps, last_lap[MOST_PHASES], ends[MOST_PHASES];
static struct {
    int rank, bit;
    uint64_t seed;
} order = {-1, 0, 0};

/* ---- what the harness says ---- */

void __real_bx_watchdog_tick(const char *stage, const char *name, int64_t round);
void __wrap_bx_watchdog_tick(const char *stage, const char *name, int64_t round);
void __wrap_bx_watchdog_tick(const char *stage, const char *name, int64_t round)
{
    __real_bx_watchdog_tick(stage, name, round);
    if (strcmp(stage, "preparing") != 0) return;
    for (current = 0; current < method_count; current++)
        if (strcmp(methods[current].name, name) == 0) break;
    if (current == method_count && method_count < MOST_METHODS)
        snprintf(methods[method_count++].name, sizeof methods->name, "%s", name);
    round_now = round;
    methods[current].step = 0;
}

static void start_step(void)
{
    method *m = &methods[current];
    in_step = true;
    m->step++;
    m->step_calls = 0;
    laps = 0;
    memset(last_lap, 0, sizeof last_lap);
    memset(ends, 0, sizeof ends);
}

static void end_step(void)
{
    method *m = &methods[current];
    in_step = false;
    if (round_now != 1) return;
    m->steps = m->step;
    m->calls = m->step_calls; /* as many in each */
}

void __real_bx_profile_into(bx_recording *recording);
void __wrap_bx_profile_into(bx_recording *recording);
void __wrap_bx_profile_into(bx_recording *recording)
{
    if (recording) start_step();
    if (!recording && in_step) end_step();
    __real_bx_profile_into(recording);
}

void __real_bx_run_lap(bx_run *run, size_t phase);
void __wrap_bx_run_lap(bx_run *run, size_t phase);
void __wrap_bx_run_lap(bx_run *run, size_t phase)
{
    __real_bx_run_lap(run, phase);
    if (*note) {
        fprintf(stderr, "%s, phase %zu, laps", note, phase);
        for (int p = 0; p < MOST_PHASES; p++) fprintf(stderr, " %d", last_lap[p]);
        fprintf(stderr, ", ends");
        for (int p = 0; p < MOST_PHASES; p++) fprintf(stderr, " %d", ends[p]);
        fprintf(stderr, "\n");
        *note = '\0';
    }
    last_lap[phase] = ++laps;
    ends[phase]++;
}

static void read_order(void)
{
    const char *text = getenv("BX_FLIP");
    if (text && sscanf(text, "%d %d %" SCNu64, &order.rank, &order.bit, &order.seed) != 3) abort();
}

/* ---- what has been received ---- */

static bool of_doubles(MPI_Datatype type)
{
    int integers, addresses, types, combiner, size;
    MPI_Type_size(type, &size);
    if (type == MPI_DOUBLE || type == MPI_C_DOUBLE_COMPLEX || type == MPI_DOUBLE_PRECISION ||
        type == MPI_DOUBLE_COMPLEX)
        return true;
    MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    return combiner != MPI_COMBINER_NAMED && size > 0 && size % 8 == 0;
}

static double number(const char *packed, uint64_t at)
{
    double value;
    memcpy(&value, packed + 8 * at, 8);
    return value;
}

/* Flips the bit in the largest of a few of the numbers, if one is not zero. */
static bool flip(const char *routine, void *buffer, int count, MPI_Datatype type, uint64_t choice)
{
    int bytes, used = 0;
    MPI_Pack_size(count, type, MPI_COMM_SELF, &bytes);
    char *packed = malloc((size_t)bytes + 8);
    MPI_Pack(buffer, count, type, packed, bytes, &used, MPI_COMM_SELF);
    uint64_t words = (uint64_t)used / 8, at = 0, bits;
    for (uint64_t i = 0; words > 0 && i < DRAWS; i++) {
        uint64_t draw = bx_random_hash(choice, i) % words;
        if (i == 0 || fabs(number(packed, draw)) > fabs(number(packed, at))) at = draw;
    }
    bool done = words > 0 && fabs(number(packed, at)) > 0;
    if (done) {
        double old = number(packed, at);
        memcpy(&bits, packed + 8 * at, 8);
        bits ^= UINT64_C(1) << order.bit;
        memcpy(packed + 8 * at, &bits, 8);
        int position = 0;
        MPI_Unpack(packed, used, &position, buffer, count, type, MPI_COMM_SELF);
        const method *m = &methods[current];
        snprintf(note, sizeof note,
                 "flip %s, step %" PRId64 " of %" PRId64 ", call %" PRId64 " of %" PRId64
                 ", %s, number %" PRIu64 " of %" PRIu64 ", %.17g -> %.17g",
                 m->name, m->step, m->steps, m->step_calls, m->calls, routine, at + 1, words, old,
                 number(packed, at));
    }
    free(packed);
    return done;
}

/* After a receiving call, or a part of it.  A call whose numbers are all zero passes its turn on to
 * the next. */
static void received(const char *routine, void *buffer, int count, MPI_Datatype type)
{
    if (!in_step || count <= 0 || !of_doubles(type)) return;
    method *m = &methods[current];
    m->step_calls++;
    if (round_now != 2 || m->flipped || m->calls == 0) return;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank != order.rank) return;
    uint64_t choice = bx_random_hash(order.seed, (uint64_t)current);
    int64_t step = 1 + (int64_t)(choice % (uint64_t)m->steps);
    int64_t call = 1 + (int64_t)(bx_random_hash(choice, 0) % (uint64_t)m->calls);
    if (m->step < step || (m->step == step && m->step_calls < call)) return;
    m->flipped = flip(routine, buffer, count, type, bx_random_hash(choice, 1));
}

/* ---- MPI's receiving routines ---- */

#define REAL(name)                                                                                 \
    static __typeof__(&PMPI_##name) real;                                                          \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "PMPI_" #name)

static struct {
    MPI_Request request;
    void *buffer;
    int count;
    MPI_Datatype type;
} posted[MOST_REQUESTS];
static int posted_count;

static void post(MPI_Request request, void *buffer, int count, MPI_Datatype type)
{
    if (posted_count == MOST_REQUESTS) abort();
    posted[posted_count].request = request;
    posted[posted_count].buffer = buffer;
    posted[posted_count].count = count;
    posted[posted_count++].type = type;
}

/* A request that is complete. */
static void complete(MPI_Request request)
{
    for (int i = 0; i < posted_count; i++) {
        if (posted[i].request != request) continue;
        received("a request", posted[i].buffer, posted[i].count, posted[i].type);
        posted[i] = posted[--posted_count];
        return;
    }
}

int PMPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Status *status)
{
    REAL(Recv);
    int code = real(buffer, count, type, source, tag, comm, status);
    received("Recv", buffer, count, type);
    return code;
}

int PMPI_Irecv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    REAL(Irecv);
    int code = real(buffer, count, type, source, tag, comm, request);
    if (count > 0) post(*request, buffer, count, type);
    return code;
}

int PMPI_Wait(MPI_Request *request, MPI_Status *status)
{
    REAL(Wait);
    MPI_Request before = *request;
    int code = real(request, status);
    complete(before);
    return code;
}

int PMPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    REAL(Waitall);
    MPI_Request *before = malloc((size_t)count * sizeof *before + 1);
    memcpy(before, requests, (size_t)count * sizeof *before);
    int code = real(count, requests, statuses);
    for (int i = 0; i < count; i++) complete(before[i]);
    free(before);
    return code;
}

int PMPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    REAL(Waitany);
    MPI_Request *before = malloc((size_t)count * sizeof *before + 1);
    memcpy(before, requests, (size_t)count * sizeof *before);
    int code = real(count, requests, index, status);
    if (*index != MPI_UNDEFINED) complete(before[*index]);
    free(before);
    return code;
}

int PMPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
    REAL(Test);
    MPI_Request before = *request;
    int code = real(request, done, status);
    if (*done) complete(before);
    return code;
}

int PMPI_Sendrecv(const void *send, int send_count, MPI_Datatype send_type, int to, int send_tag,
                  void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
                  MPI_Status *status)
{
    REAL(Sendrecv);
    int code = real(send, send_count, send_type, to, send_tag, buffer, count, type, from, tag, comm,
                    status);
    received("Sendrecv", buffer, count, type);
    return code;
}

int PMPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    REAL(Bcast);
    int code = real(buffer, count, type, root, comm), rank;
    PMPI_Comm_rank(comm, &rank);
    if (rank != root) received("Bcast", buffer, count, type);
    return code;
}

int PMPI_Allreduce(const void *send, void *buffer, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm)
{
    REAL(Allreduce);
    int code = real(send, buffer, count, type, op, comm);
    received("Allreduce", buffer, count, type);
    return code;
}

int PMPI_Reduce(const void *send, void *buffer, int count, MPI_Datatype type, MPI_Op op, int root,
                MPI_Comm comm)
{
    REAL(Reduce);
    int code = real(send, buffer, count, type, op, root, comm), rank;
    PMPI_Comm_rank(comm, &rank);
    if (rank == root) received("Reduce", buffer, count, type);
    return code;
}

int PMPI_Alltoall(const void *send, int send_count, MPI_Datatype send_type, void *buffer, int count,
                  MPI_Datatype type, MPI_Comm comm)
{
    REAL(Alltoall);
    int code = real(send, send_count, send_type, buffer, count, type, comm), ranks;
    PMPI_Comm_size(comm, &ranks);
    received("Alltoall", buffer, count * ranks, type);
    return code;
}

/* The part of the rank that sends most. */
static int largest_part(const int counts[], MPI_Comm comm)
{
    int ranks, me, largest;
    PMPI_Comm_size(comm, &ranks);
    PMPI_Comm_rank(comm, &me);
    largest = (me + 1) % ranks;
    for (int r = 0; r < ranks; r++)
        if (r != me && counts[r] > counts[largest]) largest = r;
    return largest;
}

static char *at(void *buffer, int64_t elements, MPI_Datatype type)
{
    MPI_Aint low, extent;
    MPI_Type_get_extent(type, &low, &extent);
    return (char *)buffer + elements * extent;
}

int PMPI_Alltoallv(const void *send, const int send_counts[], const int send_at[],
                   MPI_Datatype send_type, void *buffer, const int counts[], const int places[],
                   MPI_Datatype type, MPI_Comm comm)
{
    REAL(Alltoallv);
    int code = real(send, send_counts, send_at, send_type, buffer, counts, places, type, comm);
    int p = largest_part(counts, comm);
    received("Alltoallv", at(buffer, places[p], type), counts[p], type);
    return code;
}

int PMPI_Alltoallw(const void *send, const int send_counts[], const int send_at[],
                   const MPI_Datatype send_types[], void *buffer, const int counts[],
                   const int places[], const MPI_Datatype types[], MPI_Comm comm)
{
    REAL(Alltoallw);
    int code = real(send, send_counts, send_at, send_types, buffer, counts, places, types, comm);
    int p = largest_part(counts, comm);
    received("Alltoallw", (char *)buffer + places[p], counts[p], types[p]);
    return code;
}

int PMPI_Ialltoallv(const void *send, const int send_counts[], const int send_at[],
                    MPI_Datatype send_type, void *buffer, const int counts[], const int places[],
                    MPI_Datatype type, MPI_Comm comm, MPI_Request *request)
{
    REAL(Ialltoallv);
    int code =
        real(send, send_counts, send_at, send_type, buffer, counts, places, type, comm, request);
    int p = largest_part(counts, comm);
    if (counts[p] > 0) post(*request, at(buffer, places[p], type), counts[p], type);
    return code;
}

int PMPI_Gatherv(const void *send, int send_count, MPI_Datatype send_type, void *buffer,
                 const int counts[], const int places[], MPI_Datatype type, int root, MPI_Comm comm)
{
    REAL(Gatherv);
    int code = real(send, send_count, send_type, buffer, counts, places, type, root, comm), rank;
    PMPI_Comm_rank(comm, &rank);
    if (rank != root) return code;
    int p = largest_part(counts, comm);
    received("Gatherv", at(buffer, places[p], type), counts[p], type);
    return code;
}

int PMPI_Scatterv(const void *send, const int counts[], const int places[], MPI_Datatype send_type,
                  void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    REAL(Scatterv);
    int code = real(send, counts, places, send_type, buffer, count, type, root, comm), rank;
    PMPI_Comm_rank(comm, &rank);
    if (rank != root) received("Scatterv", buffer, count, type);
    return code;
}

__attribute__((constructor)) static void begin(void) { read_order(); }
