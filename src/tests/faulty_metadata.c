/* bisection-metadata on a file system that fails, by BX_FAULT: `flip` changes a bit of what is
 * written, `short` drops its last word, `full` has no space after 20 files of a rank; `lost` loses
 * a file that is renamed, `unnamed` keeps its old name; `left` keeps a file that is removed. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES = 3904 };

static bool is(const char *fault)
{
    const char *given = getenv("BX_FAULT");
    return given && strcmp(given, fault) == 0;
}

/* Whether a path is that of the first file of rank 0. */
static bool is_first(const char *path)
{
    const char *end = strrchr(path, '/');
    return end && strlen(end) > 4 && strcmp(end + 4, "-0-0") == 0;
}

ssize_t __real_write(int file, const void *from, size_t bytes);
ssize_t __wrap_write(int file, const void *from, size_t bytes);
ssize_t __wrap_write(int file, const void *from, size_t bytes)
{
    char changed[FILE_BYTES];
    if (bytes != FILE_BYTES) return __real_write(file, from, bytes);
    static int files;
    if (is("full") && ++files > 20) {
        errno = ENOSPC;
        return -1;
    }
    memcpy(changed, from, bytes);
    if (is("flip")) changed[bytes / 2] ^= 1;
    ssize_t written = __real_write(file, changed, bytes - (is("short") ? 8 : 0));
    return written > 0 ? (ssize_t)bytes : written;
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_unlink(const char *path);
int __wrap_rename(const char *from, const char *to)
{
    if (is("lost") && is_first(from)) return __real_unlink(from);
    if (is("unnamed") && is_first(from)) return 0;
    return __real_rename(from, to);
}

int __wrap_unlink(const char *path);
int __wrap_unlink(const char *path)
{
    static char kept[512]; /* until the folder is removed */
    bool keeps = is("left") && is_first(path) && strcmp(kept, path) != 0;
    if (!keeps) return __real_unlink(path);
    snprintf(kept, sizeof kept, "%s", path);
    return 0;
}
