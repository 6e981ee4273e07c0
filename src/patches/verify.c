#include "verify.h"

#include <complex.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

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
    int64_t atoms, at;         /* at: of its positions among all */
    double *x;                 /* [3][atoms] */
    double middle[3], half[3]; /* of the box around them, if there are any */
    bool own;
    /* [3][atoms] of own ones; positions at the beginning of the block, a step ago, in a step */
    double *v, *start, *before, *next;
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
    double *scratch[2];   /* [3 * most atoms of a patch] */
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
    BX_ALLOC((size_t)at, s->x);
    for (int p = 0; p < s->patch_count; p++) {
        plain_patch *patch = &s->patches[p];
        size_t numbers = 3 * (size_t)patch->atoms;
        patch->x = &s->x[patch->at];
        patch->own = o->share.owner[p] == o->rank;
        bx_lattice_fill(o->lattice, p, patch->x, NULL, NULL);
        if (!patch->own) continue;
        BX_ALLOC(numbers, patch->v, patch->start, patch->before, patch->next, patch->sums);
        BX_ALLOC((size_t)patch->atoms, patch->ids);
        bx_lattice_fill(o->lattice, p, patch->start, patch->v, patch->ids);
        for (size_t i = 0; i < numbers; i++)
            patch->before[i] = patch->start[i] - BX_TIME_STEP * patch->v[i];
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
    for (int i = 0; i < 2; i++) BX_ALLOC(3 * (size_t)most, s->scratch[i]);
}

static plain *open_plain(const bx_objects *o)
{
    plain *s = bx_memory_alloc(1, sizeof *s);
    s->o = o;
    s->patch_count = o->share.patches;
    BX_ALLOC((size_t)s->patch_count, s->patches);
    BX_ALLOC((size_t)o->ranks, s->counts, s->places);
    place_patches(s);
    find_pairs(s);
    return s;
}

static void close_plain(plain *s)
{
    for (int i = 0; i < s->pair_count; i++) bx_pairs_free(&s->pairs[i].list);
    for (int p = 0; p < s->patch_count; p++) {
        BX_FREE(s->patches[p].v, s->patches[p].start, s->patches[p].before, s->patches[p].next,
                s->patches[p].ids, s->patches[p].sums);
    }
    BX_FREE(s->patches, s->pairs, s->x, s->counts, s->places, s->scratch[0], s->scratch[1], s);
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

/* ---- all pairs of atoms, without lists and neighbours of patches ---- */

/* The potential by its definition, of the square of a distance; complex, so that its derivative
 * needs no formula: W. Squire and G. Trapp, SIAM Rev. 40, 110 (1998). */
static double complex potential(double complex r2, double cutoff)
{
    double end = cutoff * cutoff, begin = BX_SWITCH_FROM * BX_SWITCH_FROM * end;
    if (creal(r2) >= end) return 0;
    double complex sixth = 1 / (r2 * r2 * r2), weight = 1;
    if (creal(r2) > begin)
        weight = (end - r2) * (end - r2) * (end + 2 * r2 - 3 * begin) / pow(end - begin, 3);
    return 4 * (sixth * sixth - sixth) * weight;
}

static const double TINY = 1e-30;  /* sigma^2: the imaginary part of a square */
static const double MARGIN = 1e-9; /* sigma: distances so near the reach of lists may be in them */

/* What all pairs of atoms add up to. */
typedef struct {
    double least, most;  /* pairs that are surely within the reach of lists, and that may be */
    double energy, size; /* epsilon: potential energy; sum of its terms without their signs */
} totals;

/* From a place to the nearest image of each atom of a patch: d[3][atoms], squares r2[atoms]. */
static void look(const bx_lattice *lattice, const double at[3], const plain_patch *patch, double *d,
                 double *r2)
{
    int64_t n = patch->atoms;
    memset(r2, 0, (size_t)n * sizeof *r2);
    for (int c = 0; c < 3; c++) {
        const double *x = &patch->x[c * n], box = lattice->box[c], per_box = 1 / box;
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            double away = at[c] - x[j];
            away -= box * rint(away * per_box);
            d[c * n + j] = away;
            r2[j] += away * away;
        }
    }
}

static void bound(plain_patch *patch)
{
    for (int c = 0; c < 3; c++) {
        double low = INFINITY, high = -INFINITY;
        for (int64_t i = c * patch->atoms; i < (c + 1) * patch->atoms; i++) {
            low = fmin(low, patch->x[i]);
            high = fmax(high, patch->x[i]);
        }
        patch->middle[c] = (low + high) / 2;
        patch->half[c] = (high - low) / 2;
    }
}

