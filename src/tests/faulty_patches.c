/* The kernel patches with faults on purpose, as BX_FAULT says, on rank 0, in call number
 * BX_FAULT_FROM of block BX_FAULT_BLOCK of each method; block 0 is that of the verification:
 *
 *   byte, header    a byte of a message is another: of an atom, of the header
 *   lose, double    a message is not sent, is sent twice
 *   stray           a message is sent that nobody expects, with tag 999
 *   skip            two patches do not act upon each other
 *   force           a force is another
 *
 * A block that begins before the sends of the one before are complete is ended.
 * BX_TAG_UB=N: tags go up to N.
 *
 * The linker puts these functions in the place of the kernel's calls. */
#include "faulty.h"
#include "messages.h"
#include "verify.h"

enum { METHODS = 16 };

static struct {
    const bx_messages *of;
    long blocks; /* begun */
} methods[METHODS];
static long block = -1, sent,
            computed; /* of the method at work; calls since the block's beginning */

static bool now(const char *fault, long call)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank == 0 && faulty(fault) && block == faulty_number("BX_FAULT_BLOCK") &&
           call == faulty_number("BX_FAULT_FROM");
}

void __real_bx_messages_begin(bx_messages *m);
void __wrap_bx_messages_begin(bx_messages *m);
void __wrap_bx_messages_begin(bx_messages *m)
{
    int i = 0;
    while (methods[i].of && methods[i].of != m) i++;
    for (int n = 0; n < m->send_count; n++)
        if (m->sends[n].request != MPI_REQUEST_NULL) MPI_Abort(MPI_COMM_WORLD, 5);
    methods[i].of = m;
    block = methods[i].blocks++;
    sent = computed = 0;
    __real_bx_messages_begin(m);
}

/* Copies are sent, as the caller may change the words before; they are never freed. */
static void *copy_of(const void *words, int count)
{
    void *copy = malloc((size_t)count * sizeof(uint64_t));
    memcpy(copy, words, (size_t)count * sizeof(uint64_t));
    return copy;
}

int __real_MPI_Isend(const void *words, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm,
                     MPI_Request *request);
int __wrap_MPI_Isend(const void *words, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm,
                     MPI_Request *request);
int __wrap_MPI_Isend(const void *words, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm,
                     MPI_Request *request)
{
    unsigned char *copy = copy_of(words, n);
    long call = sent++;
    if (now("lose", call)) {
        *request = MPI_REQUEST_NULL;
        return MPI_SUCCESS;
    }
    if (now("byte", call)) copy[(n - 1) * 8] ^= 1;
    if (now("header", call)) copy[3] ^= 0x10;
    if (now("double", call) || now("stray", call)) {
        __real_MPI_Isend(copy, n, t, to, now("stray", call) ? 999 : tag, comm, request);
        MPI_Request_free(request);
    }
    return __real_MPI_Isend(copy, n, t, to, tag, comm, request);
}

int __real_MPI_Comm_get_attr(MPI_Comm comm, int key, void *value, int *is_set);
int __wrap_MPI_Comm_get_attr(MPI_Comm comm, int key, void *value, int *is_set);
int __wrap_MPI_Comm_get_attr(MPI_Comm comm, int key, void *value, int *is_set)
{
    static int most;
    int code = __real_MPI_Comm_get_attr(comm, key, value, is_set);
    most = (int)faulty_number("BX_TAG_UB");
    if (key == MPI_TAG_UB && most > 0) *(int **)value = &most;
    return code;
}

double __real_bx_pairs_compute(const bx_pairs *pairs, double cutoff, int64_t na, const double *xa,
                               int64_t nb, const double *xb, const double shift[3], double *fa,
                               double *fb);
double __wrap_bx_pairs_compute(const bx_pairs *pairs, double cutoff, int64_t na, const double *xa,
                               int64_t nb, const double *xb, const double shift[3], double *fa,
                               double *fb);
double __wrap_bx_pairs_compute(const bx_pairs *pairs, double cutoff, int64_t na, const double *xa,
                               int64_t nb, const double *xb, const double shift[3], double *fa,
                               double *fb)
{
    double energy = __real_bx_pairs_compute(pairs, cutoff, na, xa, nb, xb, shift, fa, fb);
    if (energy == 0) return energy; /* no two atoms act upon each other */
    long call = computed++;
    if (now("force", call)) fa[0] += 1e-9;
    if (!now("skip", call)) return energy;
    memset(fa, 0, 3 * (size_t)na * sizeof *fa);
    if (xa != xb) memset(fb, 0, 3 * (size_t)nb * sizeof *fb);
    return 0;
}
