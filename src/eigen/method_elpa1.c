/* ELPA's one-stage solver (Marek et al., J. Phys.: Condens. Matter 26, 2014). */
#include "elpa_solver.h"

const bx_solver bx_solver_elpa1 = {
    .about = {.name = "elpa1",
              .summary = "ELPA, one stage to a tridiagonal matrix",
              .wins = "all vectors on many ranks",
              .family = "solver"},
    .cost = 1.5,
    .orthogonality = 10,
    .hidden = 5, /* measured at 3888 rows: 3.1 to 4.9 */
    .applicable = bx_elpa_applicable,
    .create = bx_elpa_create_one_stage,
    .solve = bx_elpa_solve,
    .destroy = bx_elpa_free,
};
