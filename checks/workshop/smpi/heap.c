/* What a rank takes: the memory that it allocates at most, and its work, in basic blocks.  Of its
 * own code alone, whose calls the linker (--wrap) and the compiler (-fsanitize-coverage) put here:
 * SimGrid, shared libraries and MPI's windows are not counted.  Where BX_HEAP names a file, rank 0
 * writes there the most bytes and the most blocks of any rank, and the seconds that all ranks
 * together have computed. */
#include "platform.h"

#include <malloc.h>
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* SimGrid's own: s that all ranks together have computed, outside MPI.  Version 4 hides it. */
extern double _ZN7simgrid4smpi5utils18total_benched_timeE __attribute__((weak));

static int64_t allocated, most; /* bytes of this rank: now, at most */
static int64_t blocks;

__attribute__((visibility("hidden"))) void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) { blocks++; }

/* At the end of counted memory are its size and a mark, as C's library allocates some that is freed
 * here. */
typedef struct {
    size_t size;
    uint64_t mark;
} end;

static const uint64_t MARK = UINT64_C(0x9e3779b97f4a7c15);

static end *end_of(void *memory)
{
    return (end *)((char *)memory + malloc_usable_size(memory)) - 1;
}

void *bx_platform_count(void *memory, size_t size)
{
    if (!memory) return NULL;
    *end_of(memory) = (end){size, MARK ^ (uintptr_t)memory};
    allocated += (int64_t)size;
    if (allocated > most) most = allocated;
    return memory;
}

void *bx_platform_forget(void *memory)
{
    if (!memory || end_of(memory)->mark != (MARK ^ (uintptr_t)memory)) return memory;
    allocated -= (int64_t)end_of(memory)->size;
    end_of(memory)->mark = 0;
    return memory;
}

void *__real_malloc(size_t), *__real_calloc(size_t, size_t), *__real_realloc(void *, size_t);
void *__real_aligned_alloc(size_t, size_t);
void __real_free(void *);

void *__wrap_malloc(size_t size)
{
    return bx_platform_count(__real_malloc(size + sizeof(end)), size);
}
void *__wrap_calloc(size_t n, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(n, size, &bytes)
               ? NULL
               : bx_platform_count(__real_calloc(1, bytes + sizeof(end)), bytes);
}
void *__wrap_realloc(void *memory, size_t size)
{
    return bx_platform_count(__real_realloc(bx_platform_forget(memory), size + sizeof(end)), size);
}
void *__wrap_aligned_alloc(size_t to, size_t size)
{
    return bx_platform_count(__real_aligned_alloc(to, (size + sizeof(end) + to - 1) / to * to),
                             size);
}
void __wrap_free(void *memory) { __real_free(bx_platform_forget(memory)); }

int __real_MPI_Finalize(void);
int __wrap_MPI_Finalize(void)
{
    const char *path = getenv("BX_HEAP");
    int rank = -1;
    double mine[] = {(double)most, (double)blocks}, largest[2];
    if (path) {
        PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
        PMPI_Reduce(mine, largest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    }
    FILE *file = rank == 0 ? fopen(path, "w") : NULL;
    if (file)
        fprintf(file, "%.0f %.0f %g\n", largest[0], largest[1],
                &_ZN7simgrid4smpi5utils18total_benched_timeE
                    ? _ZN7simgrid4smpi5utils18total_benched_timeE
                    : NAN);
    if (file) fclose(file);
    return __real_MPI_Finalize();
}
