/* Tasks dealt beforehand, whatever they cost. */
#include "tasks.h"

static int64_t draw(bx_tasks *s) { return s->rank + s->next++ * s->ranks; }

const bx_tasks_method bx_tasks_static = {
    .about = {.name = "static",
              .summary = "tasks dealt round-robin beforehand",
              .wins =
                  "no messages for numbers; the rank with the longest tasks holds up the others"},
    .draw = draw,
};
