/* Facts about this host, and the rate at which its clock really runs. */
#include "host.h"

#include "bx.h"

#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

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
    char *microcode = bx_host_field("/proc/cpuinfo", "microcode");
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
    char *model = bx_host_model(bx_host_root("/proc/cpuinfo"));
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
#pragma omp parallel num_threads(threads) reduction(min : slowest)
    slowest = chain_ghz();
    return slowest;
}

static struct {
    int count, *file;
    double *waited; /* until the call before */
} watched;

void bx_host_watch_threads(int threads)
{
    watched.count = threads;
    BX_ALLOC((size_t)threads, watched.file, watched.waited);
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int i = 0; i < threads; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", syscall(SYS_gettid));
        watched.file[i] = open(path, O_RDONLY | O_CLOEXEC);
    }
}

double bx_host_waited(void)
{
    double longest = NAN;
    for (int i = 0; i < watched.count; i++) {
        char line[96]; /* nanoseconds on a core, nanoseconds without one, times on a core */
        unsigned long long nanoseconds;
        ssize_t size = pread(watched.file[i], line, sizeof line - 1, 0);
        line[size < 0 ? 0 : size] = '\0';
        if (sscanf(line, "%*u %llu", &nanoseconds) != 1) continue; /* ended, or not accounted for */
        double waited = 1e-9 * (double)nanoseconds;
        longest = fmax(longest, waited - watched.waited[i]);
        watched.waited[i] = waited;
    }
    return longest;
}
