/* Solvers that are wrong as BX_FAULT says, on rank 0 of each team (lost, killed: the last rank):
 *   transpose  two vectors exchange a part, as a block in the wrong place does
 *   swap       two eigenvalues change places
 *   workspace  ScaLAPACK's drivers get one number of workspace
 *   memory     the workspace is larger than any node
 *   lost       a rank does not come to the solver
 *   killed     a rank dies in it
 *   nan        the matrix has a NaN
 *   products   a number of the density matrix is lost
 *   integrals  an integral is wrong by 1e-5
 * Linked in place of solvers.c, with bx_matrix_fill, bx_products_run and bx_integrals_run wrapped.
 */
#include "faulty.h"
#include "integrals.h"
#include "libraries.h"
#include "products.h"

#include <signal.h>
#include <unistd.h>

static void *create(const bx_solver *sound, const bx_problem *p)
{
    if (faulty("memory")) bx_solver_workspace(p, (size_t)1 << 50);
    return sound->create(p);
}

static int solve(const bx_solver *sound, void *self, bx_problem *p)
{
    const bx_distribution *d = p->distribution;
    if (d->rank == d->ranks - 1 && faulty("lost")) pause();
    if (d->rank == d->ranks - 1 && faulty("killed")) raise(SIGKILL);
    if (faulty("workspace")) ((bx_scalapack *)self)->lwork = 1;
    int info = sound->solve(self, p);
    size_t half = (size_t)(d->rows / 2 * p->parts);
    if (faulty("transpose") && d->rank == 0)
        for (size_t i = 0; i < half; i++) {
            double *first = p->v + i, *second = first + d->rows * p->parts, kept = *first;
            *first = *second;
            *second = kept;
        }
    if (faulty("swap")) {
        double kept = p->w[0];
        p->w[0] = p->w[p->matrix->n - 1];
        p->w[p->matrix->n - 1] = kept;
    }
    return info;
}

void __real_bx_matrix_fill(const bx_matrix *m, int rows, const int *row, int column, double *a);
void __wrap_bx_matrix_fill(const bx_matrix *m, int rows, const int *row, int column, double *a);
void __real_bx_products_run(bx_products *s, const bx_problem *p, int occupied);
void __wrap_bx_products_run(bx_products *s, const bx_problem *p, int occupied);
void __real_bx_integrals_run(int n, int matrix, int rank, int ranks, double *values);
void __wrap_bx_integrals_run(int n, int matrix, int rank, int ranks, double *values);

void __wrap_bx_matrix_fill(const bx_matrix *m, int rows, const int *row, int column, double *a)
{
    __real_bx_matrix_fill(m, rows, row, column, a);
    if (faulty("nan") && column == 1 && rows > 0) a[0] = NAN;
}

void __wrap_bx_products_run(bx_products *s, const bx_problem *p, int occupied)
{
    __real_bx_products_run(s, p, occupied);
    if (faulty("products") && p->distribution->rank == 0) s->density[0] = 0;
}

void __wrap_bx_integrals_run(int n, int matrix, int rank, int ranks, double *values)
{
    __real_bx_integrals_run(n, matrix, rank, ranks, values);
    if (faulty("integrals") && rank == 0) values[0] += 1e-5;
}

#define BREAK(name)                                                                                \
    static int solve_##name(void *self, bx_problem *p)                                             \
    {                                                                                              \
        return solve(&bx_solver_##name, self, p);                                                  \
    }                                                                                              \
    static void *create_##name(const bx_problem *p) { return create(&bx_solver_##name, p); }       \
    static bx_solver broken_##name;
BX_METHODS(BREAK)
const bx_solver *const bx_solvers[] = {
#define LISTED(name) &broken_##name,
    BX_METHODS(LISTED) & bx_solver_dsyevd,
};
const int bx_solver_count = sizeof bx_solvers / sizeof *bx_solvers;

__attribute__((constructor)) static void fill(void)
{
#define FILL(name)                                                                                 \
    broken_##name = bx_solver_##name;                                                              \
    broken_##name.create = create_##name;                                                          \
    broken_##name.solve = solve_##name;
    BX_METHODS(FILL)
}
