#include "comm_buffers.h"

#include "device.h"

#include <stdlib.h>
#include <string.h>

struct bx_comm_buffer_options bx_comm_buffer_options = {.place = "host"};

static enum { HOST, DEVICE, STAGED } place;
static bx_comm_buffer *all;
static char option[32]; /* that has been given */
static double counted[BX_COPIED];
const char *const bx_comm_buffers_copied[BX_COPIED] = {"to_host", "to_device", "seconds", "moved"};

bool bx_comm_buffers_are_staged(void)
{
    return strcmp(bx_comm_buffer_options.place, "staged") == 0;
}

bool bx_comm_buffers_are_copied(void) { return strcmp(bx_comm_buffer_options.place, "host") != 0; }

int bx_comm_buffers_open(bx_run *run, double bytes, double beside, const char *sized_by)
{
    int number =
        bx_run_one_of(run, "buffers", bx_comm_buffer_options.place, "host, device, staged");
    if (bx_run_agree(run) != BX_OK) return run->refusal;
    place = number;
    double on_host = (place == STAGED ? 2 : 1) * bytes + beside;
    if (place != HOST) { /* first: a device has less memory than its host, and may not be there */
        snprintf(option, sizeof option, "--buffers %s", bx_comm_buffer_options.place);
        int code = bx_device_open(run, option, bx_comm_buffer_options.devices,
                                  bx_comm_buffer_options.ranks_per_device, bytes);
        if (code == BX_OK && place == DEVICE)
            code = bx_device_require_aware(run, option, bx_comm_buffer_options.aware);
        if (code != BX_OK) return code;
    }
    return bx_resources_claim_memory(run, on_host, sized_by);
}

int bx_comm_buffers_open_moved(bx_run *run, double bytes, double beside, const char *sized_by)
{
    int code = bx_comm_buffers_open(run, bytes, beside, sized_by);
    if (code != BX_OK || place == HOST) return code;
    char why[320];
    return bx_comm_buffers_require(run, bx_device_get()->open_move(why, sizeof why), why);
}

int bx_comm_buffers_require(bx_run *run, bool can, const char *why)
{
    return bx_device_require(run, option, can, why);
}

bool bx_comm_buffer_create(bx_comm_buffer *buffer, size_t bytes, const char *name)
{
    *buffer = (bx_comm_buffer){.bytes = bx_memory_whole_pages(bytes), .next = all};
    all = buffer;
    if (place == HOST) {
        buffer->host = buffer->exchanged = bx_memory_alloc_pages(buffer->bytes);
        return buffer->host;
    }
    buffer->host = bx_device_get()->alloc_host(buffer->bytes);
    buffer->exchanged = buffer->device = bx_device_alloc(buffer->bytes, name);
    /* A stage of its own: in the memory that content is made in, a lost copy would go unseen. */
    if (place == STAGED) buffer->exchanged = bx_device_get()->alloc_host(buffer->bytes);
    return true;
}

void bx_comm_buffer_free(bx_comm_buffer *buffer)
{
    bx_comm_buffer **at = &all;
    while (*at && *at != buffer) at = &(*at)->next;
    if (!*at) return;
    *at = buffer->next;
    if (!buffer->device) {
        free(buffer->host);
        return;
    }
    bx_device_get()->release_host(buffer->host);
    if (place == STAGED) bx_device_get()->release_host(buffer->exchanged);
    bx_device_release(buffer->device);
}

/* The same place on the device. */
static void *on_device(const bx_comm_buffer *buffer, const void *at)
{
    return (char *)buffer->device + ((const char *)at - (const char *)buffer->exchanged);
}

static void copy(void *to, const void *from, size_t bytes, bx_way way)
{
    if (bytes == 0) return;
    bx_device_get()->copy(to, from, bytes, way);
    bx_device_get()->sync();
}

