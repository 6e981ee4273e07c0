/* LAPACK's dsyevd and zheevd on one core: what every method is compared with. */
#include "libraries.h"
#include "solver.h"

#include <stdlib.h>

bx_lapack bx_lapack_create(const bx_problem *p, int n)
{
    bx_lapack s = {.parts = p->parts,
                   .lwork = p->parts == 2 ? 2 * n + n * n : 1 + 6 * n + 2 * n * n,
                   .lrwork = p->parts == 2 ? 1 + 5 * n + 2 * n * n : 0,
                   .liwork = 3 + 5 * n};
    s.work = bx_solver_workspace(p, (size_t)s.lwork * (size_t)s.parts);
    s.rwork = bx_solver_workspace(p, (size_t)s.lrwork);
    BX_ALLOC((size_t)s.liwork, s.iwork);
    return s;
}

int bx_lapack_solve(const bx_lapack *s, const char *job, int n, double *a, int leading, double *w)
{
    int info = 0;
    if (s->parts == 2)
        zheevd_(job, "U", &n, a, &leading, w, s->work, &s->lwork, s->rwork, &s->lrwork, s->iwork,
                &s->liwork, &info, 1, 1);
    else
        dsyevd_(job, "U", &n, a, &leading, w, s->work, &s->lwork, s->iwork, &s->liwork, &info, 1,
                1);
    return info;
}

void bx_lapack_free(bx_lapack *s) { BX_FREE(s->work, s->rwork, s->iwork); }

static void *create(const bx_problem *p)
{
    bx_lapack *s = bx_memory_alloc(1, sizeof *s);
    *s = bx_lapack_create(p, p->distribution->n);
    return s;
}

static int solve(void *self, bx_problem *p)
{
    int n = p->distribution->n, info = bx_lapack_solve(self, "V", n, p->a, n, p->w);
    double *vectors = p->a; /* they take the matrix's place */
    p->a = p->v;
    p->v = vectors;
    return info;
}

static int solve_on_one_core(void *self, bx_problem *p)
{
    bx_blas_set_threads(1);
    int info = solve(self, p);
    bx_blas_set_threads(bx_run_threads(p->run));
    return info;
}

static void destroy(void *self)
{
    bx_lapack_free(self);
    free(self);
}

const bx_solver bx_solver_dsyevd = {
    .about = {.name = "dsyevd",
              .summary = "LAPACK, divide and conquer on one core of rank 0",
              .baseline = true},
    .alone = true,
    .cost = 1,
    .orthogonality = 10,
    .create = create,
    .solve = solve_on_one_core,
    .destroy = destroy,
};

const bx_solver bx_solver_lapack = {
    .about = {.name = "lapack", .summary = "LAPACK, divide and conquer on every rank"},
    .alone = true,
    .cost = 1,
    .orthogonality = 10,
    .create = create,
    .solve = solve,
    .destroy = destroy,
};
