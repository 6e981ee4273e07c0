/* All-to-all exchanges as libraries did them: short blocks of equal length are stored and forwarded
 * (J. Bruck et al., IEEE Trans. Parallel Distrib. Syst. 8, 1143 (1997)), and what a rank copies
 * within itself is charged, which SimGrid's own algorithms do free of charge. */
#include "charge.h"

#include "platform.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 32001, FEWEST = 8 /* ranks, as MPICH has it */ };

static void copy(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
    bx_charge(BX_COPY, (double)bytes, false);
}

/* Rank r ends with what is for it: in turn k, blocks whose distance has bit k go 2^k ranks on. */
static int store_and_forward(const char *send, char *receive, size_t block, MPI_Comm comm)
{
    int ranks, me, error = MPI_SUCCESS;
    PMPI_Comm_size(comm, &ranks);
    PMPI_Comm_rank(comm, &me);
    size_t n = (size_t)ranks, first = (size_t)me;
    char *held = bx_memory_alloc(3 * n * block, 1), *out = held + n * block, *in = out + n * block;
    copy(held, send + first * block, (n - first) * block); /* by distance */
    copy(held + (n - first) * block, send, first * block);
    for (size_t bit = 1; bit < n && error == MPI_SUCCESS; bit <<= 1) {
        size_t count = 0;
        for (size_t k = bit; k < n; k++)
            if (k & bit) copy(out + count++ * block, held + k * block, block);
        bx_charge_pay();
        error = PMPI_Sendrecv(out, (int)(count * block), MPI_BYTE, (int)((first + bit) % n), TAG,
                              in, (int)(count * block), MPI_BYTE, (int)((first + n - bit) % n), TAG,
                              comm, MPI_STATUS_IGNORE);
        count = 0;
        for (size_t k = bit; k < n; k++)
            if (k & bit) copy(held + k * block, in + count++ * block, block);
    }
    for (size_t k = 0; k < n; k++)
        copy(receive + (first + n - k) % n * block, held + k * block, block);
    bx_charge_pay();
    free(held);
    return error;
}

/* Whether elements lie one behind the other. */
static bool is_dense(MPI_Datatype type, size_t *bytes)
{
    MPI_Aint low, extent;
    int size;
    PMPI_Type_size(type, &size);
    PMPI_Type_get_extent(type, &low, &extent);
    *bytes = (size_t)size;
    return low == 0 && extent == size;
}

int __real_PMPI_Alltoall(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
int __wrap_PMPI_Alltoall(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
int __wrap_PMPI_Alltoall(const void *send, int count, MPI_Datatype type, void *receive,
                         int receive_count, MPI_Datatype receive_type, MPI_Comm comm)
{
    size_t sent = 0, received = 0;
    int ranks;
    PMPI_Comm_size(comm, &ranks);
    bool dense = send != MPI_IN_PLACE && is_dense(type, &sent) && is_dense(receive_type, &received);
    sent *= (size_t)count;
    if (dense && ranks >= FEWEST && sent > 0 && sent == received * (size_t)receive_count &&
        (double)sent <= bx_platform_number("store_forward"))
        return store_and_forward(send, receive, sent, comm);
    bx_charge(BX_COPY, (double)sent, false);
    bx_charge_pay();
    return __real_PMPI_Alltoall(send, count, type, receive, receive_count, receive_type, comm);
}

int __real_PMPI_Alltoallv(const void *, const int *, const int *, MPI_Datatype, void *, const int *,
                          const int *, MPI_Datatype, MPI_Comm);
int __wrap_PMPI_Alltoallv(const void *, const int *, const int *, MPI_Datatype, void *, const int *,
                          const int *, MPI_Datatype, MPI_Comm);
int __wrap_PMPI_Alltoallv(const void *send, const int *counts, const int *places, MPI_Datatype type,
                          void *receive, const int *receive_counts, const int *receive_places,
                          MPI_Datatype receive_type, MPI_Comm comm)
{
    size_t bytes = 0;
    int me;
    PMPI_Comm_rank(comm, &me);
    if (send != MPI_IN_PLACE && is_dense(type, &bytes))
        bx_charge(BX_COPY, (double)bytes * counts[me], false);
    bx_charge_pay();
    return __real_PMPI_Alltoallv(send, counts, places, type, receive, receive_counts,
                                 receive_places, receive_type, comm);
}
