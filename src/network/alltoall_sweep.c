/* MPI_Alltoall against MPI_Alltoallv over the size of the block between two ranks: what a transpose
 * pays for blocks that may differ, and so what padding them to one size can win (Bethune 2010,
 * section 4.2 and figure 2). */
#include "bx.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = sizeof(uint64_t), PAGE = 4096 };
enum { STEP_BYTES = 65536, MOST_EXCHANGES = 64 }; /* see exchanges() */

typedef struct {
    bx_run *run;
    MPI_Comm comm;
    int rank, size;
    uint64_t *sent, *received; /* [size][words] they change places after each exchange */
    uint64_t *expected;        /* [size][words] what a step leaves, but for stamped words */
    int *counts, *offsets;     /* [size] words, for the vector form */
    uint64_t generation;       /* of the input: each step has its own */
} sweep;

static int64_t smallest = 8, largest = 1 << 20; /* B */

/* ---- the methods ---- */

static void exchange_alltoall(const sweep *s, int words)
{
    MPI_Alltoall(s->sent, words, MPI_UINT64_T, s->received, words, MPI_UINT64_T, s->comm);
}

static void exchange_alltoallv(const sweep *s, int words)
{
    (void)words; /* begin() wrote them to the counts */
    MPI_Alltoallv(s->sent, s->counts, s->offsets, MPI_UINT64_T, s->received, s->counts, s->offsets,
                  MPI_UINT64_T, s->comm);
}

static const bx_choice methods[] = {
#define BX_METHOD(name, summary, wins) {#name, summary, wins, false, NULL},
#include "alltoall_sweep.def"
#undef BX_METHOD
};

static void (*const exchange[])(const sweep *s, int words) = {
#define BX_METHOD(name, summary, wins) exchange_##name,
#include "alltoall_sweep.def"
#undef BX_METHOD
};

/* ---- points ---- */

static size_t point_count(void *state)
{
    (void)state;
    size_t count = 1;
    for (int64_t bytes = smallest; bytes < largest; bytes *= 2) count++;
    return count;
}

static int64_t point_bytes(size_t point) { return smallest << point; }

static int point_words(size_t point) { return (int)(point_bytes(point) / WORD); }

static void describe(void *state, size_t point, cJSON *description)
{
    (void)state;
    cJSON_AddNumberToObject(description, "bytes", (double)point_bytes(point));
}

/* Exchanges in a step: one exchange of a few bytes is too short for the clock and for the ranks to
 * stay in step after the barrier. */
static int exchanges(size_t point)
{
    int64_t count = STEP_BYTES / point_bytes(point);
    return count < 1 ? 1 : count > MOST_EXCHANGES ? MOST_EXCHANGES : (int)count;
}

/* ---- content: every word says between whom, how long and where; the first and the last word of a
 * block also say in which step, which is cheap to renew.  What an exchange has brought is sent back
 * by the next, so that an error of any exchange of a step is there at its end; the first word says
 * how often it has travelled, so that none can be left out. ---- */

static uint64_t block_key(const sweep *s, int source, int destination, int words)
{
    uint64_t pair = (uint64_t)source * (uint64_t)s->size + (uint64_t)destination;
    return bx_random_hash(bx_random_hash(bx_run_seed(s->run), pair), (uint64_t)words);
}

static uint64_t content(uint64_t key, int word) { return bx_random_hash(key, (uint64_t)word); }

static uint64_t stamp(const sweep *s)
{
    return bx_random_hash(~bx_run_seed(s->run), s->generation);
}

/* What the first word of a block is changed by before exchange `number` of a step. */
static uint64_t mark(int number) { return UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(number + 1); }

static uint64_t all_marks(int count)
{
    uint64_t marks = 0;
    for (int i = 0; i < count; i++) marks ^= mark(i);
    return marks;
}

/* The key of the block that lies at `rank` of mine: as it begins, or after an odd exchange. */
static uint64_t key_at(const sweep *s, int rank, int words, bool travelled)
{
    return travelled ? block_key(s, rank, s->rank, words) : block_key(s, s->rank, rank, words);
}

static void write_stamped(uint64_t *block, uint64_t key, int words, uint64_t first, uint64_t last)
{
    block[words - 1] = content(key, words - 1) ^ last;
    block[0] = content(key, 0) ^ first;
}

static void write_words(const sweep *s, uint64_t *blocks, int words, bool travelled)
{
    for (int rank = 0; rank < s->size; rank++) {
        uint64_t key = key_at(s, rank, words, travelled);
        uint64_t *block = &blocks[(size_t)rank * (size_t)words];
        for (int w = 0; w < words; w++) block[w] = content(key, w);
    }
}

static double wrong_bytes(const uint64_t *a, const uint64_t *b, size_t words)
{
    size_t wrong = 0;
    if (memcmp(a, b, words * sizeof *a) == 0) return 0;
    for (size_t w = 0; w < words; w++)
        for (uint64_t d = a[w] ^ b[w]; d != 0; d >>= 8) wrong += (d & 0xff) != 0;
    return (double)wrong;
}

/* ---- the kernel ---- */

