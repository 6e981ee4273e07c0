/* An ocean, as POLCOMS moves it (HPCxTR0417, section 7): an Arakawa B grid, elevation in the
 * middle of a cell and velocities at its corner, all levels of a column side by side; columns are
 * cut so that ranks have as many wet ones.  Each level is a layer of its own wave speed on a
 * rotating plane, periodic where there is no land:
 *   h' = -(u_x + v_y),  u' = -c^2 h_x + f v,  v' = -c^2 h_y - f u,
 * in leapfrog steps.  At a corner of a dry cell velocities are zero; a dry column is never read
 * into a wet one, nor sent. */
#include "recompute.h"

#include <stdlib.h>
#include <string.h>

enum { FIELDS = 3, ELEVATION = 0, EAST = 1, NORTH = 2 };
/* A plane of fewer columns turns as one of so many: leapfrog steps are stable while
 * rotation^2 + 4 courant^2 < 1. */
enum { FEWEST_COLUMNS = 8 };
static const double DRY = -1e4; /* the elevation of land, which nobody changes */

typedef struct {
    bx_box box;
    int64_t row;           /* columns in memory from one row to the next */
    int64_t wet, interior; /* own wet columns; those whose neighbours are own */
    int64_t *list;         /* [wet] places, interior ones first */
    bool *flows;           /* [wet] in their order: whether the corner has velocities */
    double *shore[2]; /* [2][extent] of both waves of land, along x and along y; NULL: no land */
    double *courant;  /* [levels] Courant number */
    double rotation;  /* f times the step */
} ocean;

/* ---- land ---- */

static bool is_dry(const bx_mesh *mesh, int64_t x, int64_t y)
{
    const ocean *o = mesh->layout;
    if (!o->shore[0]) return false;
    int64_t nx = mesh->extent[0], ny = mesh->extent[1];
    const double *along_x = &o->shore[0][bx_mesh_wrap(mesh, 0, x)];
    const double *along_y = &o->shore[1][bx_mesh_wrap(mesh, 1, y)];
    return along_x[0] * along_y[0] + 0.5 * along_x[nx] * along_y[ny] > 0.4;
}

/* Continents and islands: products of waves along x and y. */
static void raise_land(const bx_mesh *mesh, ocean *o)
{
    static const double NUMBERS[2][2] = {{1, 5}, {2, 3}}, SHIFTS[2] = {0.3, 0.1};
    for (int axis = 0; axis < 2; axis++) {
        int64_t n = mesh->extent[axis];
        o->shore[axis] = bx_memory_alloc(2 * (size_t)n, sizeof **o->shore);
        for (int64_t i = 0; i < 2 * n; i++) {
            double turn = NUMBERS[axis][i / n] * ((double)(i % n) + 0.5) / (double)n;
            o->shore[axis][i] = cos(2 * M_PI * (turn + SHIFTS[axis]));
        }
    }
}

/* Wet columns below and left of each corner of the grid, [ny + 1][nx + 1]; the caller frees it. */
static int32_t *sum_wet(const bx_mesh *mesh)
{
    int64_t line = mesh->extent[0] + 1;
    int32_t *sums = bx_memory_alloc((size_t)(line * (mesh->extent[1] + 1)), sizeof *sums);
    for (int64_t y = 0; y < mesh->extent[1]; y++)
        for (int64_t x = 0, row = 0; x < mesh->extent[0]; x++) {
            row += !is_dry(mesh, x, y);
            sums[x + 1 + line * (y + 1)] = sums[x + 1 + line * y] + (int32_t)row;
        }
    return sums;
}

typedef struct {
    const int32_t *sums;
    int64_t line;
} wet_sums;

static int64_t wet_in(const wet_sums *s, const bx_box *box)
{
    int64_t low = s->line * box->first[1], high = s->line * box->last[1];
    return s->sums[box->last[0] + high] - s->sums[box->first[0] + high] -
           s->sums[box->last[0] + low] + s->sums[box->first[0] + low];
}

