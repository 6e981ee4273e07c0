/* What Fortran lacks: the matrix between all bands, by the distributions and solvers of src/eigen;
 * memory set by memset; names of libraries. */
#include "bx.h"
#include "charge.h"
#include "libraries.h"
#include "solver.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const bx_solver *solver;
    bx_distribution *distribution;
    bx_problem problem;
    double bytes; /* counted by bx_solver_workspace */
} npar_matrix;

enum { LARGEST_BLOCK = 32 }; /* a few hundred bands are the usual */

#ifdef BX_HAVE_SCALAPACK
#define LISTED(name) &bx_solver_##name,
#else
#define LISTED(name)
#endif
static const bx_solver *const SOLVERS[] = {&bx_solver_lapack, BX_METHODS(LISTED)};

/* Those that take blocks, or the whole matrix. */
static const bx_solver *solver_of(const char *name)
{
    for (size_t i = 0; i < sizeof SOLVERS / sizeof *SOLVERS; i++)
        if (strcmp(SOLVERS[i]->about.name, name) == 0 && !SOLVERS[i]->first_column)
            return SOLVERS[i];
    return NULL;
}

/* Whether a solver can solve n bands on so many ranks; if not, writes to `why`.  Local. */
bool npar_solver_can(const char *name, int n, int parts, int ranks, char *why, size_t why_size)
{
    const bx_solver *solver = solver_of(name);
    bx_distribution d = {.ranks = ranks, .n = n, .grid_rows = bx_distribution_grid_rows(ranks)};
    d.grid_columns = ranks / d.grid_rows;
    d.block = bx_distribution_block(n, d.grid_columns, LARGEST_BLOCK);
    /* bands of a symmetric crystal have equal energies */
    bx_problem p = {.distribution = &d, .parts = parts, .repeated = true};
    if (solver && (!solver->applicable || solver->applicable(&p, why, why_size))) return true;
    if (!solver)
        snprintf(why, why_size,
                 sizeof SOLVERS > sizeof *SOLVERS ? "no solver of distributed matrices"
                                                  : BX_BUILT_WITHOUT "ScaLAPACK and ELPA");
    return false;
}

static int all_columns(int n, int ranks, int rank)
{
    (void)ranks;
    return rank * n;
}

static npar_matrix *create(bx_run *run, const char *name, MPI_Fint comm, int n, int parts,
                           bx_workspace workspace)
{
    npar_matrix *m = bx_memory_alloc(1, sizeof *m);
    MPI_Comm team = MPI_Comm_f2c(comm);
    int ranks;
    MPI_Comm_size(team, &ranks);
    m->solver = solver_of(name);
    if (m->solver->alone) {
        m->distribution = bx_distribution_create_panels(MPI_COMM_SELF, n, all_columns);
    } else {
        int grid_rows = bx_distribution_grid_rows(ranks);
        int block = bx_distribution_block(n, ranks / grid_rows, LARGEST_BLOCK);
        m->distribution = bx_distribution_create_blocks(team, n, block, grid_rows, false);
    }
    const bx_distribution *d = m->distribution;
    bx_problem *p = &m->problem;
    *p = (bx_problem){.run = run,
                      .distribution = d,
                      .guess_error = -1,
                      .parts = parts,
                      .repeated = true,
                      .workspace = workspace,
                      .bytes = &m->bytes};
    p->capacity = (size_t)d->columns * (size_t)(d->rows * parts);
    p->a = bx_solver_workspace(p, p->capacity);
    if (!m->solver->alone) p->v = bx_solver_workspace(p, p->capacity);
    return m;
}

/* Collective. */
void npar_matrix_free(npar_matrix *m)
{
    bx_distribution_free(m->distribution);
    free(m->problem.a);
    free(m->problem.v);
    free(m);
}

/* Allocates the matrix of a solver: shape = rows and columns of this rank, rows of a block, rows
 * and columns of the grid; *part: [columns][rows parts].  Collective. */
npar_matrix *npar_matrix_create(bx_run *run, const char *name, MPI_Fint comm, int n, int parts,
                                int shape[5], double **part)
{
    npar_matrix *m = create(run, name, comm, n, parts, BX_ALLOCATED);
    const bx_distribution *d = m->distribution;
    memcpy(shape, (int[]){d->rows, d->columns, d->block, d->grid_rows, d->grid_columns},
           5 * sizeof *shape);
    *part = m->problem.a;
    return m;
}

/* Returns the bytes of the matrix, its vectors and the solver's workspace on this rank; *block:
 * rows of a block.  Allocates none of them.  Collective. */
double npar_matrix_bytes(bx_run *run, const char *name, MPI_Fint comm, int n, int parts, int *block)
{
    npar_matrix *m = create(run, name, comm, n, parts, BX_COUNTED);
    m->solver->destroy(m->solver->create(&m->problem));
    double hidden = m->solver->hidden * sizeof(double) * (double)m->problem.capacity;
    double bytes = m->bytes + hidden;
    *block = m->distribution->block;
    npar_matrix_free(m);
    return bytes;
}

/* Solves the matrix, which is lost; *vectors: [columns][rows parts] the eigenvectors, valid until
 * the next call; w: [n]; *asked: bytes of the solver's workspace, NaN where it does not tell.
 * Returns 0, or the library's INFO.  Collective. */
int npar_matrix_solve(npar_matrix *m, double *w, double **vectors, double *asked)
{
    bx_problem *p = &m->problem;
    double *part = p->a, before = m->bytes;
    /* ranks compare arguments */
    bool hollow = !m->solver->alone && bx_charge_hollow_messages(false);
    void *workspace = m->solver->create(p);
    *asked = m->solver->hidden > 0 ? NAN : m->bytes - before;
    p->w = w;
    int info = m->solver->solve(workspace, p);
    if (hollow) bx_charge_hollow_messages(true);
    m->solver->destroy(workspace);
    *vectors = p->v;
    if (m->solver->alone) *vectors = part, p->a = part, p->v = NULL; /* in the matrix's place */
    return info;
}

/* Replaces the upper triangle of a positive definite matrix by Cholesky's factor; returns the
 * library's INFO, above 0 if the matrix is not positive definite.  Collective. */
int npar_matrix_factor(npar_matrix *m)
{
    bx_problem *p = &m->problem;
    const bx_distribution *d = p->distribution;
    int info = 0;
#ifdef BX_HAVE_SCALAPACK
    int one = 1;
    bool hollow = d->context >= 0 && bx_charge_hollow_messages(false);
    if (d->context >= 0 && p->parts == 2)
        pzpotrf_("U", &d->n, p->a, &one, &one, d->descriptor, &info, 1);
    else if (d->context >= 0)
        pdpotrf_("U", &d->n, p->a, &one, &one, d->descriptor, &info, 1);
    if (hollow) bx_charge_hollow_messages(true);
    if (d->context >= 0) return info;
#endif
    if (p->parts == 2)
        zpotrf_("U", &d->n, p->a, &d->n, &info, 1);
    else
        dpotrf_("U", &d->n, p->a, &d->n, &info, 1);
    return info;
}

/* Adds the libraries' versions to the result, where they report one. */
void npar_name_libraries(void)
{
    bx_blas_name_library();
#ifdef BX_HAVE_SCALAPACK
    bx_elpa_name_library();
#endif
}

/* A call of its own, so that no compiler finds out that what it writes is never read. */
void npar_wipe(void *memory, size_t bytes)
{
    bx_charge(BX_COPY, (double)bytes, false);
    if (!bx_charge_is_hollow()) memset(memory, 0, bytes);
}
