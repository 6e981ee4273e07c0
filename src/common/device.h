/* Devices: memory that MPI may be given, and the host cannot touch.  Kernels use comm_buffers.h.
 *
 * A rank has one device, and all of its work goes through one queue of it, in order.  Work is
 * begun by a call and done by the next `sync`: until then its arguments must stay as they are. */
#pragma once

#include "run.h"

typedef enum { BX_TO_DEVICE, BX_TO_HOST } bx_way;

enum { BX_DEVICE_TEXT = 160 };

/* What a device is. */
typedef struct {
    char library[BX_DEVICE_TEXT]; /* that drives it */
    char name[BX_DEVICE_TEXT];    /* model */
    char id[BX_DEVICE_TEXT];      /* address on the bus, and what tells parts of a device apart */
    const char *kind;             /* as MPI calls such memory: "cuda", "rocm" */
    int runtime, driver;          /* their versions, as they number them */
} bx_device_facts;

/* The functions of a back end.  All are local.  A call that fails ends the launch by bx_device_end,
 * with the library's own reason. */
typedef struct {
    /* Finds a library that has devices.  Returns how many it has; 0 with the reason in why[size].
     */
    int (*count)(char *why, size_t size);
    /* Makes a device the one of this rank. */
    void (*open)(int device);
    void (*describe)(bx_device_facts *facts);
    double (*free_memory)(void);
    /* Memory of the device; pinned memory of the host. */
    void *(*alloc)(size_t bytes);
    void (*release)(void *memory);
    void *(*alloc_host)(size_t bytes);
    void (*release_host)(void *memory);
    void (*copy)(void *to, const void *from, size_t bytes, bx_way way);
    void (*fill)(void *to, int byte, size_t bytes);
    /* Makes `move` ready, which is compiled where it runs.  Returns false with the reason in
     * why[size]. */
    bool (*open_move)(char *why, size_t size);
    /* to[to_index[i]] = from[from_index[i]] of `count` elements of `words` times 8 bytes; an index
     * that is NULL is i.  All is memory of the device. */
    void (*move)(void *to, const int *to_index, const void *from, const int *from_index,
                 size_t count, int words);
    void (*sync)(void);
    /* Whether no work is left to do. */
    bool (*idle)(void);
    /* Whether memory is of the rank's device. */
    bool (*owns)(const void *memory);
} bx_device;

/* CUDA 11 to 13, or HIP 5 to 7, by the runtime library that is found when a launch asks for it. */
extern const bx_device bx_device_gpu;

/* Gives each rank a device of its host, in turn.  Refuses with BX_USAGE, in a line that begins with
 * `option`: a host without a device; more than `most_ranks` on a device, unless that is 0; a device
 * shared while another has nobody; and `bytes` of each rank where a device has less free.  Returns
 * as bx_run_agree.  Collective. */
int bx_device_open(bx_run *run, const char *option, int64_t most_ranks, double bytes);
/* The open device; NULL: none. */
const bx_device *bx_device_get(void);
/* Refuses with BX_USAGE, in a line that begins with `option`, where MPI does not say that it takes
 * addresses of the device, unless that is `overruled`, which the result has.  It is asked, never
 * tried: a library that cannot does not always crash, some hang.  Returns as bx_run_agree.
 * Collective. */
int bx_device_require_aware(bx_run *run, const char *option, bool overruled);
/* Makes `move` ready, or refuses with BX_USAGE as above.  Returns as bx_run_agree.  Collective. */
int bx_device_require_move(bx_run *run, const char *option);
/* Returns memory of the device, whose `name` is in the line that a host's touch of it ends with. */
void *bx_device_alloc(size_t bytes, const char *name);
/* NULL: nothing. */
void bx_device_release(void *memory);
/* Adds the ranks' devices to the result's "layout"; nothing without.  Collective. */
void bx_device_add(const bx_run *run, bx_json *layout);
/* Ends the launch with one line (printf's format) and BX_RESOURCES. */
_Noreturn void bx_device_end(const char *format, ...) __attribute__((format(printf, 1, 2)));
