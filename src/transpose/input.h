/* The kernel's state, and the input of its fields.  Local, unless a function says otherwise. */
#pragma once

#include "baseline.h"
#include "transform.h"

/* The values of the kernel's own options. */
typedef struct {
    int64_t grid[3], bands, kpoints, exchanges, leaders;
    double radius;
    const char *planner, *wisdom;
    bool transpose_only, published;
} bx_transpose_options;

/* The state of bx_kernel.  A team's ranks share one grid; teams share the k-points. */
typedef struct {
    bx_run *run;
    const bx_transpose_options *options;
    int leaders; /* asked for, per node */
    bx_geometry *geometry;
    bx_plan *plan;
    MPI_Comm team;
    int teams, my_team;
    bx_exchange **methods; /* [bx_transpose_method_count] NULL if not selected, or not applicable */
    char (*why)[160];      /* [bx_transpose_method_count] not applicable */
    double (*planned)[4];  /* [bx_transpose_method_count] what a step sends, of all ranks; NaN: not
                              known */
    void **baselines;      /* [bx_baseline_count] what create returned; NULL if not selected */
    int64_t steps;         /* so far in this block */
    int most_bands;        /* of any rank: teams may have unequal shares of the k-points */
    bx_complex *expected;  /* planes of the last plan: the transform of band 0; NULL until needed */
} bx_transpose_state;

/* True if an index into bx_kernel.methods is a method's; else it is a baseline's. */
static inline bool bx_transpose_is_method(size_t index)
{
    return index < (size_t)bx_transpose_method_count;
}

/* Returns the seed of a band's input. */
uint64_t bx_transpose_input_field(const bx_transpose_state *t, int band);
/* Returns the input at element z of global column s, where `field` is the band's seed. */
static inline bx_complex bx_transpose_input_value(const bx_transpose_state *t, uint64_t field,
                                                  int64_t s, int64_t z)
{
    uint64_t i = 2 * ((uint64_t)s * (uint64_t)t->geometry->nz + (uint64_t)z);
    return CMPLX(bx_random_uniform(field, i), bx_random_uniform(field, i + 1));
}
/* Returns a * b without the library's care for infinities, which is slow and not needed here. */
static inline bx_complex bx_transpose_input_times(bx_complex a, bx_complex b)
{
    return CMPLX(creal(a) * creal(b) - cimag(a) * cimag(b),
                 creal(a) * cimag(b) + cimag(a) * creal(b));
}
/* Writes the input to a band's columns: on the host, which are brought to a device. */
void bx_transpose_input_fill_columns(bx_transpose_state *t, int band);
/* Fetches the columns of all bands from a device, if they are there.  Returns them on the host. */
bx_complex *bx_transpose_input_fetch_columns(const bx_transpose_state *t);
/* Returns a method's half-transformed field of a slot: on the host, what is brought to a device, or
 * was fetched from it. */
bx_rows bx_transpose_input_rows(const bx_transpose_state *t, int method, bx_direction way,
                                int slot);
/* Writes a band's input to a method's forward half-transformed field of a slot. */
void bx_transpose_input_fill_half(bx_transpose_state *t, int method, int band, int slot);
/* Writes NaNs, which spread, to all fields that the method writes. */
void bx_transpose_input_fill_nan(const bx_transpose_state *t, int method);
/* Returns the factor of the input in step `steps` of a block, so that no step repeats the last: a
 * product with it is exact, and it is the same again only after 244 steps. */
bx_complex bx_transpose_input_phase(int64_t steps);
/* Returns what a method should send per transform in one direction, all teams together.
 * Collective. */
bx_counts bx_transpose_planned_counts(const bx_transpose_state *t, int method, bx_direction way);
/* bx_kernel.report: sizes of the grid, its distribution, and what each method will send; `state` is
 * a bx_transpose_state. */
void bx_transpose_report(void *state, bx_run *run, bx_json *details);
