#include "fock.h"

#include "charge.h"
#include "window.h"

#include <string.h>

enum { SLICES = 16 }; /* independent chains of a task, for threads */
enum { LEVELS = 13 }; /* of costs: one has half the tasks of the one below, 1.5 times as long */
enum { FLOPS_PER_TURN = 3 }; /* on simulated machines; a turn is three operations */
/* what numbers are drawn for */
enum { FIRST_BLOCK, SECOND_BLOCK, COST, OUTCOME, DENSITY, STAMPS, FACTORS };

static uint64_t drawn(const bx_fock *f, int purpose, uint64_t index)
{
    return bx_random_hash(bx_random_hash(f->seed, (uint64_t)purpose), index);
}

int64_t bx_fock_tasks(const bx_fock_size *size)
{
    return size->blocks * (size->blocks + 1) / 2 * size->partners;
}

/* ---- tasks: pair i >= j of blocks, with a partner pair k, l that is drawn ---- */

/* Numbers of the two blocks that a task gets, k,l and j,l, and of the two that it adds to, i,j and
 * i,k: a Coulomb and an exchange term. */
typedef struct {
    int64_t got[2], added[2];
} places;

static places places_of(const bx_fock *f, int64_t task)
{
    int64_t pair = task / f->size.partners, n = f->size.blocks;
    int64_t i = (int64_t)((sqrt(8.0 * (double)pair + 1) - 1) / 2);
    while (i * (i + 1) / 2 > pair) i--;
    while ((i + 1) * (i + 2) / 2 <= pair) i++;
    int64_t j = pair - i * (i + 1) / 2;
    int64_t k = (int64_t)(drawn(f, FIRST_BLOCK, (uint64_t)task) % (uint64_t)n);
    int64_t l = (int64_t)(drawn(f, SECOND_BLOCK, (uint64_t)task) % (uint64_t)n);
    return (places){{k * n + l, j * n + l}, {i * n + j, i * n + k}};
}

static int owner(const bx_fock *f, int64_t block) { return (int)(block % f->ranks); }
static MPI_Aint place(const bx_fock *f, int64_t block)
{
    return (MPI_Aint)((size_t)(block / f->ranks) * f->words);
}

int64_t bx_fock_cost(const bx_fock *f, int64_t task)
{
    uint64_t bits = drawn(f, COST, (uint64_t)task);
    int64_t spread = 256 + (int64_t)(bits & 255), turns = f->size.work;
    bits >>= 8;
    for (int level = 1; level < LEVELS && bits & 1; level++, bits >>= 1) turns += turns / 2;
    return 1 + turns * spread / 768; /* the levels' mean is 1.95 */
}

/* Turns of one chain: each needs the one before.  A linear congruential generator, so that the end
 * has a closed form.  Its factors are not constants: a compiler would join turns. */
static uint64_t chain(uint64_t x, int64_t turns, const uint64_t factor[2])
{
    for (int64_t i = 0; i < turns; i++) x = (x * factor[0] + 1) * factor[1];
    return x;
}

uint64_t bx_fock_integrals(const bx_fock *f, uint64_t key, int64_t turns)
{
    int threads = bx_run_threads(f->run);
    uint64_t sum = 0;
    bx_charge_fork();
    bx_charge(BX_PAIRS, FLOPS_PER_TURN * (double)turns, true);
    if (bx_charge_is_hollow()) return bx_random_hash(key, (uint64_t)turns);
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : sum) if (threads > 1)
    for (int s = 0; s < SLICES; s++)
        sum += chain(bx_random_hash(key, (uint64_t)s), turns / SLICES + (s < turns % SLICES),
                     f->chain);
    return sum;
}

/* n turns are x -> power x + sum: F. Brown, Trans. Am. Nucl. Soc. 71, 202 (1994). */
uint64_t bx_fock_expected(const bx_fock *f, uint64_t key, int64_t turns)
{
    if (bx_charge_is_hollow()) return bx_random_hash(key, (uint64_t)turns);
    uint64_t factor = f->chain[0] * f->chain[1], added = f->chain[1], step[2] = {factor, added};
    uint64_t power = 1, sum = 0, ends = 0;
    for (int64_t n = turns / SLICES; n > 0; n >>= 1) {
        if (n & 1) {
            power *= factor;
            sum = sum * factor + added;
        }
        added *= factor + 1;
        factor *= factor;
    }
    for (int s = 0; s < SLICES; s++) {
        uint64_t end = power * bx_random_hash(key, (uint64_t)s) + sum;
        ends += s < turns % SLICES ? end * step[0] + step[1] : end;
    }
    return ends;
}

