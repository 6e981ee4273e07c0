/* The parts of bisection-noise (all local). */
#pragma once

#include "bx.h"
#include "noise.def"

#include <omp.h>

/* The number of the calling thread: a core is measured by a thread of its own. */
static inline int bx_noise_thread(void) { return omp_get_thread_num(); }

/* Durations of the quanta of one core. */
typedef struct {
    double least, most, sum; /* s */
    double count, wrong;     /* quanta; those whose work came out wrong */
    int thread;              /* that measured them last */
} bx_noise_quanta;

/* Measures `count` quanta on each of `threads` cores and adds them to quanta[threads]. */
void bx_noise_measure_quanta(bx_noise_quanta *quanta, int threads, int64_t count);

/* Memory that the cores of a rank copy, a part for each. */
typedef struct {
    uint64_t *from, *to; /* [threads][words] */
    size_t words;        /* of a core */
    int threads;
    uint64_t seed, generation; /* of the content: each copy has its own */
    int *copied_by;            /* [threads] the thread that copied a part; -1: none */
} bx_noise_memory;

/* Fills `from`, each part on the core that copies it.  The memory is the caller's. */
void bx_noise_fill(bx_noise_memory *memory);
/* Gives the next copy a content of its own, and clears where that must arrive. */
void bx_noise_renew(bx_noise_memory *memory);
/* Copies the parts of the first `threads` cores. */
void bx_noise_copy(bx_noise_memory *memory, int threads);
/* Returns how many bytes are wrong: of the first `threads` parts, which must have arrived, and of
 * the others, which must not. */
double bx_noise_wrong_bytes(const bx_noise_memory *memory, int threads);
