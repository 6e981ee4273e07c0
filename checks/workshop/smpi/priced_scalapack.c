/* ScaLAPACK.  Divide and conquer in a hollow run: the eigenvalues of the tridiagonal matrix decide
 * on messages (deflation), so that they are computed, from a tridiagonal matrix that belongs to the
 * spectrum.  The reduction to it and the vectors are hollow, but for the rows of the vectors that a
 * later merge reads. */
#include "charge.h"
#include "platform.h"

#include <stdlib.h>

enum { COLUMNS_ = 3, BLOCK_ = 5 }; /* of a descriptor */

static struct {
    double *diagonal; /* [2 n], the off-diagonal behind it; memory of the first rank */
    int n;
} told;

/* The symmetric tridiagonal matrix of given eigenvalues whose vectors have these squares of first
 * entries: W. B. Gragg and W. J. Harwood, Numerische Mathematik 44 (1984), algorithm RKPW.  It
 * comes with its last row first, as PDSYTRD reduces from the last row on. */
static void reduce(int n, const double *values, const double *squares, double *d, double *e)
{
    double *a = bx_memory_alloc((size_t)n, sizeof *a), *b = bx_memory_alloc((size_t)n, sizeof *b);
    for (int last = 0; last < n; last++) {
        double left = squares[last], value = values[last], gamma = 1, sigma = 0, t = 0;
        a[last] = value;
        b[last] = 0;
        for (int k = 0; k <= last; k++) {
            double rho = b[k] + left, kept = gamma * rho, before = sigma;
            gamma = rho > 0 ? b[k] / rho : 1;
            sigma = rho > 0 ? left / rho : 0;
            double next = sigma * (a[k] - value) - gamma * t;
            a[k] -= next - t;
            t = next;
            left = sigma > 0 ? t * t / sigma : before * b[k];
            b[k] = kept;
        }
    }
    for (int k = 0; k < n; k++) {
        d[n - 1 - k] = a[k];
        if (k > 0) e[n - 1 - k] = sqrt(b[k]);
    }
    BX_FREE(a, b);
}

void bx_charge_spectrum(MPI_Comm team, int n, const double *values, const double *squares)
{
    int rank;
    PMPI_Comm_rank(team, &rank);
    if (rank == 0) {
        free(told.diagonal);
        told.diagonal = bx_memory_alloc(2 * (size_t)n, sizeof(double));
        reduce(n, values, squares, told.diagonal, told.diagonal + n);
    }
    told.n = n;
    PMPI_Bcast(&told.diagonal, sizeof told.diagonal, MPI_BYTE, 0, team); /* one process */
}

/* ---- the reduction to a tridiagonal matrix ---- */

/* Of the panels of columns, which differ little from one to the next, some are simulated: the
 * middle one of a group, whose time counts for all. */
static struct {
    int group; /* panels of the group of the one that is simulated; 0: none is */
    double since;
} panel;

void __real_pdlatrd_(const char *u, const int *n, const int *nb, double *a, const int *ia,
                     const int *ja, const int *da, double *d, double *e, double *tau, double *w,
                     const int *iw, const int *jw, const int *dw, double *work, size_t length);
void __wrap_pdlatrd_(const char *u, const int *n, const int *nb, double *a, const int *ia,
                     const int *ja, const int *da, double *d, double *e, double *tau, double *w,
                     const int *iw, const int *jw, const int *dw, double *work, size_t length)
{
    int groups_of = bx_platform_panels();
    panel.group = 1;
    if (groups_of > 1) {
        /* from the last panel to the second; the first is no panel */
        int number = (*n - 1) / *nb - 1, count = (da[COLUMNS_] - 1) / *nb;
        int first = number / groups_of * groups_of;
        int last = first + groups_of < count ? first + groups_of : count;
        panel.group = number == first + (last - first) / 2 ? last - first : 0;
    }
    bx_charge_pay();
    panel.since = PMPI_Wtime();
    if (panel.group > 0)
        __real_pdlatrd_(u, n, nb, a, ia, ja, da, d, e, tau, w, iw, jw, dw, work, length);
}

