/* The alltoall sweep on collectives broken on purpose, on the last rank and from call BX_FAULT_FROM
 * on (BX_FAULT_ONCE: in that call alone), as BX_FAULT says: `byte` (one is lost), `swap` (two words
 * of a block change places), `blocks` (the first words of two blocks do), `skip` (nothing arrives).
 * The verification is under test. */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void swap(uint64_t *a, uint64_t *b)
{
    uint64_t kept = *a;
    *a = *b;
    *b = kept;
}

/* What the last rank got, spoilt; `kept` is what it had before. */
static void spoil(uint64_t *received, const uint64_t *kept, int words, MPI_Comm comm)
{
    static int calls;
    const char *fault = getenv("BX_FAULT"), *from = getenv("BX_FAULT_FROM");
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (rank != size - 1 || !fault) return;
    int call = calls++, first = atoi(from);
    if (call < first || (getenv("BX_FAULT_ONCE") && call > first)) return;
    size_t count = (size_t)words * (size_t)size;
    if (strcmp(fault, "byte") == 0) received[count - 1] ^= 0x5a00;
    if (strcmp(fault, "swap") == 0) swap(&received[0], &received[1]);
    if (strcmp(fault, "blocks") == 0) swap(&received[0], &received[words]);
    if (strcmp(fault, "skip") == 0) memcpy(received, kept, count * sizeof *kept);
}

static uint64_t *copy(const uint64_t *received, int words, MPI_Comm comm)
{
    int size;
    MPI_Comm_size(comm, &size);
    size_t bytes = (size_t)words * (size_t)size * sizeof *received;
    return memcpy(malloc(bytes), received, bytes);
}

static void faulty_alltoall(const void *sent, int words, MPI_Datatype type, void *received,
                            int received_words, MPI_Datatype received_type, MPI_Comm comm)
{
    uint64_t *kept = copy(received, words, comm);
    MPI_Alltoall(sent, words, type, received, received_words, received_type, comm);
    spoil(received, kept, words, comm);
    free(kept);
}

static void faulty_alltoallv(const void *sent, const int *counts, const int *offsets,
                             MPI_Datatype type, void *received, const int *received_counts,
                             const int *received_offsets, MPI_Datatype received_type, MPI_Comm comm)
{
    uint64_t *kept = copy(received, counts[0], comm);
    MPI_Alltoallv(sent, counts, offsets, type, received, received_counts, received_offsets,
                  received_type, comm);
    spoil(received, kept, counts[0], comm);
    free(kept);
}

#define MPI_Alltoall faulty_alltoall
#define MPI_Alltoallv faulty_alltoallv
#include "../network/alltoall_sweep.c"
