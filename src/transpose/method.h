/* An exchange method: one file, and one line in transpose.def. */
#ifndef BX_TRANSPOSE_METHOD_H
#define BX_TRANSPOSE_METHOD_H

#include "plan.h"

/* Between the half-transformed field and the planes of a slot.  Forward: start, finish, then unpack
 * of every part of the planes.  Inverse: pack of every part, then start, finish. */
typedef struct bx_method {
    bx_choice about;
    int lag; /* bands between start and finish */
    bool (*applicable)(const bx_geometry *g, char *why, size_t why_size); /* NULL: always */
    /* Collective over the team; buffers are made once. */
    void *(*create)(bx_plan *plan, int leaders); /* exchanging ranks a node asked for, or 0 */
    void (*start)(void *self, bx_direction way, int slot);
    void (*finish)(void *self, bx_direction way, int slot); /* NULL: start has done it all */
    /* Called by several threads at once. */
    void (*unpack)(void *self, const bx_part *part);
    void (*pack)(void *self, const bx_part *part);
    /* The half-transformed field where it is not the plan's; NULL: it is. */
    bx_rows (*rows)(void *self, bx_direction way, int slot);
    void (*destroy)(void *self);
    bx_counting *count;
} bx_method;

#define BX_CASE(...)
#define BX_METHOD(name) extern const bx_method bx_method_##name;
#include "transpose.def"
#undef BX_CASE
#undef BX_METHOD

/* methods.c: every method, in the order of transpose.def and --list */
extern const bx_method *const bx_methods[];
extern const int bx_method_count;

#endif
