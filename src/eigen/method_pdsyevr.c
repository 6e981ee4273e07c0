/* ScaLAPACK's pdsyevr and pzheevr: multiple relatively robust representations (Voemel, ACM TOMS 37,
 * 2010). */
#include "scalapack.h"

static int call(bx_scalapack *w, bx_problem *p)
{
    const bx_distribution *d = p->distribution;
    int one = 1, info = 0;
    int first = 1, last = d->n, values = 0, vectors = 0;
    double low = 0, high = 0;
    if (p->parts == 2)
        pzheevr_("V", "A", "U", &d->n, p->a, &one, &one, d->descriptor, &low, &high, &first, &last,
                 &values, &vectors, p->w, p->v, &one, &one, d->descriptor, w->work, &w->lwork,
                 w->rwork, &w->lrwork, w->iwork, &w->liwork, &info, 1, 1, 1);
    else
        pdsyevr_("V", "A", "U", &d->n, p->a, &one, &one, d->descriptor, &low, &high, &first, &last,
                 &values, &vectors, p->w, p->v, &one, &one, d->descriptor, w->work, &w->lwork,
                 w->iwork, &w->liwork, &info, 1, 1, 1);
    return info;
}

/* With equal eigenvalues, version 2.2.1 loses the orthogonality of vectors: 1e5 n eps of 200 rows.
 */
static bool applicable(const bx_problem *p, char *why, size_t why_size)
{
    if (p->repeated) snprintf(why, why_size, "its vectors of equal eigenvalues are not orthogonal");
    return !p->repeated;
}

static void *create(const bx_problem *p) { return bx_scalapack_create(p, call, 0); }

static int solve(void *self, bx_problem *p) { return call(self, p); }

const bx_solver bx_solver_pdsyevr = {
    .about = {.name = "pdsyevr",
              .summary = "ScaLAPACK, robust representations",
              .wins = "few messages; its vectors are less orthogonal",
              .family = "solver"},
    .cost = 1.5,
    .orthogonality = 200,
    .applicable = applicable,
    .create = create,
    .solve = solve,
    .destroy = bx_scalapack_free,
};
