/* Patches, pairs, shares and objects of bisection-patches against the plainest forms of them. */
#include "objects.h"
#include "run.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

static bx_lattice lattice_of(int64_t atoms, const int64_t cells[3], const int64_t patches[3])
{
    bx_lattice l = {.atoms = atoms, .cutoff = 1.5, .reach = 1.9, .seed = 7};
    for (int d = 0; d < 3; d++) {
        l.cells[d] = cells[d];
        l.patches[d] = patches[d];
        l.box[d] = 1.55 * (double)cells[d];
    }
    return l;
}

/* Every atom is in one patch, and within its sides. */
static void check_atoms(int64_t atoms, const int64_t cells[3], const int64_t patches[3])
{
    bx_lattice l = lattice_of(atoms, cells, patches);
    size_t sites = (size_t)(4 * cells[0] * cells[1] * cells[2]);
    char *seen = calloc(sites, 1);
    int64_t total = 0;
    for (int p = 0; p < bx_lattice_patches(&l); p++) {
        int64_t n = bx_lattice_fill(&l, p, NULL, NULL, NULL);
        double *x = malloc(3 * (size_t)n * sizeof *x + 1);
        int64_t *ids = malloc((size_t)n * sizeof *ids + 1);
        CHECK(bx_lattice_fill(&l, p, x, NULL, ids) == n);
        int64_t at[3] = {p % patches[0], p / patches[0] % patches[1], p / patches[0] / patches[1]};
        for (int64_t i = 0; i < n; i++) {
            CHECK(ids[i] >= 0 && (size_t)ids[i] < sites && !seen[ids[i]]);
            seen[ids[i]] = 1;
            for (int d = 0; d < 3; d++) {
                double side = l.box[d] / (double)patches[d], low = side * (double)at[d];
                CHECK(x[d * n + i] > low - 0.02 && x[d * n + i] < low + side + 0.78 + 0.02);
            }
        }
        total += n;
        free(x);
        free(ids);
    }
    CHECK(total == atoms);
    free(seen);
}

/* Each two neighbours are one pair, with the shift that brings them together. */
static void check_partners(const int64_t patches[3])
{
    const int64_t cells[3] = {9, 9, 9};
    bx_lattice l = lattice_of(9, cells, patches);
    int count = bx_lattice_patches(&l);
    char *seen = calloc((size_t)(count * count), 1);
    for (int p = 0; p < count; p++)
        for (int k = 0; k < BX_OWN_PAIRS; k++) {
            double shift[3];
            int q = bx_lattice_partner(&l, p, k, shift);
            CHECK((q == p) == (k == 0));
            CHECK(!seen[p * count + q] && !seen[q * count + p]);
            seen[p * count + q] = seen[q * count + p] = 1;
            int64_t n[3] = {patches[0], patches[1], patches[2]};
            int64_t a[3] = {p % n[0], p / n[0] % n[1], p / n[0] / n[1]};
            int64_t b[3] = {q % n[0], q / n[0] % n[1], q / n[0] / n[1]};
            for (int d = 0; d < 3; d++) {
                double apart = (double)(b[d] - a[d]) + shift[d] / l.box[d] * (double)n[d];
                CHECK(fabs(apart) < 1 + 1e-9);
            }
        }
    int pairs = 0;
    for (int i = 0; i < count * count; i++) pairs += seen[i];
    CHECK(pairs == 27 * count);
    free(seen);
}

