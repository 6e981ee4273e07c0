/* Your first kernel: the sum of a vector over all ranks, by a reduction or round a ring. */
#include "bx.h"

#include <stdlib.h>

/* The command line's numbers, with their defaults. */
static int64_t numbers = 1000;

typedef struct {
    MPI_Comm comm;
    int rank, ranks, count;
    double *mine, *moving, *arriving, *total; /* [count] */
} reduce;

static int setup(bx_run *run, void **state)
{
    if (numbers == 13) return bx_run_refuse(run, BX_USAGE, "--numbers 13: unlucky; take another");
    int code = bx_resources_claim_memory(run, 4 * 8 * (double)numbers, "--numbers");
    if (code != BX_OK) return code;
    reduce *r = bx_memory_alloc(1, sizeof *r);
    r->comm = bx_run_comm(run);
    MPI_Comm_rank(r->comm, &r->rank);
    MPI_Comm_size(r->comm, &r->ranks);
    r->count = (int)numbers;
    double **vectors[] = {&r->mine, &r->moving, &r->arriving, &r->total};
    for (int i = 0; i < 4; i++) *vectors[i] = bx_memory_alloc((size_t)numbers, sizeof(double));
    for (int i = 0; i < r->count; i++) r->mine[i] = r->rank + i;
    *state = r;
    return BX_OK;
}

static void by_allreduce(reduce *r)
{
    MPI_Allreduce(r->mine, r->total, r->count, MPI_DOUBLE, MPI_SUM, r->comm);
}

static void round_ring(reduce *r)
{
    int right = (r->rank + 1) % r->ranks, left = (r->rank + r->ranks - 1) % r->ranks;
    for (int i = 0; i < r->count; i++) r->total[i] = r->moving[i] = r->mine[i];
    for (int hop = 1; hop < r->ranks; hop++) {
        MPI_Sendrecv(r->moving, r->count, MPI_DOUBLE, right, 0, r->arriving, r->count, MPI_DOUBLE,
                     left, 0, r->comm, MPI_STATUS_IGNORE);
        for (int i = 0; i < r->count; i++) r->total[i] += r->moving[i] = r->arriving[i];
    }
}

/* The timed work: index 0 or 1 of the table of methods below. */
static void step(void *state, size_t method, size_t point)
{
    (void)point; /* this kernel has no sweep, so that there is one point */
    if (method == 0)
        by_allreduce(state);
    else
        round_ring(state);
}

/* Compares with the closed form, which no method uses.  Integers of doubles are exact. */
static void verify(void *state, size_t method, size_t point, bx_verification *verification)
{
    reduce *r = state;
    double error = 0;
    for (int i = 0; i < r->count; i++) r->total[i] = NAN; /* what no method has written fails */
    step(state, method, point);
    for (int i = 0; i < r->count; i++) {
        double expected = (0.5 * (r->ranks - 1) + i) * r->ranks;
        error = bx_verification_worse(error, fabs(r->total[i] - expected));
    }
    bx_verification_check(verification, "sum", error, 0, "units");
}

static void metrics(void *state, size_t method, size_t point, bx_metrics *list)
{
    (void)method, (void)point;
    const reduce *r = state;
    bx_metrics_add(list, "rate", r->count / bx_metrics_value(list, "time"), "operations/s",
                   "higher");
}

static void teardown(void *state)
{
    reduce *r = state;
    free(r->mine);
    free(r->moving);
    free(r->arriving);
    free(r->total);
    free(r);
}

const bx_kernel *bx_kernel_get(void)
{
    static const bx_choice cases[] = {{.name = "ranks", .summary = "sums of rank numbers"}};
    static const bx_choice methods[] = {{.name = "allreduce",
                                         .summary = "MPI_Allreduce",
                                         .wins = "nearly always",
                                         .calls = "Allreduce"},
                                        {.name = "ring",
                                         .summary = "all vectors round a ring",
                                         .wins = "on two ranks, perhaps",
                                         .calls = "Sendrecv"}};
    static const bx_option options[] = {
        {"numbers", "N", "length of the vector", BX_INTEGER, 1, 1e6, &numbers}};
    static const char *const ratios[] = {"allreduce"};
    static const bx_kernel kernel = {
        .name = "reduce",
        .summary = "the sum of a vector over all ranks",
        .cases = BX_COUNTED(cases),
        .methods = BX_COUNTED(methods),
        .setup = setup,
        .verify = verify,
        .step = step,
        .options = BX_COUNTED(options),
        .ratios = BX_COUNTED(ratios),
        .metrics = metrics,
        .teardown = teardown,
    };
    return &kernel;
}
