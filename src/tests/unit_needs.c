/* The memory that a method of transpose claims, against what its set-up takes from the heap and in
 * windows.  Ranks on two nodes. */
#include "run.h"
#include "transform.h"
#include "unit.h"

#include <malloc.h>

/* What the claim may be off: by a factor, for datatypes, whose blocks take 168 bytes in Open MPI
 * and 10 in MPICH, and for the rest; by bytes per rank. */
static const double OF_TYPES = 2, OF_OTHERS = 1.1, SLACK = 128 << 10;

static double windows; /* bytes of this rank's node */

bool __real_bx_shared_create(bx_run *run, MPI_Comm node, size_t bytes, bx_shared *memory);
bool __wrap_bx_shared_create(bx_run *run, MPI_Comm node, size_t bytes, bx_shared *memory);
bool __wrap_bx_shared_create(bx_run *run, MPI_Comm node, size_t bytes, bx_shared *memory)
{
    int rank;
    MPI_Comm_rank(node, &rank);
    if (rank == 0) windows += (double)bytes;
    return __real_bx_shared_create(run, node, bytes, memory);
}

static double taken(void)
{
    struct mallinfo2 heap = mallinfo2();
    return (double)heap.uordblks + (double)heap.hblkhd + windows;
}

/* All ranks together, as the first of a node has its window. */
static void test_method(bx_plan *plan, const bx_transpose_method *method)
{
    const bx_geometry *g = plan->geometry;
    char why[160];
    if (method->applicable && !method->applicable(g, why, sizeof why)) return;
    double claimed = bx_exchange_bytes(g, method, plan->rank, plan->published);
    bx_exchange_free(bx_exchange_create(plan, method, 0)); /* pools of the MPI library grow */
    double before = taken();
    bx_exchange *x = bx_exchange_create(plan, method, 0);
    CHECK(x != NULL);
    if (!x) return;
    double both[2] = {claimed, taken() - before};
    MPI_Allreduce(MPI_IN_PLACE, both, 2, MPI_DOUBLE, MPI_SUM, plan->team);
    double slack = SLACK * g->ranks,
           factor = method == &bx_transpose_method_alltoallw ? OF_TYPES : OF_OTHERS;
    if (plan->rank == 0 && (both[1] > both[0] + slack || both[0] > factor * both[1] + slack))
        printf("%s, %s%d exchanges: claims %.0f B, takes %.0f B\n", method->about.name,
               plan->published ? "published, " : "", g->inner ? 2 : 1, both[0], both[1]);
    CHECK(both[1] <= both[0] + slack);
    CHECK(both[0] <= factor * both[1] + slack);
    bx_exchange_free(x);
}

int main(int argc, char **argv)
{
    const int64_t grid[3] = {64, 64, 64};
    bx_run run = {.world = MPI_COMM_WORLD,
                  .host = MPI_COMM_WORLD,
                  .threads = 1,
                  .node_count = 2,
                  .common = {.ranks_per_node = 2}};
    MPI_Init(&argc, &argv);
    MPI_Comm_size(run.world, &run.size);
    MPI_Comm_rank(run.world, &run.rank);
    int *node_of = bx_memory_alloc((size_t)run.size, sizeof *node_of);
    for (int r = 0; r < run.size; r++) node_of[r] = 2 * r / run.size;
    run.node_of = node_of;
    MPI_Comm_split(run.world, node_of[run.rank], run.rank, &run.node);
    for (int i = 0; i < 3; i++) {
        bx_geometry *g = bx_geometry_create(grid, 32 * 32, 1 + i % 2, run.size, node_of, 0);
        bx_plan *plan = bx_plan_create(&run, run.world, g, 1, FFTW_ESTIMATE);
        for (bx_plan *p = plan; p; p = p->inner) p->published = i / 2 == 1;
        for (int m = 0; m < bx_transpose_method_count; m++)
            if (bx_transpose_methods[m] != &bx_transpose_method_direct)
                test_method(plan, bx_transpose_methods[m]);
        test_method(plan, &bx_transpose_method_direct); /* frees fields of the plan */
        bx_plan_free(plan);
        bx_geometry_free(g);
    }
    MPI_Comm_free(&run.node);
    free(node_of);
    MPI_Finalize();
    return unit_failures > 0;
}