static int setup(bx_run *run, void **state)
{
    static sweep the_sweep;
    sweep *s = &the_sweep;
    *state = s;
    s->run = run;
    s->comm = bx_run_comm(run);
    MPI_Comm_rank(s->comm, &s->rank);
    MPI_Comm_size(s->comm, &s->size);

    if (smallest & (smallest - 1))
        return bx_run_refuse(run, BX_USAGE, "--smallest %lld: not a power of two",
                             (long long)smallest);
    if (largest & (largest - 1))
        return bx_run_refuse(run, BX_USAGE, "--largest %lld: not a power of two",
                             (long long)largest);
    if (smallest > largest)
        return bx_run_refuse(run, BX_USAGE, "--smallest %lld: more than --largest %lld",
                             (long long)smallest, (long long)largest);
    if (largest / WORD > INT_MAX / s->size)
        return bx_run_refuse(run, BX_RESOURCES, "--largest %lld: %d ranks may have %lld at most",
                             (long long)largest, s->size, (long long)INT_MAX / s->size * WORD);

    size_t bytes = (size_t)largest * (size_t)s->size;
    int code =
        bx_resources_claim_memory(run, 3 * (double)bytes, "--largest: three buffers for each rank");
    if (code != BX_OK) return code;
    size_t whole_pages = (bytes + PAGE - 1) / PAGE * PAGE;
    s->sent = aligned_alloc(PAGE, whole_pages);
    s->received = aligned_alloc(PAGE, whole_pages);
    s->expected = aligned_alloc(PAGE, whole_pages);
    s->counts = bx_memory_alloc((size_t)s->size, sizeof *s->counts);
    s->offsets = bx_memory_alloc((size_t)s->size, sizeof *s->offsets);
    if (!s->sent || !s->received || !s->expected || !s->counts || !s->offsets)
        return bx_run_refuse(run, BX_RESOURCES, "--largest %lld: out of memory",
                             (long long)largest);
    memset(s->sent, 0, bytes); /* the pages are there before anything is timed */
    memset(s->received, 0, bytes);
    return BX_OK;
}

static bool travels(size_t point) { return exchanges(point) % 2 == 1; }

static void begin(void *state, size_t method, size_t point)
{
    (void)method;
    sweep *s = state;
    int words = point_words(point);
    for (int rank = 0; rank < s->size; rank++) {
        s->counts[rank] = words;
        s->offsets[rank] = rank * words;
    }
    write_words(s, s->sent, words, false);
    write_words(s, s->expected, words, travels(point));
}

/* New stamps, and nothing where a block is to arrive. */
static void prepare(void *state, size_t method, size_t point)
{
    (void)method;
    sweep *s = state;
    int words = point_words(point);
    s->generation++;
    for (int rank = 0; rank < s->size; rank++)
        write_stamped(&s->sent[(size_t)rank * (size_t)words], key_at(s, rank, words, false), words,
                      stamp(s), stamp(s));
    memset(s->received, 0xa5, (size_t)point_bytes(point) * (size_t)s->size);
}

static void step(void *state, size_t method, size_t point)
{
    sweep *s = state;
    int words = point_words(point), count = exchanges(point);
    for (int i = 0; i < count; i++) {
        for (int rank = 0; rank < s->size; rank++) s->sent[(size_t)rank * (size_t)words] ^= mark(i);
        exchange[method](s, words);
        uint64_t *brought = s->received;
        s->received = s->sent;
        s->sent = brought;
    }
}

/* Every byte, after every step; then the fields are again what `begin` made them. */
static void inspect(void *state, size_t method, size_t point, bx_verification *verification)
{
    (void)method;
    sweep *s = state;
    int words = point_words(point);
    uint64_t marks = all_marks(exchanges(point));
    for (int rank = 0; rank < s->size; rank++)
        write_stamped(&s->expected[(size_t)rank * (size_t)words],
                      key_at(s, rank, words, travels(point)), words, stamp(s) ^ marks, stamp(s));
    double wrong = wrong_bytes(s->sent, s->expected, (size_t)words * (size_t)s->size);
    if (travels(point)) {
        uint64_t *begun = s->received;
        s->received = s->sent;
        s->sent = begun;
    }
    bx_verification_check(verification, "content", wrong, 0, "bytes");
}

static void verify(void *state, size_t method, size_t point, bx_verification *verification)
{
    begin(state, method, point);
    prepare(state, method, point);
    step(state, method, point);
    inspect(state, method, point, verification);
}

static double items(void *state, size_t method, size_t point)
{
    (void)state, (void)method;
    return exchanges(point);
}

static void teardown(void *state)
{
    sweep *s = state;
    free(s->sent);
    free(s->received);
    free(s->expected);
    free(s->counts);
    free(s->offsets);
}

const bx_kernel *bx_kernel_get(void)
{
    static const bx_choice cases[] = {
        {"sweep",
         "blocks of --smallest to --largest bytes for each pair of ranks, in powers of two", NULL,
         false, NULL},
    };
    static const bx_option options[] = {
        {"smallest", "BYTES", "first block size, a power of two", BX_INTEGER, WORD, 1 << 30,
         &smallest},
        {"largest", "BYTES", "last block size, a power of two", BX_INTEGER, WORD, 1 << 30,
         &largest},
    };
    static const char *const ratios[] = {"alltoall", "alltoallv"};
    static const bx_kernel kernel = {
        .name = "alltoall-sweep",
        .summary = "MPI_Alltoall against MPI_Alltoallv over the size of a block",
        .cases = cases,
        .case_count = sizeof cases / sizeof *cases,
        .methods = methods,
        .method_count = sizeof methods / sizeof *methods,
        .options = options,
        .option_count = sizeof options / sizeof *options,
        .ratios = ratios,
        .ratio_count = sizeof ratios / sizeof *ratios,
        .setup = setup,
        .point_count = point_count,
        .point = describe,
        .verify = verify,
        .begin = begin,
        .prepare = prepare,
        .inspect = inspect,
        .step = step,
        .items = items,
        .teardown = teardown,
    };
    return &kernel;
}
