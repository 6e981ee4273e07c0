/* The least a unit test needs: say what failed, and fail. */
#pragma once

#include <stdio.h>

static int unit_failures = 0;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            unit_failures++;                                                                       \
        }                                                                                          \
    } while (0)
