/* Devices: memory that MPI may be given, and the host cannot touch.  Kernels use comm_buffers.h.
 *
 * A rank has one device, and all of its work goes through one queue of it, in order.  Work is
 * begun by a call and done by the next `sync`: until then its arguments must stay as they are. */
#pragma once

#include "run.h"

typedef enum { BX_TO_DEVICE, BX_TO_HOST } bx_way;

enum { BX_DEVICE_TEXT = 160, BX_DEVICES_MOST = 64 }; /* devices that a rank chooses from */

/* What a device is. */
typedef struct {
    char library[BX_DEVICE_TEXT]; /* that drives it */
    char name[BX_DEVICE_TEXT];    /* model */
    char id[BX_DEVICE_TEXT];      /* address on the bus, and what tells parts of a device apart */
    char ffts[BX_DEVICE_TEXT];    /* library of FFTs and its version; "": none was opened */
    const char *kind;             /* as MPI calls such memory: "cuda", "rocm" */
    int runtime, driver;          /* their versions, as they number them */
    double clock;                 /* Hz, the highest of its cores; NaN: unknown */
    double numa;                  /* node that it is attached to; NaN: unknown */
    char adapter[64];             /* of the network, the nearest; "": none is fast */
} bx_device_facts;

/* A plan of FFTs. */
typedef struct bx_device_fft bx_device_fft;

/* Ends the launch with one line (printf's format). */
typedef __attribute__((format(printf, 1, 2))) void bx_device_end(const char *format, ...);

/* The functions of a back end.  All are local.  A call that fails ends the launch with the
 * library's own reason. */
typedef struct {
    /* Finds a library that has devices; `end` is what calls that fail end the launch by.  Returns
     * how many devices it has; 0 with the reason in why[size].  Comes first. */
    int (*count)(bx_device_end *end, char *why, size_t size);
    /* Writes id[BX_DEVICE_TEXT] of a device, as bx_device_facts has it. */
    void (*identify)(int device, char *id);
    /* Makes a device the one of this rank. */
    void (*open)(int device);
    /* All but where the device is. */
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
    /* Finds the library of FFTs.  Returns false with the reason in why[size]. */
    bool (*open_fft)(char *why, size_t size);
    /* Plans transforms of complex numbers, in place: of `batch` planes [ny][nx], one behind the
     * other; of lines if ny is 1.  Returns NULL where the library refuses, with the reason in
     * why[size]. */
    bx_device_fft *(*plan_fft)(int ny, int nx, int batch, char *why, size_t size);
    /* Begins what is planned, unnormalised, with exp(sign 2 pi i ...); sign: -1 or 1. */
    void (*fft)(const bx_device_fft *fft, void *planes, int sign);
    /* NULL: nothing. */
    void (*release_fft)(bx_device_fft *fft);
    void (*sync)(void);
    /* The number of the open device. */
    int (*number)(void);
    /* Returns memory of another device, which `release` takes too, and whether copies to it go
     * directly, not through the host; NULL where that device refuses, with the reason in why[size].
     */
    void *(*alloc_on)(int device, size_t bytes, bool *direct, char *why, size_t size);
    /* A copy between devices. */
    void (*copy_peer)(void *to, int to_device, const void *from, int from_device, size_t bytes);
    /* Whether no work is left to do. */
    bool (*idle)(void);
    /* Whether memory is of the rank's device. */
    bool (*owns)(const void *memory);
} bx_device;

/* CUDA 11 to 13, or HIP 5 to 7, by the runtime library that is found when a launch asks for it. */
extern const bx_device bx_device_gpu;

/* Returns how many devices this rank sees; 0 with the reason in why[size].  Local. */
int bx_device_count(char *why, size_t size);
/* Gives each rank a device of its host: of those that it sees the number that `order` has for it,
 * "0,2" for ranks of the host in turn; the nearest if `order` is NULL, so that devices have as many
 * ranks, or one more.  Refuses with BX_USAGE, in a line that begins with
 * `option`: a host without a device; more than `most_ranks` on a device, unless that is 0; a device
 * shared while another has nobody; and `bytes` of each rank where a device has less free.  Returns
 * as bx_run_agree.  Collective. */
int bx_device_open(bx_run *run, const char *option, const char *order, int64_t most_ranks,
                   double bytes);
/* The open device; NULL: none. */
const bx_device *bx_device_get(void);
/* Refuses with BX_USAGE, in a line that begins with `option`, where MPI does not say that it takes
 * addresses of the device, unless that is `overruled`, which the result has.  It is asked, never
 * tried: a library that cannot does not always crash, some hang.  Returns as bx_run_agree.
 * Collective. */
int bx_device_require_aware(bx_run *run, const char *option, bool overruled);
/* Refuses with BX_USAGE, in a line that begins with `option`, where a rank's device `can` not do
 * what is asked, for the reason `why`.  Returns as bx_run_agree.  Collective. */
int bx_device_require(bx_run *run, const char *option, bool can, const char *why);
/* Returns memory of the device, whose `name` is in the line that a host's touch of it ends with. */
void *bx_device_alloc(size_t bytes, const char *name);
/* NULL: nothing. */
void bx_device_release(void *memory);
/* Adds the ranks' devices to the result's "layout"; nothing without.  Collective. */
void bx_device_add(const bx_run *run, bx_json *layout);

/* ---- device_place.c: where devices are, by sysfs ---- */

/* The devices that a rank sees, the first BX_DEVICES_MOST. */
typedef struct {
    int count;
    struct {
        char id[BX_DEVICE_TEXT];
        bool near; /* to a CPU of the rank */
    } devices[BX_DEVICES_MOST];
} bx_device_view;

/* Fills what `facts` has of the place, by its id.  Local. */
void bx_device_locate(bx_device_facts *facts);
/* Whether this thread may use a CPU that is local to a device; true where none is known.  Local. */
bool bx_device_is_near(const char *id);
/* Chooses a device for each of a host's ranks, by its number in the rank's own view, of one device
 * at least: chosen[ranks].  Local. */
void bx_device_choose(const bx_device_view *views, int ranks, int *chosen);
