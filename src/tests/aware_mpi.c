/* Preloaded, it makes aware an MPI library that knows nothing of devices: it gives it the memory
 * that can be reached for that of fake_device.h, in every routine of common/profile.def and in some
 * others.  Kernels define MPI_ of these routines and call PMPI_, so it stands at both.
 *
 * AWARE_SAYS: yes (the default), no; cray, mvapich, it is theirs; kinds, only by
 * mpi_memory_alloc_kinds; lie, yes, but it is not. */
#include "fake_device.h"

#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool says(const char *words)
{
    const char *chosen = getenv("AWARE_SAYS");
    return strcmp(chosen ? chosen : "yes", words) == 0;
}
int MPIX_Query_cuda_support(void) { return says("yes") || says("lie") || says("mvapich"); }
int MPIX_Query_rocm_support(void)
{
    return says("yes") || says("lie");
} /* Open MPI's name; MPICH's: */
int MPIX_Query_hip_support(void) { return says("yes") || says("lie"); }
int MPI_Get_library_version(char *text, int *length)
{
    int code = PMPI_Get_library_version(text, length);
    if (says("cray"))
        *length = (int)strlen(strcpy(text, "MPI VERSION    : CRAY MPICH version 8.1.29"));
    if (says("mvapich")) *length = (int)strlen(strcpy(text, "MVAPICH2-GDR Version : 2.3.7"));
    return code;
}
#ifdef BX_MPI_4
int MPI_Info_get_string(MPI_Info info, const char *key, int *length, char *value, int *there)
{
    int code = PMPI_Info_get_string(info, key, length, value, there);
    if (says("kinds")) strcpy(value, "system,mpi:alloc,cuda:device,cudas");
    return code;
}
#endif

static void *reach(const void *memory)
{
    return says("lie") ? (void *)memory : fake_device_reach(memory);
}

/* Buffers are called b, rb and cb in profile.def; these stand for those that a routine lacks. */
static const void *b, *cb;
static void *rb;

#define CBUF const void *
#define BUF void *
#define INT int
#define INTS const int *
#define OUT int *
#define TYPE MPI_Datatype
#define OP MPI_Op
#define COMM MPI_Comm
#define REQUEST MPI_Request *
#define STATUS MPI_Status *
#define GROUP MPI_Group
#define AINT MPI_Aint
#define WIN MPI_Win
#define BARE(...) __VA_ARGS__

#define WRAP(name, parameters, arguments)                                                          \
    WRAP_AT(MPI_##name, name, parameters, arguments)                                               \
    WRAP_AT(PMPI_##name, name, parameters, arguments)
#define WRAP_AT(symbol, name, parameters, arguments)                                               \
    int symbol parameters                                                                          \
    {                                                                                              \
        static __typeof__(&PMPI_##name) real;                                                      \
        if (!real) *(void **)&real = dlsym(RTLD_NEXT, "PMPI_" #name);                              \
        b = reach(b), cb = reach(cb), rb = reach(rb);                                              \
        return real arguments;                                                                     \
    }
#define P2P(name, small, ...) P2P_(name, __VA_ARGS__)
#define P2P_(name, parameters, arguments, sends) WRAP(name, parameters, arguments)
#define OPENS P2P
#define RMA P2P
#define BARRIER(...)
#define WAITING(...)
#define COLLECTIVE(name, small, ...) COLLECTIVE_(name, small, __VA_ARGS__)
#define COLLECTIVE_(name, small, parameters, arguments, sends)                                     \
    WRAP(name, parameters, arguments)                                                              \
    WRAP(I##small, (BARE parameters, MPI_Request * q), (BARE arguments, q))

#include "profile.def"

COLLECTIVE(Alltoallw, alltoallw,
           (CBUF b, INTS n, INTS d, const TYPE *t, BUF rb, INTS rn, INTS rd, const TYPE *rt,
            COMM comm),
           (b, n, d, t, rb, rn, rd, rt, comm), )
COLLECTIVE(Neighbor_alltoallv, neighbor_alltoallv,
           (CBUF b, INTS n, INTS d, TYPE t, BUF rb, INTS rn, INTS rd, TYPE rt, COMM comm),
           (b, n, d, t, rb, rn, rd, rt, comm), )
P2P(Send_init, send_init, ISEND, )
P2P(Recv_init, recv_init, (BUF b, INT n, TYPE t, INT peer, INT tag, COMM comm, REQUEST q),
    (b, n, t, peer, tag, comm, q), )
P2P(Win_create, win_create, (BUF b, AINT n, INT unit, MPI_Info info, COMM comm, WIN *win),
    (b, n, unit, info, comm, win), )
#ifdef BX_MPI_4
P2P(Allreduce_init, allreduce_init,
    (CBUF b, BUF rb, INT n, TYPE t, OP op, COMM comm, MPI_Info info, REQUEST q),
    (b, rb, n, t, op, comm, info, q), )
P2P(Alltoallv_init, alltoallv_init,
    (CBUF b, INTS n, INTS d, TYPE t, BUF rb, INTS rn, INTS rd, TYPE rt, COMM comm, MPI_Info info,
     REQUEST q),
    (b, n, d, t, rb, rn, rd, rt, comm, info, q), )
P2P(Psend_init, psend_init,
    (CBUF b, INT parts, MPI_Count n, TYPE t, INT peer, INT tag, COMM comm, MPI_Info info,
     REQUEST q),
    (b, parts, n, t, peer, tag, comm, info, q), )
P2P(Precv_init, precv_init,
    (BUF b, INT parts, MPI_Count n, TYPE t, INT peer, INT tag, COMM comm, MPI_Info info, REQUEST q),
    (b, parts, n, t, peer, tag, comm, info, q), )
#endif
