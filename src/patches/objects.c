#include "objects.h"

#include "charge.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Floating-point operations of a pair of atoms, on simulated machines: 12 of the distance, 24 of
 * the potential, 12 of the sums. */
static const double FLOPS_PER_PAIR = 48;

/* ---- set-up ---- */

static int compare_patches(const void *left, const void *right)
{
    return ((const bx_patch *)left)->number - ((const bx_patch *)right)->number;
}

bx_patch *bx_objects_patch(const bx_objects *o, int number)
{
    bx_patch key = {.number = number};
    return bsearch(&key, o->patches, (size_t)o->patch_count, sizeof key, compare_patches);
}

static int compare_ints(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

/* The ranks other than the owner that have pairs with each patch: ranks[patches][27], -1: none. */
static void list_copies(const bx_objects *o, int (*ranks)[27])
{
    const bx_share *share = &o->share;
    int *count = bx_memory_alloc((size_t)share->patches, sizeof *count);
    for (int p = 0; p < share->patches; p++)
        for (int k = 0; k < BX_OWN_PAIRS; k++) {
            double shift[3];
            int both[2] = {p, bx_lattice_partner(o->lattice, p, k, shift)};
            int worker = share->worker[p * BX_OWN_PAIRS + k];
            for (int side = 0; side < 2; side++) {
                int *list = ranks[both[side]], n = 0;
                if (worker == share->owner[both[side]]) continue;
                while (n < count[both[side]] && list[n] != worker) n++;
                if (n < count[both[side]]) continue;
                list[n] = worker;
                count[both[side]]++;
            }
        }
    for (int p = 0; p < share->patches; p++) {
        qsort(ranks[p], (size_t)count[p], sizeof(int), compare_ints);
        for (int n = count[p]; n < 27; n++) ranks[p][n] = -1;
    }
    free(count);
}

static void make_patch(bx_objects *o, int number, const int copies[27])
{
    o->patches = bx_memory_grow(o->patches, (size_t)o->patch_count + 1, sizeof *o->patches);
    bx_patch *patch = &o->patches[o->patch_count++];
    *patch = (bx_patch){.number = number, .owner = o->share.owner[number]};
    patch->own = patch->owner == o->rank;
    o->own_count += patch->own;
    patch->atoms = bx_lattice_fill(o->lattice, number, NULL, NULL, NULL);
    size_t words = BX_HEADER + 3 * (size_t)patch->atoms;
    BX_ALLOC(words, patch->positions, patch->forces);
    if (!patch->own) return;
    BX_ALLOC(3 * (size_t)patch->atoms, patch->velocities, patch->sums);
    BX_ALLOC((size_t)patch->atoms, patch->ids);
    while (patch->copy_count < 27 && copies[patch->copy_count] >= 0) patch->copy_count++;
    BX_ALLOC(27, patch->copies);
    memcpy(patch->copies, copies, 27 * sizeof *copies);
}

static void make_patches(bx_objects *o)
{
    int (*copies)[27] = bx_memory_alloc((size_t)o->share.patches, sizeof *copies);
    list_copies(o, copies);
    for (int p = 0; p < o->share.patches; p++) {
        bool here = o->share.owner[p] == o->rank;
        for (int n = 0; n < 27; n++) here = here || copies[p][n] == o->rank;
        if (here) make_patch(o, p, copies[p]);
    }
    free(copies);
}

static void join(bx_patch *patch, int pair)
{
    patch->pairs =
        bx_memory_grow(patch->pairs, (size_t)patch->pair_count + 1, sizeof *patch->pairs);
    patch->pairs[patch->pair_count++] = pair;
}

static void make_pairs(bx_objects *o)
{
    for (int p = 0; p < o->share.patches; p++)
        for (int k = 0; k < BX_OWN_PAIRS; k++) {
            if (o->share.worker[p * BX_OWN_PAIRS + k] != o->rank) continue;
            o->pairs = bx_memory_grow(o->pairs, (size_t)o->pair_count + 1, sizeof *o->pairs);
            bx_pair *pair = &o->pairs[o->pair_count];
            *pair = (bx_pair){.kind = k};
            bx_patch *first = bx_objects_patch(o, p);
            bx_patch *second =
                bx_objects_patch(o, bx_lattice_partner(o->lattice, p, k, pair->shift));
            pair->first = (int)(first - o->patches);
            pair->second = (int)(second - o->patches);
            pair->for_others = first->owner != o->rank || second->owner != o->rank;
            join(first, o->pair_count);
            if (second != first) join(second, o->pair_count);
            o->pair_count++;
        }
}

/* Lists of pairs of atoms, which hold for a block. */
static void find_pairs(bx_objects *o)
{
    for (int p = 0; p < o->patch_count; p++)
        bx_lattice_fill(o->lattice, o->patches[p].number, &o->patches[p].positions[BX_HEADER], NULL,
                        NULL);
    for (int i = 0; i < o->pair_count; i++) {
        bx_pair *pair = &o->pairs[i];
        const bx_patch *a = &o->patches[pair->first], *b = &o->patches[pair->second];
        bx_pairs_find(&pair->list, o->lattice->reach, a->atoms, &a->positions[BX_HEADER], b->atoms,
                      &b->positions[BX_HEADER], pair->shift);
    }
}

void bx_objects_create(bx_objects *o, bx_run *run, const bx_lattice *lattice, int64_t steps)
{
    *o = (bx_objects){.run = run, .lattice = lattice, .steps = steps};
    o->rank = bx_run_rank(run);
    o->ranks = bx_run_ranks(run);
    o->threads = bx_run_threads(run);
    bx_share_make(&o->share, lattice, o->ranks);
    make_patches(o);
    make_pairs(o);
    if (!bx_charge_is_hollow()) find_pairs(o);
    int64_t most = 0;
    for (int p = 0; p < o->patch_count; p++)
        most = o->patches[p].atoms > most ? o->patches[p].atoms : most;
    BX_ALLOC(2 * (size_t)o->threads, o->scratch);
    for (int t = 0; t < 2 * o->threads; t++)
        o->scratch[t] = bx_memory_alloc(3 * (size_t)most, sizeof **o->scratch);
    BX_ALLOC((size_t)o->pair_count, o->urgent.pairs, o->other.pairs, o->batch);
    BX_ALLOC((size_t)steps, o->energies);
}

void bx_objects_free(bx_objects *o)
{
    for (int p = 0; p < o->patch_count; p++) {
        BX_FREE(o->patches[p].positions, o->patches[p].forces, o->patches[p].pairs,
                o->patches[p].velocities, o->patches[p].ids, o->patches[p].sums,
                o->patches[p].copies);
    }
    for (int i = 0; i < o->pair_count; i++) bx_pairs_free(&o->pairs[i].list);
    for (int t = 0; o->scratch && t < 2 * o->threads; t++) free(o->scratch[t]);
    bx_share_free(&o->share);
    BX_FREE(o->patches, o->pairs, o->scratch, o->urgent.pairs, o->other.pairs, o->batch,
            o->energies);
}

/* ---- a step ---- */

void bx_objects_begin(bx_objects *o, bool copies)
{
    for (int p = 0; p < o->patch_count; p++) {
        bx_patch *patch = &o->patches[p];
        double *x = &patch->positions[BX_HEADER];
        patch->step = 0;
        if (patch->own || copies)
            bx_lattice_fill(o->lattice, patch->number, x, patch->velocities, patch->ids);
        else
            for (int64_t i = 0; i < 3 * patch->atoms; i++) x[i] = NAN;
    }
    memset(o->energies, 0, (size_t)o->steps * sizeof *o->energies);
    o->urgent.count = o->other.count = 0;
    o->step = o->last_step = 0;
    o->wrong_messages = o->wrong_forces = o->delayed = 0;
    o->others_wait = 0;
    for (int i = 0; i < o->pair_count; i++)
        o->pairs[i].awaited = 1 + (o->pairs[i].first != o->pairs[i].second);
}

static bool is_urgent(const bx_objects *o, const bx_pair *pair)
{
    return !o->patches[pair->first].own || !o->patches[pair->second].own;
}

/* The pairs of a patch whose positions are here may run. */
static void wake_pairs(bx_objects *o, bx_patch *patch)
{
    memset(patch->forces, 0, (BX_HEADER + 3 * (size_t)patch->atoms) * sizeof *patch->forces);
    patch->running = patch->pair_count;
    for (int n = 0; n < patch->pair_count; n++) {
        bx_pair *pair = &o->pairs[patch->pairs[n]];
        if (--pair->awaited > 0) continue;
        bx_queue *queue = is_urgent(o, pair) ? &o->urgent : &o->other;
        queue->pairs[queue->count++] = patch->pairs[n];
        o->others_wait += pair->for_others;
    }
}

static void publish(bx_objects *o, bx_patch *patch)
{
    memset(patch->sums, 0, 3 * (size_t)patch->atoms * sizeof *patch->sums);
    patch->awaited = patch->copy_count + (patch->pair_count > 0);
    o->outlet.send(o->outlet.to, patch);
    wake_pairs(o, patch);
}

void bx_objects_take_positions(bx_objects *o, bx_patch *patch)
{
    o->outlet.settle(o->outlet.to, patch); /* the forces of the step before are sent */
    wake_pairs(o, patch);
}

int64_t bx_objects_move(int64_t atoms, const int64_t *forces, double *x, double *v)
{
    double kinetic = 0;
    for (int64_t i = 0; i < 3 * atoms; i++) {
        double kick = (double)forces[i] * (BX_FORCE_UNIT * BX_TIME_STEP);
        double now = v[i] + kick / 2;
        kinetic += now * now;
        v[i] += kick;
        x[i] += v[i] * BX_TIME_STEP;
    }
    return (int64_t)(kinetic / 2 / BX_ENERGY_UNIT);
}

/* An own patch has all forces of its step. */
static void move(bx_objects *o, bx_patch *patch)
{
    double words = 3 * (double)patch->atoms * sizeof(double);
    bx_run_lap(o->run, BX_PHASE_MESSAGES);
    o->outlet.settle(o->outlet.to, patch); /* its positions are sent: it may change them */
    if (!bx_charge_is_hollow())
        o->energies[patch->step].kinetic += bx_objects_move(
            patch->atoms, patch->sums, &patch->positions[BX_HEADER], patch->velocities);
    bx_charge(BX_COPY, 2.5 * words, true);
    patch->step++;
    o->events_left--;
    bx_run_lap(o->run, BX_PHASE_INTEGRATION);
    if (patch->step < o->last_step) publish(o, patch);
}

void bx_objects_take_forces(bx_objects *o, bx_patch *patch, const int64_t *forces)
{
    for (int64_t i = 0; i < 3 * patch->atoms; i++) patch->sums[i] += forces[i];
    bx_charge(BX_COPY, 1.5 * 3 * (double)patch->atoms * sizeof *forces, true);
    if (--patch->awaited == 0) move(o, patch);
}

void bx_objects_start(bx_objects *o, int64_t steps)
{
    o->step = o->last_step;
    o->last_step += steps;
    o->events_left = steps * (o->own_count + o->pair_count);
    for (int p = 0; p < o->patch_count; p++)
        if (o->patches[p].own) publish(o, &o->patches[p]);
}

bool bx_objects_add_rounded(int64_t n, const double *forces, int64_t *sums)
{
    int wrong = 0;
    for (int64_t i = 0; i < n; i++) {
        wrong |= !(fabs(forces[i]) < BX_LARGEST_FORCE);
        sums[i] += (int64_t)(forces[i] * (1 / BX_FORCE_UNIT));
    }
    return wrong;
}

/* Computes a pair's forces and adds them to those of its patches. */
static void compute(bx_objects *o, const bx_pair *pair, int thread)
{
    bx_patch *a = &o->patches[pair->first], *b = &o->patches[pair->second];
    double *fa = o->scratch[2 * thread], *fb = o->scratch[2 * thread + 1];
    double energy =
        bx_pairs_compute(&pair->list, o->lattice->cutoff, a->atoms, &a->positions[BX_HEADER],
                         b->atoms, &b->positions[BX_HEADER], pair->shift, fa, fb);
#pragma omp critical(bx_forces)
    {
        int wrong = bx_objects_add_rounded(3 * a->atoms, fa, &a->forces[BX_HEADER]);
        if (a != b) wrong += bx_objects_add_rounded(3 * b->atoms, fb, &b->forces[BX_HEADER]);
        o->wrong_forces += wrong;
        o->energies[a->step].potential += (int64_t)(energy / BX_ENERGY_UNIT);
    }
}

/* One of this rank's pairs with a patch has run. */
static void note_run(bx_objects *o, bx_patch *patch)
{
    if (--patch->running > 0) return;
    if (patch->own) {
        bx_objects_take_forces(o, patch, &patch->forces[BX_HEADER]);
        return;
    }
    o->outlet.send(o->outlet.to, patch);
    patch->step++;
}

/* Computes the pairs of o->batch[count]. */
static void compute_batch(bx_objects *o, int count)
{
    bx_charge_fork();
    if (!bx_charge_is_hollow()) {
#pragma omp parallel for num_threads(o->threads) schedule(dynamic) if (o->threads > 1)
        for (int n = 0; n < count; n++) compute(o, &o->pairs[o->batch[n]], omp_get_thread_num());
    }
    for (int n = 0; n < count; n++) {
        double pairs = o->share.pairs_of[o->pairs[o->batch[n]].kind];
        bx_charge(BX_PAIRS, FLOPS_PER_PAIR * pairs, true);
        o->pairs_since_poll += pairs;
    }
    bx_run_lap(o->run, BX_PHASE_FORCES);
}

void bx_objects_compute(bx_objects *o)
{
    for (int i = 0; i < o->pair_count; i++) o->batch[i] = i;
    compute_batch(o, o->pair_count);
}

bool bx_objects_idle(const bx_objects *o) { return o->urgent.count + o->other.count == 0; }

bool bx_objects_run(bx_objects *o)
{
    bx_queue *queue = o->urgent.count > 0 ? &o->urgent : &o->other;
    /* several per thread: a parallel region costs more than looking for messages */
    int most = o->threads > 1 ? BX_PER_THREAD * o->threads : 1;
    int count = queue->count < most ? queue->count : most;
    if (count == 0) return false;
    queue->count -= count;
    memcpy(o->batch, &queue->pairs[queue->count], (size_t)count * sizeof *o->batch);
    int for_others = 0;
    for (int n = 0; n < count; n++) for_others += o->pairs[o->batch[n]].for_others;
    o->others_wait -= for_others;
    o->delayed += o->others_wait > 0 && for_others < count;
    bx_run_lap(o->run, BX_PHASE_MESSAGES);
    compute_batch(o, count);
    for (int n = 0; n < count; n++) {
        bx_pair *pair = &o->pairs[o->batch[n]];
        bool two = pair->first != pair->second;
        pair->awaited = 1 + two;
        o->events_left--;
        note_run(o, &o->patches[pair->first]);
        if (two) note_run(o, &o->patches[pair->second]);
    }
    return true;
}
