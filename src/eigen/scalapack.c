/* ScaLAPACK's drivers for real and complex matrices.  Their workspace: what their query asks for,
 * and slack, as some ask too little where the matrix has fewer rows than the grid has blocks. */
#include "libraries.h"
#include "solver.h"

#include <limits.h>

/* bx_solver.solve, which writes its sizes to work[0], rwork[0] and iwork[0] where lwork is -1. */
typedef int driver(void *self, bx_problem *p);

static int smaller(double size) { return size < INT_MAX ? (int)size : INT_MAX; }

/* Asks `call` for its sizes; the workspace has them, slack, and `extra` real numbers more.
 * Collective over the team. */
static void *create(const bx_problem *p, driver *call, size_t extra)
{
    const bx_distribution *d = p->distribution;
    bx_scalapack *w = bx_memory_alloc(1, sizeof *w);
    double n = d->n;
    double work[3] = {0}, rwork[3] = {0}; /* the expert drivers broadcast by three, asked or not */
    int iwork[1] = {0};
    BX_ALLOC((size_t)d->n, w->failed);
    w->clusters = bx_memory_alloc(2 * (size_t)d->ranks, sizeof *w->clusters);
    BX_ALLOC((size_t)d->ranks, w->gaps);
    w->work = work, w->rwork = rwork, w->iwork = iwork;
    w->lwork = w->lrwork = w->liwork = -1;
    bx_problem query = *p;
    call(w, &query);
    int parts = p->parts;
    *(parts == 2 ? rwork : work) += (double)extra;
    double slack = 2.0 * d->block * (n + d->block) + 4 * n;
    w->lwork = smaller(work[0] + slack);
    w->lrwork = smaller(rwork[0] + slack);
    w->liwork = smaller(iwork[0] + 7 * n + 8 * d->grid_columns + 2);
    w->work = bx_solver_workspace(p, (size_t)w->lwork * (size_t)parts);
    w->rwork = bx_solver_workspace(p, parts == 2 ? (size_t)w->lrwork : 0);
    BX_ALLOC((size_t)w->liwork, w->iwork);
    return w;
}

static void destroy(void *workspace)
{
    bx_scalapack *w = workspace;
    BX_FREE(w->work, w->rwork, w->iwork, w->failed, w->clusters, w->gaps, w);
}

static const int ONE = 1;
static const double ZERO = 0;

/* Arguments of the drivers, and a call with those before and behind the workspace. */
#define MATRIX &d->n, p->a, &ONE, &ONE, d->descriptor
#define VECTORS p->v, &ONE, &ONE, d->descriptor
#define ALL "V", "U", MATRIX, p->w, VECTORS
#define RANGE "V", "A", "U", MATRIX, &ZERO, &ZERO, &ONE, &d->n
#define INTEGERS w->iwork, &w->liwork
#define CALL(real, complex, before, ...)                                                           \
    if (p->parts == 2)                                                                             \
        complex(before, w->work, &w->lwork, w->rwork, &w->lrwork, __VA_ARGS__);                    \
    else                                                                                           \
        real(before, w->work, &w->lwork, __VA_ARGS__);

/* QR iterations, whose vectors each rank turns on its own. */
static int pdsyev(void *self, bx_problem *p)
{
    bx_scalapack *w = self;
    const bx_distribution *d = p->distribution;
    CALL(pdsyev_, pzheev_, ALL, &w->info, 1, 1);
    return w->info;
}

/* Divide and conquer (Tisseur and Dongarra, SIAM J. Sci. Comput. 20, 1999). */
static int pdsyevd(void *self, bx_problem *p)
{
    bx_scalapack *w = self;
    const bx_distribution *d = p->distribution;
    CALL(pdsyevd_, pzheevd_, ALL, INTEGERS, &w->info, 1, 1);
    return w->info;
}

/* Multiple relatively robust representations (Voemel, ACM TOMS 37, 2010). */
static int pdsyevr(void *self, bx_problem *p)
{
    bx_scalapack *w = self;
    const bx_distribution *d = p->distribution;
#define ROBUST RANGE, &w->values, &w->vectors, p->w, VECTORS
    CALL(pdsyevr_, pzheevr_, ROBUST, INTEGERS, &w->info, 1, 1, 1);
    return w->info;
}

/* Bisection and inverse iteration.  Vectors of eigenvalues that are nearer than 1e-3 of the norm
 * (ORFAC) are made orthogonal on one rank, which needs room for all of a cluster; the query does
 * not count it.  ORFAC 0 would leave them dependent. */
static int pdsyevx(void *self, bx_problem *p)
{
    static const double ORFAC = 1e-3;
    bx_scalapack *w = self;
    const bx_distribution *d = p->distribution;
#define EXPERT RANGE, &ZERO, &w->values, &w->vectors, p->w, &ORFAC, VECTORS
    CALL(pdsyevx_, pzheevx_, EXPERT, INTEGERS, w->failed, w->clusters, w->gaps, &w->info, 1, 1, 1);
    return w->info;
}

/* Of one row, the complex driver of version 2.2.1 leaves the vector unset on some grids. */
static bool pdsyev_applicable(const bx_problem *p, char *why, size_t why_size)
{
    if (p->distribution->n > 1 || p->parts == 1) return true;
    snprintf(why, why_size, "pzheev leaves the vector of a complex matrix of one row unset");
    return false;
}

/* With equal eigenvalues, version 2.2.1 loses orthogonality of vectors: 1e5 n eps of 200 rows. */
static bool pdsyevr_applicable(const bx_problem *p, char *why, size_t why_size)
{
    if (p->repeated) snprintf(why, why_size, "its vectors of equal eigenvalues are not orthogonal");
    return !p->repeated;
}

static void *create_pdsyev(const bx_problem *p) { return create(p, pdsyev, 0); }
static void *create_pdsyevd(const bx_problem *p) { return create(p, pdsyevd, 0); }
static void *create_pdsyevr(const bx_problem *p) { return create(p, pdsyevr, 0); }
static void *create_pdsyevx(const bx_problem *p)
{
    size_t n = (size_t)p->distribution->n;
    return create(p, pdsyevx, n * (n - 1)); /* a cluster of all eigenvalues */
}

#define SOLVER(driver, text, where)                                                                \
    .about = {.name = #driver, .summary = text, .wins = where, .family = "solver", .calls = ""},   \
    .library = BX_SCALAPACK, .create = create_##driver, .solve = driver, .destroy = destroy

const bx_solver bx_solver_pdsyev = {
    SOLVER(pdsyev, "ScaLAPACK, QR iterations", "little workspace; never the fastest"),
    .cost = 6,
    .orthogonality = 10,
    .applicable = pdsyev_applicable,
};
const bx_solver bx_solver_pdsyevd = {
    SOLVER(pdsyevd, "ScaLAPACK, divide and conquer",
           "all vectors of large matrices; the 2004 report's"),
    .cost = 1.3,
    .orthogonality = 10,
};
const bx_solver bx_solver_pdsyevr = {
    SOLVER(pdsyevr, "ScaLAPACK, robust representations",
           "few messages; its vectors are less orthogonal"),
    .cost = 1.5,
    .orthogonality = 200,
    .applicable = pdsyevr_applicable,
};
const bx_solver bx_solver_pdsyevx = {
    SOLVER(pdsyevx, "ScaLAPACK, bisection and inverse iteration",
           "few vectors of many; clusters need memory of the whole matrix on every rank"),
    .cost = 4,
    .orthogonality = 10,
};
