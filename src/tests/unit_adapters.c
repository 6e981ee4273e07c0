/* A made tree of /sys and /proc: adapters, and what grew between two readings; control groups;
 * kinds of cores; caches; sensors. */
#include "adapters.h"
#include "host.h"
#include "json.h"
#include "profile.h"
#include "result.h"
#include "sensors.h"

#include "unit.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/bx_adaptersXXXXXX";

/* Writes a file of the tree (printf's format), and the folders above it. */
static void put(const char *file, const char *format, ...)
{
    char path[512];
    va_list values;
    snprintf(path, sizeof path, "%s%s", root, file);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *out = fopen(path, "w");
    if (!out) abort();
    va_start(values, format);
    vfprintf(out, format, values);
    va_end(values);
    fclose(out);
}

/* A node with all kinds; `grown` bytes more than at first, and errors where there are some. */
static void make_tree(double grown, int errors)
{
    put("/proc/net/dev",
        "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop ...\n"
        "    lo: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n"
        "  eth0: 1000 9 %d 77 0 0 0 0 %.0f 9 0 %d 0 0 0 0\n"
        "  bond0: 1000 9 0 0 0 0 0 0 %.0f 9 0 0 0 0 0 0\n"
        "   ib0:2000 9 0 0 0 0 0 0 400 9 0 0 0 0 0 0\n"
        "  hsn0: 2000 9 0 0 0 0 0 0 400 9 0 0 0 0 0 0\n"
        "  sit0: 2000 9 0 0 0 0 0 0 400 9 0 0 0 0 0 0\n",
        errors, 1e4 + grown, 2 * errors, 1e4 + grown);
    put("/sys/class/net/eth0/type", "1\n");
    put("/sys/class/net/eth0/speed", "25000\n");
    put("/sys/class/net/eth0/operstate", "up\n");
    put("/sys/class/net/bond0/type", "1\n");
    put("/sys/class/net/bond0/lower_eth0/type", "1\n");
    put("/sys/class/net/ib0/type", "32\n");
    put("/sys/class/net/hsn0/type", "1\n");
    put("/sys/class/net/hsn0/device/cxi/cxi0/x", "\n");
    put("/sys/class/net/sit0/type", "776\n");
    put("/proc/net/snmp",
        "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm MaxConn OutSegs RetransSegs InErrs\n"
        "Tcp: 1 -1 %d %d 0\n",
        1000 + 500 * errors, 7 + errors);
    put("/sys/class/infiniband/mlx5_0/fw_ver", "28.39.1002\n");
    const char port[] = "/sys/class/infiniband/mlx5_0/ports/1";
    struct {
        const char *name;
        double value;
    } counters[] = {{"counters/port_xmit_data", 1e6 + grown / 4},
                    {"counters/port_rcv_data", 4294967295.0},
                    {"counters/symbol_error", 3 + errors},
                    {"counters/link_downed", 1},
                    {"hw_counters/out_of_sequence", errors}};
    char file[256];
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        snprintf(file, sizeof file, "%s/%s", port, counters[i].name);
        put(file, "%.0f\n", counters[i].value);
    }
    put("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
    put("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    put("/sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
    put("/sys/class/infiniband/efa_0/ports/1/hw_counters/tx_bytes", "%.0f\n", 50 - grown);
    put("/sys/class/infiniband/efa_0/ports/1/hw_counters/rx_bytes", "60\n");
    put("/sys/class/cxi/cxi0/device/telemetry/hni_sts_tx_ok_octets", "%.0f@16.5\n", 300 + grown);
    put("/sys/class/cxi/cxi0/device/telemetry/hni_pcs_uncorrected_cw", "%d@16.5\n", 90 + errors);
    put("/sys/class/cxi/cxi0/device/port/speed", "BS_200G\n");
    put("/sys/class/cxi/cxi0/device/port/link", "up\n");
    put("/sys/class/cxi/cxi0/device/uc/qspi_blob_version", "1.5.49\n");
}

static const bx_adapter *find(const bx_adapters *all, const char *name)
{
    static const bx_adapter none;
    for (int i = 0; i < all->count; i++)
        if (strcmp(all->adapters[i].name, name) == 0) return &all->adapters[i];
    return &none;
}

static void test_reading(void)
{
    static bx_adapters all;
    make_tree(0, 0);
    bx_adapters_read(&all);
    CHECK(all.count == 6); /* without lo, the bond above eth0, and the tunnel */
    const bx_adapter *eth0 = find(&all, "eth0"), *mlx5 = find(&all, "mlx5_0:1");
    const bx_adapter *cxi0 = find(&all, "cxi0"), *efa = find(&all, "efa_0:1");
    CHECK(strcmp(eth0->kind, "ethernet") == 0 && strcmp(eth0->state, "up") == 0);
    CHECK(eth0->rate == 25 && eth0->received == 1000 && eth0->sent == 1e4);
    CHECK(strcmp(find(&all, "ib0")->kind, "ipoib") == 0);
    CHECK(strcmp(find(&all, "hsn0")->kind, "slingshot-ip") == 0);
    CHECK(strcmp(mlx5->kind, "infiniband") == 0 && strcmp(mlx5->state, "active") == 0);
    CHECK(mlx5->rate == 200 && strcmp(mlx5->firmware, "28.39.1002") == 0);
    CHECK(mlx5->sent == 4e6 && isnan(mlx5->received)); /* words of 4 B; a counter at its end */
    CHECK(efa->sent == 50 && efa->received == 60);
    CHECK(strcmp(cxi0->kind, "slingshot") == 0 && strcmp(cxi0->state, "up") == 0);
    CHECK(cxi0->rate == 200 && cxi0->sent == 300 && strcmp(cxi0->firmware, "1.5.49") == 0);
    CHECK(all.segments == 1000 && all.retransmitted == 7);
}

/* A number of a host, or of one of its adapters; -1: null, or not there. */
static double value(const char *host, const char *adapter, const char *name)
{
    char text[96];
    snprintf(text, sizeof text, "\"name\":\"%s\"", adapter ? adapter : "");
    const char *from = adapter ? strstr(host, text) : host;
    if (!from) return -1;
    const char *to = strstr(from + 1, "\"name\":\"");
    snprintf(text, sizeof text, "\"%s\":", name);
    const char *key = strstr(from, text);
    if (!key || (to && key > to) || strncmp(key + strlen(text), "null", 4) == 0) return -1;
    return strtod(key + strlen(text), NULL);
}

/* `payload`: B that the ranks of this host handed to MPI; NaN: unknown. */
static void check_host(const char *host, double payload)
{
    char name[64] = "", begin[96];
    gethostname(name, sizeof name - 1);
    snprintf(begin, sizeof begin, "{\"host\":\"%s\",", name);
    CHECK(strncmp(host, begin, strlen(begin)) == 0);
    CHECK(value(host, NULL, "payload") == (isnan(payload) ? -1 : payload));
    CHECK(value(host, NULL, "segments") == 1000 && value(host, NULL, "retransmitted") == 2);
    CHECK(value(host, "eth0", "sent") == 4000 && value(host, "eth0", "received") == 0);
    double share = payload > 0 ? 4000 / payload : -1; /* -1: null */
    CHECK(fabs(value(host, "eth0", "share") - share) < 1e-12);
    CHECK(value(host, "eth0", "rx_errors") == 2 && value(host, "eth0", "tx_dropped") == 4);
    CHECK(value(host, "eth0", "error_counters") == 5);
    CHECK(value(host, "mlx5_0:1", "sent") == 4000 && value(host, "mlx5_0:1", "received") == -1);
    CHECK(value(host, "mlx5_0:1", "symbol_error") == 2);
    CHECK(value(host, "mlx5_0:1", "out_of_sequence") == 2);
    CHECK(value(host, "mlx5_0:1", "link_downed") == -1); /* did not grow */
    CHECK(value(host, "cxi0", "hni_pcs_uncorrected_cw") == 2);
    CHECK(value(host, "efa_0:1", "sent") == -1); /* began anew */
}

/* Each rank but the last sends 1000 B to the next, all on nodes of their own, which are as many
 * hosts of the launch as there may be; rank r is on host r modulo their number. */
static void test_growth(bx_run *run, double ranks_per_node, int hosts)
{
    char message[1000] = "";
    if (hosts > run->size) hosts = run->size;
    MPI_Comm_split(run->world, run->rank % hosts, run->rank, &run->host);
    run->common.ranks_per_node = (int64_t)ranks_per_node;
    if (run->rank == 0) make_tree(0, 0);
    MPI_Barrier(run->world);
    bx_carried *begun = bx_carried_begin(run);
    MPI_Barrier(run->world);
    if (run->rank > 0)
        MPI_Recv(message, 1000, MPI_CHAR, run->rank - 1, 0, run->world, MPI_STATUS_IGNORE);
    if (run->rank + 1 < run->size) MPI_Send(message, 1000, MPI_CHAR, run->rank + 1, 0, run->world);
    if (run->rank == 0) make_tree(4000, 2);
    MPI_Barrier(run->world);
    bx_json *list = run->rank == 0 ? bx_json_create() : NULL;
    bx_carried_end(run, begun, list);
    MPI_Comm_free(&run->host);
    if (!list) return;
    int h = 0;
    static const char begin[] = "{\"host\"";
    CHECK(list->first && !list->first->next);
    for (char *next, *host = list->first->text; host; host = next, h++) {
        double payload = 0;
        next = strstr(host + 1, begin);
        if (next) next[-1] = '\0';
        for (int r = h; r < run->size - 1; r += hosts) payload += 1000;
        check_host(host, ranks_per_node == 0 ? payload : NAN);
    }
    CHECK(h == hosts);
    bx_json_free(list);
}

/* Of version 1 on RHEL 8: Slurm limits the job, its step and task are groups without a limit. */
static void test_groups(void)
{
    static const char none[] = "9223372036854771712\n", v1[] = "/sys/fs/cgroup/memory";
    char file[256];
    CHECK(isinf(bx_host_group_free(root)));
    put("/proc/self/cgroup",
        "11:cpuset:/slurm/uid_7/job_1\n9:memory:/slurm/uid_7/job_1/step_0/task_0\n"
        "1:name=systemd:/\n0::/\n");
    const struct {
        const char *group, *limit;
        double used, cached;
    } groups[] = {{"", none, 9e9, 5e9},
                  {"/slurm/uid_7", none, 8e9, 0},
                  {"/slurm/uid_7/job_1", "4000000000\n", 1.5e9, 2.5e8},
                  {"/slurm/uid_7/job_1/step_0/task_0", none, 1e9, 1e9}};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        snprintf(file, sizeof file, "%s%s/memory.limit_in_bytes", v1, groups[i].group);
        put(file, "%s", groups[i].limit);
        snprintf(file, sizeof file, "%s%s/memory.usage_in_bytes", v1, groups[i].group);
        put(file, "%.0f\n", groups[i].used);
        snprintf(file, sizeof file, "%s%s/memory.stat", v1, groups[i].group);
        put(file,
            "inactive_file 1\nhierarchical_memory_limit 4000000000\ntotal_inactive_file %.0f\n",
            groups[i].cached);
    }
    CHECK(bx_host_group_free(root) == 2.75e9);
    /* a container: the path is the host's, the group is mounted at the top */
    put("/proc/self/cgroup", "4:cpu,memory:/docker/0123\n");
    snprintf(file, sizeof file, "%s/memory.limit_in_bytes", v1);
    put(file, "15000000000\n");
    CHECK(bx_host_group_free(root) == 11e9);
    /* version 2, and a line without a path */
    put("/proc/self/cgroup", "0::/slice/job_2/step\n7:memory\n");
    put("/sys/fs/cgroup/slice/job_2/memory.max", "3000000000\n");
    put("/sys/fs/cgroup/slice/job_2/memory.current", "1000000000\n");
    put("/sys/fs/cgroup/slice/job_2/memory.stat", "anon 5\ninactive_file 500000000\n");
    put("/sys/fs/cgroup/slice/job_2/step/memory.max", "max\n");
    put("/sys/fs/cgroup/slice/job_2/step/memory.current", "900000000\n");
    CHECK(bx_host_group_free(root) == 2.5e9);
    put("/sys/fs/cgroup/slice/job_2/step/memory.max", "1000000000\n");
    CHECK(bx_host_group_free(root) == 1e8);
}

