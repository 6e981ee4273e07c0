/* ScaLAPACK's pdsyev and pzheev: QR iterations, whose vectors each rank turns on its own. */
#include "scalapack.h"

static int call(bx_scalapack *w, bx_problem *p)
{
    const bx_distribution *d = p->distribution;
    int one = 1, info = 0;
    if (p->parts == 2)
        pzheev_("V", "U", &d->n, p->a, &one, &one, d->descriptor, p->w, p->v, &one, &one,
                d->descriptor, w->work, &w->lwork, w->rwork, &w->lrwork, &info, 1, 1);
    else
        pdsyev_("V", "U", &d->n, p->a, &one, &one, d->descriptor, p->w, p->v, &one, &one,
                d->descriptor, w->work, &w->lwork, &info, 1, 1);
    return info;
}

/* Of one row, the complex driver of version 2.2.1 leaves the vector unset on some grids. */
static bool applicable(const bx_problem *p, char *why, size_t why_size)
{
    if (p->distribution->n > 1 || p->parts == 1) return true;
    snprintf(why, why_size, "pzheev leaves the vector of a complex matrix of one row unset");
    return false;
}

static void *create(const bx_problem *p) { return bx_scalapack_create(p, call, 0); }

static int solve(void *self, bx_problem *p) { return call(self, p); }

const bx_solver bx_solver_pdsyev = {
    .about = {.name = "pdsyev",
              .summary = "ScaLAPACK, QR iterations",
              .wins = "little workspace; never the fastest",
              .family = "solver"},
    .cost = 6,
    .orthogonality = 10,
    .applicable = applicable,
    .create = create,
    .solve = solve,
    .destroy = bx_scalapack_free,
};
