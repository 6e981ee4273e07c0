/* Memory of this host, and of its control group. */
#include "host.h"

#include "bx.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Bytes of a control group (v2) in the page cache, which the system frees on demand. */
static double reclaimable(const char *folder)
{
    char path[512], key[64];
    double value, bytes = 0;
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    FILE *file = fopen(path, "r");
    while (file && fscanf(file, "%63s %lf", key, &value) == 2)
        if (strcmp(key, "inactive_file") == 0) bytes = value;
    if (file) fclose(file);
    return bytes;
}

/* Bytes that a control group (v2) can still allocate; infinity without a limit. */
static double group_free(const char *folder)
{
    char limit[512], used[512];
    snprintf(limit, sizeof limit, "%s/memory.max", folder);
    snprintf(used, sizeof used, "%s/memory.current", folder);
    return number(limit) - number(used) + reclaimable(folder);
}

double bx_host_memory_free(void)
{
    char *available = bx_host_field("/proc/meminfo", "MemAvailable");
    double free_bytes = available ? atof(available) * 1024 : INFINITY;
    free(available);
    /* a batch job's own group, and in a container the one mounted at the top */
    char *own = bx_host_field("/proc/self/cgroup", "0:"), folder[400];
    snprintf(folder, sizeof folder, "/sys/fs/cgroup%s", own ? own + (*own == ':') : "");
    double groups[2] = {group_free(folder), group_free("/sys/fs/cgroup")};
    free(own);
    for (int i = 0; i < 2; i++)
        if (groups[i] < free_bytes) free_bytes = groups[i]; /* a NaN of two infinities loses */
    return free_bytes;
}

double bx_host_memory_used(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long size, resident, shared;
    int fields = file ? fscanf(file, "%ld %ld %ld", &size, &resident, &shared) : 0;
    if (file) fclose(file);
    return fields == 3 ? (double)(resident - shared) * (double)sysconf(_SC_PAGESIZE) : 0;
}
