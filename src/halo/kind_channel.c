/* Turbulence in a channel, as PCHAN moves it (HPCxTR0417, section 6.1): five fields on a regular
 * grid, differences of fourth order, two cells deep; periodic along x and z, rigid walls across y.
 * In the place of the equations of Navier and Stokes, each field is a sound of its own speed,
 *   u'' = c^2 (u_xx + u_yy + u_zz),
 * whose solution is known in closed form: as many numbers travel as in PCHAN, and less is computed.
 * A wall is a mirror, so that the cells behind it are copies of cells before it. */
#include "charge.h"
#include "mesh.h"

#include <stdlib.h>

enum { FIELDS = 5, DEPTH = 2 };
/* Rows of a tile: six planes of 64 rows of 360 numbers take 1.1 MB of a second cache.  Smaller
 * tiles read more rows twice.  What is fetched ahead for a part is no more than a core keeps under
 * way. */
enum { ROWS = 64, PLANES = 2, PART = 32, LINE = 8 };

typedef struct {
    bx_box box;
    int64_t row, plane;    /* cells from one row to the next, from one plane to the next */
    double square[FIELDS]; /* of the Courant number */
} channel;

static int64_t place_at(const channel *c, int64_t x, int64_t y, int64_t z)
{
    return x - c->box.first[0] + DEPTH + c->row * (y - c->box.first[1] + DEPTH) +
           c->plane * (z - c->box.first[2] + DEPTH);
}

static int64_t mirrored(int64_t at, int64_t extent)
{
    for (;; at = at < 0 ? -1 - at : 2 * extent - 1 - at)
        if (at >= 0 && at < extent) return at;
}

/* The cells up to DEPTH from a face, on both sides of an axis: a difference along an axis reads no
 * others. */
static void add_ghosts(bx_mesh *mesh, const channel *c, int axis, bool upper)
{
    bx_box beyond = c->box;
    beyond.first[axis] = upper ? c->box.last[axis] : c->box.first[axis] - DEPTH;
    beyond.last[axis] = beyond.first[axis] + DEPTH;
    for (int64_t z = beyond.first[2]; z < beyond.last[2]; z++)
        for (int64_t y = beyond.first[1]; y < beyond.last[1]; y++)
            for (int64_t x = beyond.first[0]; x < beyond.last[0]; x++)
                bx_mesh_add_ghost(mesh,
                                  bx_mesh_cell(mesh, bx_mesh_wrap(mesh, 0, x),
                                               mirrored(y, mesh->extent[1]),
                                               bx_mesh_wrap(mesh, 2, z)),
                                  place_at(c, x, y, z));
}

/* The second difference of a wave, over it. */
static double symbol(double angle)
{
    double square = sin(angle / 2) * sin(angle / 2);
    return -4 * square * (1 + square / 3);
}

static void create(bx_mesh *mesh)
{
    static const int NUMBERS[FIELDS][3] = {{1, 1, 1}, {1, 2, 0}, {0, 1, 1}, {1, 0, 2}, {2, 1, 1}};
    static const bool WALLS[3] = {false, true, false};
    channel *c = mesh->layout = bx_memory_alloc(1, sizeof *c);
    mesh->fields = FIELDS;
    mesh->width = 1;
    mesh->continues = mesh->has_solution = true;
    bx_mesh_cut(mesh, mesh->ranks, bx_tree_cut_evenly, NULL);
    c->box = bx_tree_leaf(mesh->tree, mesh->rank);
    mesh->own = bx_box_cells(&c->box);
    c->row = bx_box_length(&c->box, 0) + 2 * DEPTH;
    c->plane = c->row * (bx_box_length(&c->box, 1) + 2 * DEPTH);
    mesh->stored = mesh->own > 0 ? c->plane * (bx_box_length(&c->box, 2) + 2 * DEPTH) : 0;
    for (int axis = 0; axis < 3 && mesh->own > 0; axis++) {
        add_ghosts(mesh, c, axis, false);
        add_ghosts(mesh, c, axis, true);
    }
    BX_ALLOC(FIELDS, mesh->waves);
    for (int f = 0; f < FIELDS; f++) {
        bx_wave *w = &mesh->waves[f];
        *w = bx_wave_create(mesh->extent, NUMBERS[f], WALLS, 1);
        double speed = mesh->options->courant * (1 - 0.1 * f), sum = 0, exact = 0;
        c->square[f] = speed * speed;
        for (int axis = 0; axis < 3; axis++) {
            sum += symbol(w->angle[axis]);
            exact += w->angle[axis] * w->angle[axis];
        }
        w->amplitude[0] = cexp(I * f) * (1 + 0.1 * f);
        w->factor[0] = cexp(-2 * I * asin(sqrt(-c->square[f] * sum) / 2));
        w->exact[0] = cexp(-I * speed * sqrt(exact));
    }
}

