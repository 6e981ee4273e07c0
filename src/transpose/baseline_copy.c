/* A lower bound of every exchange: memcpy of the bytes that a rank's part of the transposes moves.
 */
#include "baseline.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    bx_plan *plan;
    size_t out, back; /* elements of my planes' columns, and of my columns */
    bx_complex *target;
} state;

static void begin(void *me) { (void)me; }

static void *create(bx_plan *plan, unsigned planner)
{
    const bx_geometry *g = plan->geometry;
    state *self = bx_memory_alloc(1, sizeof *self);
    (void)planner;
    self->plan = plan;
    self->out = (size_t)plan->my_planes * (size_t)g->columns;
    self->back = (size_t)plan->my_columns * (size_t)g->nz;
    self->target = bx_buffer_create(self->out > self->back ? self->out : self->back);
    return self;
}

static void step(void *me)
{
    state *self = me;
    const bx_plan *plan = self->plan;
    for (int band = 0; band < plan->bands; band++) {
        bx_plan_copy(plan, self->target, bx_plan_planes(plan, 0), self->out);
        __asm__ volatile(""
                         :
                         : "r"(self->target)
                         : "memory"); /* keeps the compiler from dropping the copy */
        bx_plan_copy(plan, self->target, bx_plan_half(plan, BX_FORWARD, 0, plan->rank), self->back);
        __asm__ volatile("" : : "r"(self->target) : "memory");
    }
}

static double error(void *me)
{
    state *self = me;
    step(self);
    return memcmp(self->target, bx_plan_half(self->plan, BX_FORWARD, 0, self->plan->rank),
                  self->back * sizeof(bx_complex)) == 0
               ? 0
               : 1;
}

static void destroy(void *me)
{
    state *self = me;
    fftw_free(self->target);
    free(self);
}

const bx_baseline bx_baseline_copy = {
    .about = {.name = "copy",
              .summary = "memcpy of the bytes that the two transposes move on each rank",
              .baseline = true},
    .create = create,
    .begin = begin,
    .step = step,
    .error = error,
    .destroy = destroy,
};