/* Whether two boxes, or their images, are within `reach` of each other. */
static bool is_near(const bx_lattice *lattice, const plain_patch *a, const plain_patch *b,
                    double reach)
{
    double r2 = 0;
    if (a->atoms == 0 || b->atoms == 0) return false;
    for (int c = 0; c < 3; c++) {
        double away = a->middle[c] - b->middle[c];
        away -= lattice->box[c] * round(away / lattice->box[c]);
        away = fmax(0, fabs(away) - a->half[c] - b->half[c]);
        r2 += away * away;
    }
    return r2 < reach * reach;
}

/* Adds half of an atom's pairs with near[count] patches, as its partners add the other half.
 * Returns how far its force is from their sum. */
static double look_around(const plain *s, const plain_patch *patch, int64_t atom,
                          const plain_patch *const *near, int count, totals *sums)
{
    const bx_lattice *lattice = s->o->lattice;
    const double least = lattice->reach - MARGIN, most = lattice->reach + MARGIN;
    const int64_t n = patch->atoms;
    const double at[3] = {patch->x[atom], patch->x[n + atom], patch->x[2 * n + atom]};
    double *d = s->scratch[0], *r2 = s->scratch[1], force[3] = {0}, error = 0;
    for (int k = 0; k < count; k++) {
        const plain_patch *other = near[k];
        look(lattice, at, other, d, r2);
        for (int64_t j = 0; j < other->atoms; j++) {
            if (r2[j] >= most * most || (other == patch && j == atom)) continue;
            sums->most += 0.5;
            sums->least += r2[j] < least * least ? 0.5 : 0;
            double complex u = potential(r2[j] + TINY * I, lattice->cutoff);
            sums->energy += creal(u) / 2;
            sums->size += fabs(creal(u)) / 2;
            for (int c = 0; c < 3; c++) force[c] -= 2 * d[c * other->atoms + j] * cimag(u) / TINY;
        }
    }
    for (int c = 0; c < 3; c++)
        error = bx_verification_worse(
            error, fabs(force[c] - (double)patch->sums[c * n + atom] * BX_FORCE_UNIT));
    return error;
}

static const double FORCE = 1e-9, ENERGY = 1e-10; /* epsilon / sigma; of the sum of all terms */

/* The potential at distances up to beyond the cutoff, whatever those of the atoms are: between one
 * atom and others in a row. */
static void check_potential(double cutoff, bx_verification *verification)
{
    enum { ROW = 500 };
    static const double NEAREST = 0.9; /* sigma */
    double one[3] = {0}, shift[3] = {0}, force[3], *row, *forces;
    double energy = 0, size = 0, error = 0;
    bx_pairs pairs;
    BX_ALLOC(3 * (size_t)ROW, row, forces);
    for (int i = 0; i < ROW; i++) row[i] = NEAREST + (1.05 * cutoff - NEAREST) * i / ROW;
    bx_pairs_find(&pairs, 2 * cutoff, 1, one, ROW, row, shift);
    double sum = bx_pairs_compute(&pairs, cutoff, 1, one, ROW, row, shift, force, forces);
    for (int i = 0; i < ROW; i++) {
        double complex u = potential(row[i] * row[i] + TINY * I, cutoff);
        energy += creal(u);
        size += fabs(creal(u));
        error = bx_verification_worse(error, fabs(forces[i] + 2 * row[i] * cimag(u) / TINY));
    }
    bx_pairs_free(&pairs);
    BX_FREE(row, forces);
    bx_verification_check(verification, "forces by distance", error, FORCE, "epsilon/sigma");
    bx_verification_check(verification, "energy by distance", fabs(sum - energy), ENERGY * size,
                          "epsilon");
}

/* Forces and the potential energy, in units of BX_ENERGY_UNIT, of the positions that are here; the
 * lists, if they were just found. */
