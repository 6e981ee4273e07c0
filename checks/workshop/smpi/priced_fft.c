/* Transforms by FFTW, which the linker puts here (--wrap): each is charged 5 n log2 n flop per line
 * of n points and dimension, as is usual, and not computed where the run is hollow. */
#include "charge.h"

#include "at_once.h"
#include "platform.h"

#include <fftw3.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

typedef fftw_complex *field;
typedef const int *lengths;

#define REPLACED(result, name, parameters)                                                         \
    result __real_##name parameters;                                                               \
    result __wrap_##name parameters

static struct price {
    const void *plan;
    double flop;
} *prices; /* the newest of a plan counts: FFTW uses addresses again */
static size_t count;

static fftw_plan priced(fftw_plan plan, double flop)
{
    size_t i = 0;
    while (i < count && prices[i].plan != plan) i++;
    if (i == count) prices = bx_memory_grow(prices, ++count, sizeof *prices);
    prices[i] = (struct price){plan, flop};
    return plan;
}

/* Whether the transform is to be computed. */
static bool charge(const void *plan, bool by_all_threads)
{
    for (size_t i = 0; i < count; i++)
        if (prices[i].plan == plan) bx_charge(BX_FFT, prices[i].flop, by_all_threads);
    return !bx_charge_is_hollow();
}

REPLACED(fftw_plan, fftw_plan_dft_3d,
         (int n0, int n1, int n2, field in, field out, int sign, unsigned flags))
{
    double points = (double)n0 * n1 * n2;
    return priced(__real_fftw_plan_dft_3d(n0, n1, n2, in, out, sign, flags),
                  5 * points * log2(points));
}

REPLACED(fftw_plan, fftw_plan_many_dft,
         (int rank, lengths n, int many, field in, lengths in_size, int in_stride, int in_distance,
          field out, lengths out_size, int out_stride, int out_distance, int sign, unsigned flags))
{
    double points = 1;
    for (int i = 0; i < rank; i++) points *= n[i];
    return priced(__real_fftw_plan_many_dft(rank, n, many, in, in_size, in_stride, in_distance, out,
                                            out_size, out_stride, out_distance, sign, flags),
                  5 * many * points * log2(points));
}

#define REAL_TRANSFORM(name, in_type, out_type)                                                    \
    REPLACED(fftw_plan, fftw_plan_many_##name,                                                     \
             (int rank, lengths n, int many, in_type in, lengths in_size, int in_stride,           \
              int in_distance, out_type out, lengths out_size, int out_stride, int out_distance,   \
              unsigned flags))                                                                     \
    {                                                                                              \
        return priced(__real_fftw_plan_many_##name(rank, n, many, in, in_size, in_stride,          \
                                                   in_distance, out, out_size, out_stride,         \
                                                   out_distance, flags),                           \
                      2.5 * many * n[0] * log2(n[0]));                                             \
    }                                                                                              \
    REPLACED(void, fftw_execute_##name, (const fftw_plan plan, in_type in, out_type out))          \
    {                                                                                              \
        if (charge(plan, true)) __real_fftw_execute_##name(plan, in, out);                         \
    }

/* Of real lines: half of it. */
REAL_TRANSFORM(dft_r2c, double *, field)
REAL_TRANSFORM(dft_c2r, field, double *)

/* On arrays of the caller: the kernels' threads share such transforms. */
REPLACED(void, fftw_execute_dft, (const fftw_plan plan, field in, field out))
{
    if (charge(plan, true)) __real_fftw_execute_dft(plan, in, out);
}

/* On the planned arrays: the yardstick of one core. */
REPLACED(void, fftw_execute, (const fftw_plan plan))
{
    if (charge(plan, false)) __real_fftw_execute(plan);
}

/* Fields of a hollow run: nobody looks at them, so that those of all ranks are at one place, unless
 * memory is counted (heap.c). */
static char *const SHARED = (char *)(UINT64_C(1) << 44);
static const size_t SHARED_SIZE = (size_t)1 << 40;

static bool are_shared(void) { return bx_charge_is_hollow() && !bx_at_once(); }

static field share(size_t bytes)
{
    static size_t used; /* of this rank, whose fields are apart: FFTW plans for their places */
    size_t at = used;
    used += bx_memory_whole_pages(bytes);
    mmap(SHARED, SHARED_SIZE, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0); /* once */
    return used <= SHARED_SIZE ? (field)(SHARED + at) : NULL;
}

REPLACED(field, fftw_alloc_complex, (size_t elements))
{
    size_t bytes = elements * sizeof(fftw_complex);
    if (are_shared()) return share(bytes);
    return bx_platform_count(__real_fftw_alloc_complex(elements + 1), bytes);
}

REPLACED(void, fftw_free, (void *memory))
{
    if (!are_shared()) __real_fftw_free(bx_platform_forget(memory));
}