/* Eight CPUs of which the first four have other values in a file of /sys. */
static void put_values(const char *name, int first, int others)
{
    char path[128];
    for (int cpu = 0; cpu < 8; cpu++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/%s", cpu, name);
        put(path, "%d\n", cpu < 4 ? first : others);
    }
}

/* Whether the first four CPUs are of one kind, and the others of another one. */
static bool has_kinds(int first, int others)
{
    int cpus, *kinds = bx_host_kinds(root, &cpus);
    bool has = cpus == 8;
    for (int cpu = 0; has && cpu < cpus; cpu++) has = kinds[cpu] == (cpu < 4 ? first : others);
    free(kinds);
    return has;
}

static bool has_model(const char *model)
{
    char *text = bx_host_model(root);
    bool has = text ? model && strcmp(text, model) == 0 : !model;
    free(text);
    return has;
}

/* "processor", implementer, part and variant of eight CPUs of which the first four have others. */
static void put_arm(int part, int of_others)
{
    char text[2048] = "";
    for (int cpu = 0; cpu < 8; cpu++)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "processor\t: %d\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\n"
                 "CPU architecture: 8\nCPU variant\t: 0x1\nCPU part\t: 0x%x\nCPU revision\t: 0\n\n",
                 cpu, cpu < 4 ? part : of_others);
    put("/proc/cpuinfo", "%s", text);
}