static void check_pairs(plain *s, int64_t potential, bool just_found, bx_verification *verification)
{
    const bx_objects *o = s->o;
    totals sums = {0};
    double error = 0, listed = 0, listed_here = 0;
    const plain_patch **near = bx_memory_alloc((size_t)s->patch_count, sizeof *near);
    for (int p = 0; p < s->patch_count; p++) bound(&s->patches[p]);
    for (int p = 0; p < s->patch_count; p++) {
        const plain_patch *patch = &s->patches[p];
        int count = 0;
        for (int q = 0; patch->own && q < s->patch_count; q++)
            if (is_near(o->lattice, patch, &s->patches[q], o->lattice->reach + MARGIN))
                near[count++] = &s->patches[q];
        for (int64_t i = 0; patch->own && i < patch->atoms; i++)
            error = bx_verification_worse(error, look_around(s, patch, i, near, count, &sums));
    }
    free(near);
    for (int i = 0; i < o->pair_count; i++) listed += (double)o->pairs[i].list.count;
    for (int i = 0; i < s->pair_count; i++)
        if (s->patches[s->pairs[i].first].own) listed_here += (double)s->pairs[i].list.count;
    double all[] = {sums.least,
                    sums.most,
                    listed,
                    listed_here,
                    sums.energy,
                    sums.size,
                    (double)potential * BX_ENERGY_UNIT};
    MPI_Allreduce(MPI_IN_PLACE, all, sizeof all / sizeof *all, MPI_DOUBLE, MPI_SUM,
                  bx_run_comm(o->run));
    double rounded = BX_OWN_PAIRS * s->patch_count * BX_ENERGY_UNIT;
    bx_verification_check(verification, "forces", error, FORCE, "epsilon/sigma");
    bx_verification_check(verification, "potential energy", fabs(all[6] - all[4]),
                          rounded + ENERGY * all[5], "epsilon");
    for (int i = 2; just_found && i < 4; i++)
        bx_verification_check(verification, "lists",
                              fmax(0, fmax(all[0] - all[i], all[i] - all[1])), 0, "pairs");
}

/* ---- the reference ---- */

static void add_momentum(const plain *s, double sign, double momentum[3])
{
    for (int p = 0; p < s->patch_count; p++)
        for (int64_t i = 0; s->patches[p].own && i < 3 * s->patches[p].atoms; i++)
            momentum[i / s->patches[p].atoms] += sign * s->patches[p].v[i];
}

