/* An MPI library that moves data as late as the standard allows: what a request receives is in its
 * place when the request is complete, what a get brings when its window is flushed.  Linked in
 * place of the library's own routines, below the wrappers of common/profile_c.c. */
#include "bx.h"
#include "fake_device.h"

#include <stdlib.h>
#include <string.h>

/* ---- receives ---- */

typedef struct receive {
    MPI_Request request;
    void *to, *arrives;
    size_t bytes;
    struct receive *next;
} receive;
static receive *receives;

/* Moves what a request has received. */
static void deliver(MPI_Request request)
{
    for (receive **at = &receives; *at; at = &(*at)->next) {
        receive *r = *at;
        if (r->request != request) continue;
        memcpy(fake_device_reach(r->to), r->arrives, r->bytes);
        *at = r->next;
        BX_FREE(r->arrives, r);
        return;
    }
}

int __real_PMPI_Irecv(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int __wrap_PMPI_Irecv(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
int __wrap_PMPI_Irecv(void *to, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                      MPI_Request *request)
{
    MPI_Aint low, extent;
    int size;
    PMPI_Type_get_extent(type, &low, &extent);
    PMPI_Type_size(type, &size);
    if (extent != size || source == MPI_PROC_NULL) /* with gaps, or nothing */
        return __real_PMPI_Irecv(to, count, type, source, tag, comm, request);
    receive *r = bx_memory_alloc(1, sizeof *r);
    *r = (receive){.to = to, .bytes = (size_t)count * (size_t)size, .next = receives};
    r->arrives = bx_memory_alloc(1, r->bytes + 1);
    memcpy(r->arrives, fake_device_reach(to), r->bytes); /* a shorter message leaves the rest */
    int code = __real_PMPI_Irecv(r->arrives, count, type, source, tag, comm, request);
    r->request = *request;
    receives = r;
    return code;
}

/* Waits, and delivers what the requests that have become null had received. */
#define WAITS(name, count, parameters, arguments)                                                  \
    int __real_PMPI_##name parameters;                                                             \
    int __wrap_PMPI_##name parameters;                                                             \
    int __wrap_PMPI_##name parameters                                                              \
    {                                                                                              \
        size_t bytes = (size_t)(count) * sizeof *q;                                                \
        MPI_Request *before = bx_memory_alloc(1, bytes + 1);                                       \
        memcpy(before, q, bytes);                                                                  \
        int code = __real_PMPI_##name arguments;                                                   \
        for (int k = 0; k < (count); k++)                                                          \
            if (q[k] != before[k]) deliver(before[k]);                                             \
        free(before);                                                                              \
        return code;                                                                               \
    }
WAITS(Wait, 1, (MPI_Request * q, MPI_Status *s), (q, s))
WAITS(Waitall, n, (int n, MPI_Request *q, MPI_Status *s), (n, q, s))
WAITS(Waitany, n, (int n, MPI_Request *q, int *i, MPI_Status *s), (n, q, i, s))
WAITS(Waitsome, n, (int n, MPI_Request *q, int *m, int *i, MPI_Status *s), (n, q, m, i, s))
WAITS(Test, 1, (MPI_Request * q, int *f, MPI_Status *s), (q, f, s))
WAITS(Testsome, n, (int n, MPI_Request *q, int *m, int *i, MPI_Status *s), (n, q, m, i, s))

/* ---- gets ---- */

typedef struct get {
    void *to;
    int count, target, there;
    MPI_Datatype type, type_there;
    MPI_Aint place;
    MPI_Win window;
    struct get *next;
} get;
static get *gets;

int __real_PMPI_Get(void *, int, MPI_Datatype, int, MPI_Aint, int, MPI_Datatype, MPI_Win);
int __wrap_PMPI_Get(void *, int, MPI_Datatype, int, MPI_Aint, int, MPI_Datatype, MPI_Win);
int __wrap_PMPI_Get(void *to, int count, MPI_Datatype type, int target, MPI_Aint place, int there,
                    MPI_Datatype type_there, MPI_Win window)
{
    get *g = bx_memory_alloc(1, sizeof *g);
    *g = (get){to, count, target, there, type, type_there, place, window, gets};
    gets = g;
    return MPI_SUCCESS;
}

int __real_PMPI_Win_flush(int, MPI_Win);
int __wrap_PMPI_Win_flush(int, MPI_Win);
int __wrap_PMPI_Win_flush(int target, MPI_Win window)
{
    for (get **at = &gets; *at;) {
        get *g = *at;
        if (g->window != window || g->target != target) {
            at = &g->next;
            continue;
        }
        __real_PMPI_Get(g->to, g->count, g->type, g->target, g->place, g->there, g->type_there,
                        g->window);
        *at = g->next;
        free(g);
    }
    return __real_PMPI_Win_flush(target, window);
}