void __real_pdsyr2k_(const char *u, const char *t, const int *n, const int *k, const double *x,
                     const double *a, const int *ia, const int *ja, const int *da, const double *b,
                     const int *ib, const int *jb, const int *db, const double *y, double *c,
                     const int *ic, const int *jc, const int *dc, size_t l1, size_t l2);
void __wrap_pdsyr2k_(const char *u, const char *t, const int *n, const int *k, const double *x,
                     const double *a, const int *ia, const int *ja, const int *da, const double *b,
                     const int *ib, const int *jb, const int *db, const double *y, double *c,
                     const int *ic, const int *jc, const int *dc, size_t l1, size_t l2)
{
    if (panel.group == 0) return;
    __real_pdsyr2k_(u, t, n, k, x, a, ia, ja, da, b, ib, jb, db, y, c, ic, jc, dc, l1, l2);
    if (panel.group > 1) bx_charge_repeat(MPI_COMM_WORLD, panel.since, panel.group - 1);
}

/* ---- divide and conquer ---- */

void __real_pdstedc_(const char *z, const int *n, double *d, double *e, double *q, const int *iq,
                     const int *jq, const int *descriptor, double *work, const int *lwork,
                     int *iwork, const int *liwork, int *info, size_t length);
void __wrap_pdstedc_(const char *z, const int *n, double *d, double *e, double *q, const int *iq,
                     const int *jq, const int *descriptor, double *work, const int *lwork,
                     int *iwork, const int *liwork, int *info, size_t length)
{
    if (bx_charge_is_hollow()) {
        for (int i = 0; i < *n; i++) {
            /* of a spectrum that no one tells: equal gaps, and vectors of sines */
            d[i] = told.n == *n ? told.diagonal[i] : 0;
            if (i < *n - 1) e[i] = told.n == *n ? told.diagonal[*n + i] : 1;
        }
    }
    __real_pdstedc_(z, n, d, e, q, iq, jq, descriptor, work, lwork, iwork, liwork, info, length);
}

void __real_pdlaed1_(const int *n, const int *n1, double *d, const int *id, double *q,
                     const int *iq, const int *jq, const int *descriptor, double *rho, double *work,
                     int *iwork, int *info);
void __wrap_pdlaed1_(const int *n, const int *n1, double *d, const int *id, double *q,
                     const int *iq, const int *jq, const int *descriptor, double *rho, double *work,
                     int *iwork, int *info)
{
    bx_merged_block = descriptor[BLOCK_];
    __real_pdlaed1_(n, n1, d, id, q, iq, jq, descriptor, rho, work, iwork, info);
    bx_merged_block = 0;
}

void __real_dlaed4_(const int *n, const int *i, const double *d, const double *z, double *delta,
                    const double *rho, double *lambda, int *info);
void __wrap_dlaed4_(const int *n, const int *i, const double *d, const double *z, double *delta,
                    const double *rho, double *lambda, int *info)
{
    bx_charge(BX_PAIRS, 50.0 * *n, false); /* about six steps, each with a division per pole */
    __real_dlaed4_(n, i, d, z, delta, rho, lambda, info);
}

/* SimGrid 3.32 lacks it; the BLACS ask for integers alone. */
int MPI_Type_match_size(int class, int size, MPI_Datatype *type)
{
    *type = class == MPI_TYPECLASS_INTEGER && size == sizeof(int) ? MPI_INT : MPI_DATATYPE_NULL;
    return *type == MPI_INT ? MPI_SUCCESS : MPI_ERR_ARG;
}

/* SimGrid 3.32 divides by the size of the type, which is 0 where a rank has no row of a column. */
int MPI_Pack(const void *in, int count, MPI_Datatype type, void *out, int size, int *at,
             MPI_Comm comm)
{
    int bytes;
    PMPI_Type_size(type, &bytes);
    return bytes > 0 ? PMPI_Pack(in, count, type, out, size, at, comm) : MPI_SUCCESS;
}

int MPI_Unpack(const void *in, int size, int *at, void *out, int count, MPI_Datatype type,
               MPI_Comm comm)
{
    int bytes;
    PMPI_Type_size(type, &bytes);
    return bytes > 0 ? PMPI_Unpack(in, size, at, out, count, type, comm) : MPI_SUCCESS;
}
