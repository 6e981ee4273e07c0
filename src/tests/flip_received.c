/* A kernel in which one bit of what one call of a timed step has received is wrong: linked in front
 * of the MPI library, whose receiving routines it stands for, below the harness's wrappers.
 *
 * BX_FLIP="RANK BIT SEED LEAST [CALLS]": in the first round the calls of each method's steps are
 * counted; from the second on, one call of one step of that rank gets BIT (0..63) of one number
 * flipped, chosen by SEED and the method.  CALLS is a part of the ROUTINE of those calls alone.
 * Numbers are MPI_UINT64_T, and doubles: the largest of a few, as most are next to nothing, if it
 * is larger than LEAST.  Other integers are left alone.
 *
 * What has been done is printed to stderr, a line a method: flip METHOD, step S of N, call C of N,
 * ROUTINE of R ranks, number I of N, BEFORE -> AFTER.  When the phase of the step ends, a second
 * line follows: flipped METHOD, phase P, laps L, ends E where L is the number of laps of the step
 * when each phase, from 0 on, ended last (0: not yet), and E the number of times that it has ended
 * in the step.
 */
#include "flip_received.h"

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
static bool in_flipped_phase;
static int laps, last_lap[MOST_PHASES], ends[MOST_PHASES];
static struct {
    int rank, bit;
    uint64_t seed;
    double least;
    char calls[64];
} order = {.rank = -1};

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

const char *bx_flip_method(void) { return current < 0 ? "" : methods[current].name; }

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
    in_flipped_phase = false; /* of a kernel without phases */
    __real_bx_profile_into(recording);
}

void __real_bx_run_lap(bx_run *run, size_t phase);
void __wrap_bx_run_lap(bx_run *run, size_t phase);
void __wrap_bx_run_lap(bx_run *run, size_t phase)
{
    __real_bx_run_lap(run, phase);
    if (in_flipped_phase) {
        fprintf(stderr, "flipped %s, phase %zu, laps", methods[current].name, phase);
        for (int p = 0; p < MOST_PHASES; p++) fprintf(stderr, " %d", last_lap[p]);
        fprintf(stderr, ", ends");
        for (int p = 0; p < MOST_PHASES; p++) fprintf(stderr, " %d", ends[p]);
        fprintf(stderr, "\n");
        in_flipped_phase = false;
    }
    last_lap[phase] = ++laps;
    ends[phase]++;
}

static void read_order(void)
{
    const char *text = getenv("BX_FLIP");
    if (text && sscanf(text, "%d %d %" SCNu64 " %lf %63[^\n]", &order.rank, &order.bit, &order.seed,
                       &order.least, order.calls) < 4)
        abort();
}

/* ---- what has been received ---- */

static bool of_numbers(MPI_Datatype type)
{
    int integers, addresses, types, combiner, size;
    MPI_Type_size(type, &size);
    if (type == MPI_DOUBLE || type == MPI_C_DOUBLE_COMPLEX || type == MPI_DOUBLE_PRECISION ||
        type == MPI_DOUBLE_COMPLEX || type == MPI_REAL8 || type == MPI_COMPLEX16 || /* ELPA's */
        type == MPI_UINT64_T)
        return true;
    MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    return combiner != MPI_COMBINER_NAMED && size > 0 && size % 8 == 0;
}

static uint64_t word(const char *packed, int at)
{
    uint64_t bits;
    memcpy(&bits, packed + at, 8);
    return bits;
}

static double number(const char *packed, int at)
{
    double value;
    memcpy(&value, packed + at, 8);
    return value;
}

/* The byte at which a number begins that is data, in any place: -1 if there is none. */
static int choose_data(const char *packed, int bytes, uint64_t choice)
{
    int count = 0, at = 0;
    for (int i = 0; i + 8 <= bytes; i++) count += bx_flip_is_data(word(packed, i));
    if (count == 0) return -1;
    for (int wanted = (int)(choice % (uint64_t)count);; at++)
        if (bx_flip_is_data(word(packed, at)) && wanted-- == 0) return at;
}

/* The same of a number: the largest of a few doubles, if it is large, or any integer. */
static int choose_number(const char *packed, int bytes, MPI_Datatype type, uint64_t choice)
{
    int chosen = -1;
    double most = order.least;
    for (uint64_t i = 0; bytes >= 8 && i < DRAWS; i++) {
        int at = 8 * (int)(bx_random_hash(choice, i) % ((uint64_t)bytes / 8));
        if (type == MPI_UINT64_T) return at;
        if (!(fabs(number(packed, at)) > most)) continue;
        chosen = at;
        most = fabs(number(packed, at));
    }
    return chosen;
}

/* Flips the bit of a number, if there is one; with `looks` says whether there is. */
static bool flip(const char *calls, void *buffer, int count, MPI_Datatype type, uint64_t choice,
                 bool looks)
{
    int bytes, used = 0, position = 0;
    MPI_Pack_size(count, type, MPI_COMM_SELF, &bytes);
    char *packed = malloc((size_t)bytes + 8);
    MPI_Pack(buffer, count, type, packed, bytes, &used, MPI_COMM_SELF);
    int at = bx_flip_is_data ? choose_data(packed, used, choice)
                             : choose_number(packed, used, type, choice);
    if (at >= 0 && !looks) {
        const method *m = &methods[current];
        double before = number(packed, at);
        uint64_t bits = word(packed, at) ^ UINT64_C(1) << order.bit;
        memcpy(packed + at, &bits, 8);
        MPI_Unpack(packed, used, &position, buffer, count, type, MPI_COMM_SELF);
        in_flipped_phase = true;
        fprintf(stderr,
                "flip %s, step %" PRId64 " of %" PRId64 ", call %" PRId64 " of %" PRId64
                ", %s, number %d of %d, %.17g -> %.17g\n",
                m->name, m->step, m->steps, m->step_calls, m->calls, calls, at / 8 + 1, used / 8,
                before, number(packed, at));
    }
    free(packed);
    return at >= 0;
}