/* What the chains of a task begin with: another number in each build. */
static uint64_t key_of(const bx_fock *f, int64_t task)
{
    return drawn(f, OUTCOME, (uint64_t)task) ^ f->stamp;
}

/* What the blocks of a task are multiplied with.  Odd: each bit of a block changes the sum. */
static void factors(uint64_t outcome, uint64_t factor[2])
{
    for (uint64_t term = 0; term < 2; term++) factor[term] = bx_random_hash(outcome, term) | 1;
}

/* ---- set-up ---- */

double bx_fock_turns(const bx_fock_size *size)
{
    return (double)bx_fock_tasks(size) * (double)size->work;
}

static size_t blocks_of(const bx_fock_size *size, int rank, int ranks)
{
    return (size_t)((size->blocks * size->blocks - rank + ranks - 1) / ranks);
}

double bx_fock_memory(const bx_fock_size *size, int ranks)
{
    double block = 8.0 * (double)size->rows * (double)size->rows;
    return block * (3.0 * (double)blocks_of(size, 0, ranks) + 4) +
           sizeof(int) * (double)bx_fock_tasks(size);
}

static uint64_t density_of(const bx_fock *f, int64_t block, size_t word)
{
    return drawn(f, DENSITY, (uint64_t)block * f->words + word);
}

/* Half the tasks have no level, half of the others one, and so on; each half as much again, to
 * within what integers lose. */
double bx_fock_unexpected_turns(const bx_fock *f, double *tolerance)
{
    double turns = 0;
    *tolerance = 0;
    for (int64_t task = 0; task < f->tasks; task++) {
        uint64_t bits = drawn(f, COST, (uint64_t)task);
        int level = 0;
        while (level < LEVELS - 1 && bits >> (8 + level) & 1) level++;
        double times = pow(1.5, level) * (1 + (double)(bits % 256) / 256) / 3;
        turns += times * (double)f->size.work;
        *tolerance += times + 1;
    }
    return fabs(turns - (double)f->turns);
}

bool bx_fock_open(bx_fock *f, bx_run *run, const bx_fock_size *size)
{
    *f = (bx_fock){.run = run,
                   .comm = bx_run_comm(run),
                   .size = *size,
                   .seed = bx_run_seed(run),
                   .tasks = bx_fock_tasks(size),
                   .words = (size_t)(size->rows * size->rows),
                   .windows = {MPI_WIN_NULL, MPI_WIN_NULL}};
    MPI_Comm_rank(f->comm, &f->rank);
    MPI_Comm_size(f->comm, &f->ranks);
    f->blocks_here = blocks_of(size, f->rank, f->ranks);
    for (uint64_t i = 0; i < 2; i++) f->chain[i] = 4 * drawn(f, FACTORS, i) + 1; /* full periods */
    BX_ALLOC(2 * f->words, f->got, f->sums);
    BX_ALLOC((size_t)f->tasks, f->times);
    f->expected = bx_memory_alloc(f->blocks_here * f->words, sizeof *f->expected);
    for (int64_t task = 0; task < f->tasks; task++) {
        int64_t turns = bx_fock_cost(f, task);
        f->turns += turns;
        if (turns > f->largest) f->largest = turns;
    }
    size_t bytes = (f->blocks_here > 0 ? f->blocks_here : 1) * f->words * sizeof *f->density;
    if (!bx_window_open(run, f->comm, &f->density, bytes, &f->windows[0]) ||
        !bx_window_open(run, f->comm, &f->fock, bytes, &f->windows[1]))
        return false;
    for (size_t b = 0; b < f->blocks_here; b++)
        for (size_t w = 0; w < f->words; w++)
            f->density[b * f->words + w] =
                density_of(f, (int64_t)b * f->ranks + f->rank, w) + f->stamp;
    return true;
}

void bx_fock_close(bx_fock *f)
{
    for (int i = 0; i < 2; i++) bx_window_close(&f->windows[i]);
    BX_FREE(f->got, f->sums, f->times, f->expected);
}

/* ---- a build ---- */

void bx_fock_begin(bx_fock *f)
{
    uint64_t stamp = drawn(f, STAMPS, f->stamp);
    for (size_t i = 0; i < f->blocks_here * f->words; i++) f->density[i] += stamp - f->stamp;
    f->stamp = stamp;
    memset(f->fock, 0, f->blocks_here * f->words * sizeof *f->fock);
    memset(f->times, 0, (size_t)f->tasks * sizeof *f->times);
}

