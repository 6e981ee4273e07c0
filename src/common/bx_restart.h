/* Restart files: rows of numbers that the ranks hold, in one parallel HDF5 file.
 *
 * A file has a schema, numbers by name, and sets of rows.  Each rank has any number of rows of a
 * set, none too; the file has them in the order of the ranks.  A reader may have another number of
 * ranks.  The file is written to PATH.partial, which is moved to PATH when it is whole and on disk;
 * if that fails, PATH is as it was and PATH.partial is removed.
 *
 * A reader refuses by name: a truncated file, a damaged one (rows and HDF5's own data have
 * checksums), another schema, and numbers that differ from its own.
 *
 * Every function is collective over `comm` and returns 0, or 1 on every rank with the reason, which
 * names the file, in `why` (at most why_size bytes).  After the first call HDF5 prints no errors of
 * its own: the reasons have them.
 */
#ifndef BX_RESTART_H
#define BX_RESTART_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A number of the file. */
typedef struct {
    const char *name;
    double value;
    bool carried; /* bx_restart_open sets `value`; else the file must have this value, no NaN */
} bx_restart_number;

/* A set of rows. */
typedef struct {
    const char *name;
    bool integers;         /* int64_t, else double */
    int64_t columns, mine; /* numbers in a row; rows of this rank */
    void *rows;            /* [mine][columns] */
} bx_restart_set;

/* Adds the library that writes them to the result.  Local. */
void bx_restart_name_library(void);
/* Writes numbers[number_count] and sets[set_count] to a file of a schema. */
int bx_restart_write(const char *path, MPI_Comm comm, const char *schema,
                     const bx_restart_number *numbers, size_t number_count,
                     const bx_restart_set *sets, size_t set_count, char *why, size_t why_size);
/* Examines a file: sets the values of numbers[number_count] that are carried, and `mine` of
 * sets[set_count], for which the caller then allocates `rows`. */
int bx_restart_open(const char *path, MPI_Comm comm, const char *schema, bx_restart_number *numbers,
                    size_t number_count, bx_restart_set *sets, size_t set_count, char *why,
                    size_t why_size);
/* Reads the rows of sets[set_count]: all or some of the sets that bx_restart_open has examined. */
int bx_restart_read(const char *path, MPI_Comm comm, const bx_restart_set *sets, size_t set_count,
                    char *why, size_t why_size);

#endif
