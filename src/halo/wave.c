#include "wave.h"

#include <stdlib.h>

bx_wave bx_wave_create(const int64_t extent[3], const int number[3], const bool walls[3],
                       int levels)
{
    bx_wave wave = {.levels = levels};
    for (int axis = 0; axis < 3; axis++) {
        double n = (double)extent[axis];
        wave.angle[axis] = (walls[axis] ? 1 : 2) * M_PI * number[axis] / n;
        wave.along[axis] = bx_memory_alloc((size_t)extent[axis], sizeof **wave.along);
        for (int64_t i = 0; i < extent[axis]; i++) {
            double turn = wave.angle[axis] * ((double)i + 0.5);
            wave.along[axis][i] = walls[axis] ? cos(turn) : cexp(I * turn);
        }
    }
    BX_ALLOC((size_t)levels, wave.amplitude, wave.factor, wave.exact);
    return wave;
}

void bx_wave_free(bx_wave *wave)
{
    for (int axis = 0; axis < 3; axis++) free(wave->along[axis]);
    BX_FREE(wave->amplitude, wave->factor, wave->exact);
}

void bx_wave_at(const bx_wave *wave, int64_t step, bool exact, double complex *amplitude)
{
    for (int level = 0; level < wave->levels; level++) {
        double complex once = exact ? wave->exact[level] : wave->factor[level];
        double grown = pow(cabs(once), (double)step), turned = carg(once) * (double)step;
        amplitude[level] = wave->amplitude[level] * grown * cexp(I * turned);
    }
}
