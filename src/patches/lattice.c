#include "lattice.h"

#include <stdlib.h>

static const double CELL = 1.55; /* edge of a cell: atoms at rest pull as much as they push */
static const double DISPLACEMENT = .01; /* at most, along each axis */
static const double TEMPERATURE = .05;  /* epsilon, if all of the kinetic energy stayed */
static const double SKIN = .4;          /* an atom may move by half of it */
enum { MOST_ATOMS = 65535 };            /* of a patch: lists have 16 bits */
enum { DRAWN = 6 };                     /* numbers per site */

int bx_lattice_patches(const bx_lattice *lattice)
{
    return (int)(lattice->patches[0] * lattice->patches[1] * lattice->patches[2]);
}

double bx_lattice_slack(const bx_lattice *lattice)
{
    return (lattice->reach - lattice->cutoff) / 2;
}

static int64_t sites(const bx_lattice *lattice)
{
    return 4 * lattice->cells[0] * lattice->cells[1] * lattice->cells[2];
}

void bx_lattice_settle(bx_lattice *lattice, bx_run *run)
{
    static const char *const axes[3] = {"x", "y", "z"};
    lattice->reach = lattice->cutoff + SKIN;
    for (int d = 0; d < 3; d++) {
        lattice->box[d] = CELL * (double)lattice->cells[d];
        double side = lattice->box[d] / (double)lattice->patches[d];
        double least = lattice->reach + 2 * DISPLACEMENT;
        if (side < least)
            bx_run_refuse(run, BX_USAGE,
                          "--patches: %lld along %s are %.2f sigma wide; cutoff and skin need %.2f",
                          (long long)lattice->patches[d], axes[d], side, least);
    }
    if (lattice->atoms > sites(lattice))
        bx_run_refuse(run, BX_USAGE, "--atoms %lld: %lld x %lld x %lld cells have %lld sites",
                      (long long)lattice->atoms, (long long)lattice->cells[0],
                      (long long)lattice->cells[1], (long long)lattice->cells[2],
                      (long long)sites(lattice));
    double planes = 1;
    for (int d = 0; d < 3; d++)
        planes *= ceil(2 * (double)lattice->cells[d] / (double)lattice->patches[d]);
    if (planes / 2 > MOST_ATOMS)
        bx_run_refuse(run, BX_USAGE, "--patches: about %.0f atoms per patch; %d at most",
                      planes / 2, MOST_ATOMS);
}

/* The coordinates of a patch. */
static void place_of(const bx_lattice *lattice, int patch, int64_t at[3])
{
    at[0] = patch % lattice->patches[0];
    at[1] = patch / lattice->patches[0] % lattice->patches[1];
    at[2] = patch / lattice->patches[0] / lattice->patches[1];
}

/* Sites lie on every other point of a grid of half cells, where the sum of coordinates is even. */
int64_t bx_lattice_fill(const bx_lattice *lattice, int patch, double *x, double *v, int64_t *ids)
{
    int64_t at[3], first[3], last[3], count = 0;
    int64_t atoms = x || v ? bx_lattice_fill(lattice, patch, NULL, NULL, NULL) : 0;
    const double fastest = sqrt(3 * TEMPERATURE);
    place_of(lattice, patch, at);
    for (int d = 0; d < 3; d++) {
        int64_t points = 2 * lattice->cells[d], parts = lattice->patches[d];
        first[d] = (at[d] * points + parts - 1) / parts;
        last[d] = ((at[d] + 1) * points + parts - 1) / parts;
    }
    int64_t point[3];
    for (point[2] = first[2]; point[2] < last[2]; point[2]++)
        for (point[1] = first[1]; point[1] < last[1]; point[1]++)
            for (point[0] = first[0]; point[0] < last[0]; point[0]++) {
                if ((point[0] + point[1] + point[2]) % 2 != 0) continue;
                int64_t row = point[2] * 2 * lattice->cells[1] + point[1], all = sites(lattice);
                int64_t site = row * lattice->cells[0] + point[0] / 2;
                if ((site + 1) * lattice->atoms / all == site * lattice->atoms / all) continue;
                for (int d = 0; d < 3; d++) {
                    uint64_t draw = (uint64_t)(site * DRAWN + d);
                    if (x)
                        x[d * atoms + count] =
                            ((double)point[d] + 0.5) * CELL / 2 +
                            DISPLACEMENT * bx_random_uniform(lattice->seed, draw);
                    if (v)
                        v[d * atoms + count] = fastest * bx_random_uniform(lattice->seed, draw + 3);
                }
                if (ids) ids[count] = site;
                count++;
            }
    return count;
}

int bx_lattice_partner(const bx_lattice *lattice, int patch, int pair, double shift[3])
{
    int64_t at[3], number = 0;
    place_of(lattice, patch, at);
    int direction[3] = {(pair + 13) % 3 - 1, (pair + 13) / 3 % 3 - 1, (pair + 13) / 9 - 1};
    for (int d = 2; d >= 0; d--) {
        int64_t n = lattice->patches[d], other = at[d] + direction[d];
        shift[d] = other < 0 ? -lattice->box[d] : other >= n ? lattice->box[d] : 0;
        number = number * n + (other + n) % n;
    }
    return (int)number;
}

typedef struct {
    uint64_t key;
    int patch;
} keyed;

static int compare_keys(const void *left, const void *right)
{
    const keyed *a = left, *b = right;
    return (a->key > b->key) - (a->key < b->key);
}

void bx_lattice_order(const bx_lattice *lattice, int *order)
{
    int count = bx_lattice_patches(lattice);
    keyed *keys = bx_memory_alloc((size_t)count, sizeof *keys);
    for (int p = 0; p < count; p++) {
        int64_t at[3];
        place_of(lattice, p, at);
        keys[p].patch = p;
        for (int bit = 0; bit < 16; bit++)
            for (int d = 0; d < 3; d++)
                keys[p].key |= ((uint64_t)at[d] >> bit & 1) << (3 * bit + d);
    }
    qsort(keys, (size_t)count, sizeof *keys, compare_keys);
    for (int p = 0; p < count; p++) order[p] = keys[p].patch;
    free(keys);
}
