#include "share.h"

#include "pairs.h"

#include <stdlib.h>

/* Counts the pairs of patch 0, by a part of its atoms. */
static void count_pairs(bx_share *share, const bx_lattice *lattice)
{
    enum { EACH = 4 }; /* atom in so many */
    double shift[3];
    int64_t na = bx_lattice_fill(lattice, 0, NULL, NULL, NULL), few = (na + EACH - 1) / EACH;
    double *xa = bx_memory_alloc(3 * (size_t)na, sizeof *xa);
    double *part = bx_memory_alloc(3 * (size_t)few, sizeof *part);
    bx_lattice_fill(lattice, 0, xa, NULL, NULL);
    for (int64_t i = 0; i < few; i++)
        for (int d = 0; d < 3; d++) part[d * few + i] = xa[d * na + i * EACH];
    for (int k = 0; k < BX_OWN_PAIRS; k++) {
        int other = bx_lattice_partner(lattice, 0, k, shift);
        int64_t nb = bx_lattice_fill(lattice, other, NULL, NULL, NULL);
        double *xb = bx_memory_alloc(3 * (size_t)nb, sizeof *xb);
        bx_pairs pairs;
        bx_lattice_fill(lattice, other, xb, NULL, NULL);
        bx_pairs_find(&pairs, lattice->reach, few, part, nb, xb, shift);
        /* within a patch each pair is found twice, and each atom near itself */
        double times = (double)na / (double)(few > 0 ? few : 1);
        share->pairs_of[k] = times * (double)(k > 0 ? pairs.count : (pairs.count - few) / 2);
        bx_pairs_free(&pairs);
        free(xb);
    }
    BX_FREE(xa, part);
}

static int rank_at(double place, double all, int ranks)
{
    int rank = (int)(place / all * ranks);
    return rank < ranks ? rank : ranks - 1;
}

void bx_share_make(bx_share *share, const bx_lattice *lattice, int ranks)
{
    int patches = share->patches = bx_lattice_patches(lattice);
    int *order = bx_memory_alloc((size_t)patches, sizeof *order);
    BX_ALLOC((size_t)patches, share->owner);
    share->worker = bx_memory_alloc((size_t)patches * BX_OWN_PAIRS, sizeof *share->worker);
    count_pairs(share, lattice);
    bx_lattice_order(lattice, order);
    double work[BX_OWN_PAIRS], all = 0, before = 0;
    for (int k = 0; k < BX_OWN_PAIRS; k++) all += work[k] = 1 + share->pairs_of[k];
    all *= patches;
    for (int n = 0; n < patches; n++) {
        share->owner[order[n]] = rank_at(n + 0.5, patches, ranks);
        for (int k = 0; k < BX_OWN_PAIRS; k++) {
            share->worker[order[n] * BX_OWN_PAIRS + k] = rank_at(before + work[k] / 2, all, ranks);
            before += work[k];
        }
    }
    free(order);
}

void bx_share_free(bx_share *share) { BX_FREE(share->owner, share->worker); }
