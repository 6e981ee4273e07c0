/* A lower bound of every exchange: memcpy of the bytes that a rank's transposes move. */
#include "baseline.h"

#include <stdlib.h>
#include <string.h>

/* Of one exchange. */
typedef struct {
    const bx_plan *plan;
    size_t out, back; /* elements of my planes' columns, and of my columns */
} copy_part;

typedef struct {
    copy_part parts[2];
    int count, bands;
    bx_complex *target;
} copy_state;

static void begin(void *me) {}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static void *create(bx_plan *plan, unsigned planner)
{
    copy_state *self = bx_memory_alloc(1, sizeof *self);
    size_t most = 0;
    self->bands = plan->bands;
    for (const bx_plan *p = plan; p; p = p->inner) {
        copy_part *copied = &self->parts[self->count++];
        *copied = (copy_part){p, 0, (size_t)p->my_columns * (size_t)p->geometry->length};
        for (int r = 0; r < p->geometry->ranks; r++)
            copied->out += (size_t)bx_geometry_block(p->geometry, BX_FORWARD, r, p->rank);
        most = larger(most, larger(copied->out, copied->back));
    }
    self->target = bx_buffer_create(most);
    return self;
}

static void copy(const copy_state *self, const copy_part *copied)
{
    const bx_plan *plan = copied->plan;
    bx_plan_copy(plan, self->target, bx_plan_planes(plan, BX_FORWARD, 0), copied->out);
    __asm__ volatile("" : : "r"(self->target) : "memory"); /* keeps the compiler from dropping it */
    bx_plan_copy(plan, self->target, bx_plan_half(plan, BX_FORWARD, 0, plan->rank), copied->back);
    __asm__ volatile("" : : "r"(self->target) : "memory");
}

static void step(void *me)
{
    copy_state *self = me;
    for (int band = 0; band < self->bands; band++)
        for (int i = 0; i < self->count; i++) copy(self, &self->parts[i]);
}

static double error(void *me)
{
    copy_state *self = me;
    const copy_part *last = &self->parts[self->count - 1];
    step(self);
    return memcmp(self->target, bx_plan_half(last->plan, BX_FORWARD, 0, last->plan->rank),
                  last->back * sizeof(bx_complex)) == 0
               ? 0
               : 1;
}

static void destroy(void *me)
{
    copy_state *self = me;
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
