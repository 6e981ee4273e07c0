/* Where devices lie, by sysfs: their NUMA node, the adapter that is nearest, the ranks that are. */
#include "device.h"
#include "host.h"

#include <glob.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = PATH_MAX };

/* A file of the device with this address; "" where there is none. */
static void read_line(const char *id, const char *name, char *text, int size)
{
    char path[PATH], address[BX_DEVICE_TEXT];
    snprintf(address, sizeof address, "%.*s", (int)strcspn(id, "/"), id);
    for (char *at = address; *at; at++)
        if (*at >= 'A' && *at <= 'F') *at += 'a' - 'A'; /* the libraries have large letters */
    const char *folder = "/sys/bus/pci/devices";
    snprintf(path, sizeof path, "%s%s/%s/%s", bx_host_root(folder), folder, address, name);
    *text = '\0';
    if (!*name) { /* the device itself */
        char *real = realpath(path, NULL);
        if (real) snprintf(text, (size_t)size, "%s", real);
        free(real);
        return;
    }
    FILE *file = fopen(path, "r");
    if (file && !fgets(text, size, file)) *text = '\0';
    if (file) fclose(file);
}

static double numa_node(const char *text)
{
    char *end;
    double node = strtod(text, &end);
    return end == text || node < 0 ? NAN : node; /* -1: the firmware tells none */
}

/* How many folders two paths have in common. */
static int common_folders(const char *a, const char *b)
{
    int folders = 0;
    for (; *a && *a == *b; a++, b++) folders += *a == '/';
    return folders + (strchr("/", *a) && strchr("/", *b));
}

void bx_device_locate(bx_device_facts *facts)
{
    char own[PATH], path[PATH], text[64];
    read_line(facts->id, "numa_node", text, sizeof text);
    read_line(facts->id, "", own, sizeof own);
    facts->numa = numa_node(text);
    facts->adapter[0] = '\0';
    /* Most folders in common: below one switch of PCI, then one root.  Roots of a NUMA node count
     * as less. */
    int most = 0;
    const char *const folders[] = {"/sys/class/infiniband", "/sys/class/cxi"};
    for (int i = 0; i < 2 && *own; i++) {
        glob_t adapters;
        snprintf(path, sizeof path, "%s%s/*", bx_host_root(folders[i]), folders[i]);
        if (glob(path, 0, NULL, &adapters) != 0) continue;
        for (size_t k = 0; k < adapters.gl_pathc; k++) {
            snprintf(path, sizeof path, "%s/device", adapters.gl_pathv[k]);
            char *real = realpath(path, NULL);
            snprintf(path, sizeof path, "%s/device/numa_node", adapters.gl_pathv[k]);
            FILE *file = fopen(path, "r");
            if (!file || !fgets(text, sizeof text, file)) *text = '\0';
            if (file) fclose(file);
            int nearness = real ? 2 * common_folders(own, real) : 0;
            nearness += numa_node(text) == facts->numa;
            if (nearness > most) {
                most = nearness;
                snprintf(facts->adapter, sizeof facts->adapter, "%s",
                         strrchr(adapters.gl_pathv[k], '/') + 1);
            }
            free(real);
        }
        globfree(&adapters);
    }
}

bool bx_device_is_near(const char *id)
{
    enum { LIST = 4096 };
    char list[LIST];
    cpu_set_t allowed;
    read_line(id, "local_cpulist", list, sizeof list);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return true; /* more than 1024 CPUs */
    for (char *at = list, *end;; at = end + 1) {
        long first = strtol(at, &end, 10), last = first;
        if (end == at) return !*list; /* nothing is known, or no CPU is near */
        if (*end == '-') last = strtol(end + 1, &end, 10);
        for (long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET((size_t)cpu, &allowed)) return true;
        if (*end != ',') return false;
    }
}

/* ---- the choice ---- */

void bx_device_choose(const bx_device_view *views, int ranks, int *chosen)
{
    const char **ids = bx_memory_alloc((size_t)ranks * BX_DEVICES_MOST, sizeof *ids);
    int *users = bx_memory_alloc((size_t)ranks * BX_DEVICES_MOST, sizeof *users), devices = 0;
    int (*number)[BX_DEVICES_MOST] = bx_memory_alloc((size_t)ranks, sizeof *number); /* in ids */
    for (int r = 0; r < ranks; r++)
        for (int d = 0; d < views[r].count; d++) {
            int at = 0;
            while (at < devices && strcmp(ids[at], views[r].devices[d].id) != 0) at++;
            if (at == devices) ids[devices++] = views[r].devices[d].id;
            number[r][d] = at;
        }
    int least = ranks / devices, above = ranks % devices;
    for (int r = 0; r < ranks; r++) {
        int best = 0;
        double best_cost = INFINITY;
        for (int d = 0; d < views[r].count; d++) {
            int at = number[r][d];
            bool room = users[at] < least || (users[at] == least && above > 0);
            /* Room first, so that no device has two ranks more than another; then nearness. */
            double cost =
                (room ? 0 : 4.0 * ranks) + (views[r].devices[d].near ? 0 : 2.0 * ranks) + users[at];
            if (cost < best_cost) best = d, best_cost = cost;
        }
        chosen[r] = best;
        above -= users[number[r][best]]++ >= least;
    }
    BX_FREE(ids, users, number);
}
