#include "matrix.h"

#include "bx.h"
#include "charge.h"

#include <stdlib.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

/* The i-th number of van der Corput's sequence of base 2, in [0, 1). */
static double spread(int i)
{
    double u = 0, digit = 0.5;
    for (; i > 0; i /= 2, digit /= 2) u += digit * (i % 2);
    return u;
}

/* Hartree: core levels of fluorine and lithium, bands of F 2s and 2p, the F centre, virtual
 * levels. */
static double fock_level(int i, int n)
{
    int cores = n / 9, valence = n / 3;
    double u = spread(i + 1);
    if (i < cores / 2) return -26.3 + 1e-9 * i;
    if (i < cores) return -2.45 + 1e-7 * i;
    if (i < cores + valence / 4) return -1.42 + 0.02 * u;
    if (i < cores + valence) return -0.55 + 0.12 * u;
    if (i == cores + valence) return -0.05;
    return 0.25 + 4 * u * u;
}

static double level(bx_spectrum spectrum, int i, int n)
{
    switch (spectrum) {
    case BX_UNIFORM:
        return (i + 1.0) / n;
    case BX_CLUSTERED: /* ten clusters: half of each is one repeated eigenvalue */
        /* none is 0: version 2.2.1 of pdsyevr cannot do it, and one row would have no norm */
        return 1 + i % 10 + (i % 20 < 10 ? 0 : 1e-9 * (i / 20));
    case BX_GRADED:
        return pow(10, n > 1 ? -12.0 * i / (n - 1) : 0);
    default:
        return fock_level(i, n);
    }
}

int bx_common_divisor(int a, int b) { return b == 0 ? a : bx_common_divisor(b, a % b); }

/* The cosine sums c(m) of the eigenvalues, and the norm that follows. */
static void sum_cosines(bx_matrix *m)
{
    int n = m->n, period = 2 * (n + 1);
    if (bx_charge_is_hollow()) { /* entries are only not 0, and the norm is no larger than it is */
        for (int i = 0; i <= period; i++) m->cosines[i] = 1.0 / (1 + i);
        for (int k = 0; k < n; k++) m->norm = fmax(m->norm, fabs(m->value[k]));
        return;
    }
    double *cosine = bx_memory_alloc((size_t)period, sizeof *cosine);
    for (int i = 0; i < period; i++) cosine[i] = cos(PI * i / (n + 1));
    for (int i = 0; i <= n + 1; i++) {
        double sum = 0;
        for (int k = 0, at = 0; k < n; k++) {
            at += i;
            if (at >= period) at -= period;
            sum += m->value[k] * cosine[at];
        }
        m->cosines[i] = m->cosines[period - i] = sum / (n + 1);
    }
    free(cosine);
    for (int j = 1; j <= n; j++) {
        double sum = 0;
        for (int i = 1; i <= n; i++) sum += fabs(m->cosines[abs(i - j)] - m->cosines[i + j]);
        m->norm = fmax(m->norm, sum);
    }
}

static bx_matrix *allocate(int n, int parts)
{
    size_t count = (size_t)n;
    bx_matrix *m = bx_memory_alloc(1, sizeof *m);
    m->n = n;
    m->parts = parts;
    BX_ALLOC(count, m->value, m->sorted, m->order);
    BX_ALLOC(2 * count + 3, m->cosines);
    m->sines = bx_memory_alloc(2 * count + 2, sizeof *m->sines);
    BX_ALLOC(2 * count, m->turn);
    for (int i = 0; i < 2 * n + 2; i++) m->sines[i] = sin(PI * i / (n + 1));
    return m;
}

typedef struct {
    double value;
    int vector;
} indexed_value;

static int by_value(const void *left, const void *right)
{
    const indexed_value *a = left, *b = right;
    if (a->value != b->value) return a->value < b->value ? -1 : 1;
    return (a->vector > b->vector) - (a->vector < b->vector);
}

