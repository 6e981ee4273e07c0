/* Buffers of messages (--buffers): in memory of the host, in that of a device, or staged, which is
 * in a device's with a copy in the host's that MPI is given.
 *
 * A kernel makes and verifies content at `host`, gives MPI `exchanged`, and dereferences nothing
 * else.  What only devices need does nothing to buffers of the host. */
#pragma once

#include "bx.h"

typedef struct bx_comm_buffer {
    void *host, *exchanged;
    void *device; /* NULL: buffers of the host */
    size_t bytes;
    struct bx_comm_buffer *next; /* of all that there are */
} bx_comm_buffer;

/* Why methods of windows that ranks of a host share cannot take memory of a device. */
#define BX_NO_DEVICE_WINDOW "memory of a device is in no window that ranks of a host share"

/* The options' values. */
extern struct bx_comm_buffer_options {
    const char *place, *devices;
    int64_t ranks_per_device;
    bool aware;
} bx_comm_buffer_options;

/* Those of a kernel that takes devices, and of one whose messages may lie there, in its table. */
/* clang-format off */
#define BX_DEVICE_OPTIONS                                                                          \
    {"devices", "LIST", "devices by number, for ranks of a host in turn (default: by nearness)",   \
     BX_TEXT, 0, 0, &bx_comm_buffer_options.devices},                                              \
    {"ranks-per-device", "N", "refuse more ranks on a device (default: any number)", BX_INTEGER,   \
     1, 1e6, &bx_comm_buffer_options.ranks_per_device}
#define BX_COMM_BUFFER_OPTIONS                                                                     \
    {"buffers", "WHERE", "memory that messages lie in: host, device, or staged", BX_TEXT, 0, 0,    \
     &bx_comm_buffer_options.place},                                                               \
    BX_DEVICE_OPTIONS,                                                                             \
    {"aware", NULL, "give MPI memory of a device, whatever MPI says of itself", BX_FLAG, 0, 0,     \
     &bx_comm_buffer_options.aware}
/* clang-format on */

/* Whether the options ask for staged buffers; for any in memory of a device.  Local. */
bool bx_comm_buffers_are_staged(void);
bool bx_comm_buffers_are_copied(void);
/* Claims memory as bx_resources_claim_memory does: `bytes` for the buffers of this rank, and
 * `beside` of the host's for all else.  Opens its device where the options ask for one: device.h
 * has the refusals.  Returns as bx_run_agree.  Collective, once. */
int bx_comm_buffers_open(bx_run *run, double bytes, double beside, const char *sized_by);
/* The same for a kernel whose copies on the device are made by bx_comm_buffers_move. */
int bx_comm_buffers_open_moved(bx_run *run, double bytes, double beside, const char *sized_by);
/* Refuses the option where a rank's device `can` not do what is asked, for the reason `why`: as
 * bx_device_require. */
int bx_comm_buffers_require(bx_run *run, bool can, const char *why);
/* Whole pages of a buffer, which stays where it is; `name` must live as long.  Returns false where
 * the host has no memory.  Local. */
bool bx_comm_buffer_create(bx_comm_buffer *buffer, size_t bytes, const char *name);
/* Nothing for a buffer that was not created.  Local. */
void bx_comm_buffer_free(bx_comm_buffer *buffer);

/* ---- around a step, all local and done when they return: `bytes` from `at` on, an address at
 * `exchanged` ---- */

/* The same place at `host`. */
static inline void *bx_comm_buffer_host(const bx_comm_buffer *buffer, const void *at)
{
    return (char *)buffer->host + ((const char *)at - (const char *)buffer->exchanged);
}
/* Brings what the kernel has made at `host` to where it is sent from. */
void bx_comm_buffer_bring(const bx_comm_buffer *buffer, const void *at, size_t bytes);
/* Fills with a byte what is to arrive; `host` only where it is the same. */
void bx_comm_buffer_fill(const bx_comm_buffer *buffer, int byte, void *at, size_t bytes);
/* Brings what has arrived to `host`. */
void bx_comm_buffer_fetch(const bx_comm_buffer *buffer, const void *at, size_t bytes);
/* The buffer that has an address at `exchanged`; NULL: none.  The same place at its `host`; the
 * address itself where there is none. */
bx_comm_buffer *bx_comm_buffers_find(const void *at);
void *bx_comm_buffers_host(const void *at);
/* Brings, or fetches, all of every buffer. */
void bx_comm_buffers_bring(void);
void bx_comm_buffers_fetch(void);
/* Verifies that a step has left no work on the device, and that MPI is given the memory asked for.
 * The harness calls it when a sample's clock has stopped. */
void bx_comm_buffers_inspect(bx_verification *verification);

/* ---- inside a step, the same: copies of staged buffers, nothing of others ---- */

void bx_comm_buffer_stage(const bx_comm_buffer *buffer, const void *at, size_t bytes, bool out);
/* Copies from the device what is to be sent. */
static inline void bx_comm_buffer_stage_out(const bx_comm_buffer *buffer, const void *at,
                                            size_t bytes)
{
    if (buffer->device) bx_comm_buffer_stage(buffer, at, bytes, true);
}
/* Copies to the device what was received. */
static inline void bx_comm_buffer_stage_in(const bx_comm_buffer *buffer, const void *at,
                                           size_t bytes)
{
    if (buffer->device) bx_comm_buffer_stage(buffer, at, bytes, false);
}
/* What this rank has copied inside steps since the last call, which is added to `sum` (NULL: to
 * nothing): bytes staged to the host and to the device, seconds of both, bytes moved on the device.
 */
enum { BX_COPIED_TO_HOST, BX_COPIED_TO_DEVICE, BX_COPIED_SECONDS, BX_COPIED_MOVED, BX_COPIED };
extern const char *const bx_comm_buffers_copied[BX_COPIED];
void bx_comm_buffers_count(double sum[BX_COPIED]);

/* ---- on the device, inside a step ---- */

/* Returns memory of the device with an index of `count` numbers; bx_device_release. */
int *bx_comm_buffers_index(const int *index, size_t count);
/* Queues bx_device.move of elements of `bytes` between two buffers: addresses at `exchanged`, which
 * are moved at `device`. */
void bx_comm_buffers_move(void *to, const int *to_index, const void *from, const int *from_index,
                          size_t count, size_t bytes);
/* Returns the place at `device` of an address at `exchanged`, for functions of device.h. */
void *bx_comm_buffers_device(const void *at);
/* Waits for what is queued. */
void bx_comm_buffers_sync(void);
