#include "verify.h"

#include "charge.h"
#include "libraries.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64, LAPACK_LARGEST = 512 };
static const double EPS = 0x1p-53;

/* Of few rows, rounding is not proportional to their number. */
static double rows_of(const bx_problem *p) { return fmax(p->matrix->n, 10); }

/* Whole columns of the eigenvectors, of which the ranks that share columns each take some. */
typedef struct {
    int count;
    int *number;     /* [count] eigenvalue of each */
    double *vectors; /* [count][n parts] */
} whole;

static int count_of(const bx_distribution *d, int member)
{
    return d->columns / d->grid_rows + (member < d->columns % d->grid_rows);
}

/* Local column j goes to member j mod grid_rows of the ranks that share it. */
static whole gather(const bx_problem *p)
{
    const bx_distribution *d = p->distribution;
    int members = d->grid_rows, mine = count_of(d, d->grid_row), parts = p->parts;
    size_t n = (size_t)d->n, pairs = (size_t)parts;
    whole u = {.count = mine};
    BX_ALLOC((size_t)mine + 1, u.number);
    u.vectors = bx_memory_alloc((size_t)mine * n * pairs + 1, sizeof *u.vectors);
    int *counts = bx_memory_alloc(4 * (size_t)members, sizeof *counts), *offsets = counts + members;
    int *from = counts + 2 * members, *from_offsets = counts + 3 * members;
    int *row = bx_memory_alloc(n, sizeof *row);
    double *sent = bx_memory_alloc((size_t)d->columns * (size_t)d->rows * pairs + 1, sizeof *sent);
    double *received = bx_memory_alloc((size_t)mine * n * pairs + 1, sizeof *received);
    size_t length = (size_t)(d->rows * parts), at = 0;
    for (int m = 0, filled = 0; m < members; m++) {
        counts[m] = count_of(d, m) * (int)length;
        offsets[m] = (int)at;
        for (int j = m; j < d->columns; j += members, at += length)
            memcpy(sent + at, p->v + (size_t)j * length, length * sizeof *sent);
        from[m] = bx_distribution_deal(d->n, d->block, m, members, row) * parts * mine;
        from_offsets[m] = filled;
        filled += from[m];
    }
    MPI_Alltoallv(sent, counts, offsets, MPI_DOUBLE, received, from, from_offsets, MPI_DOUBLE,
                  d->sharing);
    const double *next = received;
    for (int m = 0; m < members; m++) {
        int rows = bx_distribution_deal(d->n, d->block, m, members, row);
        for (int j = 0; j < mine; j++)
            for (int i = 0; i < rows; i++, next += parts)
                memcpy(u.vectors + ((size_t)j * n + (size_t)row[i]) * pairs, next,
                       pairs * sizeof *next);
    }
    for (int j = 0; j < mine; j++) u.number[j] = p->number[d->grid_row + j * members];
    BX_FREE(counts, row, sent, received);
    return u;
}

static void multiply(int parts, const char *transposed, int m, int n, int k, const double *a,
                     int lda, const double *b, int ldb, double *c, int ldc)
{
    double one[2] = {1, 0}, zero[2] = {0, 0};
    if (m == 0 || n == 0) return;
    if (parts == 2)
        zgemm_(*transposed == 'T' ? "C" : "N", "N", &m, &n, &k, one, a, &lda, b, &ldb, zero, c,
               &ldc, 1, 1);
    else
        dgemm_(transposed, "N", &m, &n, &k, one, a, &lda, b, &ldb, zero, c, &ldc, 1, 1);
}

static double magnitude(int parts, const double *x)
{
    return parts == 2 ? hypot(x[0], x[1]) : fabs(x[0]);
}

static double largest(const double *sums, int count)
{
    double most = 0;
    for (int j = 0; j < count; j++) most = bx_verification_worse(most, sums[j]);
    return most;
}

/* Sums of magnitudes of the columns of A V - V L, rows in chunks. */
static double residual(const bx_problem *p, const whole *u)
{
    const bx_matrix *m = p->matrix;
    int n = m->n, parts = m->parts, row[CHUNK];
    double *rows = bx_memory_alloc((size_t)(n * parts) * CHUNK, sizeof *rows);
    double *product = bx_memory_alloc((size_t)(u->count * parts) * CHUNK + 1, sizeof *product);
    double *sums = bx_memory_alloc((size_t)u->count + 1, sizeof *sums);
    for (int first = 0; first < n; first += CHUNK) {
        int count = n - first < CHUNK ? n - first : CHUNK;
        for (int i = 0; i < count; i++) row[i] = first + i;
        for (int j = 0; j < n; j++)
            bx_matrix_fill(m, count, row, j, rows + (size_t)j * CHUNK * (size_t)parts);
        multiply(parts, "N", count, u->count, n, rows, CHUNK, u->vectors, n, product, CHUNK);
        for (int j = 0; j < u->count; j++)
            for (int i = 0; i < count; i++) {
                double value = p->w[u->number[j]];
                double *x = product + ((size_t)j * CHUNK + (size_t)i) * (size_t)parts;
                for (int part = 0; part < parts; part++)
                    x[part] -=
                        value *
                        u->vectors[((size_t)j * (size_t)n + (size_t)(first + i)) * (size_t)parts +
                                   (size_t)part];
                sums[j] += magnitude(parts, x);
            }
    }
    double most = largest(sums, u->count);
    BX_FREE(rows, product, sums);
    return most;
}

