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
    bx_run *run;
    MPI_Comm comm, node;      /* all ranks, one node after the other; those of this node */
    int rank, ranks, readers; /* in `comm`; the first is rank 0 of the launch too */
    int *number;              /* [ranks] of each in the launch */
    bx_array array;
    bx_array_box box;
    char folder[PATH_MAX - 64];
    uint64_t *mine; /* [words] the box */
    int64_t words;
    uint64_t *read; /* [room] of this reader's pieces, one after the other */
    int64_t room;
    bx_io_piece *pieces; /* [piece_count] */
    size_t piece_count;
    int reader;           /* which of `readers` this rank is, -1: none */
    int64_t syncs;        /* of files, by this rank before the step */
    bool shows_unsynced;  /* the file system: see bx_io_shows_unsynced */
    double pages, cached; /* of the files, before they were read; in memory */
    double busy;          /* s: in this step, of this rank before it waited for others */
    double files, chunk;  /* files of the last step that was not timed; words of a chunk */
    int error;            /* an exit code; BX_OK: none */
    char why[512];
} bx_io;

/* The calls of MPI between phases, for bx_choice.calls. */
#define BX_IO_CALLS "Barrier"

/* A method.  Every function is collective over the world, unless it says otherwise. */
typedef struct {
    bx_choice about;
    bool whole_boxes;    /* readers take boxes of ranks, not equal parts of the array */
    bool alone;          /* each rank writes what it holds, and waits for no other */
    const char *library; /* that calls MPI: the region of its calls; NULL: none does */
    /* Its name promises, beside the calls of MPI (bx_choice.calls), one file by all ranks or by
     * rank 0, or a file by the first rank of each node or by each rank; these bring it to disk. */
    enum { BX_IO_BY_ALL, BX_IO_BY_FIRST, BX_IO_BY_NODE, BX_IO_BY_RANK } files;
    bool chunked;        /* it promises chunks, each a box or a part of one */
    bool closing_writes; /* so that pages of a file that was synced are not on disk */
    /* Whether it can run; writes the reason to why[size] if not.  NULL: it can. */
    bool (*usable)(const bx_io *io, char *why, size_t size);
    void (*open)(bx_io *io), (*write)(bx_io *io), (*sync)(bx_io *io), (*close)(bx_io *io);
    void (*drop)(bx_io *io), (*read)(bx_io *io), (*remove)(bx_io *io);
    /* Sets `chunk` by a look at the closed file, without what has written it.  On rank 0; local.
     * NULL: it has no chunks. */
    void (*look)(bx_io *io);
    /* Compares what the calls inside `library` promise, as bx_kernel.promise.  NULL: nothing. */
    void (*promise)(const bx_io *io, const bx_shown *shown, bx_verification *verification);
} bx_io_method;

/* Sets the ranks and their communicators; all ranks are readers.  Frees them.  Collective. */
void bx_io_begin(bx_io *io, bx_run *run);
void bx_io_end(bx_io *io);
/* Returns how many ranks a reader is away from the writer: so many that it is on another node. */
int bx_io_apart(const bx_io *io);
/* Whether what a rank has written should not be read by this one, as it is on the same node; the
 * same rank, where there is one node, or where readers have the parts of several ranks.  Local. */
bool bx_io_is_near(const bx_io *io, int writer);
/* Returns how many ranks read what is near, beyond those that have nothing else: in a node that has
 * more than half of all ranks.  Collective. */
double bx_io_count_near(const bx_io *io, bool reads_near);
/* Ends a phase of a step, which began at *start, when the last rank has finished it: sets *start,
 * and adds what this rank did to `busy`.  Returns the phase's seconds.  Collective. */
double bx_io_end_phase(bx_io *io, int phase, double *start);
/* Whether a file could not be written on some rank: the launch then ends with the reason, and no
 * answer is wrong.  Collective. */
bool bx_io_failed(bx_io *io);

/* Notes that a file cannot be written, synced, read, as `doing` has it.  Local. */
void bx_io_fail(bx_io *io, const char *path, const char *doing, const char *reason);
/* Writes a file's name in the launch's folder to path[PATH_MAX]. */
void bx_io_name(const bx_io *io, char path[PATH_MAX], const char *name, int number);
/* The same of the one file of all ranks, which a rank of each node drops and rank 0 removes. */
void bx_io_name_common(const bx_io *io, char path[PATH_MAX]);
void bx_io_drop_common(bx_io *io);
void bx_io_remove_common(bx_io *io);
/* Drops a file that is on disk from this node's memory, and counts which of its pages stay. */
void bx_io_forget(bx_io *io, const char *path);
/* Whether the pages of a file that are not on disk stay then, and no other: not in a file system in
 * memory, and not where pages are kept elsewhere.  Tries it with a file `path`, which is new.
 * Local. */
bool bx_io_shows_unsynced(const char *path);
