/* Compiled with the options of the kernels; data alone, which every processor can read. */
#include "processor.h"

#include <stddef.h>

/* Of x86-64 those that compilers choose by themselves and __builtin_cpu_supports() knows. */
const char *const bx_processor_assumed[] = {
#ifdef __SSE3__
    "sse3",
#endif
#ifdef __SSSE3__
    "ssse3",
#endif
#ifdef __SSE4_1__
    "sse4.1",
#endif
#ifdef __SSE4_2__
    "sse4.2",
#endif
#ifdef __SSE4A__
    "sse4a",
#endif
#ifdef __POPCNT__
    "popcnt",
#endif
#ifdef __BMI__
    "bmi",
#endif
#ifdef __BMI2__
    "bmi2",
#endif
#ifdef __AVX__
    "avx",
#endif
#ifdef __XOP__
    "xop",
#endif
#ifdef __FMA4__
    "fma4",
#endif
#ifdef __FMA__
    "fma",
#endif
#ifdef __AVX2__
    "avx2",
#endif
#ifdef __AVX512F__
    "avx512f",
#endif
#ifdef __AVX512CD__
    "avx512cd",
#endif
#ifdef __AVX512BW__
    "avx512bw",
#endif
#ifdef __AVX512DQ__
    "avx512dq",
#endif
#ifdef __AVX512VL__
    "avx512vl",
#endif
#ifdef __AVX512VBMI__
    "avx512vbmi",
#endif
#ifdef __AVX512VNNI__
    "avx512vnni",
#endif
#ifdef __ARM_FEATURE_ATOMICS
    "atomics",
#endif
#ifdef __ARM_FEATURE_DOTPROD
    "asimddp",
#endif
#ifdef __ARM_FEATURE_SVE
    "sve",
#endif
#ifdef __ARM_FEATURE_SVE2
    "sve2",
#endif
    NULL};
