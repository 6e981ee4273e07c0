/* clang-format off */
/* A fake CUDA runtime, or with FAKE_HIP=5 or 6 a fake HIP: the functions that common/device_gpu.c
 * uses, on the device of fake_device.h.  It punishes what a device punishes.
 *
 *   FAKE_DEVICES  devices of the host (2)
 *   FAKE_ORDER    when queued work is done: late, in the next sync (the default); early, at once;
 *                 or a seed, at random between the two
 *   FAKE_FIRST    the first device that is visible to this process (0)
 *   FAKE_FREE     bytes that a device has free (2^30)
 *   FAKE_PEERS    apart: devices reach each other through the host alone; open: MPI has let them
 *   FAKE_TAKEN    a device that refuses processes which have another one
 *   FAKE_FAIL     a function that fails; "driver": there is none
 *
 * It is the compiler of what runs on a device, too, which it has compiled before; and the library of
 * FFTs, by the sums that define them. */
/* clang-format on */
#include "fake_device.h"

#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef FAKE_HIP
#define NAME(name) hip##name
#define DRIVER(name) hip##name
#define LAUNCH hipModuleLaunchKernel
#define COMPILER(name) hiprtc##name
#define CODE(name) hiprtcGetCode##name
#define FFT(name) hipfft##name
typedef void *plan_handle;
#else
#define NAME(name) cuda##name
#define DRIVER(name) cu##name
#define LAUNCH cuLaunchKernel
#define COMPILER(name) nvrtc##name
#define CODE(name) nvrtcGetCUBIN##name
#define FFT(name) cufft##name
typedef int plan_handle;
#define FAKE_HIP 0
#endif
/* Errors, and types of memory: HIP 5 has others. */
enum { INVALID = 1, NO_MEMORY = 2, OLD_DRIVER = 35, NO_DEVICE = 100, NO_PEER = 217 };
enum { UNAVAILABLE = 46, NOT_READY = 600, ASKED = 700, ALREADY_ENABLED = 704 };
enum { OF_HOST = FAKE_HIP == 5 ? 0 : 1, OF_DEVICE = FAKE_HIP == 5 ? 1 : 2 };
enum { PAGE = 65536, MOST_BUFFERS = 256, MOST_WORK = 4096, UUID = 256, LOG = 700 };
enum { Z2Z = 0x69, MOST_PLANS = 16 };

/* `batch` transforms of n[rank] points, in rows of embed[rank] in memory. */
typedef struct {
    int rank, n[2], embed[2], stride, distance, batch;
    void *stream;
} fft_plan;

typedef struct {
    void *to;
    const void *from; /* NULL: fill with `byte` */
    int byte;
    size_t bytes; /* 0: a move of `count` elements */
    const int *to_index, *from_index;
    unsigned long long count, words;
    const fft_plan *plan; /* in place; NULL: none of these */
    int sign;
} work;

static struct {
    unsigned x;
} blockIdx, threadIdx;
static const struct {
    unsigned x;
} blockDim = {256};
#define BX_DEVICE_SOURCE(...) __VA_ARGS__
#define BX_DEVICE_FUNCTION static
#include "device_move.h"

static struct {
    int device, first;
    bool begun;
    struct {
        uintptr_t first;
        size_t bytes;
    } buffers[MOST_BUFFERS];
    int buffer_count;
    size_t used[FAKE_MOST];
    bool enabled[FAKE_MOST][FAKE_MOST]; /* a device may reach another */
    work queue[MOST_WORK];
    int queued;
    uint64_t random;
    fft_plan plans[MOST_PLANS];
    int plan_count;
} fake;

static long setting(const char *name, long usual)
{
    return getenv(name) ? atol(getenv(name)) : usual;
}
static bool fails(const char *function)
{
    return getenv("FAKE_FAIL") && strcmp(getenv("FAKE_FAIL"), function) == 0;
}
static bool peers_are(const char *how)
{
    return getenv("FAKE_PEERS") && strcmp(getenv("FAKE_PEERS"), how) == 0;
}
#define MAY_FAIL(error)                                                                            \
    if (fails(__func__)) return error

