/* Buffers on a device (fake_device.h), in each of its orders of work; without one, the reason.
 *
 * unit_device device|staged RANKS_PER_DEVICE: prints the devices of the ranks; the variable DEVICES
 * is as the option --devices. */
#include "comm_buffers.h"
#include "device.h"
#include "json.h"
#include "unit.h"
#include "verification.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 200000, PART = 1000, FIRST = 3000 };
static bx_comm_buffer sent, received;
static bool late, staged;

static double failed(const bx_verification *verification)
{
    double sum = 0;
    for (int i = 0; i < verification->count; i++) sum += verification->outcomes[i].error;
    return sum;
}

static bool is_filled(const void *memory, int byte, size_t bytes)
{
    const unsigned char *values = memory;
    for (size_t i = 0; i < bytes; i++)
        if (values[i] != byte) return false;
    return true;
}

static void *part(const bx_comm_buffer *buffer) { return (char *)buffer->exchanged + FIRST; }

/* What is made comes back, in its place alone. */
static void test_there_and_back(void)
{
    unsigned char *host = sent.host;
    CHECK(sent.bytes >= BYTES && sent.device && sent.device != sent.host);
    CHECK((sent.exchanged == sent.device) != staged && sent.exchanged != sent.host);
    for (size_t i = 0; i < BYTES; i++) host[i] = (unsigned char)(i % 251);
    bx_comm_buffer_bring(&sent, sent.exchanged, BYTES);
    memset(host, 1, BYTES);
    bx_comm_buffer_fill(&sent, 7, part(&sent), PART);
    bx_comm_buffer_fill(&sent, 7, part(&sent), 0);
    bx_comm_buffer_fetch(&sent, sent.exchanged, BYTES);
    long wrong = 0;
    for (size_t i = 0; i < BYTES; i++)
        wrong += host[i] != (i >= FIRST && i < FIRST + PART ? 7 : i % 251);
    CHECK(wrong == 0);
    memset(host, 9, BYTES);
    bx_comm_buffer_bring(&sent, part(&sent), PART);
    memset(host, 2, BYTES);
    bx_comm_buffer_fetch(&sent, part(&sent), PART);
    CHECK(is_filled(host + FIRST, 9, PART) && is_filled(host, 2, FIRST));
}

/* Work that is queued is not done, and is seen. */
static void test_queue(void)
{
    const bx_device *device = bx_device_get();
    bx_verification idle = {0}, busy = {0};
    bx_comm_buffers_inspect(&idle);
    CHECK(idle.count == 2 && failed(&idle) == 0);
    memset(sent.host, 3, PART);
    bx_comm_buffer_fill(&received, 4, received.exchanged, PART);
    device->copy(received.device, sent.host, PART, BX_TO_DEVICE);
    if (late) memset(sent.host, 5, PART); /* which is copied then */
    bx_comm_buffers_inspect(&busy);
    CHECK((failed(&busy) == 1) == late || !device->idle());
    device->sync();
    CHECK(device->idle());
    bx_comm_buffer_fetch(&received, received.exchanged, PART);
    CHECK(is_filled(received.host, late ? 5 : 3, PART));
}

static void test_staging(void)
{
    if (!staged) return;
    memset((char *)sent.host + FIRST, 11, PART);
    bx_comm_buffer_bring(&sent, part(&sent), PART);
    memset(sent.exchanged, 0, BYTES);
    bx_comm_buffer_stage_out(&sent, part(&sent), PART);
    CHECK(is_filled(part(&sent), 11, PART));
    bx_comm_buffer_fill(&received, 12, part(&received), PART);
    CHECK(is_filled(part(&received), 12, PART)); /* nothing old is there */
    memset(part(&received), 13, PART);
    bx_comm_buffer_stage_in(&received, part(&received), PART);
    CHECK(bx_device_get()->idle());
    bx_comm_buffer_fetch(&received, part(&received), PART);
    CHECK(is_filled((char *)received.host + FIRST, 13, PART));
}

static void test_owner(void)
{
    const bx_device *device = bx_device_get();
    bx_verification elsewhere = {0};
    void *right = sent.exchanged;
    CHECK(device->owns(sent.device) && !device->owns(sent.host));
    sent.exchanged = staged ? sent.device : sent.host;
    bx_comm_buffers_inspect(&elsewhere);
    CHECK(failed(&elsewhere) == 1);
    sent.exchanged = right;
}

/* ---- the host touches what it cannot ---- */

static void handle(int number) { _exit(42); }

static void test_touch(void)
{
    int pipes[2], status = 0;
    char line[512] = "";
    if (pipe(pipes) != 0) abort();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);
        _exit(((volatile unsigned char *)received.device)[24] == 0);
    }
    close(pipes[1]);
    waitpid(child, &status, 0);
    if (read(pipes[0], line, sizeof line - 1) < 0) abort();
    close(pipes[0]);
    CHECK(strstr(line, "the host touches memory of the device: byte 24 of `received`, in "));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42); /* by the handler that was there */
}

static void test_other_signals(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        raise(SIGSEGV);
        _exit(0);
    }
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    signal(SIGSEGV, handle);
    bx_run run = {.kernel = &(bx_kernel){.name = "unit"}, .world = MPI_COMM_WORLD};
    run.host = MPI_COMM_WORLD;
    MPI_Comm_rank(run.world, &run.rank);
    MPI_Comm_size(run.world, &run.size);
    bx_comm_buffer_options.place = argv[1];
    bx_comm_buffer_options.ranks_per_device = atoi(argv[2]);
    bx_comm_buffer_options.devices = getenv("DEVICES");
    staged = bx_comm_buffers_are_staged();
    late = !getenv("FAKE_ORDER") || strcmp(getenv("FAKE_ORDER"), "late") == 0;
    if (bx_comm_buffers_open(&run, 2 * BYTES, 0, "two buffers") != BX_OK) {
        if (run.rank == 0) fprintf(stderr, "bisection-unit: %s\n", run.message);
        MPI_Finalize();
        return run.refusal;
    }
    CHECK(bx_comm_buffer_create(&sent, BYTES, "sent") &&
          bx_comm_buffer_create(&received, BYTES, "received"));
    test_there_and_back();
    test_queue();
    test_staging();
    test_owner();
    test_touch();
    test_other_signals();
    bx_json *layout = run.rank == 0 ? bx_json_create() : NULL;
    bx_device_add(&run, layout);
    if (layout) bx_json_write(stdout, layout, 0);
    bx_json_free(layout);
    bx_comm_buffer_free(&sent);
    bx_comm_buffer_free(&received);
    bx_comm_buffer_free(&received);
    MPI_Finalize();
    return unit_failures > 0;
}