bx_matrix *bx_matrix_create(int n, bx_spectrum spectrum, bool is_complex, int kpoint)
{
    bx_matrix *m = allocate(n, is_complex ? 2 : 1);
    indexed_value *pairs = bx_memory_alloc((size_t)n, sizeof *pairs);
    /* in an order that leaves no structure in the matrix: steps coprime to n */
    int stride = (int)(0.6180339887 * n) + 1;
    while (bx_common_divisor(stride, n) != 1) stride++;
    for (int k = 0; k < n; k++) {
        int place = (int)(((int64_t)k * stride + kpoint) % n);
        m->value[k] = level(spectrum, place, n) * (1 + 0.01 * kpoint);
        pairs[k] = (indexed_value){m->value[k], k};
    }
    qsort(pairs, (size_t)n, sizeof *pairs, by_value);
    for (int j = 0; j < n; j++) {
        m->sorted[j] = pairs[j].value;
        m->order[j] = pairs[j].vector;
    }
    for (int j = 1; j < n; j++) m->repeated = m->repeated || m->sorted[j] == m->sorted[j - 1];
    free(pairs);
    for (int i = 0; i < n; i++) {
        double angle = PI * bx_random_uniform((uint64_t)kpoint, (uint64_t)i);
        m->turn[2 * i] = cos(angle);
        m->turn[2 * i + 1] = sin(angle);
    }
    sum_cosines(m);
    return m;
}

bx_matrix *bx_matrix_create_density(const bx_matrix *m, int occupied, const double levels[2],
                                    bool weighted)
{
    bx_matrix *density = allocate(m->n, m->parts);
    for (int j = 0; j < m->n; j++)
        density->value[m->order[j]] = levels[j < occupied] * (weighted ? m->sorted[j] : 1);
    memcpy(density->turn, m->turn, 2 * (size_t)m->n * sizeof *m->turn);
    sum_cosines(density);
    return density;
}

void bx_matrix_free(bx_matrix *m)
{
    if (!m) return;
    BX_FREE(m->value, m->sorted, m->order, m->cosines, m->sines, m->turn, m);
}

void bx_matrix_fill(const bx_matrix *m, int rows, const int *row, int column, double *entries)
{
    const double *c = m->cosines, *own = &m->turn[2 * column];
    for (int r = 0; r < rows; r++) {
        int i = row[r];
        double real = c[abs(i - column)] - c[i + column + 2];
        if (m->parts == 1) {
            entries[r] = real;
            continue;
        }
        const double *turn = &m->turn[2 * i];
        entries[2 * r] = real * (turn[0] * own[0] + turn[1] * own[1]);
        entries[2 * r + 1] = i == column ? 0 : real * (turn[1] * own[0] - turn[0] * own[1]);
    }
}

/* Turns pairs of rows at distances 1, 2, 4, ... by small angles that only depend on the rows. */
static void turn_rows(int n, double error, double *v)
{
    static const double UNIT = 1.7320508; /* makes the mean square of a uniform number 1 */
    int layers = 0;
    for (int stride = 1; stride < n; stride *= 2) layers++;
    for (int layer = 0; layer < layers; layer++) {
        int stride = 1 << layer;
        for (int i = 0; i + stride < n; i++) {
            if (i & stride) continue;
            uint64_t index = (uint64_t)layer * (uint64_t)n + (uint64_t)i;
            double angle = error * UNIT * bx_random_uniform(1, index) / sqrt(layers);
            double c = cos(angle), s = sin(angle), one = v[i], two = v[i + stride];
            v[i] = c * one - s * two;
            v[i + stride] = s * one + c * two;
        }
    }
}

void bx_matrix_vector(const bx_matrix *m, int j, double error, double *vector)
{
    int n = m->n, period = 2 * (n + 1), step = m->order[j] + 1, at = 0;
    double scale = sqrt(2.0 / (n + 1));
    for (int i = 0; i < n; i++) {
        at += step;
        if (at >= period) at -= period;
        vector[i] = scale * m->sines[at];
    }
    if (error > 0) turn_rows(n, error, vector);
    for (int i = n - 1; i >= 0 && m->parts == 2; i--) {
        double real = vector[i];
        vector[2 * i] = real * m->turn[2 * i];
        vector[2 * i + 1] = real * m->turn[2 * i + 1];
    }
}

void bx_matrix_publish_spectrum(const bx_matrix *m, MPI_Comm team)
{
    int n = m->n;
    if (!bx_charge_is_hollow()) return;
    double *squares = bx_memory_alloc((size_t)n, sizeof *squares);
    for (int k = 0; k < n; k++) squares[k] = 2.0 / (n + 1) * pow(m->sines[k + 1], 2);
    bx_charge_spectrum(team, n, m->value, squares); /* the last row's entries are the first's */
    free(squares);
}

int bx_matrix_occupied(const bx_matrix *m, double *gap)
{
    int occupied = m->n / 2;
    *gap = m->n > 1 ? 0 : INFINITY;
    for (int j = m->n / 4 + 1; j <= 3 * m->n / 4 && j < m->n; j++)
        if (m->sorted[j] - m->sorted[j - 1] > *gap) {
            *gap = m->sorted[j] - m->sorted[j - 1];
            occupied = j;
        }
    return occupied;
}
