/* The network adapters of this host, as the operating system counts and describes them (all local).
 *
 * Needs the C library alone: the probe of checks/bisection/sites/cluster takes it in.
 * Every user may read these files:
 *   Ethernet, IPoIB   /proc/net/dev (of this process's network namespace), /sys/class/net
 *   InfiniBand, RoCE, Omni-Path, EFA   /sys/class/infiniband, one adapter per port
 *   Slingshot         /sys/class/cxi, its telemetry
 * The variable BX_SYS_ROOT names a folder that stands for / in these paths. */
#pragma once

enum { BX_ADAPTERS_MOST = 64, BX_ADAPTER_ERRORS = 29 };

/* The names of the error counters, as the operating system names them. */
extern const char *const bx_adapter_errors[BX_ADAPTER_ERRORS];

/* One adapter, or one port of it. */
typedef struct {
    char name[64]; /* eth0, mlx5_0:1 (port 1), cxi0 */
    char kind[16]; /* ethernet, ipoib, slingshot-ip; infiniband, roce, omni-path, efa, slingshot */
    char state[16], firmware[48];     /* "" if unknown */
    double rate;                      /* Gb/s; 0 if unknown */
    double sent, received;            /* B since the adapter came up; NaN if not counted */
    double errors[BX_ADAPTER_ERRORS]; /* of bx_adapter_errors; NaN if not counted */
} bx_adapter;

/* The adapters of a host, and what TCP sent. */
typedef struct {
    int count;
    bx_adapter adapters[BX_ADAPTERS_MOST]; /* [count] */
    double segments, retransmitted;        /* of TCP; NaN if not counted */
} bx_adapters;

/* Reads all adapters but loopback and those stacked on others (bonds, VLANs), whose bytes the lower
 * ones count again. */
void bx_adapters_read(bx_adapters *all);