static int64_t place(const bx_mesh *mesh, const int64_t at[3])
{
    return place_at(mesh->layout, at[0], at[1], at[2]);
}

static void visit_all(const bx_mesh *mesh, void (*visit)(void *context, int64_t cell, int64_t at),
                      void *context)
{
    const channel *c = mesh->layout;
    for (int64_t z = c->box.first[2]; z < c->box.last[2]; z++)
        for (int64_t y = c->box.first[1]; y < c->box.last[1]; y++) {
            int64_t cell = bx_mesh_cell(mesh, c->box.first[0], y, z);
            int64_t at = place_at(c, c->box.first[0], y, z);
            for (int64_t x = c->box.first[0]; x < c->box.last[0]; x++) visit(context, cell++, at++);
        }
}

/* A part of a row; the order of the sum is the same for every cell.  Meanwhile the next row's
 * numbers come from memory; what else that row reads was read for planes before.  Inlined, GCC 12
 * forgets `restrict`, and looks whether rows overlap in each part. */
__attribute__((noinline)) static void compute_part(const double *restrict u, double *restrict next,
                                                   int64_t length, int64_t row, int64_t plane,
                                                   double square)
{
    double far = -square / 12, near = 4 * square / 3, centre = 2 - 7.5 * square;
    for (int64_t i = 0; i < length; i += LINE) {
        __builtin_prefetch(&u[i + row + DEPTH * plane]);
        __builtin_prefetch(&next[i + row], 1);
    }
    for (int64_t i = 0; i < length; i++) {
        double x = near * (u[i - 1] + u[i + 1]) + far * (u[i - 2] + u[i + 2]);
        double y = near * (u[i - row] + u[i + row]) + far * (u[i - 2 * row] + u[i + 2 * row]);
        double z =
            near * (u[i - plane] + u[i + plane]) + far * (u[i - 2 * plane] + u[i + 2 * plane]);
        next[i] = centre * u[i] - next[i] + (x + y + z);
    }
}

/* Some rows of one plane or more.  Parts of rows of all planes, one after the other, share what
 * they read while it is in the first cache. */
static void compute_tile(const channel *c, const double *from, double *to, int64_t length,
                         int64_t rows, int64_t planes, double square)
{
    for (int64_t row = 0; row < rows * c->row; row += c->row)
        for (int64_t x = 0; x < length; x += PART)
            for (int64_t plane = 0; plane < planes * c->plane; plane += c->plane)
                compute_part(&from[row + x + plane], &to[row + x + plane],
                             length - x < PART ? length - x : PART, c->row, c->plane, square);
}

