/* ScaLAPACK's pdsyevd and pzheevd: divide and conquer (Tisseur and Dongarra, SIAM J. Sci. Comput.
 * 20, 1999). */
#include "scalapack.h"

static int call(bx_scalapack *w, bx_problem *p)
{
    const bx_distribution *d = p->distribution;
    int one = 1, info = 0;
    if (p->parts == 2)
        pzheevd_("V", "U", &d->n, p->a, &one, &one, d->descriptor, p->w, p->v, &one, &one,
                 d->descriptor, w->work, &w->lwork, w->rwork, &w->lrwork, w->iwork, &w->liwork,
                 &info, 1, 1);
    else
        pdsyevd_("V", "U", &d->n, p->a, &one, &one, d->descriptor, p->w, p->v, &one, &one,
                 d->descriptor, w->work, &w->lwork, w->iwork, &w->liwork, &info, 1, 1);
    return info;
}

static void *create(const bx_problem *p) { return bx_scalapack_create(p, call, 0); }

static int solve(void *self, bx_problem *p) { return call(self, p); }

const bx_solver bx_solver_pdsyevd = {
    .about = {.name = "pdsyevd",
              .summary = "ScaLAPACK, divide and conquer",
              .wins = "all vectors of large matrices; the 2004 report's",
              .family = "solver"},
    .cost = 1.3,
    .orthogonality = 10,
    .create = create,
    .solve = solve,
    .destroy = bx_scalapack_free,
};
