/* ScaLAPACK's pdsyevx and pzheevx: bisection and inverse iteration.  Vectors of eigenvalues that
 * are nearer than 1e-3 of the norm (ORFAC) are made orthogonal on one rank, which needs room for
 * all of a cluster; the query does not count it.  ORFAC 0 would leave them dependent. */
#include "scalapack.h"

static int call(bx_scalapack *w, bx_problem *p)
{
    const bx_distribution *d = p->distribution;
    int one = 1, info = 0;
    int first = 1, last = d->n, values = 0, vectors = 0;
    double low = 0, high = 0, tolerance = 0, cluster = 1e-3;
    if (p->parts == 2)
        pzheevx_("V", "A", "U", &d->n, p->a, &one, &one, d->descriptor, &low, &high, &first, &last,
                 &tolerance, &values, &vectors, p->w, &cluster, p->v, &one, &one, d->descriptor,
                 w->work, &w->lwork, w->rwork, &w->lrwork, w->iwork, &w->liwork, w->failed,
                 w->clusters, w->gaps, &info, 1, 1, 1);
    else
        pdsyevx_("V", "A", "U", &d->n, p->a, &one, &one, d->descriptor, &low, &high, &first, &last,
                 &tolerance, &values, &vectors, p->w, &cluster, p->v, &one, &one, d->descriptor,
                 w->work, &w->lwork, w->iwork, &w->liwork, w->failed, w->clusters, w->gaps, &info,
                 1, 1, 1);
    return info;
}

static void *create(const bx_problem *p)
{
    size_t n = (size_t)p->distribution->n;
    return bx_scalapack_create(p, call, n * (n - 1)); /* a cluster of all eigenvalues */
}

static int solve(void *self, bx_problem *p) { return call(self, p); }

const bx_solver bx_solver_pdsyevx = {
    .about = {.name = "pdsyevx",
              .summary = "ScaLAPACK, bisection and inverse iteration",
              .wins = "few vectors of many; clusters need memory of the whole matrix on every rank",
              .family = "solver"},
    .cost = 4,
    .orthogonality = 10,
    .create = create,
    .solve = solve,
    .destroy = bx_scalapack_free,
};
