#include "input.h"

#include "comm_buffers.h"

uint64_t bx_transpose_input_field(const bx_transpose_state *t, int band)
{
    return bx_random_hash(bx_run_seed(t->run), (uint64_t)t->my_team << 32 | (uint64_t)band);
}

void bx_transpose_input_fill_columns(bx_transpose_state *t, int band)
{
    const bx_plan *plan = t->plan;
    int64_t first = t->geometry->column_first[plan->rank], nz = t->geometry->nz;
    uint64_t field = bx_transpose_input_field(t, band);
    bx_complex *columns = bx_comm_buffers_host(bx_plan_columns(plan, band));
    for (int64_t s = 0; s < plan->my_columns; s++)
        for (int64_t z = 0; z < nz; z++)
            columns[s * nz + z] = bx_transpose_input_value(t, field, first + s, z);
}

bx_complex *bx_transpose_input_fetch_columns(const bx_transpose_state *t)
{
    const bx_plan *plan = t->plan;
    const bx_comm_buffer *buffer = bx_comm_buffers_find(plan->columns);
    size_t elements = bx_plan_column_elements(t->geometry, plan->rank) * (size_t)plan->bands;
    if (buffer) bx_comm_buffer_fetch(buffer, plan->columns, elements * sizeof *plan->columns);
    return bx_comm_buffers_host(plan->columns);
}

bx_rows bx_transpose_input_rows(const bx_transpose_state *t, int method, bx_direction way, int slot)
{
    bx_rows rows = bx_transform_rows(t->plan, bx_transpose_methods[method],
                                     t->methods[method]->self, way, slot);
    return (bx_rows){bx_comm_buffers_host(rows.base), rows.at};
}

void bx_transpose_input_fill_half(bx_transpose_state *t, int method, int band, int slot)
{
    const bx_plan *plan = t->plan;
    int64_t first = t->geometry->column_first[plan->rank];
    uint64_t field = bx_transpose_input_field(t, band);
    bx_rows half = bx_transpose_input_rows(t, method, BX_FORWARD, slot);
    for (int z = 0; z < t->geometry->nz; z++)
        for (int s = 0; s < plan->my_columns; s++)
            *bx_rows_element(plan, half, s, z) = bx_transpose_input_value(t, field, first + s, z);
}

void bx_transpose_input_fill_nan(const bx_transpose_state *t, int method)
{
    bx_plan_fill_nan(t->plan);
    for (const bx_exchange *x = t->methods[method]; x; x = x->inner)
        for (int slot = 0; slot < bx_transform_slots(x->method); slot++) {
            bx_rows half = bx_transform_rows(x->plan, x->method, x->self, BX_INVERSE, slot);
            half.base = bx_comm_buffers_host(half.base);
            for (int s = 0; s < x->plan->my_columns; s++)
                for (int z = 0; z < x->plan->geometry->length; z++)
                    bx_buffer_fill_nan(bx_rows_element(x->plan, half, s, z), 1);
        }
}

bx_complex bx_transpose_input_phase(int64_t steps)
{
    static const bx_complex quarters[4] = {1, I, -1, -I};
    return quarters[steps % 4] * ldexp(1, (int)(steps % 61));
}

bx_counts bx_transpose_planned_counts(const bx_transpose_state *t, int method, bx_direction way)
{
    bx_counts counts = {0};
    if (t->plan->rank == 0)
        counts = bx_exchange_counts(t->geometry, bx_transpose_methods[method], way, t->leaders);
    double sums[5] = {counts.messages, counts.off_node_messages, counts.bytes,
                      counts.off_node_bytes, counts.padding_bytes};
    MPI_Allreduce(MPI_IN_PLACE, sums, 5, MPI_DOUBLE, MPI_SUM, bx_run_comm(t->run));
    return (bx_counts){sums[0], sums[1], sums[2], sums[3], sums[4]};
}
