#include "mesh.h"

#include <stdlib.h>
#include <string.h>

/* Numbers: a field takes an odd multiple of 512 bytes. A step reads the same place of all fields at
 * once, and caches hold few numbers whose places differ by a multiple of 4 KiB. */
enum { LINE = 64 };

bx_mesh *bx_mesh_create(bx_run *run, const bx_kind *kind, const bx_halo_options *options,
                        const int64_t extent[3])
{
    bx_mesh *mesh = bx_memory_alloc(1, sizeof *mesh);
    mesh->run = run;
    mesh->kind = kind;
    mesh->options = options;
    mesh->rank = bx_run_rank(run);
    mesh->ranks = bx_run_ranks(run);
    memcpy(mesh->extent, extent, sizeof mesh->extent);
    kind->create(mesh);
    mesh->stride = ((mesh->stored * mesh->width + LINE - 1) / LINE | 1) * LINE;
    return mesh;
}

void bx_mesh_free(bx_mesh *mesh)
{
    mesh->kind->destroy(mesh);
    bx_tree_free(mesh->tree);
    free(mesh->rank_of);
    for (int f = 0; f < mesh->fields; f++) bx_wave_free(&mesh->waves[f]);
    BX_FREE(mesh->waves, mesh->ghost_cell, mesh->ghost_at, mesh);
}

void bx_mesh_add_ghost(bx_mesh *mesh, int64_t cell, int64_t at)
{
    if ((mesh->ghosts & (mesh->ghosts - 1)) == 0) { /* full */
        size_t room = mesh->ghosts ? 2 * (size_t)mesh->ghosts : 1;
        mesh->ghost_cell = bx_memory_grow(mesh->ghost_cell, room, sizeof *mesh->ghost_cell);
        mesh->ghost_at = bx_memory_grow(mesh->ghost_at, room, sizeof *mesh->ghost_at);
    }
    mesh->ghost_cell[mesh->ghosts] = cell;
    mesh->ghost_at[mesh->ghosts++] = at;
}

int bx_mesh_owner(const bx_mesh *mesh, int64_t cell)
{
    int64_t at[3];
    bx_mesh_at(mesh, cell, at);
    int leaf = bx_tree_find(mesh->tree, at);
    return mesh->rank_of ? mesh->rank_of[leaf] : leaf;
}

int64_t bx_mesh_place(const bx_mesh *mesh, int64_t cell)
{
    int64_t at[3];
    bx_mesh_at(mesh, cell, at);
    return mesh->kind->place(mesh, at);
}

void bx_mesh_cut(bx_mesh *mesh, int leaves, bx_tree_cut *cut, const void *context)
{
    bx_box whole = {{0}, {mesh->extent[0], mesh->extent[1], mesh->extent[2]}};
    mesh->tree = bx_tree_create(&whole, leaves, cut, context);
}

double bx_mesh_numbers(const bx_mesh *mesh)
{
    return (double)mesh->own * mesh->width * mesh->fields;
}