/* Tile by tile: the planes that a tile's next planes read are in cache.  Threads share planes. */
static void compute(const bx_mesh *mesh, const double *from, double *to, const bx_box *box)
{
    const channel *c = mesh->layout;
    int64_t tiles = (bx_box_length(box, 1) + ROWS - 1) / ROWS, length = bx_box_length(box, 0);
    if (length <= 0 || tiles <= 0 || bx_box_length(box, 2) <= 0) return;
#pragma omp parallel for collapse(3) schedule(static)
    for (int f = 0; f < FIELDS; f++)
        for (int64_t tile = 0; tile < tiles; tile++)
            for (int64_t z = box->first[2]; z < box->last[2]; z += PLANES) {
                int64_t y = box->first[1] + tile * ROWS, left = box->last[1] - y;
                int64_t left_z = box->last[2] - z;
                int64_t at = f * mesh->stride + place_at(c, box->first[0], y, z);
                compute_tile(c, &from[at], &to[at], length, left < ROWS ? left : ROWS,
                             left_z < PLANES ? left_z : PLANES, c->square[f]);
            }
}

static void step(const bx_mesh *mesh, const double *from, double *to, bx_step_part part)
{
    const channel *c = mesh->layout;
    bx_box inside = c->box, rest = c->box;
    for (int axis = 0; axis < 3; axis++) {
        int64_t length = bx_box_length(&c->box, axis);
        if (length == mesh->extent[axis]) continue; /* its ghosts are copies of own cells */
        bool thick = length > 2 * DEPTH;
        inside.first[axis] += thick ? DEPTH : 0;
        inside.last[axis] = thick ? c->box.last[axis] - DEPTH : inside.first[axis];
    }
    if (part == BX_ALL) compute(mesh, from, to, &c->box);
    if (part == BX_INTERIOR) compute(mesh, from, to, &inside);
    /* what is left of the box when slabs are cut off, two an axis */
    for (int axis = 2; axis >= 0 && part == BX_BOUNDARY; axis--) {
        bx_box slab = rest;
        slab.last[axis] = inside.first[axis];
        compute(mesh, from, to, &slab);
        slab.first[axis] = inside.last[axis];
        slab.last[axis] = rest.last[axis];
        compute(mesh, from, to, &slab);
        rest.first[axis] = inside.first[axis];
        rest.last[axis] = inside.last[axis];
    }
}

static void free_layout(bx_mesh *mesh) { free(mesh->layout); }

/* What SBLI, the code of PCHAN, computes for a point between two exchanges, a part of a Runge-Kutta
 * step: the equations of Navier and Stokes by central differences of fourth order, Euler's terms
 * split by entropy, those of viscosity and heat as Laplacians (Sandham, Li and Yee, J. Comput.
 * Phys. 178, 307 (2002)).  Counted from the equations, not measured. */
enum {
    FIRST = 5,  /* flop of a first difference: (8 (c - b) - (d - a)) / 12h */
    SECOND = 7, /* of a second one */
    AXES = 3,
    EULER = AXES * FIELDS * 2 * FIRST      /* differences of fluxes, and of entropy variables */
        + AXES * (2 * FIELDS - 1) * FIELDS /* times the Jacobian, a matrix of 5 x 5 */
        + AXES * 30                        /* its 15 entries */
        + AXES * FIELDS * 3                /* both parts, weighted and added */
        + AXES * 6 + 40,                   /* fluxes; entropy variables, pressure, temperature */
    VISCOUS = AXES * FIELDS * FIRST        /* gradients of velocity, temperature, viscosity */
        + AXES * 4 * SECOND + 8            /* Laplacians of velocity and temperature */
        + 6 * FIRST                        /* mixed differences, of first ones */
        + 20 + 20 + 36 + 40,               /* viscosity; stresses; forces; work and heat */
    UPDATE = FIELDS * 4,                   /* compact storage: two fields, each x + c y */
};

const bx_kind bx_kind_channel = {
    .point_bytes = 2.0 * FIELDS * sizeof(double),
    .code_flops = EULER + VISCOUS + UPDATE,
    .create = create,
    .place = place,
    .visit = visit_all,
    .step = step,
    .destroy = free_layout,
};
