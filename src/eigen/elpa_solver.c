/* ELPA's solvers (Marek et al., J. Phys.: Condens. Matter 26, 2014), where the kernels are built
 * with it. */
#include "solver.h"

#ifdef BX_HAVE_ELPA
#include <complex.h>
#include <elpa/elpa.h>

void bx_elpa_name_library(void) { bx_build_add_library("elpa", BX_HAVE_ELPA); }

static bool applicable(const bx_problem *p, char *why, size_t why_size)
{
    const bx_distribution *d = p->distribution;
    int blocks = (d->n + d->block - 1) / d->block;
    int places = d->grid_rows > d->grid_columns ? d->grid_rows : d->grid_columns;
    if (blocks >= places) return true;
    snprintf(
        why, why_size,
        "ELPA needs a block in each of the grid's %d rows and %d columns; %d rows in blocks of %d "
        "have %d",
        d->grid_rows, d->grid_columns, d->n, d->block, blocks);
    return false;
}

static void *create(const bx_problem *p, int solver)
{
    const bx_distribution *d = p->distribution;
    if (p->workspace == BX_COUNTED) return NULL;
    int error = elpa_init(20170403);
    elpa_t elpa = error == ELPA_OK ? elpa_allocate(&error) : NULL;
    if (!elpa) return NULL;
    elpa_set(elpa, "na", d->n, &error);
    elpa_set(elpa, "nev", d->n, &error);
    elpa_set(elpa, "local_nrows", d->rows, &error);
    elpa_set(elpa, "local_ncols", d->columns, &error);
    elpa_set(elpa, "nblk", d->block, &error);
    elpa_set(elpa, "mpi_comm_parent", (int)MPI_Comm_c2f(d->team), &error);
    elpa_set(elpa, "process_row", d->grid_row, &error);
    elpa_set(elpa, "process_col", d->grid_column, &error);
    if (elpa_setup(elpa) == ELPA_OK) elpa_set(elpa, "solver", solver, &error);
    return elpa;
}

static void *create_one_stage(const bx_problem *p) { return create(p, ELPA_SOLVER_1STAGE); }

static void *create_two_stage(const bx_problem *p) { return create(p, ELPA_SOLVER_2STAGE); }

static int solve(void *self, bx_problem *p)
{
    int error = -1;
    if (self && p->parts == 2)
        elpa_eigenvectors((elpa_t)self, (double complex *)p->a, p->w, (double complex *)p->v,
                          &error);
    else if (self)
        elpa_eigenvectors((elpa_t)self, p->a, p->w, p->v, &error);
    return error == ELPA_OK ? 0 : error;
}

static void destroy(void *self)
{
    int error;
    if (self) elpa_deallocate((elpa_t)self, &error);
}
#else
void bx_elpa_name_library(void) {}

static bool applicable(const bx_problem *p, char *why, size_t why_size)
{
    snprintf(why, why_size, BX_BUILT_WITHOUT "ELPA");
    return false;
}

static void *create_one_stage(const bx_problem *p) { return NULL; }

static void *create_two_stage(const bx_problem *p) { return create_one_stage(p); }

static int solve(void *self, bx_problem *p) { return -1; }

static void destroy(void *self) {}
#endif

/* The back transformation (elpa2_trans_ev_tridi_to_band_template.F90) gives a row of the grid at
 * least a band's width of rows, and sends no transformation to a row of the grid that has a single
 * row of the matrix ("the one and only HH Vector is 0").  In a complex matrix it is a phase. */
static bool applicable_two_stage(const bx_problem *p, char *why, size_t why_size)
{
    const bx_distribution *d = p->distribution;
    int width = (31 / d->block + 1) * d->block; /* of the band of a complex matrix */
    int full = (d->n - 1) / width;              /* rows of the grid with a whole width */
    if (!applicable(p, why, why_size)) return false;
    if (p->parts == 1 || d->n % width != 1 || full == 0 || full >= d->grid_rows) return true;
    snprintf(why, why_size,
             "ELPA's vectors are wrong: %d complex rows in bands of %d leave one row to one of the "
             "grid's %d rows",
             d->n, width, d->grid_rows);
    return false;
}

#define SOLVER(title, text, where)                                                                 \
    .about = {.name = title, .summary = text, .wins = where, .family = "solver", .calls = ""},     \
    .library = "ELPA", .orthogonality = 10, .hidden = 5 /* measured at 3888 rows: 3.1 to 4.9 */,   \
    .solve = solve, .destroy = destroy

const bx_solver bx_solver_elpa1 = {
    SOLVER("elpa1", "ELPA, one stage to a tridiagonal matrix", "all vectors on many ranks"),
    .cost = 1.5,
    .applicable = applicable,
    .create = create_one_stage,
};
const bx_solver bx_solver_elpa2 = {
    SOLVER("elpa2", "ELPA, two stages by a band matrix", "part of the vectors, on many ranks"),
    .cost = 5,
    .applicable = applicable_two_stage,
    .create = create_two_stage,
};
