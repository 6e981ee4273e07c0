#include "adapters.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 512 };

const char *const bx_adapter_errors[BX_ADAPTER_ERRORS] = {
    /* Ethernet: errors that drivers sum up, full queues */
    "rx_errors", "rx_fifo", "tx_errors", "tx_fifo", "tx_dropped",
    /* InfiniBand: ports/N/counters */
    "symbol_error", "link_error_recovery", "link_downed", "local_link_integrity_errors",
    "excessive_buffer_overrun_errors", "port_rcv_errors", "port_rcv_remote_physical_errors",
    "port_rcv_constraint_errors", "port_xmit_constraint_errors", "port_xmit_discards",
    /* ports/N/hw_counters, what was lost or sent again */
    "packet_seq_err", "out_of_sequence", "implied_nak_seq_err", "local_ack_timeout_err",
    "rnr_nak_retry_err", "roce_adp_retrans", "roce_adp_retrans_to", "rx_icrc_encapsulated",
    "rx_drops",
    /* Slingshot: telemetry */
    "hni_pcs_uncorrected_cw", "hni_llr_tx_replay_event", "hni_llr_rx_replay_event",
    "hni_sts_rx_bad_octets", "hni_sts_tx_bad_octets"};

/* ROOT/FOLDER/NAME as `path`; "", which is no file, if it is too long. */
static void locate(char path[PATH], const char *folder, const char *name)
{
    const char *root = getenv("BX_SYS_ROOT");
    if (snprintf(path, PATH, "%s%s%s", root ? root : "", folder, name) >= PATH) *path = '\0';
}

/* The first line of a file, "" if it cannot be read. */
static void read_text(char *text, size_t size, const char *folder, const char *name)
{
    char path[PATH];
    locate(path, folder, name);
    FILE *file = fopen(path, "r");
    *text = '\0';
    if (file && !fgets(text, (int)size, file)) *text = '\0';
    if (file) fclose(file);
    text[strcspn(text, "\n")] = '\0';
}

/* The number at the beginning of a file (telemetry has @ and a time behind it); NaN for none. */
static double read_number(const char *folder, const char *name)
{
    char text[64], *end;
    read_text(text, sizeof text, folder, name);
    double value = strtod(text, &end);
    return end == text ? NAN : value;
}

/* Gb/s, of texts such as "200 Gb/sec (4X HDR)" and "BS_200G". */
static double read_rate(const char *folder, const char *name)
{
    char text[64];
    read_text(text, sizeof text, folder, name);
    return *text == '-' ? 0 : strtod(text + strcspn(text, "0123456789"), NULL);
}

static int exists(const char *folder, const char *name)
{
    char path[PATH];
    glob_t matches;
    locate(path, folder, name);
    int there = glob(path, 0, NULL, &matches) == 0;
    if (there) globfree(&matches);
    return there;
}

static void set_lower(char *text)
{
    for (; *text; text++)
        if (*text >= 'A' && *text <= 'Z') *text += 'a' - 'A';
}

static bx_adapter *add(bx_adapters *all)
{
    if (all->count == BX_ADAPTERS_MOST) return NULL;
    bx_adapter *adapter = &all->adapters[all->count++];
    memset(adapter, 0, sizeof *adapter);
    adapter->sent = adapter->received = NAN;
    for (int i = 0; i < BX_ADAPTER_ERRORS; i++) adapter->errors[i] = NAN;
    return adapter;
}

/* Each path that matches below the root, without the root. */
static void for_each(bx_adapters *all, const char *pattern,
                     void (*take)(bx_adapters *all, const char *folder))
{
    char path[PATH];
    glob_t matches;
    locate(path, pattern, "");
    size_t root = strlen(path) - strlen(pattern);
    if (glob(path, 0, NULL, &matches) != 0) return;
    for (size_t i = 0; i < matches.gl_pathc; i++) take(all, matches.gl_pathv[i] + root);
    globfree(&matches);
}

/* ---- Ethernet and what looks like it ---- */

static void take_interface(bx_adapters *all, const char *name, const double counts[16])
{
    char folder[PATH], type[16];
    snprintf(folder, sizeof folder, "/sys/class/net/%s", name);
    read_text(type, sizeof type, folder, "/type");
    /* 1, 32: ARPHRD_ETHER, ARPHRD_INFINIBAND; a namespace may see the names of others in /sys */
    if (strcmp(name, "lo") == 0 || (*type && strcmp(type, "1") != 0 && strcmp(type, "32") != 0))
        return;
    bx_adapter *adapter = exists(folder, "/lower_*") ? NULL : add(all);
    if (!adapter) return;
    snprintf(adapter->name, sizeof adapter->name, "%s", name);
    snprintf(adapter->kind, sizeof adapter->kind, "%s",
             strcmp(type, "32") == 0           ? "ipoib"
             : exists(folder, "/device/cxi/*") ? "slingshot-ip"
                                               : "ethernet");
    read_text(adapter->state, sizeof adapter->state, folder, "/operstate");
    adapter->rate = read_rate(folder, "/speed") * 1e-3;
    /* receive: bytes packets errs drop fifo ...; transmit from 8 on, likewise */
    adapter->received = counts[0];
    adapter->sent = counts[8];
    /* dropped on receipt are also packets of protocols that nobody listens to: no error */
    static const int columns[] = {2, 4, 10, 12, 11}; /* of the first names of bx_adapter_errors */
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        adapter->errors[i] = counts[columns[i]];
}

