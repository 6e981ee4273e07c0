/* The transpose library as Fortran calls it: handles of communicators, methods by number, columns
 * and owners as arrays. */
#include "transform.h"

#include <string.h>

/* Fortran's bx_exchange_t. */
typedef struct {
    const bx_exchange *handle;
} bxf_exchange_t;

bx_geometry *bxf_geometry(const int grid[3], int columns, const int *xy, const int *owner,
                          int ranks, const int *node_of)
{
    const int64_t wide[3] = {grid[0], grid[1], grid[2]};
    return bx_geometry_create_columns(wide, columns, xy, owner, ranks, node_of, 0);
}

bx_plan *bxf_plan(bx_run *run, MPI_Fint team, const bx_geometry *geometry, int bands,
                  const char *planner)
{
    unsigned flag = strcmp(planner, "patient") == 0   ? FFTW_PATIENT
                    : strcmp(planner, "measure") == 0 ? FFTW_MEASURE
                                                      : FFTW_ESTIMATE;
    return bx_plan_create(run, MPI_Comm_f2c(team), geometry, bands, flag);
}

/* nx, ny, nz, my columns, my planes, my first plane from 0 */
void bxf_shape(const bx_plan *plan, int shape[6])
{
    const bx_geometry *g = plan->geometry;
    const int all[6] = {
        g->nx, g->ny, g->nz, plan->my_columns, plan->my_planes, g->plane_first[plan->rank]};
    memcpy(shape, all, sizeof all);
}

int bxf_method_count(void) { return bx_transpose_method_count; }
const char *bxf_method_name(int number) { return bx_transpose_methods[number]->about.name; }
const char *bxf_method_calls(int number) { return bx_transpose_methods[number]->about.calls; }

static char why[160]; /* of the last exchange that was not made */

const char *bxf_exchange_why(void) { return why; }

bx_exchange *bxf_exchange(bx_plan *plan, int number)
{
    const bx_transpose_method *method = bx_transpose_methods[number];
    if (!bx_exchange_applicable(plan->run, plan->geometry, method, why, sizeof why)) return NULL;
    bx_exchange *x = bx_exchange_create(plan, method, 0);
    if (!x) snprintf(why, sizeof why, "%s", bx_window_why());
    return x;
}

void bxf_transform(bxf_exchange_t exchange, int way, int band, int slot)
{
    bx_transform_one(exchange.handle, (bx_direction)way, band, slot, true);
}

void bxf_apply(bxf_exchange_t exchange, int count, const double *field)
{
    bx_transform_apply(exchange.handle, count, field);
}

void bxf_counts(const bx_geometry *geometry, int number, int way, double *messages, double *bytes)
{
    bx_counts counts =
        bx_exchange_counts(geometry, bx_transpose_methods[number], (bx_direction)way, 0);
    *messages = counts.messages;
    *bytes = counts.bytes;
}
