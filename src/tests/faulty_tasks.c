/* The kernel tasks with faults on purpose, in call number BX_FAULT_FROM of each rank, as BX_FAULT
 * says:
 *
 *   lose, repeat    a task is left out, is computed twice
 *   get             a bit of a block that was got is another
 *   drop, again     blocks are not added, are added twice
 *   skip, same      the counter moves by two, stays
 *   other           the manager's answer is the next number
 *
 * The files of the kernel are compiled, or linked, to call these. */
#include "../tasks/fock.h"
#include "faulty.h"

void __real_bx_fock_run(bx_fock *f, int64_t task);
void __wrap_bx_fock_run(bx_fock *f, int64_t task);

/* Whether this call is to be faulty, of those that `fault` may make so. */
static bool now(const char *fault, long *calls)
{
    return faulty(fault) && (*calls)++ == faulty_number("BX_FAULT_FROM");
}

void __wrap_bx_fock_run(bx_fock *f, int64_t task)
{
    static long calls;
    if (!now("lose", &calls)) __real_bx_fock_run(f, task);
    if (now("repeat", &calls)) __real_bx_fock_run(f, task);
}

static unsigned char *last_got;

int bx_faulty_get(void *b, int n, MPI_Datatype t, int target, MPI_Aint d, int tn, MPI_Datatype tt,
                  MPI_Win win)
{
    last_got = b;
    return MPI_Get(b, n, t, target, d, tn, tt, win);
}

int bx_faulty_flush(int target, MPI_Win win)
{
    static long calls;
    int code = MPI_Win_flush(target, win);
    if (last_got && now("get", &calls)) last_got[7] ^= 0x80;
    return code;
}

int bx_faulty_accumulate(const void *b, int n, MPI_Datatype t, int target, MPI_Aint d, int tn,
                         MPI_Datatype tt, MPI_Op op, MPI_Win win)
{
    static long calls;
    if (now("again", &calls)) MPI_Accumulate(b, n, t, target, d, tn, tt, op, win);
    if (now("drop", &calls)) return MPI_SUCCESS;
    return MPI_Accumulate(b, n, t, target, d, tn, tt, op, win);
}

int bx_faulty_fetch(const void *b, void *rb, MPI_Datatype t, int target, MPI_Aint d, MPI_Op op,
                    MPI_Win win)
{
    static long calls;
    int64_t added;
    memcpy(&added, b, sizeof added);
    if (now("skip", &calls)) added *= 2;
    if (now("same", &calls)) added = 0;
    int code = MPI_Fetch_and_op(&added, rb, t, target, d, op, win);
    MPI_Win_flush(target, win); /* `added` ends with this call */
    return code;
}

int bx_faulty_receive(void *b, int n, MPI_Datatype t, int from, int tag, MPI_Comm comm,
                      MPI_Status *status)
{
    static long calls;
    int code = MPI_Recv(b, n, t, from, tag, comm, status);
    if (n > 0 && now("other", &calls)) ++*(int64_t *)b;
    return code;
}
