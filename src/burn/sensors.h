/* Sensors of this host that are readable without root (all local).
 *
 *   clock         /sys/devices/system/cpu/cpuN/cpufreq/scaling_cur_freq
 *   temperature   /sys/class/hwmon of processors; Cray's /sys/cray/pm_counters/cpu_temp
 *   energy        Cray's /sys/cray/pm_counters/energy (of the node), else RAPL's packages
 *                 (/sys/class/powercap, which many systems give to root alone)
 *   power         Cray's /sys/cray/pm_counters/power, else a power meter of /sys/class/hwmon
 *   errors        /sys/devices/system/edac/mc/mcN: ce_count, ue_count
 *   throttling    /sys/devices/system/cpu/cpuN/thermal_throttle
 *
 * The variable BX_SYS_ROOT names a folder that stands for / in these paths.  What cannot be read is
 * NaN, never 0. */
#pragma once

typedef struct {
    double temperature; /* degrees Celsius, of the hottest processor */
    double energy;      /* J since some time; may begin anew */
    double power;       /* W, by a meter */
    double corrected;   /* errors of memory since some time */
    double uncorrected;
    double throttled; /* times that cores and packages were throttled by heat, since some time */
} bx_sensors;

void bx_sensors_read(bx_sensors *sensors);
/* Returns the energy alone. */
double bx_sensors_energy(void);
/* Returns the clock of the CPU that this thread runs on, in GHz. */
double bx_sensors_clock(void);