/* How far any atom will have moved in the next step. */
static double largest_displacement(const plain *s)
{
    double largest = 0;
    for (int p = 0; p < s->patch_count; p++) {
        const plain_patch *patch = &s->patches[p];
        for (int64_t i = 0; patch->own && i < patch->atoms; i++) {
            double r2 = 0;
            for (int64_t j = i; j < 3 * patch->atoms; j += patch->atoms)
                r2 += (patch->next[j] - patch->start[j]) * (patch->next[j] - patch->start[j]);
            largest = bx_verification_worse(largest, r2);
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_DOUBLE, MPI_MAX, bx_run_comm(s->o->run));
    return sqrt(largest);
}

/* What positions are rounded by, at most: sigma. */
static double rounding(const bx_lattice *lattice)
{
    return DBL_EPSILON * fmax(lattice->box[0], fmax(lattice->box[1], lattice->box[2]));
}

/* Moves own atoms from `x` to `next`, and adds to the energies of a step: the kinetic one, and the
 * same by positions alone.  Returns how far the second difference of positions is from the forces:
 * L. Verlet, Phys. Rev. 159, 98 (1967). */
static double move(plain *s, bx_energy *energy, double *by_positions)
{
    const double per_time = 0.5 / BX_TIME_STEP, time2 = BX_TIME_STEP * BX_TIME_STEP;
    double error = 0;
    for (int p = 0; p < s->patch_count; p++) {
        plain_patch *patch = &s->patches[p];
        if (!patch->own) continue;
        memcpy(patch->next, patch->x, 3 * (size_t)patch->atoms * sizeof *patch->x);
        energy->kinetic += bx_objects_move(patch->atoms, patch->sums, patch->next, patch->v);
        for (int64_t i = 0; i < 3 * patch->atoms; i++) {
            double v = (patch->next[i] - patch->before[i]) * per_time;
            double bend = (patch->next[i] - patch->x[i]) - (patch->x[i] - patch->before[i]);
            *by_positions += v * v / 2;
            error = bx_verification_worse(
                error, fabs(bend - time2 * (double)patch->sums[i] * BX_FORCE_UNIT));
        }
    }
    return error;
}

/* The next step's positions become this step's. */
static void advance(plain *s)
{
    for (int p = 0; p < s->patch_count; p++) {
        plain_patch *patch = &s->patches[p];
        if (!patch->own) continue;
        size_t bytes = 3 * (size_t)patch->atoms * sizeof *patch->x;
        memcpy(patch->before, patch->x, bytes);
        memcpy(patch->x, patch->next, bytes);
    }
}

/* Sums the energies of a block over the ranks. */
static void check_energies(const plain *s, bx_reference *reference, double *by_positions)
{
    static const double DRIFT = 0.01;
    const bx_lattice *lattice = s->o->lattice;
    MPI_Comm comm = bx_run_comm(s->o->run);
    double begun = 0, most = 0, drift = 0, v = 2 * rounding(lattice) / BX_TIME_STEP;
    MPI_Allreduce(MPI_IN_PLACE, reference->energies, (int)(2 * s->o->steps), MPI_INT64_T, MPI_SUM,
                  comm);
    MPI_Allreduce(MPI_IN_PLACE, by_positions, (int)s->o->steps, MPI_DOUBLE, MPI_SUM, comm);
    for (int64_t i = 0; i < reference->steps; i++) {
        bx_energy e = reference->energies[i];
        double now = (double)(e.potential + e.kinetic),
               kinetic = (double)e.kinetic * BX_ENERGY_UNIT;
        /* v in each velocity, and one unit per patch */
        double rounded =
            s->patch_count * BX_ENERGY_UNIT + v * sqrt(6 * (double)lattice->atoms * kinetic);
        bx_verification_check(&reference->verification, "kinetic energy",
                              fabs(kinetic - by_positions[i]), rounded, "epsilon");
        if (i == 0) begun = now;
        most = fmax(most, (double)e.kinetic);
        drift = bx_verification_worse(drift, fabs(now - begun));
    }
    reference->drift = drift / most;
    bx_verification_check(&reference->verification, "drift", reference->drift, DRIFT,
                          "kinetic energies");
}

static void check_momentum(const plain *s, bx_reference *reference, double momentum[3])
{
    double atoms = (double)s->o->lattice->atoms, change = 0;
    /* the 27 pairs of a patch round each force down, in each step; the sum over all atoms */
    double rounded =
        (double)reference->steps * BX_TIME_STEP * 27 * BX_FORCE_UNIT + atoms * DBL_EPSILON;
    MPI_Allreduce(MPI_IN_PLACE, momentum, 3, MPI_DOUBLE, MPI_SUM, bx_run_comm(s->o->run));
    for (int c = 0; c < 3; c++) change = bx_verification_worse(change, fabs(momentum[c]) / atoms);
    bx_verification_check(&reference->verification, "momentum", change, rounded, "per atom");
}

void bx_verify_reference(const bx_objects *o, bx_reference *reference)
{
    static const double MOST_ROUNDED = 4;
    MPI_Comm comm = bx_run_comm(o->run);
    plain *s = open_plain(o);
    double momentum[3] = {0},
           *by_positions = bx_memory_alloc((size_t)o->steps, sizeof *by_positions);
    bool holds = true;
    *reference = (bx_reference){0};
    BX_ALLOC((size_t)o->steps, reference->energies);
    add_momentum(s, -1, momentum);
    for (int64_t step = 0; holds && step < o->steps; step++) {
        bx_energy *energy = &reference->energies[step];
        MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, s->x, s->counts, s->places, MPI_DOUBLE,
                       comm);
        energy->potential = sum_forces(s);
        bx_verification_check(&reference->verification, "integration",
                              move(s, energy, &by_positions[step]),
                              MOST_ROUNDED * rounding(o->lattice), "sigma");
        bool last = ++reference->steps == o->steps;
        if (!last) reference->displacement = fmax(reference->displacement, largest_displacement(s));
        holds = reference->displacement <= bx_lattice_slack(o->lattice);
        if (step == 0 || last || !holds)
            check_pairs(s, energy->potential, step == 0, &reference->verification);
        advance(s);
    }
    check_potential(o->lattice->cutoff, &reference->verification);
    check_energies(s, reference, by_positions);
    add_momentum(s, 1, momentum);
    check_momentum(s, reference, momentum);
    for (int p = 0; p < s->patch_count; p++) {
        const plain_patch *patch = &s->patches[p];
        if (patch->own)
            reference->state +=
                hash_atoms(patch->atoms, patch->ids, patch->x, patch->v, patch->sums);
    }
    reference->state = sum_of_all(o, reference->state);
    free(by_positions);
    close_plain(s);
}
