/* All-to-all exchanges as libraries did them: short blocks of equal length are stored and forwarded
 * (J. Bruck et al., IEEE Trans. Parallel Distrib. Syst. 8, 1143 (1997)), and what a rank copies
 * within itself is charged, which SimGrid's own algorithms do free of charge. */
#include "at_once.h"
#include "charge.h"
#include "platform.h"

#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 32001, FEWEST = 8 /* ranks, as MPICH has it */ };

/* Whether other ranks of this node are in the communicator; ranks fill nodes in blocks. */
static bool shares_node(MPI_Comm comm)
{
    MPI_Group all, group;
    int ranks, me, near[3], world[3], per_node = (int)bx_platform_number("per_node");
    PMPI_Comm_size(comm, &ranks);
    PMPI_Comm_rank(comm, &me);
    near[0] = me;
    near[1] = (me + 1) % ranks;
    near[2] = (me + ranks - 1) % ranks;
    PMPI_Comm_group(comm, &group);
    PMPI_Comm_group(MPI_COMM_WORLD, &all);
    PMPI_Group_translate_ranks(group, 3, near, all, world);
    PMPI_Group_free(&group);
    PMPI_Group_free(&all);
    bool after = world[1] / per_node == world[0] / per_node,
         before = world[2] / per_node == world[0] / per_node;
    return ranks > 1 && (after || before);
}

/* B/s of copies in a piece. A message within a node is two of them, one after the other, at
 * intra_bandwidth: one is twice as fast, unless others take their share of the node's memory. */
static double copy_rate(MPI_Comm comm)
{
    double memory = bx_platform_number("memory");
    if (shares_node(comm)) memory /= bx_platform_number("per_node");
    return fmin(2 * bx_platform_number("intra_bandwidth"), memory);
}

