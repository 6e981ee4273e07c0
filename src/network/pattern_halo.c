/* Neighbours in a periodic grid of ranks, all at once, as domain decomposition has them. */
#include "pattern.h"

enum { SIDES = 6 };

/* The neighbour of a rank on a side; MPI_PROC_NULL where the grid has one rank along it. */
static int neighbour(const bx_patterns *s, int rank, int side)
{
    int extent[3] = {0, 0, 0}, at[3];
    MPI_Dims_create(s->size, 3, extent);
    at[0] = rank / (extent[1] * extent[2]);
    at[1] = rank / extent[2] % extent[1];
    at[2] = rank % extent[2];
    int axis = side / 2, n = extent[axis];
    if (n == 1) return MPI_PROC_NULL;
    at[axis] = (at[axis] + (side % 2 == 0 ? 1 : n - 1)) % n;
    return (at[0] * extent[1] + at[1]) * extent[2] + at[2];
}

static void route(bx_patterns *s)
{
    for (int side = 0; side < SIDES; side++) {
        bx_pattern_send_to(s, neighbour(s, s->rank, side));
        bx_pattern_receive_from(s, neighbour(s, s->rank, side ^ 1));
    }
}

static double volume(const bx_patterns *s)
{
    double most = 0;
    for (int unit = 0; unit < s->units; unit++) {
        double blocks = 0;
        for (int place = s->unit_first[unit]; place < s->unit_first[unit + 1]; place++)
            for (int side = 0; side < SIDES; side++) {
                int other = neighbour(s, s->order[place], side);
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
    .volume = volume,
};