/* ---- the queue ---- */

static bool ordered(const char *order)
{
    const char *chosen = getenv("FAKE_ORDER");
    return strcmp(chosen ? chosen : "late", order) == 0;
}

/* One line of n points, each `stride` behind the last. */
static void transform_line(double complex *line, int n, int stride, int sign)
{
    double complex *roots = malloc(2 * (size_t)n * sizeof *roots), *sums = roots + n;
    if (!roots) abort();
    for (int k = 0; k < n; k++) {
        roots[k] = cexp(sign * 2 * M_PI * I * k / n);
        sums[k] = 0;
    }
    for (long k = 0; k < n; k++)
        for (long i = 0; i < n; i++) sums[k] += line[i * stride] * roots[i * k % n];
    for (int k = 0; k < n; k++) line[(ptrdiff_t)k * stride] = sums[k];
    free(roots);
}

static void transform(const fft_plan *p, double complex *field, int sign)
{
    int rows = p->rank == 2 ? p->n[0] : 1, points = p->n[p->rank - 1],
        row = p->embed[p->rank - 1] * p->stride;
    for (int b = 0; b < p->batch; b++, field += p->distance) {
        for (int y = 0; y < rows; y++)
            transform_line(field + (ptrdiff_t)y * row, points, p->stride, sign);
        for (int x = 0; rows > 1 && x < points; x++)
            transform_line(field + (ptrdiff_t)x * p->stride, rows, row, sign);
    }
}

static void do_first(int count)
{
    if (count > fake.queued) count = fake.queued;
    for (int i = 0; i < count; i++) {
        work *w = &fake.queue[i];
        if (w->plan) {
            transform(w->plan, fake_device_reach(w->to), w->sign);
            continue;
        }
        for (unsigned long long k = 0; k < w->count * w->words; k++) {
            blockIdx.x = (unsigned)(k / blockDim.x);
            threadIdx.x = (unsigned)(k % blockDim.x);
            bx_move(fake_device_reach(w->to), w->to_index ? fake_device_reach(w->to_index) : NULL,
                    fake_device_reach(w->from),
                    w->from_index ? fake_device_reach(w->from_index) : NULL, w->count, w->words);
        }
        if (w->from) memcpy(fake_device_reach(w->to), fake_device_reach(w->from), w->bytes);
        if (!w->from) memset(fake_device_reach(w->to), w->byte, w->bytes);
    }
    fake.queued -= count;
    memmove(fake.queue, &fake.queue[count], (size_t)fake.queued * sizeof *fake.queue);
}

static void queue(work w)
{
    if (fake.queued == MOST_WORK) abort();
    fake.queue[fake.queued++] = w;
    if (ordered("early")) do_first(fake.queued);
    if (ordered("early") || ordered("late")) return;
    if (fake.random == 0) fake.random = (uint64_t)setting("FAKE_ORDER", 1);
    fake.random = fake.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    do_first((int)(fake.random >> 33) % 3);
}

/* Whether memory is a whole part of one buffer of a device. */
static bool device_holds(int device, const void *memory, size_t bytes)
{
    uintptr_t at = (uintptr_t)memory;
    for (int i = 0; i < fake.buffer_count && fake_device_of(memory) == device; i++)
        if (at >= fake.buffers[i].first &&
            at + bytes <= fake.buffers[i].first + fake.buffers[i].bytes)
            return true;
    return false;
}

static bool holds(const void *memory, size_t bytes)
{
    return device_holds(fake.device, memory, bytes);
}

/* ---- the functions ---- */

const char *NAME(GetErrorString)(int error)
{
    return error == NO_MEMORY ? "out of memory" : "as asked for";
}