/* Forces and energy of lists against two loops over all atoms. */
static void check_forces(int64_t na, int64_t nb, bool alone, double width)
{
    const double cutoff = 1.5, shift[3] = {alone ? 0 : 0.3, 0, 0};
    double *x[2], *f[2], *g[2];
    int64_t n[2] = {na, nb};
    for (int s = 0; s < 2; s++) {
        x[s] = malloc(3 * (size_t)n[s] * sizeof(double) + 1);
        f[s] = malloc(3 * (size_t)n[s] * sizeof(double) + 1);
        g[s] = calloc(3 * (size_t)n[s] + 1, sizeof(double));
        for (int64_t i = 0; i < 3 * n[s]; i++)
            x[s][i] = (s == 1 ? 3 : 1) * width * bx_random_uniform((uint64_t)(na + s), (uint64_t)i);
    }
    if (alone) x[1] = (free(x[1]), x[0]), n[1] = na;
    bx_pairs pairs;
    bx_pairs_find(&pairs, 1.9, n[0], x[0], n[1], x[1], shift);
    double energy =
        bx_pairs_compute(&pairs, cutoff, n[0], x[0], n[1], x[1], shift, f[0], alone ? NULL : f[1]);
    double expected = 0, scale = 1;
    const double end = cutoff * cutoff, begin = 0.85 * 0.85 * end;
    for (int64_t i = 0; i < n[0]; i++)
        for (int64_t j = alone ? i + 1 : 0; j < n[1]; j++) {
            double d[3], r2 = 0;
            for (int c = 0; c < 3; c++) {
                d[c] = x[0][c * n[0] + i] - x[1][c * n[1] + j] - shift[c];
                r2 += d[c] * d[c];
            }
            if (r2 >= end) continue;
            double r = sqrt(r2), u = 4 * (pow(r, -12) - pow(r, -6));
            double du = 4 * (-12 * pow(r, -13) + 6 * pow(r, -7)), w = 1, dw = 0;
            if (r2 > begin) {
                w = pow(end - r2, 2) * (end + 2 * r2 - 3 * begin) / pow(end - begin, 3);
                dw = 12 * r * (end - r2) * (begin - r2) / pow(end - begin, 3);
            }
            expected += u * w;
            for (int c = 0; c < 3; c++) {
                double pull = -(du * w + u * dw) * d[c] / r;
                g[0][c * n[0] + i] += pull;
                g[alone ? 0 : 1][c * n[1] + j] -= pull;
                scale = fmax(scale, fabs(pull));
            }
        }
    CHECK(fabs(energy - expected) <= 1e-12 * fmax(scale, fabs(expected)));
    for (int s = 0; s < (alone ? 1 : 2); s++)
        for (int64_t i = 0; i < 3 * n[s]; i++) CHECK(fabs(f[s][i] - g[s][i]) <= 1e-11 * scale);
    bx_pairs_free(&pairs);
    for (int s = 0; s < 2; s++) {
        if (s == 0 || !alone) free(x[s]);
        free(f[s]);
        free(g[s]);
    }
}

/* Everything has a rank, and no rank has more than its share by more than one pair. */
static void check_shares(int ranks)
{
    const int64_t cells[3] = {9, 9, 9}, patches[3] = {3, 3, 3};
    bx_lattice l = lattice_of(2900, cells, patches);
    l.cutoff = 4.1;
    l.reach = 4.5;
    bx_share share;
    bx_share_make(&share, &l, ranks);
    double *work = calloc((size_t)ranks, sizeof *work), all = 0, largest = 0;
    for (int p = 0; p < share.patches; p++) {
        CHECK(share.owner[p] >= 0 && share.owner[p] < ranks);
        for (int k = 0; k < BX_OWN_PAIRS; k++) {
            int rank = share.worker[p * BX_OWN_PAIRS + k];
            CHECK(rank >= 0 && rank < ranks);
            work[rank] += 1 + share.pairs_of[k];
            all += 1 + share.pairs_of[k];
            largest = fmax(largest, 1 + share.pairs_of[k]);
        }
    }
    for (int r = 0; r < ranks; r++) CHECK(work[r] <= all / ranks + largest);
    bx_share_free(&share);
    free(work);
}

/* ---- objects of several ranks in one process ---- */

enum { MOST_RANKS = 4, STEPS = 6, MOST_SENT = 4096, MOST_ROUNDS = 1000000 };

void __wrap_bx_run_lap(bx_run *run, size_t phase);
void __wrap_bx_run_lap(bx_run *run, size_t phase) {} /* no clock */

static bx_patch *queue[MOST_SENT];
static int queued;
static struct {
    bx_run run;
    bx_objects objects;
} hosts[MOST_RANKS];

