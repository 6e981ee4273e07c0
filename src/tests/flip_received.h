/* The parts of a kernel in which one bit of what a call has received is wrong. */
#pragma once

#include "bx.h"

/* What a call of `routine` among so many ranks has received, of a type of 8-byte numbers or of
 * bytes (local). */
void bx_flip_received(const char *routine, int ranks, void *buffer, int count, MPI_Datatype type);
/* The name of the method that runs, "" while answers are verified first (local). */
const char *bx_flip_method(void);
/* Whether eight bytes that were read are a word of the kernel's data, and not of a file's own
 * format (local).  Weak: without it every number is data. */
extern bool bx_flip_is_data(uint64_t word) __attribute__((weak));
