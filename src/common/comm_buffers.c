#include "comm_buffers.h"

#include "device.h"

#include <stdlib.h>
#include <string.h>

struct bx_comm_buffer_options bx_comm_buffer_options = {.place = "host"};

static enum { HOST, DEVICE, STAGED } place;
static bx_comm_buffer *all;

bool bx_comm_buffers_are_staged(void)
{
    return strcmp(bx_comm_buffer_options.place, "staged") == 0;
}

int bx_comm_buffers_open(bx_run *run, double bytes, double beside, const char *sized_by)
{
    char option[32];
    int number =
        bx_run_one_of(run, "buffers", bx_comm_buffer_options.place, "host, device, staged");
    if (bx_run_agree(run) != BX_OK) return run->refusal;
    place = number;
    double on_host = (place == STAGED ? 2 : 1) * bytes + beside;
    int code = bx_resources_claim_memory(run, on_host, sized_by);
    if (code != BX_OK || place == HOST) return code;
    snprintf(option, sizeof option, "--buffers %s", bx_comm_buffer_options.place);
    code = bx_device_open(run, option, bx_comm_buffer_options.devices,
                          bx_comm_buffer_options.ranks_per_device, bytes);
    if (code != BX_OK || place == STAGED) return code;
    return bx_device_require_aware(run, option);
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

void bx_comm_buffer_stage_out(const bx_comm_buffer *buffer, void *at, size_t bytes)
{
    copy(at, on_device(buffer, at), bytes, BX_TO_HOST);
}

void bx_comm_buffer_stage_in(const bx_comm_buffer *buffer, const void *at, size_t bytes)
{
    copy(on_device(buffer, at), at, bytes, BX_TO_DEVICE);
}

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
