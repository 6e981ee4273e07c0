/* Memory of this host, and of its control groups. */
#include "host.h"

#include "bx.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { PATH = 4096 };

const char *bx_host_root(const char *path)
{
    char file[PATH];
    const char *root = getenv("BX_SYS_ROOT");
    snprintf(file, sizeof file, "%s%s", root ? root : "", path);
    return root && access(file, R_OK) == 0 ? root : "";
}

char *bx_host_field(const char *path, const char *key)
{
    FILE *file = fopen(path, "r");
    char line[512], *value = NULL;
    while (file && !value && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !colon) continue;
        for (colon++; *colon == ' ' || *colon == '\t'; colon++) continue;
        colon[strcspn(colon, "\n")] = '\0';
        value = bx_memory_copy_text(colon);
    }
    if (file) fclose(file);
    return value;
}

/* The first number in a file; infinity where there is none ("max"). */
static double number(const char *path)
{
    FILE *file = fopen(path, "r");
    double value = INFINITY;
    if (file && fscanf(file, "%lf", &value) != 1) value = INFINITY;
    if (file) fclose(file);
    return value;
}

/* The files of a control group's memory in a version; what they say is the same in both. */
typedef struct {
    const char *mount, *limit, *used, *reclaimable; /* the last is a key of memory.stat */
} accounting;

static const accounting V1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                              "memory.usage_in_bytes", "total_inactive_file"};
static const accounting V2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

/* Bytes of a control group in the page cache, which the system frees on demand. */
static double reclaimable(const char *folder, const accounting *version)
{
    char path[PATH], key[64];
    double value, bytes = 0;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    FILE *file = fopen(path, "r");
    while (file && fscanf(file, "%63s %lf", key, &value) == 2)
        if (strcmp(key, version->reclaimable) == 0) bytes = value;
    if (file) fclose(file);
    return bytes;
}

/* Bytes that this group alone would let its processes allocate; not finite without a limit. */
static double folder_free(const char *folder, const accounting *version)
{
    char limit[PATH], used[PATH];
    snprintf(limit, sizeof limit, "%s/%s", folder, version->limit);
    snprintf(used, sizeof used, "%s/%s", folder, version->used);
    return number(limit) - number(used) + reclaimable(folder, version);
}

/* The same of a group and of all that it lies in: Slurm limits a job, whose steps are groups of it.
 * A container sees its own group at the mount, not under the group's path. */
static double group_free(const char *root, const char *path, const accounting *version)
{
    char folder[PATH - 64];
    size_t top = (size_t)snprintf(folder, sizeof folder, "%s%s", root, version->mount);
    double bytes = INFINITY;
    if (top + strlen(path) >= sizeof folder) return bytes;
    strcpy(folder + top, path);
    for (;;) {
        bytes = fmin(bytes, folder_free(folder, version)); /* drops a NaN, of two infinities */
        if (strlen(folder) <= top) return bytes;
        *strrchr(folder, '/') = '\0';
    }
}

double bx_host_group_free(const char *root)
{
    char path[PATH], line[PATH];
    double bytes = INFINITY;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "r");
    /* NUMBER:CONTROLLERS:PATH, in version 2 without controllers */
    while (file && fgets(line, sizeof line, file)) {
        char *rest = line;
        strsep(&rest, ":");
        char *controllers = strsep(&rest, ":");
        if (!rest) continue;
        rest[strcspn(rest, "\n")] = '\0';
        const accounting *version = *controllers ? &V1 : &V2;
        bool counts = !*controllers;
        for (char *name; (name = strsep(&controllers, ","));)
            counts = counts || strcmp(name, "memory") == 0;
        if (counts) bytes = fmin(bytes, group_free(root, rest, version));
    }
    if (file) fclose(file);
    return bytes;
}

double bx_host_memory_free(void)
{
    const char *root = bx_host_root("/proc/meminfo");
    char path[PATH];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    char *available = bx_host_field(path, "MemAvailable");
    double free_bytes = available ? atof(available) * 1024 : INFINITY;
    free(available);
    return fmin(free_bytes, bx_host_group_free(root));
}

double bx_host_folder_room(const char *folder)
{
    struct statvfs room;
    /* a tmpfs without a limit has 0 blocks */
    if (statvfs(folder, &room) != 0 || room.f_blocks == 0) return INFINITY;
    return (double)room.f_bavail * (double)room.f_frsize;
}

void bx_host_folder_of(const void *address, char *folder, size_t size)
{
    char line[PATH];
    FILE *file = fopen("/proc/self/maps", "r");
    *folder = '\0';
    while (file && fgets(line, sizeof line, file)) {
        uintptr_t first, end;
        int at = 0;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %*s %n", &first, &end, &at) < 2 ||
            (uintptr_t)address < first || (uintptr_t)address >= end)
            continue;
        char *slash = strrchr(line + at, '/');
        if (slash) snprintf(folder, size, "%.*s", (int)(slash - line - at), line + at);
    }
    if (file) fclose(file);
    /* /dev/zero, /memfd:NAME, /SYSVKEY, a device: memory of no file system that has room */
    if (strcmp(folder, "/dev") == 0) *folder = '\0';
}

double bx_host_memory_used(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long size, resident, shared;
    int fields = file ? fscanf(file, "%ld %ld %ld", &size, &resident, &shared) : 0;
    if (file) fclose(file);
    return fields == 3 ? (double)(resident - shared) * (double)sysconf(_SC_PAGESIZE) : 0;
}