/* Where the lower side has its part of the box's wet columns. */
static int64_t cut_by_wet(const void *context, const bx_box *box, int axis, int low, int parts)
{
    int64_t total = wet_in(context, box);
    if (total == 0) return bx_tree_cut_evenly(NULL, box, axis, low, parts);
    bx_box lower = *box;
    for (lower.last[axis] = box->first[axis]; lower.last[axis] < box->last[axis];
         lower.last[axis]++)
        if (2 * wet_in(context, &lower) * parts + parts > 2 * total * low) break;
    return lower.last[axis];
}

/* ---- cells ---- */

static int64_t place_at(const ocean *o, int64_t x, int64_t y)
{
    return x - o->box.first[0] + 1 + o->row * (y - o->box.first[1] + 1);
}

static bool is_interior(const ocean *o, int64_t x, int64_t y)
{
    return x > o->box.first[0] && x < o->box.last[0] - 1 && y > o->box.first[1] &&
           y < o->box.last[1] - 1;
}

static bool is_own(const ocean *o, int64_t x, int64_t y)
{
    return x >= o->box.first[0] && x < o->box.last[0] && y >= o->box.first[1] && y < o->box.last[1];
}

static bool corner_flows(const bx_mesh *mesh, int64_t x, int64_t y)
{
    return !is_dry(mesh, x, y) && !is_dry(mesh, x + 1, y) && !is_dry(mesh, x, y + 1) &&
           !is_dry(mesh, x + 1, y + 1);
}

/* Lists own wet columns, interior ones or the others. */
static void list_wet(const bx_mesh *mesh, ocean *o, bool interior)
{
    for (int64_t y = o->box.first[1]; y < o->box.last[1]; y++)
        for (int64_t x = o->box.first[0]; x < o->box.last[0]; x++) {
            if (is_dry(mesh, x, y) || is_interior(o, x, y) != interior) continue;
            o->flows[o->wet] = corner_flows(mesh, x, y);
            o->list[o->wet++] = place_at(o, x, y);
        }
}

static void set_waves(bx_mesh *mesh, ocean *o)
{
    static const int NUMBER[3] = {1, 2, 0};
    static const bool WALLS[3] = {false, false, false};
    BX_ALLOC(FIELDS, mesh->waves);
    for (int f = 0; f < FIELDS; f++)
        mesh->waves[f] = bx_wave_create(mesh->extent, NUMBER, WALLS, mesh->width);
    const double *angle = mesh->waves[ELEVATION].angle;
    double complex x = cexp(I * angle[0]), y = cexp(I * angle[1]);
    double complex slope_x = (x - 1) * (1 + y) / 2, slope_y = (y - 1) * (1 + x) / 2;
    double square = creal(slope_x * conj(slope_x) + slope_y * conj(slope_y));
    double exact = angle[0] * angle[0] + angle[1] * angle[1];
    for (int level = 0; level < mesh->width; level++) {
        double c = o->courant[level] = mesh->options->courant / (1 + 0.1 * level);
        double r = o->rotation;
        double s = sqrt(r * r + c * c * square);
        double complex mode[FIELDS] = {c * square, -I * s * slope_x + r * slope_y,
                                       -I * s * slope_y - r * slope_x};
        /* Without a slope on so few columns, as on 1x1 or 2x4, all water goes round in circles. */
        if (square < 1e-20) mode[ELEVATION] = 0, mode[EAST] = 1, mode[NORTH] = -I;
        double largest = fmax(cabs(mode[ELEVATION]), fmax(cabs(mode[EAST]), cabs(mode[NORTH])));
        for (int f = 0; f < FIELDS; f++) {
            mesh->waves[f].amplitude[level] = cexp(I * level) * mode[f] / largest;
            mesh->waves[f].factor[level] = cexp(-I * asin(s));
            mesh->waves[f].exact[level] = cexp(-I * sqrt(r * r + c * c * exact));
        }
    }
}