/* Sums of magnitudes of the columns of V'V - I; chunks of V go to all ranks, from each in turn. */
static double overlap(const bx_problem *p, const whole *u)
{
    const bx_distribution *d = p->distribution;
    int n = d->n, parts = p->parts, number[CHUNK], missing = n;
    size_t length = (size_t)(n * parts);
    double *chunk = bx_memory_alloc(length * CHUNK, sizeof *chunk);
    double *product = bx_memory_alloc((size_t)(u->count * parts) * CHUNK + 1, sizeof *product);
    double *sums = bx_memory_alloc((size_t)u->count + 1, sizeof *sums);
    bool *seen = bx_memory_alloc((size_t)n, sizeof *seen);
    for (int owner = 0; owner < d->ranks; owner++) {
        int columns = u->count;
        MPI_Bcast(&columns, 1, MPI_INT, owner, d->team);
        for (int first = 0; first < columns; first += CHUNK) {
            int count = columns - first < CHUNK ? columns - first : CHUNK;
            if (owner == d->rank) {
                memcpy(chunk, u->vectors + (size_t)first * length,
                       (size_t)count * length * sizeof *chunk);
                memcpy(number, u->number + first, (size_t)count * sizeof *number);
            }
            MPI_Bcast(chunk, count * (int)length, MPI_DOUBLE, owner, d->team);
            MPI_Bcast(number, count, MPI_INT, owner, d->team);
            multiply(parts, "T", count, u->count, n, chunk, n, u->vectors, n, product, CHUNK);
            for (int i = 0; i < count; i++) {
                missing -= !seen[number[i]];
                seen[number[i]] = true;
                for (int j = 0; j < u->count; j++) {
                    double *x = product + ((size_t)j * CHUNK + (size_t)i) * (size_t)parts;
                    x[0] -= number[i] == u->number[j];
                    sums[j] += magnitude(parts, x);
                }
            }
        }
    }
    double most = largest(sums, u->count);
    BX_FREE(chunk, product, sums, seen);
    return missing > 0 ? INFINITY : most;
}

/* The largest difference between the computed eigenvalues and expected ones, which ascend. */
static double difference(const bx_problem *p, const double *expected)
{
    int n = p->matrix->n;
    double *sorted = bx_memory_alloc((size_t)n, sizeof *sorted), most = 0;
    memcpy(sorted, p->w, (size_t)n * sizeof *sorted);
    bx_statistics_quantile(sorted, (size_t)n, 0); /* sorts them */
    for (int j = 0; j < n; j++) most = bx_verification_worse(most, fabs(sorted[j] - expected[j]));
    free(sorted);
    return most;
}

static double from_lapack(const bx_problem *p)
{
    const bx_matrix *m = p->matrix;
    int n = m->n;
    if (n > LAPACK_LARGEST) return 0;
    size_t size = (size_t)n;
    bx_lapack lapack = bx_lapack_create(p, n);
    double *a = bx_solver_workspace(p, size * size * (size_t)m->parts);
    double *values = bx_memory_alloc(size, sizeof *values);
    int *row = bx_memory_alloc(size, sizeof *row);
    for (int i = 0; i < n; i++) row[i] = i;
    for (int j = 0; j < n; j++) bx_matrix_fill(m, n, row, j, a + size * (size_t)(j * m->parts));
    int info = bx_lapack_solve(&lapack, "N", n, a, n, values);
    double most = info ? INFINITY : difference(p, values);
    bx_lapack_free(&lapack);
    BX_FREE(a, values, row);
    return most;
}

bx_errors bx_verify_solution(const bx_problem *p)
{
    double n = rows_of(p), norm = p->matrix->norm;
    whole u = gather(p);
    double errors[] = {residual(p, &u) / (n * norm * EPS), overlap(p, &u) / (n * EPS),
                       from_lapack(p) / (n * norm * EPS)};
    BX_FREE(u.number, u.vectors);
    MPI_Allreduce(MPI_IN_PLACE, errors, 3, MPI_DOUBLE, MPI_MAX, p->distribution->team);
    return (bx_errors){errors[0], errors[1], errors[2]};
}

double bx_verify_eigenvalues(const bx_problem *p)
{
    int n = p->matrix->n;
    double *first = bx_memory_alloc((size_t)n, sizeof *first);
    double most = difference(p, p->matrix->sorted);
    memcpy(first, p->w, (size_t)n * sizeof *first);
    MPI_Bcast(first, n, MPI_DOUBLE, 0, p->distribution->team);
    for (int j = 0; j < n; j++) most = bx_verification_worse(most, fabs(p->w[j] - first[j]));
    free(first);
    return most / (rows_of(p) * p->matrix->norm * EPS);
}

