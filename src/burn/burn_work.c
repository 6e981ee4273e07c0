#include "burn_work.h"

#include <stdlib.h>
#include <string.h>

/* ---- dgemm ---- */

#ifdef BX_HAVE_BLAS
void dgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k,
            const double *alpha, const double *a, const int *lda, const double *b, const int *ldb,
            const double *beta, double *c, const int *ldc, size_t transa_length,
            size_t transb_length);
#endif

/* y = matrix x, by columns as BLAS has them. */
static void multiply(int rows, const double *matrix, const double *x, double *y)
{
    memset(y, 0, (size_t)rows * sizeof *y);
    for (int j = 0; j < rows; j++)
        for (int i = 0; i < rows; i++) y[i] += matrix[(size_t)j * (size_t)rows + (size_t)i] * x[j];
}

static void fill_matrices(bx_burn_work *w)
{
    size_t rows = (size_t)w->rows;
    double *inner = bx_memory_alloc(rows, sizeof *inner);
    for (size_t i = 0; i < rows * rows; i++) {
        w->a[i] = bx_random_uniform(w->key, 2 * i);
        w->b[i] = bx_random_uniform(w->key, 2 * i + 1);
    }
    for (size_t i = 0; i < rows; i++) w->weights[i] = bx_random_uniform(~w->key, i);
    multiply(w->rows, w->b, w->weights, inner);
    multiply(w->rows, w->a, inner, w->product);
    free(inner);
}

static void run_dgemm(bx_burn_work *w, int64_t passes)
{
#ifdef BX_HAVE_BLAS
    const double one = 1;
    for (int64_t p = 0; p < passes; p++)
        dgemm_("N", "N", &w->rows, &w->rows, &w->rows, &one, w->a, &w->rows, w->b, &w->rows, &one,
               w->c, &w->rows, 1, 1);
#endif
}

/* All passes add to c, so that a weighted sum of its columns is that of a b as often (R. Freivalds,
 * IFIP Congress 1977). */
static void check_dgemm(const bx_burn_work *w, int64_t passes, bx_verification *verification)
{
    double *sums = bx_memory_alloc((size_t)w->rows, sizeof *sums), error = 0;
    multiply(w->rows, w->c, w->weights, sums);
    for (int i = 0; i < w->rows; i++)
        error = bx_verification_worse(error, fabs(sums[i] / (double)passes - w->product[i]));
    /* Equal terms may round alike, so that errors grow with their number. */
    bx_verification_check(verification, "weighted rows of the product", error / w->rows,
                          1e-12 + 0x1p-53 * (double)passes, "of the rows");
    free(sums);
}

/* ---- triad ---- */

/* With signs in turn, values stay bounded for ever: two passes are a rotation. */
static const double FACTOR = 0.5;

static double factor_of(int64_t pass) { return pass % 2 ? -FACTOR : FACTOR; }

static void touch_arrays(bx_burn_work *w)
{
    double *a = w->arrays[0], *b = w->arrays[1], *c = w->arrays[2];
#pragma omp parallel for num_threads(w->threads) schedule(static)
    for (size_t i = 0; i < w->elements; i++) a[i] = 0, b[i] = 1, c[i] = 2;
    w->expected[0] = 0, w->expected[1] = 1, w->expected[2] = 2;
}

static void triad(const bx_burn_work *w, double *restrict a, const double *restrict b,
                  const double *restrict c, double q)
{
#pragma omp parallel for num_threads(w->threads) schedule(static)
    for (size_t i = 0; i < w->elements; i++) a[i] = b[i] + q * c[i];
}

/* The arrays take turns, so that each pass needs those before.  A pass is from barrier to barrier,
 * as in STREAM for MPI: ranks that ran one after the other would each have all of the memory. */
static void run_triad(bx_burn_work *w, int64_t passes, double *took)
{
    MPI_Barrier(w->comm);
    double start = MPI_Wtime();
    for (int64_t p = 0; p < passes; p++, w->triads++) {
        int to = (int)(w->triads % 3), older = (to + 1) % 3, newer = (to + 2) % 3;
        triad(w, w->arrays[to], w->arrays[older], w->arrays[newer], factor_of(w->triads));
        MPI_Barrier(w->comm);
        double end = MPI_Wtime();
        took[p] = end - start;
        start = end;
    }
}

