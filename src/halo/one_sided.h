/* Puts into the receivers' buffers, which methods differ in how they synchronise. */
#pragma once

#include "method.h"

typedef struct {
    const bx_halo_messages *messages;
    MPI_Win window;     /* of the packed messages that come in */
    int64_t *targets;   /* [sends] places in the receivers' windows */
    MPI_Group to, from; /* the ranks that get, and that send, messages */
} bx_one_sided;

/* The members of bx_method.  Collective. */
void *bx_one_sided_create(const bx_halo_messages *messages);
/* Puts all messages, which are packed. */
void bx_one_sided_put(const bx_one_sided *self);
void bx_one_sided_destroy(void *self);
