/* BLAS and LAPACK, which the linker puts here (--wrap): charged by their arguments, and not
 * computed where the run is hollow.  Of divide and conquer, about: it drops most of its products.
 */
#include "charge.h"
#include "platform.h"

typedef const char *text;
typedef const int *number;
typedef void *array;
typedef size_t length; /* of a text, which Fortran passes last */

#define PRICED(name, flop, ...) PRICED_(name, flop, , __VA_ARGS__)
/* With an INFO, which a routine that is not called leaves as it is. */
#define SOLVED(name, flop, ...) PRICED_(name, flop, *info = 0, __VA_ARGS__)
#define PRICED_(name, flop, begin, ...)                                                            \
    CHARGED(name, bx_charge(BX_ALGEBRA, flop, true), begin, __VA_ARGS__)
/* Of a matrix of so many entries of `size` bytes, and a vector. */
#define PRODUCT(name, flop, size, entries, ...)                                                    \
    CHARGED(name, bx_charge_products((flop) * (entries), (size) * (entries), 1), , __VA_ARGS__)
#define CHARGED(name, charge, begin, ...) CHARGED_(name, charge, begin, __VA_ARGS__)
#define CHARGED_(name, charge, begin, parameters, arguments)                                       \
    void __real_##name parameters;                                                                 \
    void __wrap_##name parameters                                                                  \
    {                                                                                              \
        begin;                                                                                     \
        charge;                                                                                    \
        if (!bx_charge_is_hollow()) __real_##name arguments;                                       \
    }

static double volume(number a, number b, number c) { return (double)*a * *b * *c; }
static double area(number a, number b) { return (double)*a * *b; }

#define GEMM_PARAMETERS                                                                            \
    (text ta, text tb, number m, number n, number k, array x, array a, number la, array b,         \
     number lb, array y, array c, number lc, length l1, length l2)
#define GEMM_ARGUMENTS (ta, tb, m, n, k, x, a, la, b, lb, y, c, lc, l1, l2)
#define GEMM GEMM_PARAMETERS, GEMM_ARGUMENTS
PRICED(zgemm_, 8 * volume(m, n, k), GEMM)
#define GEMV                                                                                       \
    (text t, number m, number n, array x, array a, number la, array v, number iv, array y,         \
     array w, number iw, length l1),                                                               \
        (t, m, n, x, a, la, v, iv, y, w, iw, l1)
PRODUCT(dgemv_, 2, 8, area(m, n), GEMV)
PRODUCT(zgemv_, 8, 16, area(m, n), GEMV)
int bx_merged_block;
void __real_dgemm_ GEMM_PARAMETERS;
/* What a hollow run computes of dgemm: while vectors are merged, the rows that a later merge reads;
 * where C is not of whole blocks of rows, all of it. */
static void multiply_rows GEMM_PARAMETERS
{
    if (!bx_charge_is_hollow() || bx_merged_block == 0) return;
    bool rows = *ta == 'N' && *tb == 'N';
    if (!rows) __real_dgemm_ GEMM_ARGUMENTS;
    for (int i = 0; i < *m && *n > 0 && rows; i++)
        if (i % bx_merged_block == 0 || (i + 1) % bx_merged_block == 0 || i + 1 == *m)
            __real_dgemv_("T", k, n, x, b, lb, (double *)a + i, la, y, (double *)c + i, lc, 1);
}
PRICED_(dgemm_, 2 * volume(m, n, k), multiply_rows GEMM_ARGUMENTS, GEMM)
#define SYMV                                                                                       \
    (text u, number n, array x, array a, number la, array v, number iv, array y, array w,          \
     number iw, length l1),                                                                        \
        (u, n, x, a, la, v, iv, y, w, iw, l1)
PRODUCT(dsymv_, 4, 8, area(n, n) / 2, SYMV) /* one triangle is read */
#define GER                                                                                        \
    (number m, number n, array x, array v, number iv, array w, number iw, array a, number la),     \
        (m, n, x, v, iv, w, iw, a, la)
PRICED(dger_, 2 * area(m, n), GER)
#define SYR2K                                                                                      \
    (text u, text t, number n, number k, array x, array a, number la, array b, number lb, array y, \
     array c, number lc, length l1, length l2),                                                    \
        (u, t, n, k, x, a, la, b, lb, y, c, lc, l1, l2)
PRICED(dsyr2k_, 2 * volume(n, n, k), SYR2K)
#define SYRK                                                                                       \
    (text u, text t, number n, number k, array x, array a, number la, array y, array c, number lc, \
     length l1, length l2),                                                                        \
        (u, t, n, k, x, a, la, y, c, lc, l1, l2)
PRICED(dsyrk_, volume(n, n, k), SYRK)
PRICED(zherk_, 4 * volume(n, n, k), SYRK)
#define TRSM                                                                                       \
    (text s, text u, text t, text d, number m, number n, array x, array a, number la, array b,     \
     number lb, length l1, length l2, length l3, length l4),                                       \
        (s, u, t, d, m, n, x, a, la, b, lb, l1, l2, l3, l4)
PRICED(dtrsm_, volume(m, n, n), TRSM) /* from the right */
PRICED(ztrsm_, 4 * volume(m, n, n), TRSM)
PRICED(dtrmm_, *s == 'L' ? volume(m, m, n) : volume(m, n, n), TRSM)
#define POTRF (text u, number n, array a, number la, int *info, length l1), (u, n, a, la, info, l1)
SOLVED(dpotrf_, volume(n, n, n) / 3, POTRF)
SOLVED(zpotrf_, 4 * volume(n, n, n) / 3, POTRF)
/* All eigenvalues and vectors; flop and bytes of an entry.  Half of the reduction to a tridiagonal
 * matrix is products with a triangle that shrinks by a row each time (dlatrd's dsymv). */
static void charge_divide_and_conquer(double n, double flop, double size)
{
    bx_charge(BX_ALGEBRA, (9.0 / 8 - 1.0 / 3) * flop * n * n * n, true);
    for (double rows = n; rows >= 1; rows--)
        bx_charge_products(flop * rows * rows, size * rows * rows / 2, 1);
}
#define DIVIDED(name, flop, size, ...)                                                             \
    CHARGED(name, charge_divide_and_conquer(*n, flop, size), *info = 0, __VA_ARGS__)
DIVIDED(dsyevd_, 2, 8,
        (text j, text u, number n, array a, number la, array w, array s, number ls, array i,
         number li, int *info, length l1, length l2),
        (j, u, n, a, la, w, s, ls, i, li, info, l1, l2))
DIVIDED(zheevd_, 8, 16,
        (text j, text u, number n, array a, number la, array w, array s, number ls, array r,
         number lr, array i, number li, int *info, length l1, length l2),
        (j, u, n, a, la, w, s, ls, r, lr, i, li, info, l1, l2))
