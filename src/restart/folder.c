#include "folder.h"

#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const char PREFIX[] = "bisection-restart-";
static const char OWNER[] = "owner"; /* the host of rank 0 */

void bx_folder_remove(const char *path)
{
    char name[PATH_MAX + 256];
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (unlink(name) != 0) bx_folder_remove(name); /* a folder */
    }
    if (folder) closedir(folder);
    rmdir(path);
}

/* Whether the launch that owns a folder has ended, on this host: its lock is free.  A lock may be
 * known to one host alone. */
static bool is_abandoned(const char *path)
{
    char name[PATH_MAX + sizeof OWNER], host[256] = "", here[256] = "";
    snprintf(name, sizeof name, "%s/%s", path, OWNER);
    int file = open(name, O_RDWR);
    bool known = file >= 0 && read(file, host, sizeof host - 1) > 0;
    gethostname(here, sizeof here - 1);
    bool ended = known && strcmp(host, here) == 0 && flock(file, LOCK_EX | LOCK_NB) == 0;
    if (file >= 0) close(file);
    return ended;
}

static void remove_abandoned(const bx_run *run, const char *directory)
{
    char path[PATH_MAX];
    DIR *folder = opendir(directory);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (!is_abandoned(path)) continue;
        bx_folder_remove(path);
        fprintf(stderr, "bisection-%s: %s: removed, left by a launch that was killed\n",
                run->kernel->name, path);
    }
    if (folder) closedir(folder);
}

/* Creates the folder, and in it a file with this host's name, locked as long as the launch lives.
 * Returns an errno. */
static int create(const char *directory, char *path, size_t size)
{
    char name[PATH_MAX + sizeof OWNER], host[256] = "";
    if (snprintf(path, size, "%s/%sXXXXXX", directory, PREFIX) >= (int)size) return ENAMETOOLONG;
    if (!mkdtemp(path)) return errno;
    snprintf(name, sizeof name, "%s/%s", path, OWNER);
    gethostname(host, sizeof host - 1);
    int file = open(name, O_WRONLY | O_CREAT, 0666);
    if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0)
        return 0; /* no locks: nobody removes it */
    if (file >= 0 && write(file, host, strlen(host)) > 0) return 0;
    int code = errno;
    bx_folder_remove(path);
    return code;
}

/* Refuses what would fill the file system. */
static bool has_space(bx_run *run, const bx_folder_place *place, double bytes)
{
    struct statvfs about;
    if (statvfs(place->directory, &about) != 0) return true;
    double free_space = (double)about.f_bavail * (double)about.f_frsize;
    double allowed = fmin(place->most, free_space * place->share / 100);
    if (bytes <= allowed) return true;
    bx_run_refuse(run, BX_RESOURCES,
                  "--directory %s: %.4g MB would be written, allowed are %.4g MB: --share %g%% "
                  "of %.4g MB that are free, at most --most %.4g MB",
                  place->directory, bytes / 1e6, allowed / 1e6, place->share, free_space / 1e6,
                  place->most / 1e6);
    return false;
}

int bx_folder_create(bx_run *run, const bx_folder_place *place, double bytes, char *path,
                     size_t size)
{
    const char *directory = place->directory;
    if (bx_run_rank(run) == 0) {
        int code = create(directory, path, size);
        bool wrong_name = code == ENOENT || code == ENOTDIR || code == ENAMETOOLONG;
        if (code != 0)
            bx_run_refuse(run, wrong_name ? BX_USAGE : BX_RESOURCES, "--directory %s: %s",
                          directory, strerror(code));
        else
            remove_abandoned(run, directory);
        if (code == 0 && !has_space(run, place, bytes)) bx_folder_remove(path);
    }
    int code = bx_run_agree(run);
    if (code != BX_OK) return code;
    MPI_Bcast(path, (int)size, MPI_CHAR, 0, bx_run_comm(run));
    if (!bx_file_appears(path))
        bx_run_refuse(
            run, BX_RESOURCES,
            "--directory %s: rank %d does not see the folder of rank 0; take one on a file "
            "system that all nodes share",
            directory, bx_run_rank(run));
    code = bx_run_agree(run);
    if (code != BX_OK && bx_run_rank(run) == 0) bx_folder_remove(path);
    return code;
}
