#include "sensors.h"

#include <glob.h>
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 512 };

/* The number that a file begins with (Cray's have a unit and a time behind it); NaN for none. */
static double read_number(const char *path)
{
    char text[64] = "", *end;
    FILE *file = fopen(path, "r");
    if (file && !fgets(text, sizeof text, file)) *text = '\0';
    if (file) fclose(file);
    double value = strtod(text, &end);
    return end == text ? NAN : value;
}

/* Whether the file `name` beside this one begins with one of the words, "coretemp k10temp". */
static bool is_of(const char *path, const char *words)
{
    char beside[PATH], name[64] = "";
    int folder = (int)(strrchr(path, '/') - path);
    snprintf(beside, sizeof beside, "%.*s/name", folder, path);
    FILE *file = fopen(beside, "r");
    if (file && !fgets(name, sizeof name, file)) *name = '\0';
    if (file) fclose(file);
    for (size_t length; *words; words += length + (words[length] == ' ')) {
        length = strcspn(words, " ");
        if (strncmp(name, words, length) == 0) return true;
    }
    return false;
}

/* The sum, or the largest, of the numbers in the files that match a pattern below the root; `of`:
 * as is_of, NULL: all.  NaN where no number can be read. */
static double combine(const char *pattern, const char *of, bool largest)
{
    char path[PATH];
    const char *root = getenv("BX_SYS_ROOT");
    glob_t files;
    double all = NAN;
    snprintf(path, sizeof path, "%s%s", root ? root : "", pattern);
    if (glob(path, 0, NULL, &files) != 0) return NAN;
    for (size_t i = 0; i < files.gl_pathc; i++) {
        if (of && !is_of(files.gl_pathv[i], of)) continue;
        double value = read_number(files.gl_pathv[i]);
        if (isnan(value)) continue;
        all = isnan(all) ? value : largest ? fmax(all, value) : all + value;
    }
    globfree(&files);
    return all;
}

static double either(double first, double second) { return isnan(first) ? second : first; }

double bx_sensors_energy(void)
{
    double rapl = combine("/sys/class/powercap/intel-rapl:*/energy_uj", "package", false);
    return either(combine("/sys/cray/pm_counters/energy", NULL, false), rapl * 1e-6);
}

double bx_sensors_clock(void)
{
    char path[PATH];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq",
             sched_getcpu());
    return combine(path, NULL, false) / 1e6; /* of kHz */
}

void bx_sensors_read(bx_sensors *s)
{
    static const char PROCESSORS[] = "coretemp k10temp zenpower cpu_thermal";
    double hottest = combine("/sys/class/hwmon/hwmon*/temp*_input", PROCESSORS, true),
           meter = combine("/sys/class/hwmon/hwmon*/power1_average", "power_meter", false);
    *s = (bx_sensors){
        .temperature =
            either(hottest * 1e-3, combine("/sys/cray/pm_counters/cpu*_temp", NULL, true)),
        .energy = bx_sensors_energy(),
        .power = either(combine("/sys/cray/pm_counters/power", NULL, false), meter * 1e-6),
        .corrected = combine("/sys/devices/system/edac/mc/mc*/ce_count", NULL, false),
        .uncorrected = combine("/sys/devices/system/edac/mc/mc*/ue_count", NULL, false),
        .throttled = combine("/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/*_throttle_count",
                             NULL, true), /* a package's is in the folder of each of its CPUs */
    };
}
