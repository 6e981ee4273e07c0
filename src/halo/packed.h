/* Non-blocking messages from and to packed buffers, which several methods vary. */
#pragma once

#include "method.h"

/* The members of bx_method. */
void *bx_packed_create(const bx_halo_messages *messages);
void bx_packed_start(void *self, int copy);
void bx_packed_finish(void *self, int copy);
void bx_packed_destroy(void *self);

#define BX_PACKED                                                                                  \
    .create = bx_packed_create, .start = bx_packed_start, .finish = bx_packed_finish,              \
    .destroy = bx_packed_destroy
