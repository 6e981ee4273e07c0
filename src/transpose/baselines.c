#include "baseline.h"

const bx_baseline *const bx_baselines[] = {&bx_baseline_serial, &bx_baseline_fftw_mpi,
                                           &bx_baseline_spfft, &bx_baseline_copy};
const int bx_baseline_count = sizeof bx_baselines / sizeof *bx_baselines;
