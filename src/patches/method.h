/* A way to take patches' messages: one file method_NAME.c, and one line in patches.def. */
#pragma once

#include "messages.h"
#include "patches.def"

typedef struct {
    bx_choice about;
    bool joined; /* the messages from one rank to another in one */
    bool holds;  /* messages wait for bx_messages_release */
    /* Takes messages and runs objects until m->objects->left is 0, after bx_objects_start. */
    void (*run)(bx_messages *m);
} bx_method;

#define BX_DECLARE(name) extern const bx_method bx_method_##name;
BX_METHODS(BX_DECLARE)

/* Every method [bx_method_count], in the order of patches.def (methods.c). */
extern const bx_method *const bx_methods[];
extern const int bx_method_count;

/* Pairs of atoms, about 5 us: so rarely are messages looked for while pairs of patches can run. */
#define BX_LOOK_AFTER 1000

/* Runs objects, one after the other, and calls `receive` between them; `wait`: there is nothing
 * else to do. */
static inline void bx_method_drive(bx_messages *m, void (*receive)(bx_messages *m, bool wait))
{
    bx_objects *o = m->objects;
    while (o->left > 0) {
        bool idle = bx_objects_idle(o);
        if (idle || o->unlooked >= BX_LOOK_AFTER) {
            receive(m, idle);
            o->unlooked = 0;
        }
        bx_objects_run(o);
    }
}

/* Posts all receives, and takes all messages that have arrived between pairs (method_testsome.c).
 */
void bx_method_run_some(bx_messages *m);
