#include "verify.h"

#include <complex.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLED = 24 }; /* atoms whose forces are summed over all atoms */

/* ---- state ---- */

static uint64_t hash_atoms(int64_t atoms, const int64_t *ids, const double *x, const double *v,
                           const int64_t *forces)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < atoms; i++) {
        uint64_t hash = (uint64_t)ids[i];
        for (int d = 0; d < 3; d++) {
            uint64_t words[3];
            memcpy(&words[0], &x[d * atoms + i], sizeof *words);
            memcpy(&words[1], &v[d * atoms + i], sizeof *words);
            memcpy(&words[2], &forces[d * atoms + i], sizeof *words);
            for (int w = 0; w < 3; w++) hash = bx_random_hash(hash, words[w]);
        }
        sum += hash;
    }
    return sum;
}

static uint64_t sum_of_all(const bx_objects *o, uint64_t value)
{
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_UINT64_T, MPI_SUM, bx_run_comm(o->run));
    return value;
}

uint64_t bx_verify_state(const bx_objects *o)
{
    uint64_t sum = 0;
    for (int p = 0; p < o->patch_count; p++) {
        const bx_patch *patch = &o->patches[p];
        if (patch->own)
            sum += hash_atoms(patch->atoms, patch->ids, &patch->positions[BX_HEADER],
                              patch->velocities, patch->sums);
    }
    return sum_of_all(o, sum);
}

int64_t bx_verify_atoms(const bx_objects *o)
{
    uint64_t atoms = 0;
    for (int p = 0; p < o->patch_count; p++)
        if (o->patches[p].own) atoms += (uint64_t)o->patches[p].atoms;
    return (int64_t)sum_of_all(o, atoms);
}

void bx_verify_energies(const bx_objects *o, bx_energy *energies)
{
    memcpy(energies, o->energies, (size_t)o->steps * sizeof *energies);
    MPI_Allreduce(MPI_IN_PLACE, energies, (int)(2 * o->steps), MPI_INT64_T, MPI_SUM,
                  bx_run_comm(o->run));
}

/* ---- a block without objects ---- */

typedef struct {
    int64_t atoms, at; /* at: of its positions among all */
    double *x;         /* [3][atoms] */
    bool own;
    double *v, *start; /* [3][atoms] of own ones; start: positions at the beginning */
    int64_t *ids, *sums;
} plain_patch;

typedef struct {
    int first, second;
    double shift[3];
    bx_pairs list;
} plain_pair;

typedef struct {
    const bx_objects *o;
    int patch_count, pair_count;
    plain_patch *patches; /* [patch_count] all of them */
    plain_pair *pairs;    /* [pair_count] those with own patches */
    double *x;            /* positions of all atoms, by owner, then patch */
    int *counts, *places; /* [ranks] numbers in x */
    double *scratch[2];
} plain;

static void place_patches(plain *s)
{
    const bx_objects *o = s->o;
    int64_t at = 0;
    for (int rank = 0; rank < o->ranks; rank++) {
        s->places[rank] = (int)at;
        for (int p = 0; p < s->patch_count; p++) {
            if (o->share.owner[p] != rank) continue;
            s->patches[p].at = at;
            s->patches[p].atoms = bx_lattice_fill(o->lattice, p, NULL, NULL, NULL);
            at += 3 * s->patches[p].atoms;
        }
        s->counts[rank] = (int)(at - s->places[rank]);
    }
    s->x = bx_memory_alloc((size_t)at, sizeof *s->x);
    for (int p = 0; p < s->patch_count; p++) {
        plain_patch *patch = &s->patches[p];
        size_t numbers = 3 * (size_t)patch->atoms;
        patch->x = &s->x[patch->at];
        patch->own = o->share.owner[p] == o->rank;
        bx_lattice_fill(o->lattice, p, patch->x, NULL, NULL);
        if (!patch->own) continue;
        patch->v = bx_memory_alloc(numbers, sizeof *patch->v);
        patch->start = bx_memory_alloc(numbers, sizeof *patch->start);
        patch->ids = bx_memory_alloc((size_t)patch->atoms, sizeof *patch->ids);
        patch->sums = bx_memory_alloc(numbers, sizeof *patch->sums);
        bx_lattice_fill(o->lattice, p, patch->start, patch->v, patch->ids);
    }
}

