/* bisection-restart in which one bit of what a rank reads is wrong, by BX_FLIP as flip_received.c
 * has it: of what the file system gives to the rank, which in a collective read may be data of
 * others (routine `read()`), or of what MPI's reading routines leave in its memory (`File_read`).
 * Only words of the array are flipped, which are gathered when they are on disk, and none of the
 * formats of files. */
#include "../restart/io.h"
#include "flip_received.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- the array ---- */

static uint64_t *words; /* [count] of all ranks, ascending, while files are read */
static int count;

static int compare(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

static void gather(const bx_io *io)
{
    int mine = (int)io->words, *counts = malloc(2 * (size_t)io->ranks * sizeof *counts),
        *places = counts + io->ranks;
    PMPI_Allgather(&mine, 1, MPI_INT, counts, 1, MPI_INT, io->comm);
    count = 0;
    for (int rank = 0; rank < io->ranks; count += counts[rank++]) places[rank] = count;
    words = malloc((size_t)count * sizeof *words);
    PMPI_Allgatherv(io->mine, mine, MPI_UINT64_T, words, counts, places, MPI_UINT64_T, io->comm);
    qsort(words, (size_t)count, sizeof *words, compare);
    free(counts);
}

bool bx_flip_is_data(uint64_t word)
{
    return words && bsearch(&word, words, (size_t)count, sizeof *words, compare);
}

double __real_bx_io_end_phase(bx_io *io, int phase, double *start);
double __wrap_bx_io_end_phase(bx_io *io, int phase, double *start);
double __wrap_bx_io_end_phase(bx_io *io, int phase, double *start)
{
    if (phase == BX_IO_READ) {
        free(words);
        words = NULL;
    }
    double seconds = __real_bx_io_end_phase(io, phase, start);
    if (phase == BX_IO_DROP) gather(io);
    return seconds;
}

/* ---- what reads ---- */

#define REAL(name)                                                                                 \
    static __typeof__(&name) real;                                                                 \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name)

static ssize_t was_read(const struct iovec *parts, int number, ssize_t bytes)
{
    ssize_t left = words ? bytes : 0;
    for (int i = 0; i < number && left > 0; i++) {
        ssize_t part = left < (ssize_t)parts[i].iov_len ? left : (ssize_t)parts[i].iov_len;
        bx_flip_received("read()", 1, parts[i].iov_base, (int)part, MPI_BYTE);
        left -= part;
    }
    return bytes;
}

#define READ(name, parameters, arguments)                                                          \
    ssize_t name parameters                                                                        \
    {                                                                                              \
        REAL(name);                                                                                \
        ssize_t bytes = real arguments;                                                            \
        return was_read(&(struct iovec){buffer, size}, 1, bytes);                                  \
    }
#define READ_PARTS(name, parameters, arguments)                                                    \
    ssize_t name parameters                                                                        \
    {                                                                                              \
        REAL(name);                                                                                \
        return was_read(parts, number, real arguments);                                            \
    }
READ(read, (int file, void *buffer, size_t size), (file, buffer, size))
READ(pread, (int file, void *buffer, size_t size, off_t at), (file, buffer, size, at))
READ(pread64, (int file, void *buffer, size_t size, off64_t at), (file, buffer, size, at))
READ_PARTS(readv, (int file, const struct iovec *parts, int number), (file, parts, number))
READ_PARTS(preadv, (int file, const struct iovec *parts, int number, off_t at),
           (file, parts, number, at))
READ_PARTS(preadv64, (int file, const struct iovec *parts, int number, off64_t at),
           (file, parts, number, at))

#define FILE_READ(name)                                                                            \
    int name(MPI_File file, MPI_Offset at, void *buffer, int number, MPI_Datatype type,            \
             MPI_Status *status)                                                                   \
    {                                                                                              \
        REAL(name);                                                                                \
        int code = real(file, at, buffer, number, type, status);                                   \
        bx_flip_received("File_read", 1, buffer, number, type);                                    \
        return code;                                                                               \
    }
FILE_READ(PMPI_File_read_at)
FILE_READ(PMPI_File_read_at_all)
