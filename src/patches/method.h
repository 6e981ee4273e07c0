/* A way to take patches' messages: a bx_patches_method in method_messages.c, and a line in
 * patches.def. */
#pragma once

#include "messages.h"
#include "patches.def"

typedef struct {
    bx_choice about;
    bool joined;   /* the messages from one rank to another in one */
    bool holds;    /* messages wait for bx_messages_release: all are taken in turn */
    bool unposted; /* no receive waits for a message */
    /* Its name promises, beside the calls of MPI (bx_choice.calls) and what `joined` says, that
     * this routine looks for messages while pairs can run; NULL: none does. */
    const char *looks;
    /* Takes messages between objects; `wait`: no object can run.  Not called with `holds`. */
    void (*receive)(bx_messages *m, bool wait);
} bx_patches_method;

/* Pairs of atoms, about 5 us: so rarely are messages looked for while pairs of patches can run. */
enum { BX_LOOK_AFTER = 1000 };

/* Takes messages and runs objects until m->objects->events_left is 0, after bx_objects_start. */
void bx_patches_run(const bx_patches_method *method, bx_messages *m);

/* Every method [bx_patches_method_count], in the order of patches.def (method_messages.c). */
extern const bx_patches_method *const bx_patches_methods[];
extern const int bx_patches_method_count;