static void create(bx_mesh *mesh)
{
    ocean *o = mesh->layout = bx_memory_alloc(1, sizeof *o);
    mesh->width = (int)mesh->extent[2];
    mesh->extent[2] = 1; /* levels are not cut */
    mesh->fields = FIELDS;
    mesh->continues = true;
    mesh->has_solution = strcmp(mesh->options->land, "none") == 0;
    if (!mesh->has_solution) raise_land(mesh, o);
    int32_t *sums = sum_wet(mesh);
    wet_sums context = {sums, mesh->extent[0] + 1};
    bx_mesh_cut(mesh, mesh->ranks, cut_by_wet, &context);
    free(sums);
    o->box = bx_tree_leaf(mesh->tree, mesh->rank);
    o->rotation = 2 * M_PI * mesh->options->courant / fmax((double)mesh->extent[0], FEWEST_COLUMNS);
    int64_t columns = bx_box_cells(&o->box);
    o->row = bx_box_length(&o->box, 0) + 2;
    BX_ALLOC((size_t)columns + 1, o->list, o->flows);
    BX_ALLOC((size_t)mesh->width, o->courant);
    list_wet(mesh, o, true);
    o->interior = o->wet;
    list_wet(mesh, o, false);
    mesh->own = o->wet;
    mesh->stored = columns > 0 ? o->row * (bx_box_length(&o->box, 1) + 2) : 0;
    for (int64_t y = o->box.first[1] - 1; y <= o->box.last[1] && columns > 0; y++)
        for (int64_t x = o->box.first[0] - 1; x <= o->box.last[0]; x++)
            if (!is_own(o, x, y) && !is_dry(mesh, x, y))
                bx_mesh_add_ghost(
                    mesh, bx_mesh_cell(mesh, bx_mesh_wrap(mesh, 0, x), bx_mesh_wrap(mesh, 1, y), 0),
                    place_at(o, x, y));
    set_waves(mesh, o);
}

static int64_t place(const bx_mesh *mesh, const int64_t at[3])
{
    return place_at(mesh->layout, at[0], at[1]);
}

static void visit_all(const bx_mesh *mesh, void (*visit)(void *context, int64_t cell, int64_t at),
                      void *context)
{
    const ocean *o = mesh->layout;
    for (int64_t y = o->box.first[1]; y < o->box.last[1]; y++)
        for (int64_t x = o->box.first[0]; x < o->box.last[0]; x++)
            if (!is_dry(mesh, x, y)) visit(context, bx_mesh_cell(mesh, x, y, 0), place_at(o, x, y));
}

/* ---- a step ---- */

static void step(const bx_mesh *mesh, const double *from, double *to, bx_step_part part)
{
    const ocean *o = mesh->layout;
    int64_t first = part == BX_BOUNDARY ? o->interior : 0;
    int64_t last = part == BX_INTERIOR ? o->interior : o->wet;
    int levels = mesh->width;
    int64_t east = levels, north = o->row * levels, field = mesh->stride;
    const double *restrict courant = o->courant;
    double rotation = o->rotation;
#pragma omp parallel for schedule(static)
    for (int64_t i = first; i < last; i++) {
        int64_t at = o->list[i] * levels;
        const double *restrict h = &from[at], *restrict u = &from[EAST * field + at],
                               *restrict v = &from[NORTH * field + at];
        double *restrict h_next = &to[at], *restrict u_next = &to[EAST * field + at],
                         *restrict v_next = &to[NORTH * field + at];
        for (int l = 0; l < levels; l++) {
            double outflow_x = (u[l] + u[l - north]) - (u[l - east] + u[l - east - north]);
            double outflow_y = (v[l] + v[l - east]) - (v[l - north] + v[l - east - north]);
            h_next[l] -= courant[l] * (outflow_x + outflow_y);
        }
        if (!o->flows[i]) continue;
        for (int l = 0; l < levels; l++) {
            double slope_x = (h[l + east] + h[l + east + north]) - (h[l] + h[l + north]);
            double slope_y = (h[l + north] + h[l + east + north]) - (h[l] + h[l + east]);
            u_next[l] += 2 * rotation * v[l] - courant[l] * slope_x;
            v_next[l] -= 2 * rotation * u[l] + courant[l] * slope_y;
        }
    }
}

