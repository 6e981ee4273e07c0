/* The folder of a launch's files, inside one that the user names. */
#pragma once

#include "bx.h"

/* Creates the folder and writes its name to path[size]; refuses where it cannot be created, where a
 * rank does not see it, and where `bytes` are more than `percent` of the free space or than `most`.
 * Removes folders of launches on this host that were killed.  Returns as bx_run_agree. Collective.
 */
int bx_folder_create(bx_run *run, const char *directory, double bytes, double percent, double most,
                     char *path, size_t size);
/* Removes it with its files.  Rank 0; local. */
void bx_folder_remove(const char *path);