void bx_fock_run(bx_fock *f, int64_t task)
{
    places p = places_of(f, task);
    int words = (int)f->words;
    for (int term = 0; term < 2; term++)
        MPI_Get(&f->got[(size_t)term * f->words], words, MPI_UINT64_T, owner(f, p.got[term]),
                place(f, p.got[term]), words, MPI_UINT64_T, f->windows[0]);
    for (int term = 0; term < 2; term++) MPI_Win_flush(owner(f, p.got[term]), f->windows[0]);
    bx_run_lap(f->run, BX_FOCK_BLOCKS);
    uint64_t factor[2];
    factors(bx_fock_integrals(f, key_of(f, task), bx_fock_cost(f, task)), factor);
    for (int term = 0; term < 2; term++)
        for (size_t w = 0; w < f->words; w++)
            f->sums[(size_t)term * f->words + w] =
                factor[term] * f->got[(size_t)term * f->words + w];
    bx_charge(BX_COPY, 2 * 8 * (double)words, false);
    f->times[task]++;
    bx_run_lap(f->run, BX_FOCK_INTEGRALS);
    for (int term = 0; term < 2; term++)
        MPI_Accumulate(&f->sums[(size_t)term * f->words], words, MPI_UINT64_T,
                       owner(f, p.added[term]), place(f, p.added[term]), words, MPI_UINT64_T,
                       MPI_SUM, f->windows[1]);
    for (int term = 0; term < 2; term++)
        MPI_Win_flush_local(owner(f, p.added[term]), f->windows[1]);
    bx_run_lap(f->run, BX_FOCK_BLOCKS);
}

void bx_fock_end(bx_fock *f)
{
    MPI_Win_flush_all(f->windows[1]);
    bx_run_lap(f->run, BX_FOCK_BLOCKS);
    MPI_Barrier(f->comm);
    bx_run_lap(f->run, BX_FOCK_WAITING);
}

/* Adds a term of a task to block row,column, if it is this rank's: a factor times block from,to of
 * the density. */
static void expect_term(bx_fock *f, uint64_t factor, int64_t row, int64_t column, int64_t from,
                        int64_t to)
{
    int64_t block = row * f->size.blocks + column;
    if (owner(f, block) != f->rank) return;
    uint64_t *words = &f->expected[place(f, block)];
    for (size_t w = 0; w < f->words; w++)
        words[w] += factor * (density_of(f, from * f->size.blocks + to, w) + f->stamp);
}

/* The Fock matrix of the last build, from all tasks that add to a block of this rank: pairs i, j of
 * blocks, each with its partners k, l.  It does not ask places_of. */
static void expect(bx_fock *f)
{
    int64_t n = f->size.blocks, task = 0;
    memset(f->expected, 0, f->blocks_here * f->words * sizeof *f->expected);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++)
            for (int64_t partner = 0; partner < f->size.partners; partner++, task++) {
                int64_t k = (int64_t)(drawn(f, FIRST_BLOCK, (uint64_t)task) % (uint64_t)n);
                int64_t l = (int64_t)(drawn(f, SECOND_BLOCK, (uint64_t)task) % (uint64_t)n);
                uint64_t factor[2];
                if (owner(f, i * n + j) != f->rank && owner(f, i * n + k) != f->rank) continue;
                factors(bx_fock_expected(f, key_of(f, task), bx_fock_cost(f, task)), factor);
                expect_term(f, factor[0], i, j, k, l);
                expect_term(f, factor[1], i, k, j, l);
            }
}

int64_t bx_fock_inspect(bx_fock *f, bx_verification *verification)
{
    double wrong = 0, lost = 0, doubled = 0;
    int64_t done = 0;
    bx_window_sync(f->comm, f->windows, 2);
    expect(f);
    for (size_t i = 0; i < f->blocks_here * f->words; i++)
        wrong += bx_verification_wrong_bytes(f->fock[i], f->expected[i]);
    for (int64_t task = 0; task < f->tasks; task++) done += f->times[task] * bx_fock_cost(f, task);
    MPI_Allreduce(MPI_IN_PLACE, f->times, (int)f->tasks, MPI_INT, MPI_SUM, f->comm);
    for (int64_t task = 0; task < f->tasks; task++) {
        lost += f->times[task] == 0;
        doubled += f->times[task] > 1;
    }
    bx_verification_check(verification, "lost", lost, 0, "tasks");
    bx_verification_check(verification, "doubled", doubled, 0, "tasks");
    bx_verification_check_always(verification, "Fock matrix", wrong, 0, "bytes");
    return done;
}
