#include "solver.h"

const bx_solver *const bx_solvers[] = {
#define BX_CASE(...)
#define BX_METHOD(name) &bx_solver_##name,
#include "eigen.def"
    &bx_solver_dsyevd,
};
const int bx_solver_count = sizeof bx_solvers / sizeof *bx_solvers;
