/* A way to take patches' messages: a bx_method in method_messages.c, and a line in patches.def. */
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
