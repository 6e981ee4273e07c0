/* The processor of this host, and its kinds of cores: some hosts have slow ones by design. */
#include "host.h"

#include "bx.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 4096, LINE = 512, MOST_PARTS = 8 };

/* Speeds of cores of one kind.  Processors raise the clock of some of their cores by a few per cent
 * more than that of others; slow kinds are a quarter slower and more. */
static const double ALIKE = 0.9;

static FILE *open_cpuinfo(const char *root)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/proc/cpuinfo", root);
    return fopen(path, "r");
}

char *bx_host_model(const char *root)
{
    char path[PATH], line[LINE], implementer[16] = "", variant[16] = "", part[16];
    char parts[MOST_PARTS][80], text[MOST_PARTS * 82] = "";
    int count = 0;
    snprintf(path, sizeof path, "%s/proc/cpuinfo", root);
    char *model = bx_host_field(path, "model name");
    if (model) return model;
    FILE *file = open_cpuinfo(root);
    while (file && fgets(line, sizeof line, file)) { /* Arm: CPU by CPU, in this order */
        int known = 0;
        if (sscanf(line, "CPU implementer : %15s", implementer) == 1) continue;
        if (sscanf(line, "CPU variant : %15s", variant) == 1) continue;
        if (sscanf(line, "CPU part : %15s", part) != 1 || count == MOST_PARTS) continue;
        snprintf(parts[count], sizeof parts[count], "implementer %s, part %s, variant %s",
                 implementer, part, variant);
        while (strcmp(parts[known], parts[count]) != 0) known++;
        if (known < count) continue;
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", count ? "; " : "",
                 parts[count]);
        count++;
    }
    if (file) fclose(file);
    return count ? bx_memory_copy_text(text) : NULL;
}

/* ---- kinds ---- */

/* One above the largest number of a CPU. */
static int count_cpus(const char *root)
{
    char pattern[PATH];
    glob_t folders;
    int cpus = 0;
    snprintf(pattern, sizeof pattern, "%s/sys/devices/system/cpu/cpu[0-9]*", root);
    if (glob(pattern, 0, NULL, &folders) != 0) return 0;
    for (size_t i = 0; i < folders.gl_pathc; i++) {
        int cpu = atoi(strrchr(folders.gl_pathv[i], '/') + strlen("/cpu"));
        if (cpu >= cpus) cpus = cpu + 1;
    }
    globfree(&folders);
    return cpus;
}

/* The number in a file of each CPU's folder; 0 where there is none. */
static void read_numbers(const char *root, const char *name, int cpus, double *values)
{
    for (int cpu = 0; cpu < cpus; cpu++) {
        char path[PATH];
        snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/%s", root, cpu, name);
        FILE *file = fopen(path, "r");
        if (!file || fscanf(file, "%lf", &values[cpu]) != 1) values[cpu] = 0;
        if (file) fclose(file);
    }
}

/* A number for the part of each CPU, of Arm; 0 where there is none. */
static void read_parts(const char *root, int cpus, double *values)
{
    char line[LINE];
    int cpu = -1, implementer = 0, part;
    FILE *file = open_cpuinfo(root);
    for (int i = 0; i < cpus; i++) values[i] = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "processor : %d", &cpu) == 1) continue;
        if (sscanf(line, "CPU implementer : %i", &implementer) == 1) continue;
        if (sscanf(line, "CPU part : %i", &part) == 1 && cpu >= 0 && cpu < cpus)
            values[cpu] = 65536.0 * implementer + part;
    }
    if (file) fclose(file);
}

/* Numbers kinds by their values, the largest first, where values of one kind are each at least
 * `alike` times the next larger one.  Returns how many there are. */
static int number_kinds(int cpus, const double *values, double alike, int *kinds)
{
    int count = 0;
    for (int cpu = 0; cpu < cpus; cpu++) kinds[cpu] = -1;
    for (double last = INFINITY, value;; last = value) {
        value = 0;
        for (int cpu = 0; cpu < cpus; cpu++)
            if (values[cpu] < last) value = fmax(value, values[cpu]);
        if (value <= 0) return count;
        if (count == 0 || value < alike * last) count++;
        for (int cpu = 0; cpu < cpus; cpu++)
            if (values[cpu] == value) kinds[cpu] = count - 1;
    }
}

int *bx_host_kinds(const char *root, int *cpus)
{
    double *values;
    int *kinds, count;
    *cpus = count_cpus(root);
    BX_ALLOC((size_t)*cpus, values, kinds);
    read_numbers(root, "cpu_capacity", *cpus, values);
    count = number_kinds(*cpus, values, ALIKE, kinds);
    if (count < 2) {
        read_numbers(root, "cpufreq/cpuinfo_max_freq", *cpus, values);
        count = number_kinds(*cpus, values, ALIKE, kinds);
    }
    if (count < 2) {
        read_parts(root, *cpus, values);
        count = number_kinds(*cpus, values, 1, kinds);
    }
    free(values);
    if (count > 1) return kinds;
    free(kinds);
    *cpus = 0;
    return NULL;
}

/* ---- caches ---- */

/* The first line of a file in a cache's folder; "" if there is none. */
static void read_line(char *text, size_t size, const char *folder, const char *name)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(text, (int)size, file)) *text = '\0';
    if (file) fclose(file);
}

double bx_host_caches(double *last)
{
    const char *folder = "/sys/devices/system/cpu";
    char pattern[PATH - 32];
    glob_t caches;
    double largest = 0, sum = 0;
    int last_level = 0;
    snprintf(pattern, sizeof pattern, "%s%s/cpu[0-9]*/cache/index[0-9]*", bx_host_root(folder),
             folder);
    if (glob(pattern, 0, NULL, &caches) != 0) caches.gl_pathc = 0;
    for (size_t i = 0; i < caches.gl_pathc; i++) {
        char text[LINE], unit = '\0';
        double bytes = 0;
        read_line(text, sizeof text, caches.gl_pathv[i], "size");
        sscanf(text, "%lf%c", &bytes, &unit);
        bytes *= unit == 'K' ? 0x1p10 : unit == 'M' ? 0x1p20 : 1;
        largest = fmax(largest, bytes);
        read_line(text, sizeof text, caches.gl_pathv[i], "level");
        int level = atoi(text), cpu = 0, first;
        sscanf(caches.gl_pathv[i] + strlen(bx_host_root(folder)) + strlen(folder), "/cpu%d", &cpu);
        read_line(text, sizeof text, caches.gl_pathv[i], "shared_cpu_list");
        bool counts = sscanf(text, "%d", &first) != 1 || first == cpu; /* each cache once */
        if (level > last_level) last_level = level, sum = 0;
        if (level == last_level && counts) sum += bytes;
    }
    if (caches.gl_pathc) globfree(&caches);
    if (last) *last = sum;
    return largest;
}
