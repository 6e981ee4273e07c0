/* Multi-block flow, as THOR has it (HPCxTR0417, section 6.2): blocks of unequal size, each on one
 * rank, several on a rank; every node finds its neighbours by a list.  Six fields, as of a
 * k-epsilon model (three velocities, pressure, k, epsilon), are relaxed in sweeps, u <- u + r ((sum
 * of the six neighbours) / 6 - u), without slope at the borders of the grid, where a node is its
 * own neighbour.  Nodes are numbered in the order of the blocks' rows, or dealt at random
 * (--order). */
#include "mesh.h"

#include <stdlib.h>
#include <string.h>

enum { FIELDS = 6, SIDES = 6, BLOCKS_PER_RANK = 2, FEWEST_BLOCKS = 8 };
/* Of a rank, which numbers them and its ghosts in int32_t; smaller in tests. */
#ifndef BX_MOST_NODES
#define BX_MOST_NODES (INT32_MAX / 2)
#endif

/* A block of this rank; its nodes are in `place` from the first on. */
typedef struct {
    bx_box box;
    int64_t first;
} block;

typedef struct {
    block *own;
    int own_count;
    int32_t *place;      /* [own] of each node, block by block: interior nodes are the first */
    int32_t *neighbours; /* [own][SIDES] */
    int64_t interior;    /* nodes without a ghost among their neighbours */
    double relax[FIELDS];
} blocks;

/* Between 0.35 and 0.65 of the way, where each side has one block; else in proportion. */
static int64_t cut_unequally(const void *context, const bx_box *box, int axis, int low, int parts)
{
    const bx_mesh *mesh = context;
    int64_t length = bx_box_length(box, axis);
    uint64_t key = (uint64_t)bx_mesh_cell(mesh, box->first[0], box->first[1], box->first[2]);
    double share = (double)low / parts + 0.15 * bx_random_uniform(77, 8 * key + (uint64_t)axis);
    return box->first[axis] + (int64_t)(share * (double)length + 0.5);
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Restores the heap[count], least first, after its first number has grown. */
static void sink(int64_t *heap, int count)
{
    for (int at = 0, child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child + 1] < heap[child]) child++;
        if (heap[at] < heap[child]) return;
        int64_t larger = heap[at];
        heap[at] = heap[child];
        heap[child] = larger;
    }
}

/* The largest block goes to the rank that has least, and so on.  In one number are the cells of a
 * block and how many blocks follow it, the cells of a rank and its own number.  Returns the cells
 * of the rank that has most. */
static int64_t deal(bx_mesh *mesh, int count)
{
    int64_t most = 0;
    int64_t *sizes = bx_memory_alloc((size_t)count, sizeof *sizes);
    int64_t *loads = bx_memory_alloc((size_t)mesh->ranks, sizeof *loads);
    for (int rank = 0; rank < mesh->ranks; rank++) loads[rank] = rank;
    for (int i = 0; i < count; i++) {
        bx_box box = bx_tree_leaf(mesh->tree, i);
        sizes[i] = bx_box_cells(&box) * count + (count - 1 - i);
    }
    qsort(sizes, (size_t)count, sizeof *sizes, ascending);
    for (int i = count - 1; i >= 0; i--) {
        mesh->rank_of[count - 1 - sizes[i] % count] = (int)(*loads % mesh->ranks);
        *loads += sizes[i] / count * mesh->ranks;
        if (*loads / mesh->ranks > most) most = *loads / mesh->ranks;
        sink(loads, mesh->ranks);
    }
    BX_FREE(sizes, loads);
    return most;
}

static void list_own(bx_mesh *mesh, blocks *b, int count)
{
    for (int i = 0; i < count; i++) {
        if (mesh->rank_of[i] != mesh->rank) continue;
        b->own = bx_memory_grow(b->own, (size_t)b->own_count + 1, sizeof *b->own);
        block *own = &b->own[b->own_count++];
        *own = (block){bx_tree_leaf(mesh->tree, i), mesh->own};
        mesh->own += bx_box_cells(&own->box);
    }
}

static bool contains(const bx_box *box, const int64_t at[3])
{
    for (int axis = 0; axis < 3; axis++)
        if (at[axis] < box->first[axis] || at[axis] >= box->last[axis]) return false;
    return true;
}

static int64_t place(const bx_mesh *mesh, const int64_t at[3])
{
    const blocks *b = mesh->layout;
    const block *own = b->own;
    while (!contains(&own->box, at)) own++;
    const bx_box *box = &own->box;
    return b->place[own->first + at[0] - box->first[0] +
                    bx_box_length(box, 0) *
                        (at[1] - box->first[1] + bx_box_length(box, 1) * (at[2] - box->first[2]))];
}