/* A call without a number to flip passes its turn on to the next. */
void bx_flip_received(const char *routine, int ranks, void *buffer, int count, MPI_Datatype type)
{
    char calls[96];
    int rank;
    if (!in_step || count <= 0) return;
    snprintf(calls, sizeof calls, "%s of %d ranks", routine, ranks);
    if (!strstr(calls, order.calls)) return;
    if (bx_flip_is_data && !flip(calls, buffer, count, type, 0, true)) return;
    method *m = &methods[current];
    m->step_calls++;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank != order.rank || round_now < 2 || m->flipped) return;
    uint64_t choice = bx_random_hash(order.seed, (uint64_t)current);
    int64_t step = 1 + (int64_t)(choice % (uint64_t)m->steps);
    int64_t call = 1; /* of a method that had none of these calls in the first round */
    if (m->calls > 0) call += (int64_t)(bx_random_hash(choice, 0) % (uint64_t)m->calls);
    if (round_now == 2 && (m->step < step || (m->step == step && m->step_calls < call))) return;
    m->flipped = flip(calls, buffer, count, type, bx_random_hash(choice, 1), false);
}

static void received(const char *routine, MPI_Comm comm, void *buffer, int count, MPI_Datatype type)
{
    int ranks;
    PMPI_Comm_size(comm, &ranks);
    if (count > 0 && of_numbers(type)) bx_flip_received(routine, ranks, buffer, count, type);
}

/* ---- MPI's receiving routines ---- */

#define REAL(name)                                                                                 \
    static __typeof__(&PMPI_##name) real;                                                          \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "PMPI_" #name)

static struct {
    MPI_Request request;
    MPI_Comm comm;
    void *buffer;
    int count;
    MPI_Datatype type;
} posted[MOST_REQUESTS];
static int posted_count;

static void post(MPI_Request request, MPI_Comm comm, void *buffer, int count, MPI_Datatype type)
{
    if (posted_count == MOST_REQUESTS) abort();
    posted[posted_count].request = request;
    posted[posted_count].comm = comm;
    posted[posted_count].buffer = buffer;
    posted[posted_count].count = count;
    posted[posted_count++].type = type;
}

/* A request that is complete. */
static void complete(MPI_Request request)
{
    for (int i = 0; i < posted_count; i++) {
        if (posted[i].request != request) continue;
        received("a request", posted[i].comm, posted[i].buffer, posted[i].count, posted[i].type);
        posted[i] = posted[--posted_count];
        return;
    }
}

int PMPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Status *status)
{
    REAL(Recv);
    int code = real(buffer, count, type, source, tag, comm, status);
    received("Recv", comm, buffer, count, type);
    return code;
}

int PMPI_Irecv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    REAL(Irecv);
    int code = real(buffer, count, type, source, tag, comm, request);
    if (count > 0) post(*request, comm, buffer, count, type);
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
    received("Sendrecv", comm, buffer, count, type);
    return code;
}

int PMPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    REAL(Bcast);
    int code = real(buffer, count, type, root, comm), rank;
    PMPI_Comm_rank(comm, &rank);
    if (rank != root) received("Bcast", comm, buffer, count, type);
    return code;
}

int PMPI_Allreduce(const void *send, void *buffer, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm)
{
    REAL(Allreduce);
    int code = real(send, buffer, count, type, op, comm);
    received("Allreduce", comm, buffer, count, type);
    return code;
}

int PMPI_Reduce(const void *send, void *buffer, int count, MPI_Datatype type, MPI_Op op, int root,
                MPI_Comm comm)
{
    REAL(Reduce);
    int code = real(send, buffer, count, type, op, root, comm), rank;
    PMPI_Comm_rank(comm, &rank);
    if (rank == root) received("Reduce", comm, buffer, count, type);
    return code;
}

int PMPI_Alltoall(const void *send, int send_count, MPI_Datatype send_type, void *buffer, int count,
                  MPI_Datatype type, MPI_Comm comm)
{
    REAL(Alltoall);
    int code = real(send, send_count, send_type, buffer, count, type, comm), ranks;
    PMPI_Comm_size(comm, &ranks);
    received("Alltoall", comm, buffer, count * ranks, type);
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
    received("Alltoallv", comm, at(buffer, places[p], type), counts[p], type);
    return code;
}

int PMPI_Alltoallw(const void *send, const int send_counts[], const int send_at[],
                   const MPI_Datatype send_types[], void *buffer, const int counts[],
                   const int places[], const MPI_Datatype types[], MPI_Comm comm)
{
    REAL(Alltoallw);
    int code = real(send, send_counts, send_at, send_types, buffer, counts, places, types, comm);
    int p = largest_part(counts, comm);
    received("Alltoallw", comm, (char *)buffer + places[p], counts[p], types[p]);
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
    if (counts[p] > 0) post(*request, comm, at(buffer, places[p], type), counts[p], type);
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
    received("Gatherv", comm, at(buffer, places[p], type), counts[p], type);
    return code;
}

int PMPI_Scatterv(const void *send, const int counts[], const int places[], MPI_Datatype send_type,
                  void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    REAL(Scatterv);
    int code = real(send, counts, places, send_type, buffer, count, type, root, comm), rank;
    PMPI_Comm_rank(comm, &rank);
    if (rank != root) received("Scatterv", comm, buffer, count, type);
    return code;
}

__attribute__((constructor)) static void begin(void) { read_order(); }
