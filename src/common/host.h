/* Facts about this host (all local). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { BX_CHAIN_LINKS = 16 }; /* dependent operations in a turn of the chain */

/* What a host is: processor, release of the operating system's kernel, architecture; the versions
 * of microcode, BIOS and network adapters, as far as they are readable. */
typedef struct {
    char cpu[512], kernel[128], architecture[72], firmware[256];
} bx_host;

/* Fills all bytes of `host`. */
void bx_host_describe(bx_host *host);
/* Returns the seconds that `turns` (above 0) turns of a chain of dependent operations take, the
 * same however this was compiled, and in `right`, unless it is NULL, whether their outcome is
 * right. */
double bx_host_run_chain(int turns, bool *right);
/* Returns the rate, in GHz, at which the cores of this rank's `threads` threads run now, that of
 * the slowest: each carries out a chain of dependent operations for a few milliseconds.
 *
 * It sees a clock that is lowered by heat, by a power limit, by the governor.  It does not see a
 * limit on the processor time of a control group, 50% for example: the chain fits into the time
 * that is granted at once.  Such a limit shows in bx_host_waited. */
double bx_host_clock_ghz(int threads);
/* From now on, bx_host_waited is of the `threads` threads of this rank's OpenMP team. */
void bx_host_watch_threads(int threads);
/* Returns the seconds that a thread was ready to run and had no core, since the call before; of the
 * thread that waited longest.  Other processes had its core, or a control group had used its quota.
 * NaN where the operating system does not account for it, as Linux does (Documentation/scheduler/
 * sched-stats.rst, run_delay).
 *
 * It does not see threads that are not OpenMP's, time that a hypervisor takes, or how the waits of
 * several ranks add up. */
double bx_host_waited(void);
/* Returns the folder that stands for / in the paths of /proc and /sys: that of the variable
 * BX_SYS_ROOT if it has this path, else "". */
const char *bx_host_root(const char *path);
/* Returns the model of the processor by /proc/cpuinfo, or, where it names none, as on servers of
 * Arm, the implementer, part and variant of each kind of core; NULL if it has neither.  `root` is
 * the folder that /proc and /sys lie in.  The caller frees the text. */
char *bx_host_model(const char *root);
/* Returns the kind of core of each CPU, 0 the fastest, -1 unknown, and how many CPUs there are in
 * *cpus; NULL and 0 where all are of one kind, or nothing tells.  Kinds differ by cpu_capacity,
 * else by cpuinfo_max_freq (Documentation/ABI/testing/sysfs-devices-system-cpu and
 * admin-guide/pm/cpufreq of the Linux kernel), else by Arm's part.  The caller frees them. */
int *bx_host_kinds(const char *root, int *cpus);
/* Returns the bytes of the largest cache of any CPU of this host, and those of all its last-level
 * caches in *last unless it is NULL; 0 if unknown. */
double bx_host_caches(double *last);
/* Returns the text after "key ... :" in a file of such lines, which the caller frees; or NULL. */
char *bx_host_field(const char *path, const char *key);
/* Returns the bytes that this process can still allocate on this node: of what is available, as
 * much as its control groups allow; infinity if unknown. */
double bx_host_memory_free(void);
/* Returns what control groups allow alone, of versions 1 and 2; infinity without a limit.  `root`
 * is the folder that /proc and /sys lie in, "" but for tests. */
double bx_host_group_free(const char *root);
/* Returns the bytes that are free in the file system of a folder; infinity if it has no limit. */
double bx_host_folder_room(const char *folder);
/* Writes the folder of the file that is mapped at an address to folder[size]; "" for none. */
void bx_host_folder_of(const void *address, char *folder, size_t size);
