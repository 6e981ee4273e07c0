#include "solver.h"

double *bx_solver_workspace(const bx_problem *p, size_t count)
{
    /* OpenBLAS 0.3.21 (zgemv) reads a column beyond the end of a complex matrix */
    size_t beyond = 64 + (p->parts == 2 ? 2 * (size_t)p->distribution->n : 0);
    *p->bytes += sizeof(double) * (double)(count + beyond);
    if (p->workspace == BX_COUNTED) return NULL;
    double *work = bx_memory_alloc(count + beyond, sizeof *work);
    bool touched = p->workspace == BX_TOUCHED;
    for (size_t i = 0; touched && i < count; i += 256) work[i] = 1; /* pages are 512 doubles */
    return work;
}
