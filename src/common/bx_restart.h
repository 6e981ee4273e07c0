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
 * Both functions are collective over `comm` and return 0, or 1 on every rank with the reason. */
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

/* A file: what is written, or what a reader expects and gets. */
typedef struct {
    const char *path, *schema; /* schema: at most 47 characters */
    MPI_Comm comm;
    bx_restart_number *numbers; /* [number_count] */
    size_t number_count;
    bx_restart_set *sets; /* [set_count] */
    size_t set_count;
    char *why; /* [why_size] the reason of a failure, which names the file */
    size_t why_size;
} bx_restart_file;

int bx_restart_write(const bx_restart_file *f);
/* Sets the values of numbers that are carried, and the rows of the sets.  Where `mine` is negative,
 * it is set, and so are `rows`, which the caller frees, also after a failure. */
int bx_restart_read(const bx_restart_file *f);
