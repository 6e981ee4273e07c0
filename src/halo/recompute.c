#include "recompute.h"

#include <stdlib.h>

enum { H, U, V, FIELDS };
enum { TILE = 48, SIDE = TILE + 2 * BX_RECOMPUTED_STEPS };

/* A tile, amid all columns from which anything reaches it; at most SIDE x SIDE columns. */
typedef struct {
    const bx_mesh *mesh;
    int64_t first[2], size[2]; /* column; columns along x, y */
    bool wet[SIDE][SIDE];
    bool open[SIDE][SIDE]; /* whether the corner to the north-east has velocities */
    double complex space[FIELDS][SIDE][SIDE];
    double fields[2][FIELDS][SIDE][SIDE]; /* of even steps, of odd steps */
} patch;

/* The column of the grid at a place of the patch. */
static void find_column(const patch *p, int64_t i, int64_t j, int64_t column[3])
{
    column[0] = bx_mesh_wrap(p->mesh, 0, p->first[0] + i);
    column[1] = bx_mesh_wrap(p->mesh, 1, p->first[1] + j);
    column[2] = 0;
}

static bool is_wet(const bx_mesh *mesh, const int64_t column[3])
{
    double x = ((double)column[0] + 0.5) / (double)mesh->extent[0];
    double y = ((double)column[1] + 0.5) / (double)mesh->extent[1];
    double continents = cos(2 * M_PI * (x + 0.3)) * cos(2 * M_PI * (2 * y + 0.1));
    double islands = cos(2 * M_PI * (5 * x + 0.3)) * cos(2 * M_PI * (3 * y + 0.1));
    return mesh->has_solution || continents + islands / 2 <= 0.4;
}

static void survey(patch *p)
{
    for (int64_t j = 0; j < p->size[1]; j++)
        for (int64_t i = 0; i < p->size[0]; i++) {
            int64_t column[3];
            find_column(p, i, j, column);
            p->wet[j][i] = is_wet(p->mesh, column);
            for (int f = 0; f < FIELDS; f++)
                p->space[f][j][i] = bx_wave_space(&p->mesh->waves[f], column);
        }
    for (int64_t j = 0; j + 1 < p->size[1]; j++)
        for (int64_t i = 0; i + 1 < p->size[0]; i++)
            p->open[j][i] =
                p->wet[j][i] && p->wet[j][i + 1] && p->wet[j + 1][i] && p->wet[j + 1][i + 1];
}

/* Writes the fields of a level at step 0 or -1, which the closed form has. */
static void start(patch *p, int level, int64_t step)
{
    for (int f = 0; f < FIELDS; f++) {
        const bx_wave *w = &p->mesh->waves[f];
        double complex amplitude = w->amplitude[level] / (step < 0 ? w->factor[level] : 1);
        /* In the loop, the choice of the table is miscompiled by GCC 12 with -O1 and -O2, not with
         * -fno-ivopts: fields were wrong and right answers refused. */
        bool (*is_free)[SIDE] = f == H ? p->wet : p->open;
        double (*field)[SIDE] = p->fields[step & 1][f];
        for (int64_t j = 0; j < p->size[1]; j++)
            for (int64_t i = 0; i < p->size[0]; i++)
                field[j][i] = is_free[j][i] ? creal(amplitude * p->space[f][j][i]) : 0;
    }
}

/* Centred differences in time, and in space of means of two neighbours, where the patch has all
 * neighbours: so columns at its edge go wrong, one more with each step. */
static void advance(patch *p, int64_t step, double courant, double rotation)
{
    double (*now)[SIDE][SIDE] = p->fields[step & 1],
           (*next)[SIDE][SIDE] = p->fields[1 - (step & 1)];
    double (*h)[SIDE] = now[H], (*u)[SIDE] = now[U], (*v)[SIDE] = now[V];
    for (int64_t j = 1; j + 1 < p->size[1]; j++)
        for (int64_t i = 1; i + 1 < p->size[0]; i++) {
            int64_t e = i + 1, w = i - 1, n = j + 1, s = j - 1;
            double u_x = (u[s][i] + u[j][i]) / 2 - (u[s][w] + u[j][w]) / 2;
            double v_y = (v[j][w] + v[j][i]) / 2 - (v[s][w] + v[s][i]) / 2;
            double h_x = (h[j][e] + h[n][e]) / 2 - (h[j][i] + h[n][i]) / 2;
            double h_y = (h[n][i] + h[n][e]) / 2 - (h[j][i] + h[j][e]) / 2;
            if (p->wet[j][i]) next[H][j][i] -= 2 * courant * (u_x + v_y);
            if (!p->open[j][i]) continue;
            next[U][j][i] += 2 * (rotation * v[j][i] - courant * h_x);
            next[V][j][i] += 2 * (-rotation * u[j][i] - courant * h_y);
        }
}

/* Counts a tile's wet columns, and returns the largest difference of any level. */
static double recompute_tile(const bx_mesh *mesh, const bx_box *tile, const double *fields,
                             int64_t steps, int64_t *wet)
{
    patch *p = bx_memory_alloc(1, sizeof *p);
    p->mesh = mesh;
    for (int axis = 0; axis < 2; axis++) {
        p->first[axis] = tile->first[axis] - steps;
        p->size[axis] = bx_box_length(tile, axis) + 2 * steps;
    }
    survey(p);
    double courant = mesh->options->courant, largest = 0;
    double rotation = 2 * M_PI * courant / fmax(8, (double)mesh->extent[0]);
    for (int level = 0; level < mesh->width; level++) {
        start(p, level, -1);
        start(p, level, 0);
        for (int64_t step = 0; step < steps; step++)
            advance(p, step, courant / (1 + 0.1 * level), rotation);
        for (int64_t j = steps; j < p->size[1] - steps; j++)
            for (int64_t i = steps; i < p->size[0] - steps; i++) {
                int64_t column[3];
                find_column(p, i, j, column);
                *wet += level == 0 && p->wet[j][i];
                int64_t at = mesh->kind->place(mesh, column) * mesh->width + level;
                for (int f = 0; f < FIELDS && p->wet[j][i]; f++) {
                    double difference =
                        fields[f * mesh->stride + at] - p->fields[steps & 1][f][j][i];
                    largest = bx_verification_worse(largest, fabs(difference));
                }
            }
    }
    free(p);
    return largest;
}

double bx_recompute_ocean(const bx_mesh *mesh, const double *fields, int64_t steps)
{
    bx_box whole = bx_tree_leaf(mesh->tree, mesh->rank), *box = &whole;
    double largest = 0;
    int64_t wet = 0;
#pragma omp parallel for collapse(2) schedule(dynamic) reduction(max : largest) reduction(+ : wet)
    for (int64_t y = box->first[1]; y < box->last[1]; y += TILE)
        for (int64_t x = box->first[0]; x < box->last[0]; x += TILE) {
            bx_box tile = {{x, y, 0}, {x + TILE, y + TILE, 1}};
            for (int axis = 0; axis < 2; axis++)
                if (tile.last[axis] > box->last[axis]) tile.last[axis] = box->last[axis];
            double worst = recompute_tile(mesh, &tile, fields, steps, &wet);
            if (worst > largest) largest = worst;
        }
    return wet == mesh->own ? largest : INFINITY;
}
