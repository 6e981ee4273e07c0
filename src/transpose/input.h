/* The kernel's state, and what its fields hold before anything is done to them. */
#ifndef BX_TRANSPOSE_INPUT_H
#define BX_TRANSPOSE_INPUT_H

#include "baseline.h"
#include "transform.h"

/* What the kernel's own options set. */
typedef struct {
    int64_t grid[3], bands, kpoints, leaders;
    double radius;
    const char *planner, *wisdom;
    bool transpose_only;
} bx_transpose_options;

typedef struct {
    bx_run *run;
    const bx_transpose_options *options;
    int leaders; /* asked for */
    bx_geometry *geometry;
    bx_plan *plan;
    MPI_Comm team;
    int teams, my_team;
    void **methods;       /* [bx_method_count] what create returned; NULL if not selected */
    void **baselines;     /* [bx_baseline_count] likewise */
    int64_t steps;        /* so far in this block */
    int most_bands;       /* of any rank: teams may have unequal shares of the k-points */
    bx_complex *expected; /* [my_planes][ny][nx] the transform of band 0; NULL until needed */
} bx_transpose_state;

static inline bool bx_transpose_is_method(size_t index) { return index < (size_t)bx_method_count; }

/* What the fields hold before anything is done to them: element z of global column s of the field
 * that bx_transpose_input_field names. */
uint64_t bx_transpose_input_field(const bx_transpose_state *t, int band);
static inline bx_complex bx_transpose_input_value(const bx_transpose_state *t, uint64_t field,
                                                  int64_t s, int64_t z)
{
    uint64_t i = 2 * ((uint64_t)s * (uint64_t)t->geometry->nz + (uint64_t)z);
    return CMPLX(bx_random_uniform(field, i), bx_random_uniform(field, i + 1));
}
/* Products without the library's care for infinities, which is slow and not needed here. */
static inline bx_complex bx_transpose_input_times(bx_complex a, bx_complex b)
{
    return CMPLX(creal(a) * creal(b) - cimag(a) * cimag(b),
                 creal(a) * cimag(b) + cimag(a) * creal(b));
}
void bx_transpose_input_fill_columns(bx_transpose_state *t, int band);
/* A method's half-transformed field of a slot; filled with the same, forward. */
bx_rows bx_transpose_input_rows(const bx_transpose_state *t, int method, bx_direction way,
                                int slot);
void bx_transpose_input_fill_half(bx_transpose_state *t, int method, int band, int slot);
/* Not-a-numbers, which spread, wherever the method is to write. */
void bx_transpose_input_fill_nan(const bx_transpose_state *t, int method);
/* What the input has been multiplied by before step `steps` of a block, so that no step repeats the
 * last: exact in floating point, and the same again only after 244 steps. */
bx_complex bx_transpose_input_phase(int64_t steps);
/* What a method should send, all teams together.  Collective. */
bx_counts bx_transpose_planned_counts(const bx_transpose_state *t, int method, bx_direction way);

#endif
