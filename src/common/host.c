/* Facts about this host, and the rate at which its clock really runs. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "host.h"

#include "bx.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The text after "key ... :" in a file of such lines, or NULL; caller frees. */
static char *field(const char *path, const char *key)
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

/* Adds "NAME LINE; " with the first line of a file, where it can be read. */
static void append_line(char *text, size_t size, const char *name, const char *path)
{
    char line[64];
    FILE *file = fopen(path, "r");
    if (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        snprintf(text + strlen(text), size - strlen(text), "%s%s %s", *text ? "; " : "", name,
                 line);
    }
    if (file) fclose(file);
}

/* The versions of microcode, BIOS and network adapters, at most `size` bytes. */
static void firmware(char *text, size_t size)
{
    glob_t adapters;
    char *microcode = field("/proc/cpuinfo", "microcode");
    *text = '\0';
    if (microcode) snprintf(text, size, "microcode %s", microcode);
    free(microcode);
    append_line(text, size, "BIOS", "/sys/class/dmi/id/bios_version");
    if (glob("/sys/class/infiniband/*/fw_ver", 0, NULL, &adapters) == 0) {
        for (size_t i = 0; i < adapters.gl_pathc; i++) {
            char name[64] = "";
            sscanf(adapters.gl_pathv[i], "/sys/class/infiniband/%63[^/]", name);
            append_line(text, size, name, adapters.gl_pathv[i]);
        }
        globfree(&adapters);
    }
}

void bx_host_describe(bx_host *host)
{
    struct utsname name;
    memset(host, 0, sizeof *host); /* so that equal hosts are equal bytes */
    uname(&name);
    char *model = field("/proc/cpuinfo", "model name");
    snprintf(host->cpu, sizeof host->cpu, "%s", model ? model : name.machine);
    snprintf(host->kernel, sizeof host->kernel, "%s", name.release);
    snprintf(host->architecture, sizeof host->architecture, "%s", name.machine);
    firmware(host->firmware, sizeof host->firmware);
    free(model);
}

/* A chain of dependent register-to-register operations takes one cycle each on every current core,
 * so its rate is the clock that the core really ran at, whatever the firmware reports.  (Additions
 * of a constant would not do: some cores carry them out while renaming registers, several a cycle.)
 * The best of many attempts of 10 us each, of which interrupts and other processes spare some. */
static double chain_ghz(void)
{
    enum { TURNS = 2500, ATTEMPTS = 200 };
    double best = INFINITY;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++)
        best = fmin(best, bx_host_run_chain(TURNS, NULL));
    return (double)BX_CHAIN_LINKS * TURNS / best * 1e-9;
}

double bx_host_clock_ghz(int threads)
{
    double slowest = INFINITY;
#ifdef _OPENMP
#pragma omp parallel num_threads(threads) reduction(min : slowest)
#else
    (void)threads;
#endif
    slowest = chain_ghz();
    return slowest;
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
    char *available = field("/proc/meminfo", "MemAvailable");
    double free_bytes = available ? atof(available) * 1024 : INFINITY;
    free(available);
    /* a batch job's own group, and in a container the one mounted at the top */
    char *own = field("/proc/self/cgroup", "0:"), folder[400];
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