static void find_pairs(plain *s)
{
    const bx_lattice *lattice = s->o->lattice;
    int64_t most = 0;
    for (int p = 0; p < s->patch_count; p++) {
        const plain_patch *a = &s->patches[p];
        most = a->atoms > most ? a->atoms : most;
        for (int k = 0; k < BX_OWN_PAIRS; k++) {
            plain_pair pair = {.first = p};
            pair.second = bx_lattice_partner(lattice, p, k, pair.shift);
            const plain_patch *b = &s->patches[pair.second];
            if (!a->own && !b->own) continue;
            bx_pairs_find(&pair.list, lattice->reach, a->atoms, a->x, b->atoms, b->x, pair.shift);
            s->pairs = bx_memory_grow(s->pairs, (size_t)s->pair_count + 1, sizeof *s->pairs);
            s->pairs[s->pair_count++] = pair;
        }
    }
    for (int i = 0; i < 2; i++)
        s->scratch[i] = bx_memory_alloc(3 * (size_t)most, sizeof *s->scratch[i]);
}

static plain *open_plain(const bx_objects *o)
{
    plain *s = bx_memory_alloc(1, sizeof *s);
    s->o = o;
    s->patch_count = o->share.patches;
    s->patches = bx_memory_alloc((size_t)s->patch_count, sizeof *s->patches);
    s->counts = bx_memory_alloc((size_t)o->ranks, sizeof *s->counts);
    s->places = bx_memory_alloc((size_t)o->ranks, sizeof *s->places);
    place_patches(s);
    find_pairs(s);
    return s;
}

static void close_plain(plain *s)
{
    for (int i = 0; i < s->pair_count; i++) bx_pairs_free(&s->pairs[i].list);
    for (int p = 0; p < s->patch_count; p++) {
        free(s->patches[p].v);
        free(s->patches[p].start);
        free(s->patches[p].ids);
        free(s->patches[p].sums);
    }
    free(s->patches);
    free(s->pairs);
    free(s->x);
    free(s->counts);
    free(s->places);
    free(s->scratch[0]);
    free(s->scratch[1]);
    free(s);
}

/* Forces on own patches; returns the energy of the pairs whose first patch is own. */
static int64_t sum_forces(plain *s)
{
    int64_t potential = 0;
    for (int p = 0; p < s->patch_count; p++)
        if (s->patches[p].own)
            memset(s->patches[p].sums, 0,
                   3 * (size_t)s->patches[p].atoms * sizeof *s->patches[p].sums);
    for (int i = 0; i < s->pair_count; i++) {
        const plain_pair *pair = &s->pairs[i];
        plain_patch *a = &s->patches[pair->first], *b = &s->patches[pair->second];
        double energy = bx_pairs_compute(&pair->list, s->o->lattice->cutoff, a->atoms, a->x,
                                         b->atoms, b->x, pair->shift, s->scratch[0], s->scratch[1]);
        if (a->own) bx_objects_add_rounded(3 * a->atoms, s->scratch[0], a->sums);
        if (b->own && b != a) bx_objects_add_rounded(3 * b->atoms, s->scratch[1], b->sums);
        if (a->own) potential += (int64_t)(energy / BX_ENERGY_UNIT);
    }
    return potential;
}

/* ---- sums over all atoms ---- */

/* The potential, by its definition; complex, so that its derivative needs no formula: W. Squire and
 * G. Trapp, SIAM Rev. 40, 110 (1998). */
static double complex potential(double complex r2, double cutoff)
{
    double end = cutoff * cutoff, begin = BX_SWITCH_FROM * BX_SWITCH_FROM * end;
    double complex sixth = 1 / (r2 * r2 * r2), weight = 1;
    if (creal(r2) >= end) return 0;
    if (creal(r2) > begin)
        weight = (end - r2) * (end - r2) * (end + 2 * r2 - 3 * begin) / pow(end - begin, 3);
    return 4 * (sixth * sixth - sixth) * weight;
}

/* The difference of an atom's force from a sum over all atoms, each by its nearest image. */
static double check_atom(const plain *s, const plain_patch *patch, int64_t atom)
{
    const bx_lattice *lattice = s->o->lattice;
    const double tiny = 1e-30;
    double force[3] = {0}, error = 0;
    for (int p = 0; p < s->patch_count; p++)
        for (int64_t j = 0; j < s->patches[p].atoms; j++) {
            double d[3], r2 = 0;
            if (&s->patches[p] == patch && j == atom) continue;
            for (int c = 0; c < 3; c++) {
                d[c] = patch->x[c * patch->atoms + atom] -
                       s->patches[p].x[c * s->patches[p].atoms + j];
                d[c] -= lattice->box[c] * round(d[c] / lattice->box[c]);
                r2 += d[c] * d[c];
            }
            if (r2 >= lattice->cutoff * lattice->cutoff) continue;
            for (int c = 0; c < 3; c++) {
                double complex moved = d[c] + tiny * I;
                double complex r2_moved = r2 - d[c] * d[c] + moved * moved;
                force[c] -= cimag(potential(r2_moved, lattice->cutoff)) / tiny;
            }
        }
    for (int c = 0; c < 3; c++)
        error = bx_verification_worse(
            error, fabs(force[c] - (double)patch->sums[c * patch->atoms + atom] * BX_FORCE_UNIT));
    return error;
}