static void read_interfaces(bx_adapters *all)
{
    char path[PATH], line[512];
    locate(path, "/proc/net/dev", "");
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':'), *rest = colon, *name = line + strspn(line, " ");
        double counts[16];
        int fields = 0;
        if (!colon) continue;
        for (rest++; fields < 16; fields++) {
            char *end;
            counts[fields] = strtod(rest, &end);
            if (end == rest) break;
            rest = end;
        }
        *colon = '\0';
        if (fields == 16) take_interface(all, name, counts);
    }
    if (file) fclose(file);
}

/* The segments of TCP in /proc/net/snmp: behind "Tcp:" a line of names, then one of numbers. */
static void read_tcp(bx_adapters *all)
{
    char path[PATH], names[1024] = "", line[1024], *rest[2];
    all->segments = all->retransmitted = NAN;
    locate(path, "/proc/net/snmp", "");
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "Tcp:", 4) != 0) continue;
        if (!*names) {
            strcpy(names, line);
            continue;
        }
        char *name = strtok_r(names, " \n", &rest[0]), *value = strtok_r(line, " \n", &rest[1]);
        while (name && value) {
            if (strcmp(name, "OutSegs") == 0) all->segments = atof(value);
            if (strcmp(name, "RetransSegs") == 0) all->retransmitted = atof(value);
            name = strtok_r(NULL, " \n", &rest[0]);
            value = strtok_r(NULL, " \n", &rest[1]);
        }
        break;
    }
    if (file) fclose(file);
}

/* ---- InfiniBand and other adapters of RDMA ---- */

static void take_port(bx_adapters *all, const char *folder)
{
    char device[64], port[16], text[64], path[PATH], target[PATH];
    if (sscanf(folder, "/sys/class/infiniband/%63[^/]/ports/%15s", device, port) != 2) return;
    bx_adapter *adapter = add(all);
    if (!adapter) return;
    snprintf(adapter->name, sizeof adapter->name, "%.47s:%s", device, port);
    read_text(text, sizeof text, folder, "/link_layer");
    const char *kind = strcmp(text, "Ethernet") == 0 ? "roce" : *text ? "infiniband" : "rdma";
    snprintf(target, sizeof target, "/sys/class/infiniband/%s", device);
    read_text(adapter->firmware, sizeof adapter->firmware, target, "/fw_ver");
    locate(path, target, "/device/driver");
    ssize_t length = readlink(path, target, sizeof target - 1);
    target[length < 0 ? 0 : length] = '\0';
    const char *driver = strrchr(target, '/') ? strrchr(target, '/') + 1 : target;
    if (strcmp(driver, "hfi1") == 0) kind = "omni-path";
    if (strcmp(driver, "efa") == 0) kind = "efa";
    snprintf(adapter->kind, sizeof adapter->kind, "%s", kind);
    read_text(text, sizeof text, folder, "/state"); /* 4: ACTIVE */
    snprintf(adapter->state, sizeof adapter->state, "%.15s",
             strchr(text, ' ') ? strchr(text, ' ') + 1 : text);
    set_lower(adapter->state);
    adapter->rate = read_rate(folder, "/rate");
    static const double WORD = 4, FULL = 4294967295.0; /* B; a counter of 32 bits stops there */
    double sent = read_number(folder, "/counters/port_xmit_data"),
           received = read_number(folder, "/counters/port_rcv_data");
    adapter->sent = isnan(sent)    ? read_number(folder, "/hw_counters/tx_bytes")
                    : sent == FULL ? NAN
                                   : sent * WORD;
    adapter->received = isnan(received)    ? read_number(folder, "/hw_counters/rx_bytes")
                        : received == FULL ? NAN
                                           : received * WORD;
    for (int i = 0; i < BX_ADAPTER_ERRORS; i++) {
        snprintf(path, sizeof path, "/counters/%s", bx_adapter_errors[i]);
        adapter->errors[i] = read_number(folder, path);
        snprintf(path, sizeof path, "/hw_counters/%s", bx_adapter_errors[i]);
        if (isnan(adapter->errors[i])) adapter->errors[i] = read_number(folder, path);
    }
}

/* ---- Slingshot ---- */

static void take_cassini(bx_adapters *all, const char *folder)
{
    char path[PATH];
    bx_adapter *adapter = add(all);
    if (!adapter) return;
    snprintf(adapter->name, sizeof adapter->name, "%.63s", strrchr(folder, '/') + 1);
    strcpy(adapter->kind, "slingshot");
    read_text(adapter->state, sizeof adapter->state, folder, "/device/port/link");
    set_lower(adapter->state);
    read_text(adapter->firmware, sizeof adapter->firmware, folder, "/device/uc/qspi_blob_version");
    adapter->rate = read_rate(folder, "/device/port/speed");
    adapter->sent = read_number(folder, "/device/telemetry/hni_sts_tx_ok_octets");
    adapter->received = read_number(folder, "/device/telemetry/hni_sts_rx_ok_octets");
    for (int i = 0; i < BX_ADAPTER_ERRORS; i++) {
        snprintf(path, sizeof path, "/device/telemetry/%s", bx_adapter_errors[i]);
        adapter->errors[i] = read_number(folder, path);
    }
}

void bx_adapters_read(bx_adapters *all)
{
    all->count = 0;
    for_each(all, "/sys/class/infiniband/*/ports/*", take_port);
    for_each(all, "/sys/class/cxi/cxi*", take_cassini);
    read_interfaces(all);
    read_tcp(all);
}
