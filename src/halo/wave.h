/* Solutions in closed form: waves that a scheme multiplies by one number in each step, and the
 * differential equation by another. */
#pragma once

#include "bx.h"

#include <complex.h>

/* One field: the real part of amplitude[level] * factor[level]^step * X(x) Y(y) Z(z). */
typedef struct {
    double complex *along[3];  /* [extent] X, Y, Z */
    double angle[3];           /* rad: of the wave from one cell to the next */
    double complex *amplitude; /* [levels] */
    double complex *factor;    /* [levels] of the scheme */
    double complex *exact;     /* [levels] of the differential equation */
    int levels;
} bx_wave;

/* A wave with `number[axis]` periods along an axis; between walls, where it has no slope, with so
 * many half periods. */
bx_wave bx_wave_create(const int64_t extent[3], const int number[3], const bool walls[3],
                       int levels);
void bx_wave_free(bx_wave *wave);
/* Writes [levels] the amplitudes at a step, of the scheme or exact. */
void bx_wave_at(const bx_wave *wave, int64_t step, bool exact, double complex *amplitude);
/* The space part at a cell. */
static inline double complex bx_wave_space(const bx_wave *wave, const int64_t cell[3])
{
    return wave->along[0][cell[0]] * wave->along[1][cell[1]] * wave->along[2][cell[2]];
}