void bx_comm_buffer_bring(const bx_comm_buffer *buffer, const void *at, size_t bytes)
{
    if (!buffer->device) return;
    copy(on_device(buffer, at), bx_comm_buffer_host(buffer, at), bytes, BX_TO_DEVICE);
}

void bx_comm_buffer_fill(const bx_comm_buffer *buffer, int byte, void *at, size_t bytes)
{
    if (place != DEVICE) memset(at, byte, bytes);
    if (!buffer->device || bytes == 0) return;
    bx_device_get()->fill(on_device(buffer, at), byte, bytes);
    bx_device_get()->sync();
}

void bx_comm_buffer_fetch(const bx_comm_buffer *buffer, const void *at, size_t bytes)
{
    if (!buffer->device) return;
    copy(bx_comm_buffer_host(buffer, at), on_device(buffer, at), bytes, BX_TO_HOST);
}

void bx_comm_buffer_stage(const bx_comm_buffer *buffer, const void *at, size_t bytes, bool out)
{
    if (place != STAGED) return;
    bx_device_get()->sync(); /* what is queued before it is no part of the copy */
    double start = PMPI_Wtime();
    void *there = on_device(buffer, at);
    if (out) copy((void *)at, there, bytes, BX_TO_HOST);
    if (!out) copy(there, at, bytes, BX_TO_DEVICE);
    counted[BX_COPIED_SECONDS] += PMPI_Wtime() - start;
    counted[out ? BX_COPIED_TO_HOST : BX_COPIED_TO_DEVICE] += (double)bytes;
}

void bx_comm_buffers_count(double sum[BX_COPIED])
{
    for (int i = 0; i < BX_COPIED; i++) {
        if (sum) sum[i] += counted[i];
        counted[i] = 0;
    }
}

bx_comm_buffer *bx_comm_buffers_find(const void *at)
{
    for (bx_comm_buffer *b = all; b; b = b->next)
        if ((const char *)at >= (char *)b->exchanged &&
            (const char *)at < (char *)b->exchanged + b->bytes)
            return b;
    return NULL;
}

void *bx_comm_buffers_host(const void *at)
{
    const bx_comm_buffer *buffer = bx_comm_buffers_find(at);
    return buffer ? bx_comm_buffer_host(buffer, at) : (void *)at;
}

void bx_comm_buffers_bring(void)
{
    for (const bx_comm_buffer *b = all; b; b = b->next)
        bx_comm_buffer_bring(b, b->exchanged, b->bytes);
}

void bx_comm_buffers_fetch(void)
{
    for (const bx_comm_buffer *b = all; b; b = b->next)
        bx_comm_buffer_fetch(b, b->exchanged, b->bytes);
}

int *bx_comm_buffers_index(const int *index, size_t count)
{
    int *copied = bx_device_alloc((count + 1) * sizeof *copied, "index");
    copy(copied, index, count * sizeof *copied, BX_TO_DEVICE);
    return copied;
}

void bx_comm_buffers_move(void *to, const int *to_index, const void *from, const int *from_index,
                          size_t count, size_t bytes)
{
    if (count == 0) return;
    counted[BX_COPIED_MOVED] += (double)count * (double)bytes;
    bx_device_get()->move(bx_comm_buffers_device(to), to_index, bx_comm_buffers_device(from),
                          from_index, count, (int)(bytes / sizeof(uint64_t)));
}

void *bx_comm_buffers_device(const void *at) { return on_device(bx_comm_buffers_find(at), at); }

void bx_comm_buffers_sync(void) { bx_device_get()->sync(); }

void bx_comm_buffers_inspect(bx_verification *verification)
{
    const bx_device *device = bx_device_get();
    int elsewhere = 0;
    if (!device) return;
    for (const bx_comm_buffer *b = all; b; b = b->next)
        elsewhere += device->owns(b->exchanged) != (place == DEVICE);
    bx_verification_check(verification, "work left on the device", !device->idle(), 0, "queues");
    bx_verification_check(verification, "not in the memory asked for", elsewhere, 0, "buffers");
}