double bx_verify_probe(const bx_problem *p, double *complete)
{
    const bx_distribution *d = p->distribution;
    const bx_matrix *m = p->matrix;
    int n = d->n, parts = m->parts;
    size_t length = (size_t)(n * parts);
    double *x = bx_memory_alloc(6 * length, sizeof *x), *y = x + length, *z = x + 2 * length;
    double *entries = x + 4 * length, *expected = x + 5 * length; /* z: V L V'x, then V V'x */
    for (size_t i = 0; i < length; i++) x[i] = bx_random_uniform(2, i);
    for (int j = 0; j < d->columns; j++)
        for (int i = 0; i < d->rows; i++) { /* y = V'x */
            const double *v = p->v + ((size_t)j * (size_t)d->rows + (size_t)i) * (size_t)parts;
            const double *at = x + d->row[i] * parts;
            double *sum = y + p->number[j] * parts;
            sum[0] += v[0] * at[0];
            if (parts == 1) continue;
            sum[0] += v[1] * at[1];
            sum[1] += v[0] * at[1] - v[1] * at[0];
        }
    MPI_Allreduce(MPI_IN_PLACE, y, (int)length, MPI_DOUBLE, MPI_SUM, d->team);
    for (int j = 0; j < d->columns; j++)
        for (int i = 0; i < d->rows; i++) {
            const double *v = p->v + ((size_t)j * (size_t)d->rows + (size_t)i) * (size_t)parts;
            const double *at = y + p->number[j] * parts;
            double *sum = z + d->row[i] * parts, value = p->w[p->number[j]];
            double real = v[0] * at[0] - (parts == 2 ? v[1] * at[1] : 0);
            sum[0] += value * real;
            sum[length] += real;
            if (parts == 1) continue;
            sum[1] += value * (v[0] * at[1] + v[1] * at[0]);
            sum[length + 1] += v[0] * at[1] + v[1] * at[0];
        }
    int *row = bx_memory_alloc((size_t)n, sizeof *row);
    for (int i = 0; i < n; i++) row[i] = i;
    for (int j = d->rank; j < n; j += d->ranks) { /* column j is row j, conjugate */
        bx_matrix_fill(m, n, row, j, entries);
        for (int i = 0; i < n; i++) {
            const double *e = entries + i * parts, *at = x + i * parts;
            expected[j * parts] += e[0] * at[0];
            if (parts == 1) continue;
            expected[j * parts] += e[1] * at[1];
            expected[j * parts + 1] += e[0] * at[1] - e[1] * at[0];
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, z, 2 * (int)length, MPI_DOUBLE, MPI_SUM, d->team);
    MPI_Allreduce(MPI_IN_PLACE, expected, (int)length, MPI_DOUBLE, MPI_SUM, d->team);
    double error = 0, size = 0;
    *complete = 0;
    for (size_t i = 0; i < length; i++) {
        error = bx_verification_worse(error, fabs(z[i] - expected[i]));
        *complete = bx_verification_worse(*complete, fabs(z[length + i] - x[i]));
        size = fmax(size, fabs(x[i]));
    }
    BX_FREE(row, x);
    *complete /= rows_of(p) * size * EPS;
    return error / (rows_of(p) * m->norm * size * EPS);
}

double bx_verify_count_not_finite(const bx_problem *p)
{
    const bx_distribution *d = p->distribution;
    size_t count = (size_t)d->columns * (size_t)(d->rows * p->parts);
    double wrong = 0;
    for (size_t i = 0; i < count; i++) wrong += !isfinite(p->a[i]);
    return wrong;
}

double bx_verify_guess(const bx_problem *p)
{
    const bx_distribution *d = p->distribution;
    size_t length = (size_t)(d->rows * p->parts);
    double *exact = bx_memory_alloc(length, sizeof *exact), squares = 0;
    for (int j = 0; j < d->columns; j++) {
        bx_matrix_vector(p->matrix, d->column[j], 0, exact);
        for (size_t i = 0; i < length; i++)
            squares += pow(p->v[(size_t)j * length + i] - exact[i], 2);
    }
    free(exact);
    MPI_Allreduce(MPI_IN_PLACE, &squares, 1, MPI_DOUBLE, MPI_SUM, d->team);
    return sqrt(squares / p->matrix->n);
}

double bx_verify_memory(const bx_problem *p)
{
    const bx_distribution *d = p->distribution;
    if (bx_charge_is_hollow()) return 0;
    double n = d->n, whole_columns = d->columns / d->grid_rows + 1;
    double lapack = n <= LAPACK_LARGEST ? 4 * n * n : 0;
    return p->parts *
           (2 * whole_columns * n + (double)d->columns * d->rows + 2 * CHUNK * n + lapack);
}
