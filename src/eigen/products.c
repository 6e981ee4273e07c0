#include "products.h"

#include "libraries.h"

#include <stdlib.h>
#include <string.h>

static size_t size_of(const bx_problem *p)
{
    const bx_distribution *d = p->distribution;
    return (size_t)d->columns * (size_t)(d->rows * p->parts);
}

/* How far the eigenvalues of D are from 0 and 1 at first: five steps leave more than rounding. */
static const double BLUR = 0.3;

double bx_products_level(double level, double *sum)
{
    double x = BLUR + (1 - 2 * BLUR) * level;
    *sum = 0;
    for (int step = 0; step < BX_PRODUCT_STEPS; step++) {
        x = x * x * (3 - 2 * x);
        *sum += x;
    }
    return x;
}

bx_products *bx_products_create(const bx_problem *p)
{
    bx_products *s = bx_memory_alloc(1, sizeof *s);
    double **fields[] = {&s->matrix, &s->density, &s->energies, &s->one, &s->two};
    for (int i = 0; i < 5; i++) *fields[i] = bx_solver_workspace(p, size_of(p));
    return s;
}

void bx_products_free(bx_products *s)
{
    if (!s) return;
    BX_FREE(s->matrix, s->density, s->energies, s->one, s->two, s);
}

void bx_products_keep(bx_products *s, const bx_problem *p)
{
    memcpy(s->matrix, p->a, size_of(p) * sizeof *p->a);
}

void bx_products_clear(bx_products *s, const bx_problem *p)
{
    double *fields[] = {s->matrix, s->density, s->energies, s->one, s->two};
    for (int i = 0; i < 5; i++)
        for (size_t j = 0; j < size_of(p); j++) fields[i][j] = NAN;
}

/* c = a b, or a b' of the first k columns; is added to c with `add`. */
static void multiply(const bx_problem *p, bool transposed, int k, const double *a, const double *b,
                     bool add, double *c)
{
    const bx_distribution *d = p->distribution;
    const int one = 1, *descriptor = d->descriptor;
    double factor[2] = {1, 0}, before[2] = {add, 0};
    if (p->parts == 2)
        pzgemm_("N", transposed ? "C" : "N", &d->n, &d->n, &k, factor, a, &one, &one, descriptor, b,
                &one, &one, descriptor, before, c, &one, &one, descriptor);
    else
        pdgemm_("N", transposed ? "T" : "N", &d->n, &d->n, &k, factor, a, &one, &one, descriptor, b,
                &one, &one, descriptor, before, c, &one, &one, descriptor);
}

void bx_products_run(bx_products *s, const bx_problem *p, int occupied)
{
    const bx_distribution *d = p->distribution;
    int parts = p->parts;
    size_t size = size_of(p);
    multiply(p, true, occupied, p->v, p->v, false, s->density);
    for (int j = 0; j < d->columns; j++)
        for (int i = 0; i < d->rows; i++) {
            double *x = s->density + ((size_t)j * (size_t)d->rows + (size_t)i) * (size_t)parts;
            for (int part = 0; part < parts; part++) x[part] *= 1 - 2 * BLUR;
            x[0] += d->row[i] == d->column[j] ? BLUR : 0;
        }
    for (int step = 0; step < BX_PRODUCT_STEPS; step++) {
        multiply(p, false, d->n, s->density, s->density, false, s->one);
        multiply(p, false, d->n, s->density, s->one, false, s->two);
        for (size_t i = 0; i < size; i++) s->density[i] = 3 * s->one[i] - 2 * s->two[i];
        multiply(p, false, d->n, s->matrix, s->density, step > 0, s->energies);
    }
}

static double difference(const bx_problem *p, const double *part, const bx_matrix *exact)
{
    const bx_distribution *d = p->distribution;
    size_t length = (size_t)(d->rows * exact->parts);
    double *entries = bx_memory_alloc(length + 1, sizeof *entries), most = 0;
    for (int j = 0; j < d->columns; j++) {
        bx_matrix_fill(exact, d->rows, d->row, d->column[j], entries);
        for (size_t i = 0; i < length; i++)
            most = bx_verification_worse(most, fabs(part[(size_t)j * length + i] - entries[i]));
    }
    free(entries);
    return most / (d->n * 0x1p-53);
}

double bx_products_error(const bx_products *s, const bx_problem *p, const bx_matrix *density,
                         const bx_matrix *energies)
{
    double most = bx_verification_worse(difference(p, s->density, density),
                                        difference(p, s->energies, energies) / p->matrix->norm);
    MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_DOUBLE, MPI_MAX, p->distribution->team);
    return most;
}