/* The neighbour of a node on a side, itself at a border of the grid. */
static int64_t beside(const bx_mesh *mesh, int64_t cell, int side)
{
    int64_t at[3];
    bx_mesh_at(mesh, cell, at);
    int axis = side / 2;
    int64_t to = at[axis] + (side % 2 ? 1 : -1);
    if (to >= 0 && to < mesh->extent[axis]) at[axis] = to;
    return bx_mesh_cell(mesh, at[0], at[1], at[2]);
}

static void visit_all(const bx_mesh *mesh, void (*visit)(void *context, int64_t cell, int64_t at),
                      void *context)
{
    const blocks *b = mesh->layout;
    for (const block *own = b->own; own < b->own + b->own_count; own++) {
        const bx_box *box = &own->box;
        int64_t index = own->first;
        for (int64_t z = box->first[2]; z < box->last[2]; z++)
            for (int64_t y = box->first[1]; y < box->last[1]; y++)
                for (int64_t x = box->first[0]; x < box->last[0]; x++)
                    visit(context, bx_mesh_cell(mesh, x, y, z), b->place[index++]);
    }
}

/* ---- numbering ---- */

typedef struct {
    const bx_mesh *mesh;
    int64_t next[2]; /* next index of an interior node, of another */
    int64_t *others; /* [other_count] cells of other ranks that are read, with repetitions */
    size_t other_count, other_room;
    int32_t *place;
    int64_t visited;
} numbering;

/* Counts interior nodes, and collects what the others read; runs before `place` is known. */
static void sort_out(void *context, int64_t cell, int64_t at)
{
    numbering *n = context;
    bool boundary = false;
    for (int side = 0; side < SIDES; side++) {
        int64_t other = beside(n->mesh, cell, side);
        if (bx_mesh_owner(n->mesh, other) == n->mesh->rank) continue;
        boundary = true;
        if (n->other_count == n->other_room) {
            n->other_room = 2 * n->other_room + 64;
            n->others = bx_memory_grow(n->others, n->other_room, sizeof *n->others);
        }
        n->others[n->other_count++] = other;
    }
    n->next[1] += !boundary;
    n->place[n->visited++] = boundary; /* for now */
}

/* Deals the places first .. last-1 at random among the nodes that have them (Fisher and Yates). */
static void shuffle(int32_t *places, const int64_t *holder, int64_t first, int64_t last,
                    uint64_t seed)
{
    for (int64_t i = last - 1; i > first; i--) {
        int64_t k =
            first + (int64_t)(bx_random_hash(seed, (uint64_t)i) % (uint64_t)(i + 1 - first));
        int32_t kept = places[holder[i]];
        places[holder[i]] = places[holder[k]];
        places[holder[k]] = kept;
    }
}

static void number_nodes(bx_mesh *mesh, blocks *b)
{
    numbering n = {.mesh = mesh, .place = b->place};
    visit_all(mesh, sort_out, &n);
    b->interior = n.next[1];
    int64_t *holder = bx_memory_alloc((size_t)mesh->own + 1, sizeof *holder);
    n.next[0] = 0;
    for (int64_t i = 0; i < mesh->own; i++) {
        int64_t at = n.next[!b->place[i] ? 0 : 1]++;
        holder[at] = i;
        b->place[i] = (int32_t)at;
    }
    if (strcmp(mesh->options->order, "shuffled") == 0) {
        uint64_t seed = bx_random_hash(bx_run_seed(mesh->run), (uint64_t)mesh->rank);
        shuffle(b->place, holder, 0, b->interior, seed);
        shuffle(b->place, holder, b->interior, mesh->own, seed);
    }
    free(holder);
    qsort(n.others, n.other_count, sizeof *n.others, ascending);
    for (size_t i = 0; i < n.other_count; i++)
        if (i == 0 || n.others[i] != n.others[i - 1])
            bx_mesh_add_ghost(mesh, n.others[i], mesh->own + mesh->ghosts);
    free(n.others);
}

/* Ghosts are in the order of their cells. */
static int64_t place_of_any(const bx_mesh *mesh, int64_t cell)
{
    if (bx_mesh_owner(mesh, cell) == mesh->rank) return bx_mesh_place(mesh, cell);
    const int64_t *ghost =
        bsearch(&cell, mesh->ghost_cell, (size_t)mesh->ghosts, sizeof *mesh->ghost_cell, ascending);
    return mesh->ghost_at[ghost - mesh->ghost_cell];
}