/* Slow cores by design are a kind; those of one kind differ by a few per cent. */
static void test_cores(void)
{
    int cpus;
    CHECK(has_model(NULL));
    CHECK(!bx_host_kinds(root, &cpus) && cpus == 0);
    put_arm(0xd4f, 0xd4f);
    CHECK(has_model("implementer 0x41, part 0xd4f, variant 0x1"));
    put_values("topology/core_id", 0, 1); /* nothing else is known */
    CHECK(!bx_host_kinds(root, &cpus) && cpus == 0);
    put_arm(0xd03, 0xd08);
    CHECK(has_model("implementer 0x41, part 0xd03, variant 0x1; "
                    "implementer 0x41, part 0xd08, variant 0x1"));
    CHECK(has_kinds(1, 0));
    put_values("cpufreq/cpuinfo_max_freq", 5300000, 5100000);
    CHECK(has_kinds(1, 0)); /* the same, whatever the parts are */
    put_values("cpufreq/cpuinfo_max_freq", 3900000, 2800000);
    CHECK(has_kinds(0, 1));
    put_values("cpu_capacity", 1024, 1024);
    CHECK(has_kinds(0, 1));
    put_values("cpu_capacity", 446, 1024);
    CHECK(has_kinds(1, 0));
    put("/sys/devices/system/cpu/cpu4/cpu_capacity", "980\n");
    CHECK(has_kinds(1, 0));
    put("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Made-up CPU @ 2.00GHz\nflags\t: fpu\n");
    CHECK(has_model("Made-up CPU @ 2.00GHz"));
}