/* ---- what no step changes ---- */

/* Writes it, or counts what is otherwise. */
static double treat_masked(const bx_mesh *mesh, double *fields, bool write)
{
    const ocean *o = mesh->layout;
    double changed = 0;
    for (int64_t y = o->box.first[1] - 1; y <= o->box.last[1] && mesh->stored > 0; y++)
        for (int64_t x = o->box.first[0] - 1; x <= o->box.last[0]; x++) {
            bool dry = is_dry(mesh, x, y);
            bool still = dry || (is_own(o, x, y) && !corner_flows(mesh, x, y));
            for (int f = dry ? ELEVATION : EAST; f < FIELDS && still; f++)
                for (int l = 0; l < mesh->width; l++) {
                    double *number =
                        &fields[f * mesh->stride + place_at(o, x, y) * mesh->width + l];
                    double expected = f == ELEVATION ? DRY : 0;
                    if (write) *number = expected;
                    changed += memcmp(number, &expected, sizeof expected) != 0;
                }
        }
    return changed;
}

static void mask(const bx_mesh *mesh, double *fields) { treat_masked(mesh, fields, true); }

static double count_changed(const bx_mesh *mesh, const double *fields)
{
    return treat_masked(mesh, (double *)fields, false);
}

static void free_layout(bx_mesh *mesh)
{
    ocean *o = mesh->layout;
    BX_FREE(o->list, o->flows, o->courant, o->shore[0], o->shore[1], o);
}

/* What POLCOMS computes for a point between two exchanges of its velocities: their advection by
 * the piecewise parabolic method (Colella and Woodward, J. Comput. Phys. 54, 174 (1984)), pressure
 * and rotation, and turbulence of Mellor and Yamada's level 2.5 (Rev. Geophys. 20, 851 (1982)).
 * Counted from the equations, not measured.  Temperature and salt, with exchanges of their own, are
 * not counted. */
enum {
    AXES = 3,
    SLOPE = 2 + 9, /* difference of neighbours, limited by those to both sides: (1.7), (1.8) */
    EDGE = 7,      /* value between two cells: (1.6) */
    PARABOLA = 3 + 7 + 2, /* both tests of monotony, the edge that is moved: (1.10) */
    FLUX = 5 + 8 + 4,     /* jump and curvature: (1.5); mean of what leaves: (1.12); differences */
    ADVECTION = AXES * 2 * (SLOPE + EDGE + PARABOLA + FLUX),
    PRESSURE = 2 * (2 * 6 + 4) + 8, /* two differences of density and depth; sums over levels */
    ROTATION = 2 * 2,
    TRIDIAGONAL = 3 + 8,            /* coefficients; elimination and back substitution of a level */
    TURBULENCE = 2 * 5 + 4 + 2 * 12 /* shear, stratification, stability functions */
        + 2 * 8,              /* production and dissipation of energy, and of it times length */
    MIXING = 4 * TRIDIAGONAL, /* of both velocities, and of both quantities of turbulence */
};

const bx_kind bx_kind_ocean = {
    .point_bytes = 2.0 * FIELDS * sizeof(double),
    .code_flops = ADVECTION + PRESSURE + ROTATION + TURBULENCE + MIXING,
    .create = create,
    .place = place,
    .visit = visit_all,
    .step = step,
    .mask = mask,
    .changed = count_changed,
    .recompute = bx_recompute_ocean,
    .destroy = free_layout,
};
