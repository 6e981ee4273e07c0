#include "transform.h"

void bx_exchange(const bx_method *method, void *self, bx_way way, int band, int slot)
{
    if (method->start) method->start(self, way, band, slot);
    method->finish(self, way, band, slot);
}

static void columns(bx_plan *plan, bx_way way, int band, bool ffts)
{
    if (ffts) bx_fft_columns(plan, way, band);
    bx_lap(plan->run, BX_PHASE_FFT1D);
}

static void planes(bx_plan *plan, bx_way way, int slot, bool ffts)
{
    if (ffts) bx_fft_planes(plan, way, slot);
    bx_lap(plan->run, BX_PHASE_FFT2D);
}

/* Three stages a band, `lag` bands apart: to the planes, on the planes, back to the columns.  With
 * lag 0 a band is finished before the next begins, and its planes are still in cache. */
void bx_transform_bands(bx_plan *plan, const bx_method *method, void *self, bool ffts)
{
    int lag = method->lag;
    for (int turn = 0; turn < plan->bands + 2 * lag; turn++) {
        int out = turn, on = turn - lag, back = turn - 2 * lag;
        if (out < plan->bands) {
            columns(plan, BX_FORWARD, out, ffts);
            if (method->start) method->start(self, BX_FORWARD, out, out % BX_SLOTS);
        }
        if (on >= 0 && on < plan->bands) {
            int slot = on % BX_SLOTS;
            method->finish(self, BX_FORWARD, on, slot);
            planes(plan, BX_FORWARD, slot, ffts);
            planes(plan, BX_INVERSE, slot, ffts);
            if (method->start) method->start(self, BX_INVERSE, on, slot);
        }
        if (back >= 0 && back < plan->bands) {
            method->finish(self, BX_INVERSE, back, back % BX_SLOTS);
            columns(plan, BX_INVERSE, back, ffts);
        }
    }
}
