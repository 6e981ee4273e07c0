/* A device that is none: memory at addresses that the host cannot touch, and at a fixed distance
 * the same memory for those who know: the fake runtime and the MPI library that is made aware. */
#pragma once

#include <stdint.h>

#define FAKE_BASE ((uintptr_t)0x200000000000) /* of 47 bits */
#define FAKE_SPAN ((uintptr_t)1 << 37)        /* of a device */
#define FAKE_MOST 64                          /* devices */
#define FAKE_DISTANCE ((uintptr_t)0x100000000000)

/* The device that memory belongs to; -1: none. */
static inline int fake_device_of(const void *memory)
{
    uintptr_t at = (uintptr_t)memory;
    return at >= FAKE_BASE && at < FAKE_BASE + FAKE_MOST * FAKE_SPAN
               ? (int)((at - FAKE_BASE) / FAKE_SPAN)
               : -1;
}

/* Where the memory can be touched. */
static inline void *fake_device_reach(const void *memory)
{
    return (char *)memory + (fake_device_of(memory) < 0 ? 0 : FAKE_DISTANCE);
}