static void list_neighbours(void *context, int64_t cell, int64_t at)
{
    const bx_mesh *mesh = context;
    const blocks *b = mesh->layout;
    for (int side = 0; side < SIDES; side++)
        b->neighbours[SIDES * at + side] = (int32_t)place_of_any(mesh, beside(mesh, cell, side));
}

static void create(bx_mesh *mesh)
{
    static const int NUMBERS[FIELDS][3] = {{1, 1, 1}, {1, 2, 0}, {0, 1, 1},
                                           {1, 0, 2}, {2, 1, 1}, {3, 1, 2}};
    static const bool WALLS[3] = {true, true, true};
    blocks *b = mesh->layout = bx_memory_alloc(1, sizeof *b);
    int count = BLOCKS_PER_RANK * mesh->ranks;
    if (count < FEWEST_BLOCKS) count = FEWEST_BLOCKS;
    mesh->fields = FIELDS;
    mesh->width = 1;
    mesh->has_solution = true;
    bx_mesh_cut(mesh, count, cut_unequally, mesh);
    BX_ALLOC((size_t)count, mesh->rank_of);
    if (deal(mesh, count) > BX_MOST_NODES) {
        bx_run_refuse(mesh->run, BX_RESOURCES,
                      "--grid %lld,%lld,%lld: more than %d points on a rank",
                      (long long)mesh->extent[0], (long long)mesh->extent[1],
                      (long long)mesh->extent[2], BX_MOST_NODES);
        return;
    }
    list_own(mesh, b, count);
    BX_ALLOC((size_t)mesh->own + 1, b->place);
    b->neighbours = bx_memory_alloc(SIDES * ((size_t)mesh->own + 1), sizeof *b->neighbours);
    number_nodes(mesh, b);
    /* on the memory of the threads that will read them */
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < mesh->own; i++)
        memset(&b->neighbours[SIDES * i], 0, SIDES * sizeof *b->neighbours);
    visit_all(mesh, list_neighbours, mesh);
    mesh->stored = mesh->own + mesh->ghosts;
    BX_ALLOC(FIELDS, mesh->waves);
    for (int f = 0; f < FIELDS; f++) {
        bx_wave *w = &mesh->waves[f];
        *w = bx_wave_create(mesh->extent, NUMBERS[f], WALLS, 1);
        b->relax[f] = 2 * mesh->options->courant * (1 - 0.1 * f);
        double mean = 0, square = 0;
        for (int axis = 0; axis < 3; axis++) {
            mean += cos(w->angle[axis]) / 3;
            square += w->angle[axis] * w->angle[axis];
        }
        w->amplitude[0] = 1 + 0.1 * f;
        w->factor[0] = 1 - b->relax[f] + b->relax[f] * mean;
        w->exact[0] = exp(-b->relax[f] * square / 6);
    }
}

/* All fields of a node at once: its neighbours' places are loaded once. */
static void step(const bx_mesh *mesh, const double *restrict from, double *restrict to,
                 bx_step_part part)
{
    const blocks *b = mesh->layout;
    int64_t first = part == BX_BOUNDARY ? b->interior : 0, stride = mesh->stride;
    int64_t last = part == BX_INTERIOR ? b->interior : mesh->own;
    double share[FIELDS], keep[FIELDS];
    for (int f = 0; f < FIELDS; f++) {
        share[f] = b->relax[f] / 6;
        keep[f] = 1 - b->relax[f];
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = first; i < last; i++) {
        const int32_t *n = &b->neighbours[SIDES * i];
        int64_t west = n[0], east = n[1], south = n[2], north = n[3], below = n[4], above = n[5];
        for (int f = 0; f < FIELDS; f++) {
            const double *u = &from[f * stride];
            double x = u[west] + u[east], y = u[south] + u[north], z = u[below] + u[above];
            to[f * stride + i] = keep[f] * u[i] + share[f] * (x + y + z);
        }
    }
}

static void free_layout(bx_mesh *mesh)
{
    blocks *b = mesh->layout;
    BX_FREE(b->own, b->place, b->neighbours, b);
}

const bx_kind bx_kind_blocks = {
    .point_bytes = 2.0 * FIELDS * sizeof(double) + (SIDES + 2) * sizeof(int32_t),
    .create = create,
    .place = place,
    .visit = visit_all,
    .step = step,
    .destroy = free_layout,
};
