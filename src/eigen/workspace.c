#include "solver.h"

double *bx_solver_workspace(const bx_problem *p, size_t count)
{
    double *work = bx_memory_alloc(count > 0 ? count : 1, sizeof *work);
    for (size_t i = 0; p->touch && i < count; i += 256) work[i] = 1; /* pages are 512 doubles */
    return work;
}
