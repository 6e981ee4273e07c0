/* The boxes of an array of many words on many ranks: each begins where the one before it ends. */
#include "array.h"
#include "unit.h"

int main(void)
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
    return unit_failures > 0;
}
