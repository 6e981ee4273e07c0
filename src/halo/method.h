/* A way to exchange a halo: a bx_halo_method in a file method_*.c, and one line in halo.def. */
#pragma once

#include "halo.def"
#include "halo.h"

/* `self` is what create has returned, `copy` the one of both copies of the fields whose ghosts are
 * wanted. */
typedef struct bx_halo_method {
    bx_choice about;
    bool aggregated;    /* all fields of a pair of ranks in one message */
    bool between_nodes; /* its messages only: within a node it reads what neighbours have */
    bool overlaps;      /* interior cells are computed between start and finish */
    /* Its name promises, beside the calls of MPI (bx_choice.calls) and what `aggregated`,
     * `between_nodes` and `overlaps` say, that all its messages are under way at once. */
    bool at_once;
    /* Why it cannot take memory of a device, or not staged; NULL: it can. */
    const char *host_only, *not_staged;
    /* Returns whether it can run here; if not, writes the reason.  NULL: always. */
    bool (*applicable)(const bx_halo *halo, char *why, size_t why_size);
    /* Returns its state for these messages; NULL where its window cannot be had (bx_window_why).
     * Collective, as all that follow. */
    void *(*create)(const bx_halo_messages *messages);
    /* Starts an exchange.  NULL: finish does it all. */
    void (*start)(void *self, int copy);
    void (*finish)(void *self, int copy);
    void (*destroy)(void *self);
} bx_halo_method;

#define BX_DECLARE(name) extern const bx_halo_method bx_halo_method_##name;
BX_METHODS(BX_DECLARE)

/* Every method [bx_halo_method_count], in the order of halo.def (methods.c). */
extern const bx_halo_method *const bx_halo_methods[];
extern const int bx_halo_method_count;

/* The members of isend, for methods that exchange by it too (method_packed.c). */
void *bx_packed_create(const bx_halo_messages *messages);
void bx_packed_start(void *self, int copy);
void bx_packed_finish(void *self, int copy);
void bx_packed_destroy(void *self);