/* Two sockets of two CPUs, and a cache of instructions that is not the last one. */
static void test_caches(void)
{
    double last;
    for (int cpu = 0; cpu < 4; cpu++) {
        char folder[64], file[96];
        for (int level = 1; level <= 3; level++) {
            snprintf(folder, sizeof folder, "/sys/devices/system/cpu/cpu%d/cache/index%d", cpu,
                     level);
            snprintf(file, sizeof file, "%s/level", folder);
            put(file, "%d\n", level);
            snprintf(file, sizeof file, "%s/size", folder);
            put(file, level == 3 ? "32M\n" : "512K\n");
            snprintf(file, sizeof file, "%s/shared_cpu_list", folder);
            put(file, level < 3 ? "%d\n" : cpu < 2 ? "0-1\n" : "2-3\n", cpu);
        }
    }
    CHECK(bx_host_caches(&last) == 0x1p25 && last == 0x1p26);
    put("/sys/devices/system/cpu/cpu2/cache/index3/size", "96M\n");
    CHECK(bx_host_caches(&last) == 96 * 0x1p20 && last == 128 * 0x1p20);
}

/* Each sensor by itself: what is absent is NaN, and what is of another device does not count. */
static void test_sensors(void)
{
    bx_sensors s;
    bx_sensors_read(&s);
    CHECK(isnan(s.temperature) && isnan(s.energy) && isnan(s.power));
    CHECK(isnan(s.corrected) && isnan(s.uncorrected) && isnan(s.throttled));
    CHECK(isnan(bx_sensors_clock()));
    put("/sys/class/hwmon/hwmon0/name", "nvme\n");
    put("/sys/class/hwmon/hwmon0/temp1_input", "99000\n");
    put("/sys/class/powercap/intel-rapl:0:0/name", "core\n");
    put("/sys/class/powercap/intel-rapl:0:0/energy_uj", "5000000\n");
    put("/sys/class/powercap/intel-rapl:2/name", "psys\n");
    put("/sys/class/powercap/intel-rapl:2/energy_uj", "7000000\n");
    bx_sensors_read(&s);
    CHECK(isnan(s.temperature) && isnan(s.energy));
    put("/sys/class/hwmon/hwmon1/name", "coretemp\n");
    put("/sys/class/hwmon/hwmon1/temp1_input", "61000\n");
    put("/sys/class/hwmon/hwmon1/temp12_input", "74500\n");
    put("/sys/class/hwmon/hwmon2/name", "power_meter\n");
    put("/sys/class/hwmon/hwmon2/power1_average", "410000000\n");
    for (int package = 0; package < 2; package++) {
        char file[96];
        snprintf(file, sizeof file, "/sys/class/powercap/intel-rapl:%d/name", package);
        put(file, "package-%d\n", package);
        snprintf(file, sizeof file, "/sys/class/powercap/intel-rapl:%d/energy_uj", package);
        put(file, "%d500000\n", 10 + package);
        snprintf(file, sizeof file, "/sys/devices/system/edac/mc/mc%d/ce_count", package);
        put(file, "%d\n", 3 + package);
        snprintf(file, sizeof file, "/sys/devices/system/edac/mc/mc%d/ue_count", package);
        put(file, "0\n");
    }
    put("/sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "2\n");
    bx_sensors_read(&s);
    CHECK(s.temperature == 74.5 && s.power == 410 && s.energy == 22 && s.throttled == 2);
    CHECK(s.corrected == 7 && s.uncorrected == 0);
    put("/sys/cray/pm_counters/energy", "123456 J 1700000000000000 us\n");
    put("/sys/cray/pm_counters/power", "502 W 1700000000000000 us\n");
    put("/sys/cray/pm_counters/cpu0_temp", "81 C 1700000000000000 us\n");
    bx_sensors_read(&s);
    CHECK(s.energy == 123456 && bx_sensors_energy() == 123456 && s.power == 502);
    CHECK(s.temperature == 74.5); /* the processor's own where there is one */
    put("/sys/class/hwmon/hwmon1/name", "jc42\n");
    bx_sensors_read(&s);
    CHECK(s.temperature == 81);
    for (long cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++) {
        char file[96];
        snprintf(file, sizeof file, "/sys/devices/system/cpu/cpu%ld/cpufreq/scaling_cur_freq", cpu);
        put(file, "1850000\n");
    }
    CHECK(fabs(bx_sensors_clock() - 1.85) < 1e-12);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    bx_run run = {.world = MPI_COMM_WORLD};
    MPI_Comm_rank(run.world, &run.rank);
    MPI_Comm_size(run.world, &run.size);
    if (run.rank == 0 && !mkdtemp(root)) abort();
    MPI_Bcast(root, sizeof root, MPI_CHAR, 0, run.world);
    setenv("BX_SYS_ROOT", root, 1);
    if (run.rank == 0) test_reading();
    if (run.rank == 0) test_groups();
    if (run.rank == 0) test_cores();
    if (run.rank == 0) test_caches();
    if (run.rank == 0) test_sensors();
    run.node_of = bx_memory_alloc((size_t)run.size, sizeof *run.node_of);
    for (int r = 0; r < run.size; r++) run.node_of[r] = r;
    bx_profile_start(run.world, run.node_of, false);
    test_growth(&run, 0, 1);
    test_growth(&run, 0, 2);
    test_growth(&run, 1, 1);
    bx_profile_stop();
    free(run.node_of);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    if (run.rank == 0 && system(command) != 0) unit_failures++;
    MPI_Finalize();
    return unit_failures > 0;
}
