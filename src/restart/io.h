/* Ways to write an array to files and to read it back: what they share. */
#pragma once

#include "array.h"
#include "bx.h"

#include <limits.h>

/* Phases of a step.  Each ends when the last rank has finished it. */
enum {
    BX_IO_OPEN,
    BX_IO_WRITE,
    BX_IO_SYNC,
    BX_IO_CLOSE,
    BX_IO_DROP,
    BX_IO_READ,
    BX_IO_REMOVE,
    BX_IO_PHASES
};

/* What a rank has read: of the array, or of the box of another rank in the order of its rows. */
typedef struct {
    int rank; /* -1: the array */
    int64_t first, words;
} bx_io_piece;

/* One rank's view of a launch.  Errors are kept in `error` and `why`: after the first one, the rank
 * takes part in what is collective, and touches no file. */
typedef struct bx_io {
    MPI_Comm comm, node;
    int rank, ranks, readers;
    bx_array array;
    bx_array_box box;
    char folder[PATH_MAX - 64];
    uint64_t *mine; /* [words] the box */
    int64_t words;
    uint64_t *read; /* [room] of this reader's pieces, one after the other */
    int64_t room;
    bx_io_piece *pieces; /* [piece_count] */
    size_t piece_count;
    int reader; /* which of `readers` this rank is, -1: none; never one that wrote what it reads */
    double pages, cached; /* of the files, before they were read; in memory */
    int error;            /* an exit code; BX_OK: none */
    char why[512];
} bx_io;

/* A method.  Every function is collective over the world. */
typedef struct {
    bx_choice about;
    bool whole_boxes; /* readers take boxes of ranks, not equal parts of the array */
    /* Whether it can run; writes the reason to why[size] if not.  NULL: it can. */
    bool (*usable)(char *why, size_t size);
    void (*open)(bx_io *io), (*write)(bx_io *io), (*sync)(bx_io *io), (*close)(bx_io *io);
    void (*drop)(bx_io *io), (*read)(bx_io *io), (*remove)(bx_io *io);
} bx_io_method;

/* Notes that a file cannot be written, synced, read, as `doing` has it.  Local. */
void bx_io_fail(bx_io *io, const char *path, const char *doing, const char *reason);
/* Writes a file's name in the launch's folder to path[PATH_MAX]. */
void bx_io_name(const bx_io *io, char path[PATH_MAX], const char *name, int number);
/* Drops a file that is on disk from this node's memory, and counts which of its pages stay. */
void bx_io_forget(bx_io *io, const char *path);
