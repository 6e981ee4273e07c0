#include "scalapack.h"

#include <limits.h>
#include <stdlib.h>

static int smaller(double size) { return size < INT_MAX ? (int)size : INT_MAX; }

void *bx_scalapack_create(const bx_problem *p, bx_scalapack_call *call, size_t extra)
{
    const bx_distribution *d = p->distribution;
    bx_scalapack *w = bx_memory_alloc(1, sizeof *w);
    double work[2] = {0, 0}, rwork[1] = {0}, n = d->n;
    int iwork[1] = {0};
    w->failed = bx_memory_alloc((size_t)d->n, sizeof *w->failed);
    w->clusters = bx_memory_alloc(2 * (size_t)d->ranks, sizeof *w->clusters);
    w->gaps = bx_memory_alloc((size_t)d->ranks, sizeof *w->gaps);
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
    w->iwork = bx_memory_alloc((size_t)w->liwork, sizeof *w->iwork);
    return w;
}

void bx_scalapack_free(void *workspace)
{
    bx_scalapack *w = workspace;
    free(w->work);
    free(w->rwork);
    free(w->iwork);
    free(w->failed);
    free(w->clusters);
    free(w->gaps);
    free(w);
}