static double check_forces(const plain *s)
{
    double error = 0;
    for (uint64_t n = 0; n < SAMPLED; n++) {
        uint64_t draw = bx_random_hash(s->o->lattice->seed, n);
        const plain_patch *patch = &s->patches[draw % (uint64_t)s->patch_count];
        if (patch->own && patch->atoms > 0)
            error = bx_verification_worse(
                error,
                check_atom(s, patch, (int64_t)(bx_random_hash(draw, n) % (uint64_t)patch->atoms)));
    }
    return error;
}

/* ---- the reference ---- */

static void add_momentum(const plain *s, double sign, double momentum[3])
{
    for (int p = 0; p < s->patch_count; p++)
        for (int64_t i = 0; s->patches[p].own && i < 3 * s->patches[p].atoms; i++)
            momentum[i / s->patches[p].atoms] += sign * s->patches[p].v[i];
}

static double largest_displacement(const plain *s)
{
    double largest = 0;
    for (int p = 0; p < s->patch_count; p++) {
        const plain_patch *patch = &s->patches[p];
        for (int64_t i = 0; patch->own && i < patch->atoms; i++) {
            double r2 = 0;
            for (int64_t j = i; j < 3 * patch->atoms; j += patch->atoms)
                r2 += (patch->x[j] - patch->start[j]) * (patch->x[j] - patch->start[j]);
            largest = bx_verification_worse(largest, r2);
        }
    }
    return sqrt(largest);
}

/* Sums energies over the ranks, and finds their drift. */
static void settle_energies(const plain *s, bx_reference *reference)
{
    double begun = 0, most = 0;
    MPI_Allreduce(MPI_IN_PLACE, reference->energies, (int)(2 * s->o->steps), MPI_INT64_T, MPI_SUM,
                  bx_run_comm(s->o->run));
    for (int64_t i = 0; i < s->o->steps; i++) {
        bx_energy e = reference->energies[i];
        double now = (double)(e.potential + e.kinetic);
        if (i == 0) begun = now;
        most = fmax(most, (double)e.kinetic);
        reference->drift = bx_verification_worse(reference->drift, fabs(now - begun));
    }
    reference->drift /= most;
}

void bx_verify_reference(const bx_objects *o, bx_reference *reference)
{
    MPI_Comm comm = bx_run_comm(o->run);
    plain *s = open_plain(o);
    double momentum[3] = {0};
    *reference = (bx_reference){0};
    reference->energies = bx_memory_alloc((size_t)o->steps, sizeof *reference->energies);
    add_momentum(s, -1, momentum);
    for (int64_t step = 0; step < o->steps; step++) {
        MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, s->x, s->counts, s->places, MPI_DOUBLE,
                       comm);
        reference->energies[step].potential = sum_forces(s);
        if (step == o->steps - 1) reference->force_error = check_forces(s);
        for (int p = 0; p < s->patch_count; p++) {
            plain_patch *patch = &s->patches[p];
            if (patch->own)
                reference->energies[step].kinetic +=
                    bx_objects_move(patch->atoms, patch->sums, patch->x, patch->v);
        }
        reference->displacement =
            bx_verification_worse(reference->displacement, largest_displacement(s));
    }
    settle_energies(s, reference);
    add_momentum(s, 1, momentum);
    MPI_Allreduce(MPI_IN_PLACE, momentum, 3, MPI_DOUBLE, MPI_SUM, comm);
    for (int c = 0; c < 3; c++)
        reference->momentum = bx_verification_worse(reference->momentum,
                                                    fabs(momentum[c]) / (double)o->lattice->atoms);
    for (int p = 0; p < s->patch_count; p++) {
        const plain_patch *patch = &s->patches[p];
        if (patch->own)
            reference->state +=
                hash_atoms(patch->atoms, patch->ids, patch->x, patch->v, patch->sums);
    }
    reference->state = sum_of_all(o, reference->state);
    close_plain(s);
}
