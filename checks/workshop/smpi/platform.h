/* Properties of a rank's simulated host (local), and replacements of this machine's functions. */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

/* Returns a property of the machine, a column of machines.csv; NULL where it has none. */
const char *bx_platform_text(const char *name);
/* The same as a number; NaN where there is none. */
double bx_platform_number(const char *name);
/* Adds to what this rank owes, see charge.h. */
void bx_charge_seconds(double seconds);
/* Gives this rank the cores from `first` on. */
void bx_platform_set_cores(int first, int count);

/* Adds memory of `size` bytes, behind which 16 are free, to what this rank has allocated; takes it
 * away. Both return it. */
void *bx_platform_count(void *memory, size_t size);
void *bx_platform_forget(void *memory);

/* By compiler definitions in the place of the C library's. */
int bx_platform_gethostname(char *name, size_t size);
int bx_platform_sched_getaffinity(pid_t rank, size_t size, cpu_set_t *cores);

/* Returns BX_HOLLOW: of so many panels of ScaLAPACK's reduction one is simulated; 0: not hollow. */
int bx_platform_panels(void);
/* Rows of a block of the eigenvectors that ScaLAPACK merges, first and last of which a later merge
 * reads: a hollow run computes these; 0: none are merged. */
extern int bx_merged_block;
