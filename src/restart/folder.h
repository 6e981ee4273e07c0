/* The folder of a launch's files, inside one that the user names. */
#pragma once

#include "bx.h"

/* Where a launch may write, and how much. */
typedef struct {
    const char *directory;
    double share, most; /* percent of the free space; bytes */
} bx_folder_place;
#define BX_FOLDER_PLACE {.directory = ".", .share = 1, .most = 8e9}
/* Options that set a place. */
/* clang-format off */
#define BX_FOLDER_OPTIONS(place)                                                                   \
    {"directory", "DIR", "folder, seen by all nodes, for the launch's own folder (default: .)",    \
     BX_TEXT, 0, 0, &(place).directory},                                                           \
    {"share", "PERCENT", "of the free space, that may be written (default: 1)",                    \
     BX_REAL, 1e-6, 100, &(place).share},                                                          \
    {"most", "BYTES", "that may be written (default: 8e9)", BX_REAL, 1, 1e18, &(place).most}
/* clang-format on */

/* Creates the folder and writes its name to path[size]; refuses where it cannot be created, where a
 * rank does not see it, and where `bytes` are more than may be written.  Removes folders of
 * launches on this host that were killed.  Returns as bx_run_agree. Collective. */
int bx_folder_create(bx_run *run, const bx_folder_place *place, double bytes, char *path,
                     size_t size);
/* Returns how many files and folders are in a folder.  Where there are less than `expected`, waits
 * for those of other nodes to appear.  Local. */
int bx_folder_count(const char *path, int expected);
/* Removes it with all that is in it.  Rank 0; local. */
void bx_folder_remove(const char *path);
