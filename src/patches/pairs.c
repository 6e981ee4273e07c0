#include "pairs.h"

#include <string.h>

enum { BATCH = 512 }; /* pairs that are evaluated at once, for vector units */

/* Whether two patches are one: an empty one may begin where another does. */
static bool is_alone(int64_t na, const double *xa, int64_t nb, const double *xb)
{
    return xa == xb && na == nb;
}

/* The box of the atoms. */
static void bound(int64_t n, const double *x, const double shift[3], double low[3], double high[3])
{
    for (int d = 0; d < 3; d++) {
        low[d] = INFINITY;
        high[d] = -INFINITY;
        for (int64_t i = 0; i < n; i++) {
            low[d] = fmin(low[d], x[d * n + i] + shift[d]);
            high[d] = fmax(high[d], x[d * n + i] + shift[d]);
        }
    }
}

static bool is_near(const double x[3], const double low[3], const double high[3], double reach2)
{
    double r2 = 0;
    for (int d = 0; d < 3; d++) {
        double away = fmax(0, fmax(low[d] - x[d], x[d] - high[d]));
        r2 += away * away;
    }
    return r2 < reach2;
}

void bx_pairs_find(bx_pairs *pairs, double reach, int64_t na, const double *xa, int64_t nb,
                   const double *xb, const double shift[3])
{
    double low[3], high[3], reach2 = reach * reach;
    bool alone = is_alone(na, xa, nb, xb);
    size_t room = 0, count = 0;
    bound(nb, xb, shift, low, high);
    BX_ALLOC((size_t)na + 1, pairs->start);
    pairs->other = NULL;
    for (int64_t i = 0; i < na; i++) {
        const double at[3] = {xa[i], xa[na + i], xa[2 * na + i]};
        pairs->start[i] = (int32_t)count;
        if (!is_near(at, low, high, reach2)) continue;
        if (count + (size_t)nb > room) {
            room += room / 2 + (size_t)nb;
            pairs->other = bx_memory_grow(pairs->other, room, sizeof *pairs->other);
        }
        for (int64_t j = alone ? i + 1 : 0; j < nb; j++) { /* without branches */
            double dx = at[0] - (xb[j] + shift[0]), dy = at[1] - (xb[nb + j] + shift[1]),
                   dz = at[2] - (xb[2 * nb + j] + shift[2]);
            pairs->other[count] = (uint16_t)j;
            count += dx * dx + dy * dy + dz * dz < reach2;
        }
    }
    pairs->start[na] = (int32_t)count;
    pairs->count = (int64_t)count;
    pairs->other = bx_memory_grow(pairs->other, count + 1, sizeof *pairs->other);
}

void bx_pairs_free(bx_pairs *pairs) { BX_FREE(pairs->start, pairs->other); }

/* Energy and force over distance of `count` pairs of squared distances r2.  Beyond the cutoff both
 * are 0. */
static double evaluate(int count, double cutoff, const double *restrict r2, double *restrict pull)
{
    const double end = cutoff * cutoff, begin = BX_SWITCH_FROM * BX_SWITCH_FROM * end;
    const double scale = 1 / ((end - begin) * (end - begin) * (end - begin));
    double energy = 0;
#pragma omp simd reduction(+ : energy)
    for (int k = 0; k < count; k++) {
        double inverse = 1 / r2[k], sixth = inverse * inverse * inverse;
        double s = r2[k] > begin ? r2[k] : begin;
        s = s < end ? s : end; /* fmin would be a call */
        double left = end - s;
        double weight = left * left * (end + 2 * s - 3 * begin) * scale;
        double slope = 6 * left * (begin - s) * scale; /* dS / d(r^2) */
        double u = 4 * sixth * (sixth - 1);
        energy += u * weight;
        pull[k] = 24 * sixth * (2 * sixth - 1) * inverse * weight - 2 * u * slope;
    }
    return energy;
}

double bx_pairs_compute(const bx_pairs *pairs, double cutoff, int64_t na, const double *xa,
                        int64_t nb, const double *xb, const double shift[3], double *fa, double *fb)
{
    _Alignas(64) double dx[BATCH], dy[BATCH], dz[BATCH], r2[BATCH], pull[BATCH];
    double energy = 0;
    bool alone = is_alone(na, xa, nb, xb);
    memset(fa, 0, 3 * (size_t)na * sizeof *fa);
    if (!alone) memset(fb, 0, 3 * (size_t)nb * sizeof *fb);
    double *to = alone ? fa : fb;
    for (int64_t i = 0, from = 0; i < na;) { /* `from` pairs of the list are done */
        int64_t first = i, begun = from;
        int count = 0;
        for (; i < na && count < BATCH; i++) {
            double x = xa[i] - shift[0], y = xa[na + i] - shift[1], z = xa[2 * na + i] - shift[2];
            int64_t upto = pairs->start[i + 1];
            if (upto - from > BATCH - count) upto = from + BATCH - count;
            const uint16_t *other = &pairs->other[from];
            int more = (int)(upto - from);
#pragma omp simd
            for (int k = 0; k < more; k++) {
                double ax = x - xb[other[k]], ay = y - xb[nb + other[k]],
                       az = z - xb[2 * nb + other[k]];
                dx[count + k] = ax;
                dy[count + k] = ay;
                dz[count + k] = az;
                r2[count + k] = ax * ax + ay * ay + az * az;
            }
            from = upto;
            count += more;
            if (from < pairs->start[i + 1])
                break; /* the rest of atom i comes with the next batch */
        }
        energy += evaluate(count, cutoff, r2, pull);
        int done = 0;
        for (int64_t j = first; done < count; j++) {
            double fx = 0, fy = 0, fz = 0;
            for (; begun < pairs->start[j + 1] && done < count; begun++, done++) {
                int64_t other = pairs->other[begun];
                double px = pull[done] * dx[done], py = pull[done] * dy[done],
                       pz = pull[done] * dz[done];
                fx += px;
                fy += py;
                fz += pz;
                to[other] -= px;
                to[nb + other] -= py;
                to[2 * nb + other] -= pz;
            }
            fa[j] += fx;
            fa[na + j] += fy;
            fa[2 * na + j] += fz;
        }
    }
    return energy;
}
