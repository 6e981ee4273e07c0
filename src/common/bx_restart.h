/* Restart files: rows of numbers that the ranks hold, in one file, by MPI-IO.
 *
 * A file has a schema, numbers, and sets of rows, in the machine's byte order.  Each rank has any
 * number of rows of a set, none too.  A reader has as many ranks as the writer.  The file is
 * written to PATH.partial, which is moved to PATH when it is whole and on disk; if that fails, PATH
 * is as it was and PATH.partial is removed.
 *
 * A reader refuses by name: a truncated file, a damaged one (header and rows have checksums),
 * another schema, and numbers that differ from its own.
 *
 * Every function is collective over `comm` and returns 0, or 1 on every rank with the reason, which
 * names the file, in `why` (at most why_size bytes).
 */
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A number of the file. */
typedef struct {
    const char *name; /* in messages; the file has numbers and sets in the same order */
    double value;
    bool carried; /* bx_restart_read sets `value`; else the file must have this value, no NaN */
} bx_restart_number;

/* A set of rows. */
typedef struct {
    const char *name;
    int64_t columns, mine; /* numbers in a row; rows of this rank */
    void *rows;            /* [mine][columns] of double or int64_t */
} bx_restart_set;

/* Writes numbers[number_count] and sets[set_count] to a file of a schema (at most 47 characters).
 */
int bx_restart_write(const char *path, MPI_Comm comm, const char *schema,
                     const bx_restart_number *numbers, size_t number_count,
                     const bx_restart_set *sets, size_t set_count, char *why, size_t why_size);
/* Reads such a file: sets the values of numbers[number_count] that are carried, and the rows of
 * sets[set_count].  Where `mine` is negative, it is set, and so are `rows`, which the caller frees,
 * also after a failure. */
int bx_restart_read(const char *path, MPI_Comm comm, const char *schema, bx_restart_number *numbers,
                    size_t number_count, bx_restart_set *sets, size_t set_count, char *why,
                    size_t why_size);