static void check_triad(bx_burn_work *w, int64_t passes, bx_verification *verification)
{
    double error = 0, *x = w->expected;
    for (int64_t end = w->expected_triads + passes; w->expected_triads < end;
         w->expected_triads++) {
        int64_t n = w->expected_triads;
        x[n % 3] = x[(n + 1) % 3] + factor_of(n) * x[(n + 2) % 3];
    }
    for (int k = 0; k < 3; k++) {
        const double *values = w->arrays[k], expected = w->expected[k];
        double most = 0, sum = 0;
#pragma omp parallel for num_threads(w->threads) schedule(static) reduction(max : most)            \
    reduction(+ : sum)
        for (size_t i = 0; i < w->elements; i++) {
            most = fmax(most, fabs(values[i] - expected));
            sum += values[i]; /* fmax drops a NaN */
        }
        error = bx_verification_worse(error, isnan(sum) ? NAN : most);
    }
    bx_verification_check(verification, "elements of the arrays", error, 1e-9, "");
}

/* ---- alltoall ---- */

static uint64_t word(const bx_burn_work *w, int from, int to, size_t i)
{
    uint64_t pair = (uint64_t)from * (uint64_t)w->ranks + (uint64_t)to;
    return (w->key + pair * w->words + i) * UINT64_C(0x9e3779b97f4a7c15);
}

static void fill_blocks(bx_burn_work *w)
{
    w->key++;
    for (int to = 0; to < w->ranks; to++)
        for (size_t i = 0; i < w->words; i++)
            w->out[(size_t)to * w->words + i] = word(w, w->rank, to, i);
    memset(w->in, 0xff, (size_t)w->ranks * w->words * sizeof *w->in);
}

static void run_alltoall(bx_burn_work *w, int64_t passes)
{
    int count = (int)w->words;
    for (int64_t p = 0; p < passes; p++)
        MPI_Alltoall(w->out, count, MPI_UINT64_T, w->in, count, MPI_UINT64_T, w->comm);
}

static void check_alltoall(const bx_burn_work *w, bx_verification *verification)
{
    double wrong = 0;
    for (int from = 0; from < w->ranks; from++)
        for (size_t i = 0; i < w->words; i++)
            wrong += w->in[(size_t)from * w->words + i] != word(w, from, w->rank, i);
    bx_verification_check_always(verification, "content", wrong, 0, "words");
}

/* ---- all ---- */

double bx_burn_bytes(const bx_burn_work *w, int method)
{
    double rows = w->rows, bytes[] = {(3 * rows * rows + 2 * rows) * sizeof(double),
                                      3.0 * (double)w->elements * sizeof(double),
                                      2.0 * w->ranks * (double)w->words * sizeof(uint64_t)};
    return bytes[method];
}

bool bx_burn_allocate(bx_burn_work *w, int method)
{
    size_t square = (size_t)w->rows * (size_t)w->rows, blocks = (size_t)w->ranks * w->words;
    if (method == BX_DGEMM) {
        BX_ALLOC(square, w->a, w->b, w->c);
        BX_ALLOC((size_t)w->rows, w->weights, w->product);
        fill_matrices(w);
    } else if (method == BX_TRIAD) {
        for (int k = 0; k < 3; k++) {
            w->arrays[k] = bx_memory_alloc_pages(w->elements * sizeof(double));
            if (!w->arrays[k]) return false;
        }
        touch_arrays(w);
    } else {
        BX_ALLOC(blocks, w->out, w->in);
    }
    return true;
}

void bx_burn_free(bx_burn_work *w)
{
    BX_FREE(w->a, w->b, w->c, w->weights, w->product, w->arrays[0], w->arrays[1], w->arrays[2],
            w->out, w->in);
}

void bx_burn_prepare(bx_burn_work *w, int method)
{
    if (method == BX_DGEMM)
        memset(w->c, 0, (size_t)w->rows * (size_t)w->rows * sizeof *w->c);
    else if (method == BX_ALLTOALL)
        fill_blocks(w);
}

void bx_burn_run(bx_burn_work *w, int method, int64_t passes, double *took)
{
    if (method == BX_DGEMM)
        run_dgemm(w, passes);
    else if (method == BX_TRIAD)
        run_triad(w, passes, took);
    else
        run_alltoall(w, passes);
}

void bx_burn_check(bx_burn_work *w, int method, int64_t passes, bx_verification *verification)
{
    if (method == BX_DGEMM)
        check_dgemm(w, passes, verification);
    else if (method == BX_TRIAD)
        check_triad(w, passes, verification);
    else
        check_alltoall(w, verification);
}
