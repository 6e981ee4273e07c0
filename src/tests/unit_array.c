/* Arrays of many words: on many ranks, each box begins where the one before it ends; of too many
 * rows per rank, MPI-IO is left out. */
#include "method.h"
#include "unit.h"

static void test_boxes_follow_each_other(void)
{
    const int64_t planes = INT64_C(1000000000000001);
    const int ranks = 1000000;
    bx_array a = bx_array_create(planes, 1, 1, 9, BX_ARRAY_SLABS, ranks);
    int64_t end = 0;
    for (int rank = 0; rank < ranks && unit_failures == 0; rank++) {
        bx_array_box box = bx_array_box_of(&a, rank);
        CHECK(box.start[0] == end);
        CHECK(box.count[0] - planes / ranks == 0 || box.count[0] - planes / ranks == 1);
        end = box.start[0] + box.count[0];
    }
    CHECK(end == planes);
}

static void test_rows_beyond_int(void)
{
    char why[160] = "";
    bx_io io = {.array = bx_array_create(INT64_C(1) << 32, 1, 1, 9, BX_ARRAY_SLABS, 2)};
    CHECK(!bx_io_mpi_io_independent.usable(&io, why, sizeof why));
    CHECK(why[0] != '\0');
    io.array.size[0] -= 2;
    CHECK(bx_io_mpi_io_independent.usable(&io, why, sizeof why));
}

int main(void)
{
    test_boxes_follow_each_other();
    test_rows_beyond_int();
    return unit_failures > 0;
}