static void put_in_queue(void *to, bx_patch *patch)
{
    if (patch->own && patch->copy_count == 0) return;
    CHECK(queued < MOST_SENT);
    queue[queued++] = patch;
}

static void settle_nothing(void *to, const bx_patch *patch) {}

/* Takes one of what was sent. */
static void deliver(uint64_t draw)
{
    int at = (int)(draw % (uint64_t)queued);
    bx_patch *from = queue[at];
    memmove(&queue[at], &queue[at + 1], (size_t)(--queued - at) * sizeof *queue);
    size_t words = 3 * (size_t)from->atoms;
    if (!from->own) {
        bx_objects *owner = &hosts[from->owner].objects;
        bx_objects_take_forces(owner, bx_objects_patch(owner, from->number),
                               &from->forces[BX_HEADER]);
        return;
    }
    for (int n = 0; n < from->copy_count; n++) {
        bx_objects *o = &hosts[from->copies[n]].objects;
        bx_patch *copy = bx_objects_patch(o, from->number);
        memcpy(&copy->positions[BX_HEADER], &from->positions[BX_HEADER], words * sizeof(double));
        bx_objects_take_positions(o, copy);
    }
}

/* Returns a hash of where all atoms are after STEPS steps on `ranks` ranks. */
static uint64_t positions_of(int ranks)
{
    const int64_t cells[3] = {9, 9, 9}, patches[3] = {3, 3, 3};
    bx_lattice l = lattice_of(400, cells, patches);
    uint64_t draw = 1, hash = 0;
    int64_t left = 1, rounds = 0;
    for (int r = 0; r < ranks; r++) {
        hosts[r].run = (bx_run){.rank = r, .size = ranks, .threads = 1};
        bx_objects_create(&hosts[r].objects, &hosts[r].run, &l, STEPS);
        hosts[r].objects.outlet = (bx_outlet){.send = put_in_queue, .settle = settle_nothing};
        bx_objects_begin(&hosts[r].objects, false);
        bx_objects_start(&hosts[r].objects, STEPS);
    }
    while (left > 0 && rounds++ < MOST_ROUNDS) {
        left = 0;
        draw = bx_random_hash(draw, 0);
        if (queued > 0) deliver(draw);
        bx_objects_run(&hosts[draw / 7 % (uint64_t)ranks].objects);
        for (int r = 0; r < ranks; r++) left += hosts[r].objects.events_left;
    }
    CHECK(left == 0 && queued == 0);
    for (int r = 0; r < ranks; r++) {
        bx_objects *o = &hosts[r].objects;
        CHECK(bx_objects_idle(o) && o->wrong_forces == 0);
        for (int p = 0; p < o->patch_count; p++)
            for (int64_t i = 0; o->patches[p].own && i < 3 * o->patches[p].atoms; i++) {
                uint64_t word;
                memcpy(&word, &o->patches[p].positions[BX_HEADER + i], sizeof word);
                hash += bx_random_hash(word, (uint64_t)(o->patches[p].number * 4096 + i));
            }
        bx_objects_free(o);
    }
    return hash;
}

int main(void)
{
    check_atoms(2916, (int64_t[]){9, 9, 9}, (int64_t[]){3, 3, 3});
    check_atoms(2001, (int64_t[]){11, 7, 8}, (int64_t[]){5, 3, 4});
    check_atoms(5, (int64_t[]){4, 4, 4}, (int64_t[]){3, 3, 3});
    check_partners((int64_t[]){3, 3, 3});
    check_partners((int64_t[]){5, 3, 4});
    static const int64_t sizes[] = {0, 1, 2, 3, 17, 64, 200};
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 7; j++) check_forces(sizes[i], sizes[j], false, 3);
    for (int i = 0; i < 7; i++) check_forces(sizes[i], 0, true, 3);
    check_forces(700, 0, true, 1.2); /* more pairs per atom than are evaluated at once */
    for (int ranks = 1; ranks < 600; ranks += 37) check_shares(ranks);
    uint64_t alone = positions_of(1);
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++) CHECK(positions_of(ranks) == alone);
    return unit_failures != 0;
}
