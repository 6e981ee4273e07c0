/* The cells of one rank: its own, and copies of others' that its stencil reads (ghosts).  A kind of
 * mesh says which cells these are, who owns them, and what a step computes; nothing of a halo. */
#pragma once

#include "tree.h"
#include "wave.h"

/* Options of a case. */
typedef struct {
    const char *order, *land;
    int64_t grid[3];
    double courant;
} bx_halo_options;

/* Cells to compute: all; those that read no other rank's; the others. */
typedef enum { BX_ALL, BX_INTERIOR, BX_BOUNDARY } bx_step_part;

enum { BX_RECOMPUTED_STEPS = 8 };

struct bx_kind;

typedef struct {
    bx_run *run;
    const struct bx_kind *kind;
    const bx_halo_options *options;
    int rank, ranks;
    int64_t extent[3]; /* of the grid; levels are no axis */
    int fields, width; /* fields; numbers of a cell in each: levels */
    bool continues;    /* a step reads what it overwrites: the field one step before */
    bool has_solution; /* in closed form */
    bx_tree *tree;
    int *rank_of;   /* [leaves] of the tree; NULL: a leaf is on the rank of its number */
    bx_wave *waves; /* [fields], the solution */
    int64_t own;    /* cells that this rank computes */
    int64_t stored; /* cells in memory, ghosts and unused ones included */
    int64_t ghosts;
    int64_t *ghost_cell, *ghost_at; /* [ghosts] number in the grid; place in memory */
    int64_t stride;                 /* numbers from one field to the next */
    void *layout;                   /* the kind's own */
} bx_mesh;

typedef struct bx_kind {
    double point_bytes; /* memory of a grid point */
    /* Flop of a point and step in the code that this stands for, beside what is computed here: they
     * are charged on a simulated machine.  0: not known. */
    double code_flops;
    /* Cuts the grid, and sets all of the mesh but run, kind, options, ranks, extent and stride.
     * Refuses, on all ranks, more points of one than it can count. */
    void (*create)(bx_mesh *mesh);
    /* Returns the place of an own cell in memory. */
    int64_t (*place)(const bx_mesh *mesh, const int64_t at[3]);
    /* Calls visit for each own cell. */
    void (*visit)(const bx_mesh *mesh, void (*visit)(void *context, int64_t cell, int64_t at),
                  void *context);
    /* One step: reads `from`, writes `to`, both [fields][stride]. */
    void (*step)(const bx_mesh *mesh, const double *from, double *to, bx_step_part part);
    /* Writes what memory holds where no cell is computed.  NULL: there are none. */
    void (*mask)(const bx_mesh *mesh, double *fields);
    /* Returns how many such numbers have changed.  NULL as above. */
    double (*changed)(const bx_mesh *mesh, const double *fields);
    /* Returns the largest difference of own cells from fields that are recomputed by other code,
     * `steps` steps after the initial ones, at most BX_RECOMPUTED_STEPS.  NULL: the closed form
     * is always known.  Local. */
    double (*recompute)(const bx_mesh *mesh, const double *fields, int64_t steps);
    /* Frees the layout. */
    void (*destroy)(bx_mesh *mesh);
} bx_kind;

extern const bx_kind bx_kind_channel, bx_kind_ocean, bx_kind_blocks;

/* The number of a cell, and back. */
static inline int64_t bx_mesh_cell(const bx_mesh *mesh, int64_t x, int64_t y, int64_t z)
{
    return x + mesh->extent[0] * (y + mesh->extent[1] * z);
}
static inline void bx_mesh_at(const bx_mesh *mesh, int64_t cell, int64_t at[3])
{
    at[0] = cell % mesh->extent[0];
    at[1] = cell / mesh->extent[0] % mesh->extent[1];
    at[2] = cell / mesh->extent[0] / mesh->extent[1];
}

/* A place along an axis of a periodic grid, from one that may be beyond its ends. */
static inline int64_t bx_mesh_wrap(const bx_mesh *mesh, int axis, int64_t at)
{
    int64_t extent = mesh->extent[axis];
    return (at % extent + extent) % extent;
}

bx_mesh *bx_mesh_create(bx_run *run, const bx_kind *kind, const bx_halo_options *options,
                        const int64_t extent[3]);
void bx_mesh_free(bx_mesh *mesh);
/* Adds a ghost; for kinds. */
void bx_mesh_add_ghost(bx_mesh *mesh, int64_t cell, int64_t at);
/* Returns the rank that owns a cell. */
int bx_mesh_owner(const bx_mesh *mesh, int64_t cell);
/* Returns the place of an own cell in memory. */
int64_t bx_mesh_place(const bx_mesh *mesh, int64_t cell);
/* Cuts the whole grid into leaves, as bx_tree_create. */
void bx_mesh_cut(bx_mesh *mesh, int leaves, bx_tree_cut *cut, const void *context);
/* Numbers of all own cells, in all fields. */
double bx_mesh_numbers(const bx_mesh *mesh);