/* Rank r ends with what is for it: in turn k, blocks whose distance has bit k go 2^k ranks on. */
static int store_and_forward(const char *send, char *receive, size_t block, MPI_Comm comm)
{
    int ranks, me, error = MPI_SUCCESS;
    PMPI_Comm_size(comm, &ranks);
    PMPI_Comm_rank(comm, &me);
    size_t n = (size_t)ranks, first = (size_t)me;
    char *held = bx_memory_alloc(3 * n * block, 1), *out = held + n * block, *in = out + n * block;
    memcpy(held, send + first * block, (n - first) * block); /* by distance */
    memcpy(held + (n - first) * block, send, first * block);
    double rate = copy_rate(comm);
    bx_charge_seconds((double)(2 * n * block) / rate); /* and at the end */
    for (size_t bit = 1; bit < n && error == MPI_SUCCESS; bit <<= 1) {
        size_t count = 0;
        for (size_t k = bit; k < n; k++)
            if (k & bit) memcpy(out + count++ * block, held + k * block, block);
        bx_charge_seconds((double)(2 * count * block) / rate); /* and after the turn */
        bx_charge_pay();
        error = PMPI_Sendrecv(out, (int)(count * block), MPI_BYTE, (int)((first + bit) % n), TAG,
                              in, (int)(count * block), MPI_BYTE, (int)((first + n - bit) % n), TAG,
                              comm, MPI_STATUS_IGNORE);
        count = 0;
        for (size_t k = bit; k < n; k++)
            if (k & bit) memcpy(held + k * block, in + count++ * block, block);
    }
    for (size_t k = 0; k < n; k++)
        memcpy(receive + (first + n - k) % n * block, held + k * block, block);
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

static bool is_at_once(const void *send) { return send != MPI_IN_PLACE && bx_at_once(); }

int __real_PMPI_Alltoall(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
int __wrap_PMPI_Alltoall(const void *send, int count, MPI_Datatype type, void *receive,
                         int receive_count, MPI_Datatype receive_type, MPI_Comm comm)
{
    size_t sent = 0, received = 0;
    int ranks;
    if (is_at_once(send))
        return bx_at_once_exchange(
            (bx_part){(char *)send, count, type, NULL, NULL, NULL},
            (bx_part){receive, receive_count, receive_type, NULL, NULL, NULL}, comm);
    PMPI_Comm_size(comm, &ranks);
    bool dense = send != MPI_IN_PLACE && is_dense(type, &sent) && is_dense(receive_type, &received);
    sent *= (size_t)count;
    if (dense && ranks >= FEWEST && sent > 0 && sent == received * (size_t)receive_count &&
        (double)sent <= bx_platform_number("store_forward"))
        return store_and_forward(send, receive, sent, comm);
    bx_charge_seconds((double)sent / copy_rate(comm));
    bx_charge_pay();
    return __real_PMPI_Alltoall(send, count, type, receive, receive_count, receive_type, comm);
}

int __real_PMPI_Alltoallv(const void *, const int *, const int *, MPI_Datatype, void *, const int *,
                          const int *, MPI_Datatype, MPI_Comm);
int __wrap_PMPI_Alltoallv(const void *send, const int *counts, const int *places, MPI_Datatype type,
                          void *receive, const int *receive_counts, const int *receive_places,
                          MPI_Datatype receive_type, MPI_Comm comm)
{
    size_t bytes = 0;
    int me;
    if (is_at_once(send))
        return bx_at_once_exchange(
            (bx_part){(char *)send, 0, type, counts, places, NULL},
            (bx_part){receive, 0, receive_type, receive_counts, receive_places, NULL}, comm);
    PMPI_Comm_rank(comm, &me);
    if (send != MPI_IN_PLACE && is_dense(type, &bytes))
        bx_charge_seconds((double)bytes * counts[me] / copy_rate(comm));
    bx_charge_pay();
    return __real_PMPI_Alltoallv(send, counts, places, type, receive, receive_counts,
                                 receive_places, receive_type, comm);
}

int __real_PMPI_Ialltoallv(const void *, const int *, const int *, MPI_Datatype, void *,
                           const int *, const int *, MPI_Datatype, MPI_Comm, MPI_Request *);
int __wrap_PMPI_Ialltoallv(const void *send, const int *counts, const int *places,
                           MPI_Datatype type, void *receive, const int *receive_counts,
                           const int *receive_places, MPI_Datatype receive_type, MPI_Comm comm,
                           MPI_Request *request)
{
    if (!is_at_once(send))
        return __real_PMPI_Ialltoallv(send, counts, places, type, receive, receive_counts,
                                      receive_places, receive_type, comm, request);
    *request = MPI_REQUEST_NULL;
    return __wrap_PMPI_Alltoallv(send, counts, places, type, receive, receive_counts,
                                 receive_places, receive_type, comm);
}

int __real_PMPI_Alltoallw(const void *, const int *, const int *, const MPI_Datatype *, void *,
                          const int *, const int *, const MPI_Datatype *, MPI_Comm);
int __wrap_PMPI_Alltoallw(const void *send, const int *counts, const int *places,
                          const MPI_Datatype *types, void *receive, const int *receive_counts,
                          const int *receive_places, const MPI_Datatype *receive_types,
                          MPI_Comm comm)
{
    if (!is_at_once(send))
        return __real_PMPI_Alltoallw(send, counts, places, types, receive, receive_counts,
                                     receive_places, receive_types, comm);
    return bx_at_once_exchange(
        (bx_part){(char *)send, 0, MPI_DATATYPE_NULL, counts, places, types},
        (bx_part){receive, 0, MPI_DATATYPE_NULL, receive_counts, receive_places, receive_types},
        comm);
}

/* SimGrid looks at all requests for each that ends: with 255 messages that is most of a simulation.
 * One after the other they end at the same time. */
int __wrap_PMPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    int error = MPI_SUCCESS;
    for (int i = 0; i < count; i++) {
        bool ignored = statuses == MPI_STATUSES_IGNORE;
        int ended = PMPI_Wait(&requests[i], ignored ? MPI_STATUS_IGNORE : &statuses[i]);
        if (ended != MPI_SUCCESS) error = ended;
    }
    return error;
}
