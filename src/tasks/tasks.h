/* Ways to share out tasks of unequal cost: a bx_tasks_method in methods.c, and one line in
 * tasks.def. */
#pragma once

#include "fock.h"
#include "tasks.def"

/* The launch, as methods see it. */
typedef struct {
    bx_run *run;
    MPI_Comm comm;
    int rank, ranks;
    int64_t tasks;  /* of a build: numbers 0 .. tasks-1 */
    int64_t draws;  /* of all ranks before the next begin, at most, that get a task's number */
    int64_t next;   /* this rank's own counter; 0 at the beginning of each build */
    MPI_Win window; /* one word on rank 0: the shared counter; 0 at the beginning of each build */
    void *self;     /* of the method, which lives as long as the launch */
} bx_tasks;

typedef struct bx_tasks_method {
    bx_choice about;
    bool spare; /* rank 0 takes no tasks */
    bool asks;  /* other ranks are asked for a number: its latency is measured */
    bool dealt; /* task t is that of rank t mod ranks */
    /* Writes how many numbers a build takes from rank 0, one by one, at least and at most, in terms
     * of tasks, ranks and nodes alone.  Local.  NULL: none. */
    void (*taken)(const bx_tasks *s, double *least, double *most);
    /* Makes what the method needs (`self`), clears it before each build, and frees it.  create
     * returns false where a window cannot be had.  Collective.  NULL: nothing. */
    bool (*create)(bx_tasks *s);
    void (*begin)(bx_tasks *s);
    void (*destroy)(bx_tasks *s);
    /* Returns the number of a task that no other draw returns; of `tasks` and more when none is
     * left.  Local. */
    int64_t (*draw)(bx_tasks *s);
    /* Notes that this rank draws no more.  Local.  NULL: nothing. */
    void (*leave)(bx_tasks *s);
    /* What the spare rank does until all others have left.  Local.  NULL: it waits in MPI. */
    void (*serve)(bx_tasks *s);
} bx_tasks_method;

/* Draws a number of the shared counter by the bare call of MPI.  Local. */
int64_t bx_tasks_draw_shared(bx_tasks *s);

/* [bx_tasks_count] in the order of tasks.def (methods.c). */
extern const bx_tasks_method *const bx_tasks_table[];
extern const size_t bx_tasks_count;
