/* Neighbours in a periodic grid of ranks, all at once, as domain decomposition has them. */
#include "grid.h"
#include "pattern.h"

static void route(bx_patterns *s)
{
    for (int side = 0; side < BX_GRID_SIDES; side++) {
        bx_pattern_send_to(s, bx_grid_neighbour(s->rank, s->size, side));
        bx_pattern_receive_from(s, bx_grid_neighbour(s->rank, s->size, side ^ 1));
    }
}

static double messages(const bx_patterns *s)
{
    int extent[3] = {0, 0, 0};
    MPI_Dims_create(s->size, 3, extent);
    return 2.0 * s->size * ((extent[0] > 1) + (extent[1] > 1) + (extent[2] > 1));
}

static double volume(const bx_patterns *s)
{
    double most = 0;
    for (int unit = 0; unit < s->units; unit++) {
        double blocks = 0;
        for (int place = s->unit_first[unit]; place < s->unit_first[unit + 1]; place++)
            for (int side = 0; side < BX_GRID_SIDES; side++) {
                int other = bx_grid_neighbour(s->order[place], s->size, side);
                blocks += other != MPI_PROC_NULL && bx_pattern_unit(s, other) != unit;
            }
        most = fmax(most, blocks);
    }
    return most;
}

const bx_pattern bx_pattern_halo = {
    .summary = "each rank with its neighbours in a 3D periodic grid of ranks, at most six",
    .wins = "codes that cut space into domains",
    .slots = true,
    .applicable = bx_pattern_needs_two_ranks,
    .route = route,
    .exchange = bx_pattern_exchange,
    .messages = messages,
    .volume = volume,
};
