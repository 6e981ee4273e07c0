/* The matrices, guesses and distributions of the kernel eigen, beside sums written out. */
#include "distribution.h"
#include "integrals.h"
#include "matrix.h"
#include "products.h"
#include "unit.h"

#include "bx.h"

#include <stdlib.h>
#include <string.h>

enum { N = 23 };
static int rows[N];

/* The largest |A v - value v|, with A from its entries. */
static double residual(const bx_matrix *m, const double *v, double value)
{
    double a[2 * N], most = 0;
    for (int i = 0; i < N; i++) {
        double sum[2] = {0, 0};
        bx_matrix_fill(m, N, rows, i, a); /* column i is row i, conjugate */
        for (int j = 0; j < N; j++) {
            const double *e = a + j * m->parts, *x = v + j * m->parts;
            double imaginary = m->parts == 2 ? -e[1] : 0, x_imaginary = m->parts == 2 ? x[1] : 0;
            sum[0] += e[0] * x[0] - imaginary * x_imaginary;
            sum[1] += e[0] * x_imaginary + imaginary * x[0];
        }
        for (int part = 0; part < m->parts; part++)
            most = fmax(most, fabs(sum[part] - value * v[i * m->parts + part]));
    }
    return most;
}

static double product(const bx_matrix *m, const double *a, const double *b)
{
    double real = 0, imaginary = 0;
    for (int i = 0; i < N; i++) {
        const double *x = a + i * m->parts, *y = b + i * m->parts;
        real += x[0] * y[0] + (m->parts == 2 ? x[1] * y[1] : 0);
        if (m->parts == 2) imaginary += x[0] * y[1] - x[1] * y[0];
    }
    return hypot(real, imaginary);
}

static void test_vectors(bx_spectrum spectrum, bool is_complex)
{
    bx_matrix *m = bx_matrix_create(N, spectrum, is_complex, 3);
    double norm = fmax(fabs(m->sorted[0]), fabs(m->sorted[N - 1])), v[2 * N], w[2 * N];
    for (int j = 0; j < N; j++) {
        bx_matrix_vector(m, j, 0, v);
        CHECK(fabs(product(m, v, v) - 1) < 1e-14);
        CHECK(residual(m, v, m->sorted[j]) < 1e-14 * norm);
        if (j > 0) CHECK(m->sorted[j] >= m->sorted[j - 1]);
    }
    CHECK(m->norm >= norm * (1 - 1e-14) && m->norm <= norm * sqrt(N));
    double moved = 0;
    for (int j = 0; j < N; j++) { /* guesses: orthonormal, and wrong by about what was asked */
        bx_matrix_vector(m, j, 1e-3, v);
        for (int k = 0; k < N; k++) {
            bx_matrix_vector(m, k, 1e-3, w);
            CHECK(fabs(product(m, v, w) - (j == k)) < 1e-14);
        }
        bx_matrix_vector(m, j, 0, w);
        moved += (2 - 2 * product(m, v, w)) / N;
    }
    CHECK(sqrt(moved) > 3e-4 && sqrt(moved) < 3e-3);
    bx_matrix_free(m);
}

static void test_density(void)
{
    bx_matrix *m = bx_matrix_create(N, BX_FOCK, true, 0);
    const double levels[2] = {0.25, 1.5};
    bx_matrix *density = bx_matrix_create_density(m, 9, levels, false);
    bx_matrix *energies = bx_matrix_create_density(m, 9, levels, true);
    double v[2 * N];
    for (int j = 0; j < N; j++) {
        bx_matrix_vector(m, j, 0, v);
        CHECK(residual(density, v, levels[j < 9]) < 1e-13);
        CHECK(residual(energies, v, levels[j < 9] * m->sorted[j]) < 1e-12);
    }
    bx_matrix_free(m);
    bx_matrix_free(density);
    bx_matrix_free(energies);
}

/* 0.3 becomes 0.3^2 (3 - 0.6) = 0.216; five steps leave far more than rounding. */
static void test_purification(void)
{
    double empty_sum, full_sum, empty = bx_products_level(0, &empty_sum);
    double full = bx_products_level(1, &full_sum);
    CHECK(fabs(empty + full - 1) < 1e-15 && empty > 1e-6 && empty < 1e-4);
    CHECK(fabs(empty_sum + full_sum - BX_PRODUCT_STEPS) < 1e-14 && empty_sum > 0.216);
}

static void test_distribution(void)
{
    int row[N], seen[N] = {0};
    for (int place = 0; place < 4; place++) {
        int count = bx_distribution_deal(N, 3, place, 4, row);
        for (int i = 0; i < count; i++) {
            CHECK(row[i] / 3 % 4 == place);
            seen[row[i]]++;
        }
    }
    for (int i = 0; i < N; i++) CHECK(seen[i] == 1);
    CHECK(bx_distribution_deal(2, 1, 2, 3, row) == 0);
    CHECK(bx_distribution_grid_rows(1) == 1 && bx_distribution_grid_rows(6) == 2);
    CHECK(bx_distribution_grid_rows(7) == 1 && bx_distribution_grid_rows(36) == 6);
}

static void test_integrals(void)
{
    double values[N] = {0};
    for (int rank = 0; rank < 3; rank++) bx_integrals_run(N, 1, rank, 3, values);
    CHECK(bx_integrals_error(N, 1, 0, 1, values) <= 1);
    CHECK(bx_integrals_error(N, 0, 0, 1, values) > 1);
    values[N - 1] *= 1 + 1e-3;
    CHECK(bx_integrals_error(N, 1, 0, 1, values) > 1);
    CHECK(bx_integrals_imbalance(N, 1) == 1);
    CHECK(bx_integrals_imbalance(N, 5) > 1 && bx_integrals_imbalance(N, 2 * N) >= 2);
}

int main(void)
{
    for (int i = 0; i < N; i++) rows[i] = i;
    for (int spectrum = 0; spectrum < BX_SPECTRUM_COUNT; spectrum++) {
        test_vectors((bx_spectrum)spectrum, false);
        test_vectors((bx_spectrum)spectrum, true);
    }
    test_density();
    test_purification();
    test_distribution();
    test_integrals();
    return unit_failures > 0;
}
