/* A way to take patches' messages: a bx_method in method_messages.c, and a line in patches.def. */
#pragma once

#include "messages.h"
#include "patches.def"

typedef struct {
    bx_choice about;
    bool joined;   /* the messages from one rank to another in one */
    bool holds;    /* messages wait for bx_messages_release: all are taken in turn */
    bool unposted; /* no receive waits for a message */
    /* Takes messages between objects; `wait`: no object can run.  Not called with `holds`. */
    void (*receive)(bx_messages *m, bool wait);
} bx_method;

/* Takes messages and runs objects until m->objects->left is 0, after bx_objects_start. */
void bx_method_run(const bx_method *method, bx_messages *m);

/* Every method [bx_method_count], in the order of patches.def (method_messages.c). */
extern const bx_method *const bx_methods[];
extern const int bx_method_count;
