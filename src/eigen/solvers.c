#include "solver.h"

const bx_solver *const bx_solvers[] = {
#define LISTED(name) &bx_solver_##name,
    BX_METHODS(LISTED) & bx_solver_dsyevd,
};
const int bx_solver_count = sizeof bx_solvers / sizeof *bx_solvers;
