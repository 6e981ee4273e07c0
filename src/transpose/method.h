/* An exchange method: one file, and one line in methods.c. */
#ifndef BX_TRANSPOSE_METHOD_H
#define BX_TRANSPOSE_METHOD_H

#include "plan.h"

typedef struct {
    int leaders; /* exchanging ranks a node asked for; 0: as many as suit */
} bx_method_options;

typedef struct bx_method {
    bx_choice about;
    /* Columns and planes are packed and unpacked whole, in the fields, not by groups in cache. */
    bool whole;
    int lag; /* bands between start and finish; without, `start` exchanges */
    bool (*applicable)(const bx_geometry *g, char *why, size_t why_size); /* NULL: always */
    /* Collective over the team; buffers are made once. */
    void *(*create)(bx_plan *plan, const bx_method_options *options);
    /* In this order for each exchange: every part of the field, start, finish, every part.  pack and
     * unpack may be called by several threads at once; NULL where there is nothing to do. */
    void (*pack)(void *self, bx_way way, int slot, const bx_part *part);
    void (*start)(void *self, bx_way way, int band, int slot);
    void (*finish)(void *self, bx_way way, int slot);
    void (*unpack)(void *self, bx_way way, int slot, const bx_part *part);
    void (*destroy)(void *self);
    bx_counts (*count)(const bx_geometry *g, bx_way way, const bx_method_options *options);
} bx_method;

extern const bx_method bx_method_alltoallv, bx_method_p2p, bx_method_padded, bx_method_shm,
    bx_method_shm_padded, bx_method_gather_scatter, bx_method_direct, bx_method_alltoallw,
    bx_method_leaders, bx_method_overlap;

/* methods.c: every method, in the order of --list */
extern const bx_method *const bx_methods[];
extern const int bx_method_count;

#endif
