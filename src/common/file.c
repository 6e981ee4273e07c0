/* Files that users name: examined before anything is computed, replaced whole or not at all. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file behind symbolic links, so that a link is not replaced by what is written to it. */
static void resolve(char target[PATH_MAX], const char *path)
{
    if (!realpath(path, target)) snprintf(target, PATH_MAX, "%s", path);
}

bool bx_file_appears(const char *path)
{
    enum { SECONDS = 10, LOOKS_PER_SECOND = 10 };
    for (int i = 0; i < SECONDS * LOOKS_PER_SECOND && access(path, W_OK) != 0; i++)
        usleep(1000000 / LOOKS_PER_SECOND);
    return access(path, W_OK) == 0;
}

bool bx_file_partial(char *partial, size_t size, const char *path)
{
    char target[PATH_MAX];
    if (strlen(path) >= sizeof target) return false;
    resolve(target, path);
    return snprintf(partial, size, "%s.partial", target) < (int)size;
}

FILE *bx_file_open(const char *path)
{
    char partial[PATH_MAX];
    if (bx_file_partial(partial, sizeof partial, path)) return fopen(partial, "w");
    errno = ENAMETOOLONG;
    return NULL;
}

static int64_t syncs; /* of files, by this process */

int bx_file_sync(int descriptor)
{
    syncs++;
    return fsync(descriptor) == 0 ? 0 : errno;
}

int64_t bx_file_syncs(void) { return syncs; }

#ifndef SMPI_H /* whose files are not simulated */
int MPI_File_sync(MPI_File file)
{
    syncs++;
    return PMPI_File_sync(file);
}
#endif

/* A name is on disk when its folder is.  Some file systems cannot sync folders; the rename is valid
 * anyway. */
static void sync_folder(char *path)
{
    int descriptor = open(dirname(path), O_RDONLY | O_DIRECTORY);
    if (descriptor < 0) return;
    fsync(descriptor);
    close(descriptor);
}

int bx_file_replace(const char *partial, const char *path)
{
    char target[PATH_MAX];
    resolve(target, path);
    int descriptor = open(partial, O_RDWR);
    int code = descriptor < 0 ? errno : bx_file_sync(descriptor);
    if (descriptor >= 0) close(descriptor);
    if (code == 0 && rename(partial, target) != 0) code = errno;
    if (code == 0) sync_folder(target);
    return code;
}

int bx_file_close(FILE *file, const char *path)
{
    char partial[PATH_MAX];
    bx_file_partial(partial, sizeof partial, path);
    errno = 0;
    bool failed = ferror(file) != 0;
    failed = fflush(file) != 0 || failed;
    int code = failed ? (errno ? errno : EIO) : 0;
    if (fclose(file) != 0 && code == 0) code = errno;
    if (code == 0) code = bx_file_replace(partial, path);
    if (code != 0) unlink(partial);
    return code;
}

/* ---- claims ---- */

/* The errno with which no file can be created beside `path`, or 0. */
static int probe(const char *path)
{
    FILE *file = bx_file_open(path);
    if (!file) return errno;
    char partial[PATH_MAX];
    fclose(file);
    if (bx_file_partial(partial, sizeof partial, path)) unlink(partial);
    return 0;
}

/* One name for a file, whatever path leads to it, also before it exists. */
static void identify(char name[PATH_MAX], const char *path)
{
    char folder[PATH_MAX], base[PATH_MAX], real[PATH_MAX];
    if (realpath(path, name)) return;
    snprintf(folder, sizeof folder, "%s", path);
    snprintf(base, sizeof base, "%s", path);
    if (!realpath(dirname(folder), real) ||
        snprintf(name, PATH_MAX, "%s/%s", real, basename(base)) >= PATH_MAX)
        snprintf(name, PATH_MAX, "%s", path);
}

int bx_file_claim(bx_run *run, const char *option, const char *path, bx_file_use use)
{
    struct stat status;
    if (run->rank != 0) return BX_OK;
    if (strlen(path) + strlen(".partial") >= PATH_MAX)
        return bx_run_refuse(run, BX_USAGE, "--%s %.60s...: %s", option, path,
                             strerror(ENAMETOOLONG));
    bool exists = stat(path, &status) == 0;
    int code = exists || errno == ENOENT ? 0 : errno;
    if (use == BX_FILE_READ && !exists) code = errno;
    if (code == 0 && exists && !S_ISREG(status.st_mode))
        return bx_run_refuse(run, BX_USAGE, "--%s %s: exists and is no regular file", option, path);
    if (code == 0 && use != BX_FILE_WRITTEN && exists && access(path, R_OK) != 0) code = errno;
    if (code == 0 && use != BX_FILE_READ) code = probe(path);
    if (code != 0) return bx_run_refuse(run, BX_USAGE, "--%s %s: %s", option, path, strerror(code));
    char name[PATH_MAX];
    identify(name, path);
    for (int i = 0; i < run->claim_count; i++) {
        const bx_claim *other = &run->claims[i];
        if (strcmp(other->file, name) == 0 && (other->use != BX_FILE_READ || use != BX_FILE_READ))
            return bx_run_refuse(run, BX_USAGE, "--%s %s: is also the file of --%s", option, path,
                                 other->option);
    }
    if (run->claim_count == BX_MAX_CLAIMS)
        return bx_run_refuse(run, BX_USAGE, "--%s %s: more than %d files", option, path,
                             BX_MAX_CLAIMS);
    bx_claim *claim = &run->claims[run->claim_count++];
    *claim = (bx_claim){.file = bx_memory_copy_text(name), .use = use};
    snprintf(claim->option, sizeof claim->option, "%s", option);
    return BX_OK;
}
