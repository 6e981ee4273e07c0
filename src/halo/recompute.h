/* Fields of an ocean by other code than its steps, which states the case once more: land, speeds,
 * rotation, scheme.  From the initial fields, tile by tile and level by level, with columns known
 * by their numbers in the grid; no lists, ghosts or messages. */
#pragma once

#include "mesh.h"

/* Returns the largest difference of own columns, in units of the fields, from `fields`
 * ([3][mesh->stride], `steps` steps after the initial ones, at most BX_RECOMPUTED_STEPS); infinity
 * if a number is not finite, or if the mesh has another number of wet columns.  Local. */
double bx_recompute_ocean(const bx_mesh *mesh, const double *fields, int64_t steps);