int NAME(RuntimeGetVersion)(int *version)
{
    *version = FAKE_HIP ? FAKE_HIP * 10000000 : 12040;
    return 0;
}
int NAME(DriverGetVersion)(int *version)
{
    *version = fails("driver") ? 0 : FAKE_HIP ? FAKE_HIP * 10000000 : 12040;
    return 0;
}
int NAME(GetDeviceCount)(int *count)
{
    if (fails("driver")) return FAKE_HIP ? NO_DEVICE : OLD_DRIVER;
    *count = setting(FAKE_HIP ? "ROCR_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES", 0) < 0
                 ? 0
                 : (int)setting("FAKE_DEVICES", 2);
    return *count > 0 ? 0 : NO_DEVICE;
}
int NAME(SetDevice)(int device)
{
    if (device < 0 || device >= setting("FAKE_DEVICES", 2)) return INVALID;
    if (!fake.begun) fake.first = device;
    if (device != fake.first && device == setting("FAKE_TAKEN", -1)) return UNAVAILABLE;
    fake.device = device;
    fake.begun = true;
    return 0;
}
int NAME(DeviceGetPCIBusId)(char *id, int size, int device)
{
    MAY_FAIL(ASKED);
    snprintf(id, (size_t)size, "0000:%02lX:00.0", 1 + device + setting("FAKE_FIRST", 0));
    return 0;
}
/* The clock (kHz), number 13 of CUDA and 5 of HIP; of CUDA also the capability, 75 and 76. */
int NAME(DeviceGetAttribute)(int *value, int attribute, int device)
{
    bool is_clock = attribute == (FAKE_HIP ? 5 : 13), of_cuda = attribute == 75 || attribute == 76;
    *value = is_clock ? 1500000 : attribute == 75 ? 9 : 0;
    return is_clock || (of_cuda && !FAKE_HIP) ? 0 : INVALID;
}
static int describe(char *properties, int device)
{
    snprintf(properties, UUID, "Fake device");
    /* HIP 5 has sizes of memory there, the same of all devices */
    memset(properties + UUID, FAKE_HIP == 5 ? 64 : 1 + device + (int)setting("FAKE_FIRST", 0), 16);
    return 0;
}
#if FAKE_HIP == 0
int NAME(GetDeviceProperties_v2)(void *p, int device) { return describe(p, device); }
#elif FAKE_HIP == 5
int NAME(GetDeviceProperties)(void *p, int device) { return describe(p, device); }
#else
int NAME(GetDevicePropertiesR0600)(void *p, int device) { return describe(p, device); }
#endif
int NAME(MemGetInfo)(size_t *left, size_t *all)
{
    *left = *all = (size_t)setting("FAKE_FREE", 1 << 30);
    return 0;
}
int NAME(Malloc)(void **memory, size_t bytes)
{
    MAY_FAIL(NO_MEMORY);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    size_t whole = (bytes + PAGE - 1) / PAGE * PAGE, *used = &fake.used[fake.device];
    uintptr_t at = FAKE_BASE + (uintptr_t)fake.device * FAKE_SPAN + *used;
    *memory = mmap((void *)at, whole, PROT_NONE, flags, -1, 0);
    void *reached = mmap((void *)(at + FAKE_DISTANCE), whole, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (*memory == MAP_FAILED || reached == MAP_FAILED || fake.buffer_count == MOST_BUFFERS)
        return NO_MEMORY;
    *used += whole + PAGE;        /* no address is used again, nobody has the page behind */
    memset(reached, 0xc3, whole); /* as somebody has left it */
    fake.buffers[fake.buffer_count].first = at;
    fake.buffers[fake.buffer_count++].bytes = bytes;
    return 0;
}
int NAME(Free)(void *memory)
{
    for (int i = 0; i < fake.buffer_count; i++)
        if (fake.buffers[i].first == (uintptr_t)memory) {
            munmap(memory, fake.buffers[i].bytes);
            munmap(fake_device_reach(memory), fake.buffers[i].bytes);
            fake.buffers[i] = fake.buffers[--fake.buffer_count];
            return 0;
        }
    return memory ? INVALID : 0;
}
static int alloc_host(void **memory, size_t bytes)
{
    *memory = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
    return *memory ? 0 : NO_MEMORY;
}
static int release_host(void *memory)
{
    free(memory);
    return 0;
}
#if FAKE_HIP
int NAME(HostMalloc)(void **memory, size_t bytes, unsigned flags)
{
    return alloc_host(memory, bytes);
}
int NAME(HostFree)(void *memory) { return release_host(memory); }
#else
int NAME(HostAlloc)(void **memory, size_t bytes, unsigned flags)
{
    return alloc_host(memory, bytes);
}
int NAME(FreeHost)(void *memory) { return release_host(memory); }
#endif
int NAME(StreamCreateWithFlags)(void **stream, unsigned flags)
{
    *stream = &fake;
    return 0;
}
int NAME(StreamSynchronize)(void *stream)
{
    MAY_FAIL(ASKED);
    do_first(fake.queued);
    return 0;
}
int NAME(StreamQuery)(void *stream) { return fake.queued ? NOT_READY : 0; }
/* kind: 1 to the device, 2 to the host */
int NAME(MemcpyAsync)(void *to, const void *from, size_t bytes, int kind, void *stream)
{
    const void *inside = kind == 1 ? to : from, *outside = kind == 1 ? from : to;
    if (kind < 1 || kind > 2 || fake_device_of(outside) >= 0 || !holds(inside, bytes))
        return INVALID;
    queue((work){.to = to, .from = from, .bytes = bytes});
    return 0;
}
int NAME(DeviceCanAccessPeer)(int *can, int device, int other)
{
    *can = device != other && !peers_are("apart");
    return 0;
}
int NAME(DeviceEnablePeerAccess)(int other, unsigned flags)
{
    if (other == fake.device || flags != 0) return INVALID;
    if (peers_are("apart")) return NO_PEER;
    if (peers_are("open") || fake.enabled[fake.device][other]) return ALREADY_ENABLED;
    fake.enabled[fake.device][other] = true;
    return 0;
}
/* Devices that could reach each other must: a real runtime copies through the host. */
int NAME(MemcpyPeerAsync)(void *to, int to_device, const void *from, int from_device, size_t bytes,
                          void *stream)
{
    int other = to_device == fake.device ? from_device : to_device;
    if (!device_holds(to_device, to, bytes) || !device_holds(from_device, from, bytes))
        return INVALID;
    if (!fake.enabled[fake.device][other] && !getenv("FAKE_PEERS")) return NO_PEER;
    queue((work){.to = to, .from = from, .bytes = bytes});
    return 0;
}
int NAME(MemsetAsync)(void *to, int byte, size_t bytes, void *stream)
{
    if (!holds(to, bytes)) return INVALID;
    queue((work){.to = to, .byte = byte, .bytes = bytes});
    return 0;
}
int NAME(PointerGetAttributes)(void *attributes, const void *memory)
{
    int *values = attributes, device = fake_device_of(memory);
    values[0] = device < 0 ? OF_HOST : OF_DEVICE;
    values[1] = device < 0 ? fake.device : device;
    return 0;
}

/* ---- FFTs ---- */

/* The layout must be said, and be the same on both sides. */
int FFT(PlanMany)(plan_handle *handle, int rank, int *n, int *embed, int stride, int distance,
                  int *embed_out, int stride_out, int distance_out, int type, int batch)
{
    MAY_FAIL(NO_MEMORY);
    if (type != Z2Z || rank < 1 || rank > 2 || batch < 1 || !embed || embed != embed_out ||
        stride != stride_out || distance != distance_out || fake.plan_count == MOST_PLANS)
        return 4;
    fft_plan *p = &fake.plans[fake.plan_count++];
    *p = (fft_plan){.rank = rank, .stride = stride, .distance = distance, .batch = batch};
    for (int i = 0; i < rank; i++) p->n[i] = n[i], p->embed[i] = embed[i];
    *handle = (plan_handle)(intptr_t)fake.plan_count;
    return 0;
}
static fft_plan *plan_of(plan_handle handle)
{
    intptr_t number = (intptr_t)handle;
    return number > 0 && number <= fake.plan_count ? &fake.plans[number - 1] : NULL;
}
int FFT(SetStream)(plan_handle handle, void *stream)
{
    MAY_FAIL(1);
    if (plan_of(handle)) plan_of(handle)->stream = stream;
    return plan_of(handle) ? 0 : 1;
}
/* Of a stream that nobody waits for, it is done too late. */
int FFT(ExecZ2Z)(plan_handle handle, void *from, void *to, int sign)
{
    MAY_FAIL(6);
    const fft_plan *p = plan_of(handle);
    if (!p || from != to || (sign != -1 && sign != 1)) return 4;
    size_t last = (size_t)p->distance * (size_t)(p->batch - 1), row = 1;
    for (int i = p->rank - 1; i >= 0; row *= (size_t)p->embed[i--])
        last += (size_t)(p->n[i] - 1) * row * (size_t)p->stride;
    if (!holds(to, (last + 1) * sizeof(double complex))) return 4;
    if (p->stream == &fake) queue((work){.to = to, .plan = p, .sign = sign});
    return 0;
}
int FFT(GetVersion)(int *version)
{
    *version = 11401;
    return 0;
}
int FFT(Destroy)(plan_handle handle) { return plan_of(handle) ? 0 : 1; }

/* ---- compiler and driver ---- */

int COMPILER(CreateProgram)(void **program, const char *source, const char *name, int headers,
                            const char *const *texts, const char *const *names)
{
    MAY_FAIL(1);
    *program = (void *)source;
    return 0;
}
int COMPILER(CompileProgram)(void *program, int count, const char *const *options)
{
    MAY_FAIL(6);
    bool right = FAKE_HIP ? count == 0 : strcmp(options[0], "--gpu-architecture=sm_90") == 0;
    return right && strstr(program, "__global__") ? 0 : 6;
}
int COMPILER(GetProgramLogSize)(void *program, size_t *size)
{
    *size = LOG;
    return program ? 0 : 4;
}
/* Its second line is long. */
int COMPILER(GetProgramLog)(void *program, char *log)
{
    snprintf(log, LOG, "error: as asked for\n%*s", LOG / 2, "^");
    return program ? 0 : 4;
}
int CODE(Size)(void *program, size_t *size)
{
    *size = 5;
    return 0;
}
int CODE()(void *program, char *code)
{
    memcpy(code, "code", 5);
    return 0;
}
int DRIVER(ModuleLoadData)(void **module, const void *code)
{
    *module = &fake;
    return strcmp(code, "code") ? INVALID : 0;
}
int DRIVER(ModuleGetFunction)(void **function, void *module, const char *name)
{
    *function = &bx_move;
    return strcmp(name, "bx_move") ? INVALID : 0;
}
int LAUNCH(void *function, unsigned blocks, unsigned y, unsigned z, unsigned threads, unsigned v,
           unsigned w, unsigned shared, void *stream, void **arguments, void **extra)
{
    work moved = {.to = *(void **)arguments[0],
                  .to_index = *(int **)arguments[1],
                  .from = *(void **)arguments[2],
                  .from_index = *(int **)arguments[3],
                  .count = *(unsigned long long *)arguments[4],
                  .words = *(unsigned long long *)arguments[5]};
    bool indexed = (!moved.to_index || holds(moved.to_index, 4 * moved.count)) &&
                   (!moved.from_index || holds(moved.from_index, 4 * moved.count));
    if (!indexed || !holds(moved.to, 16) || !holds(moved.from, 16) || threads != blockDim.x ||
        (unsigned long long)blocks * threads < moved.count * moved.words || y * z * v * w != 1)
        return INVALID;
    queue(moved);
    return 0;
}
