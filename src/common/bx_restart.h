/* Restart files: what ranks hold, in one parallel HDF5 file that is whole or not there.
 *
 * A file has a schema, numbers by name, and sets of rows, of which each rank has its own, in the
 * order of ranks: any number of them, none too, for a reader with as many ranks.  It is written to
 * PATH.partial, which takes the place of PATH when it is whole and on disk, and is removed if that
 * fails; PATH is then as it was.  A file that is truncated, damaged (each rank's rows have a
 * checksum, and so has what HDF5 keeps), of another schema, or whose numbers are other than the
 * reader's is refused by name.
 *
 * Every function is collective, and returns 0, or 1 with the reason, which names the file, in `why`
 * on every rank.  HDF5 no longer prints errors once one has been called: reasons have them.
 */
#ifndef BX_RESTART_H
#define BX_RESTART_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *name;
    double value;
    bool carried; /* set by opening; else it must be what the file has, and is no NaN */
} bx_restart_number;

typedef struct {
    const char *name;
    bool integers;         /* int64_t, else double */
    int64_t columns, mine; /* numbers in a row; rows of this rank */
    void *rows;            /* [mine][columns] */
} bx_restart_set;

int bx_restart_write(const char *path, MPI_Comm comm, const char *schema,
                     const bx_restart_number *numbers, size_t number_count,
                     const bx_restart_set *sets, size_t set_count, char *why, size_t why_size);
/* Examines the file, reads the numbers that it carries and how many rows of each set are mine: for
 * the caller to allocate.  Does not touch `rows`. */
int bx_restart_open(const char *path, MPI_Comm comm, const char *schema, bx_restart_number *numbers,
                    size_t number_count, bx_restart_set *sets, size_t set_count, char *why,
                    size_t why_size);
/* Reads the rows, after bx_restart_open, all or some of its sets. */
int bx_restart_read(const char *path, MPI_Comm comm, const bx_restart_set *sets, size_t set_count,
                    char *why, size_t why_size);

#endif
