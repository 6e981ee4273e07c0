/* CUDA or HIP by their runtime libraries, which are looked for when a launch asks for a device: no
 * toolkit is needed to build.  Only functions and constants are used that are the same in CUDA 11
 * to 13 and in HIP 5 to 7, or whose differences stand here. */
#include "device.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NO_DEVICE = 100, NOT_READY = 600, ALREADY_ENABLED = 704 }; /* errors */
enum { NON_BLOCKING = 1 }; /* a stream that does not wait for the default one */
enum { NAME_BYTES = 256, UUID_BYTES = 16 };
static const int KIND[] = {[BX_TO_DEVICE] = 1, [BX_TO_HOST] = 2};

/* An attribute of a device: its highest clock, kHz.  HIP has the number since 4.2. */
enum { CUDA_CLOCK = 13, HIP_CLOCK = 5 };

/* field, CUDA's name, HIP's name, both without prefix, parameters */
#define FUNCTIONS(X)                                                                               \
    X(count, "GetDeviceCount", "GetDeviceCount", (int *))                                          \
    X(set, "SetDevice", "SetDevice", (int))                                                        \
    X(bus_id, "DeviceGetPCIBusId", "DeviceGetPCIBusId", (char *, int, int))                        \
    X(attribute, "DeviceGetAttribute", "DeviceGetAttribute", (int *, int, int))                    \
    X(memory, "MemGetInfo", "MemGetInfo", (size_t *, size_t *))                                    \
    X(alloc, "Malloc", "Malloc", (void **, size_t))                                                \
    X(release, "Free", "Free", (void *))                                                           \
    X(alloc_host, "HostAlloc", "HostMalloc", (void **, size_t, unsigned))                          \
    X(release_host, "FreeHost", "HostFree", (void *))                                              \
    X(stream, "StreamCreateWithFlags", "StreamCreateWithFlags", (void **, unsigned))               \
    X(sync, "StreamSynchronize", "StreamSynchronize", (void *))                                    \
    X(query, "StreamQuery", "StreamQuery", (void *))                                               \
    X(copy, "MemcpyAsync", "MemcpyAsync", (void *, const void *, size_t, int, void *))             \
    X(peer, "MemcpyPeerAsync", "MemcpyPeerAsync",                                                  \
      (void *, int, const void *, int, size_t, void *))                                            \
    X(can_access, "DeviceCanAccessPeer", "DeviceCanAccessPeer", (int *, int, int))                 \
    X(enable, "DeviceEnablePeerAccess", "DeviceEnablePeerAccess", (int, unsigned))                 \
    X(fill, "MemsetAsync", "MemsetAsync", (void *, int, size_t, void *))                           \
    X(attributes, "PointerGetAttributes", "PointerGetAttributes", (void *, const void *))          \
    X(runtime, "RuntimeGetVersion", "RuntimeGetVersion", (int *))                                  \
    X(driver, "DriverGetVersion", "DriverGetVersion", (int *))
/* The library of FFTs: a plan is an int in CUDA, a pointer in HIP, either in a whole register. */
#define FFT(X)                                                                                     \
    X(plan_many, "PlanMany", "PlanMany",                                                           \
      (void **, int, int *, int *, int, int, int *, int, int, int, int))                           \
    X(set_stream, "SetStream", "SetStream", (void *, void *))                                      \
    X(transform, "ExecZ2Z", "ExecZ2Z", (void *, void *, void *, int))                              \
    X(destroy, "Destroy", "Destroy", (void *))                                                     \
    X(fft_version, "GetVersion", "GetVersion", (int *))
#define FIELD(field, cuda, hip, parameters) int(*field) parameters;

/* What compiles, and what loads and runs what it has compiled: with HIP the runtime itself. */
#define COMPILER(X)                                                                                \
    X(create, "CreateProgram", "CreateProgram",                                                    \
      (void **, const char *, const char *, int, const char *const *, const char *const *))        \
    X(compile, "CompileProgram", "CompileProgram", (void *, int, const char *const *))             \
    X(log_size, "GetProgramLogSize", "GetProgramLogSize", (void *, size_t *))                      \
    X(log, "GetProgramLog", "GetProgramLog", (void *, char *))                                     \
    X(code_size, "GetCUBINSize", "GetCodeSize", (void *, size_t *))                                \
    X(code, "GetCUBIN", "GetCode", (void *, char *))
#define DRIVER(X)                                                                                  \
    X(load, "ModuleLoadData", "ModuleLoadData", (void **, const void *))                           \
    X(function, "ModuleGetFunction", "ModuleGetFunction", (void **, void *, const char *))         \
    X(launch, "LaunchKernel", "ModuleLaunchKernel",                                                \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,       \
       void **, void **))

static struct {
    FUNCTIONS(FIELD)
    COMPILER(FIELD)
    DRIVER(FIELD)
    FFT(FIELD)
    const char *fft_library;
    void *move;
    int (*properties)(void *, int);
    const char *(*text)(int);
    void *queue;
    const char *library;
    bool hip;
    int device;
    bx_device_end *end;
} gpu;

/* Libraries that fit each other, in the order in which they are looked for. */
enum { RUNTIME, COMPILERS, FFTS, USES };
static const char *const LIBRARIES[][USES] = {
    {"libcudart.so.13", "libnvrtc.so.13", "libcufft.so.12"},
    {"libcudart.so.12", "libnvrtc.so.12", "libcufft.so.11"},
    {"libcudart.so.11.0", "libnvrtc.so.11.2", "libcufft.so.10"},
    {"libamdhip64.so.7", "libhiprtc.so.7", "libhipfft.so.0"},
    {"libamdhip64.so.6", "libhiprtc.so.6", "libhipfft.so.0"},
    {"libamdhip64.so.5", "libhiprtc.so.5", "libhipfft.so.0"},
};
enum { LIBRARY_COUNT = sizeof LIBRARIES / sizeof *LIBRARIES, FIRST_HIP = 3 };

/* ---- the library ---- */

static void *find_as(void *library, const char *prefix, const char *name)
{
    char whole[64];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    return dlsym(library, whole);
}

static void *find(void *library, const char *name)
{
    return find_as(library, gpu.hip ? "hip" : "cuda", name);
}

#define RESOLVE(field, cuda, hip_name, parameters)                                                 \
    *(void **)&gpu.field = find_as(library, prefix, gpu.hip ? hip_name : cuda);                    \
    if (!gpu.field) missing = gpu.hip ? hip_name : cuda;

/* Returns the name of a function that the library lacks; NULL: it has all. */
static const char *resolve(void *library)
{
    const char *missing = NULL, *prefix = gpu.hip ? "hip" : "cuda";
    FUNCTIONS(RESOLVE)
    /* CUDA 12 and HIP from 6 on give the version of the structure in the name. */
    const char *versioned = gpu.hip ? "GetDevicePropertiesR0600" : "GetDeviceProperties_v2";
    *(void **)&gpu.properties = find(library, versioned);
    if (!gpu.properties) *(void **)&gpu.properties = find(library, "GetDeviceProperties");
    *(void **)&gpu.text = find(library, "GetErrorString");
    return !gpu.properties ? "GetDeviceProperties" : !gpu.text ? "GetErrorString" : missing;
}

static void must(int code, const char *call)
{
    if (code != 0) gpu.end("%s: %s failed: error %d, %s", gpu.library, call, code, gpu.text(code));
}

/* Of one library; 0: none of its devices can be used. */
static int count_of(void *library, char *why, size_t size)
{
    const char *missing = resolve(library);
    if (missing) {
        snprintf(why, size, "%s has no function %s", gpu.library, missing);
        return 0;
    }
    int devices = 0, code = gpu.count(&devices), driver = 0;
    if (code == 0 && devices > 0) return devices;
    gpu.driver(&driver);
    /* Without a driver CUDA has error 35, as for one that is too old, and HIP that of no device. */
    bool absent = gpu.hip ? code == NO_DEVICE && access("/dev/kfd", F_OK) != 0 : driver == 0;
    const char *variable = gpu.hip ? "ROCR_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
    if (gpu.hip && getenv("HIP_VISIBLE_DEVICES")) variable = "HIP_VISIBLE_DEVICES";
    const char *visible = getenv(variable);
    if (absent)
        snprintf(why, size, "%s: this host has no driver of a device: error %d, %s", gpu.library,
                 code, gpu.text(code));
    else if (code == 0 || code == NO_DEVICE)
        snprintf(why, size, "%s: no device is visible, %s is %s", gpu.library, variable,
                 visible ? visible : "not set");
    else
        snprintf(why, size, "%s: error %d, %s; driver %d", gpu.library, code, gpu.text(code),
                 driver);
    return 0;
}

/* The library that MPI has loaded, else the newest that has devices: a runtime may be newer than
 * the driver, or of the other maker. */
static int count(bx_device_end *end, char *why, size_t size)
{
    size_t used = 0;
    gpu.end = end;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < LIBRARY_COUNT; i++) {
            char reason[256];
            int flags = RTLD_NOW | RTLD_LOCAL | (pass == 0 ? RTLD_NOLOAD : 0);
            void *library = dlopen(LIBRARIES[i][RUNTIME], flags);
            if (!library) continue;
            gpu.library = LIBRARIES[i][RUNTIME];
            gpu.hip = strstr(gpu.library, "hip");
            int devices = count_of(library, reason, sizeof reason);
            if (devices > 0) return devices;
            if (pass == 1 && used < size)
                used += (size_t)snprintf(why + used, size - used, "%s%s", used ? "; " : "", reason);
        }
    if (used == 0)
        snprintf(why, size,
                 "no runtime library is found: neither libcudart.so.11.0, .12, .13 nor "
                 "libamdhip64.so.5, .6, .7");
    return 0;
}

/* ---- the device ---- */

static void use(int device) { must(gpu.set(device), "SetDevice"); }

static void open_device(int device)
{
    gpu.device = device;
    use(gpu.device);
    must(gpu.release(NULL), "Free"); /* the device is set up here, not within a step */
    must(gpu.stream(&gpu.queue, NON_BLOCKING), "StreamCreateWithFlags");
}

enum { HIP6 = 60000000 };

/* Name, then UUID, begin the structure, of 728 to 1472 bytes. */
static const char *properties_of(int device)
{
    static char properties[16384];
    must(gpu.properties(properties, device), "GetDeviceProperties");
    return properties;
}

/* Parts of one device have its address on the bus, and a UUID each; HIP before 6 names none. */
static void identify(int device, char *id)
{
    int runtime;
    must(gpu.bus_id(id, BX_DEVICE_TEXT, device), "DeviceGetPCIBusId");
    must(gpu.runtime(&runtime), "RuntimeGetVersion");
    if (gpu.hip && runtime < HIP6) return;
    const char *uuid = properties_of(device) + NAME_BYTES;
    char *end = id + strlen(id);
    for (int i = 0; i < UUID_BYTES; i++)
        end += sprintf(end, "%s%02x", i ? "" : "/", (unsigned char)uuid[i]);
}

static void describe(bx_device_facts *facts)
{
    int khz = 0, code = gpu.attribute(&khz, gpu.hip ? HIP_CLOCK : CUDA_CLOCK, gpu.device);
    identify(gpu.device, facts->id);
    must(gpu.runtime(&facts->runtime), "RuntimeGetVersion");
    must(gpu.driver(&facts->driver), "DriverGetVersion");
    facts->kind = gpu.hip ? "rocm" : "cuda";
    facts->clock = code == 0 && khz > 0 ? 1e3 * khz : NAN;
    snprintf(facts->library, sizeof facts->library, "%s", gpu.library);
    int ffts = 0;
    if (gpu.fft_version && gpu.fft_version(&ffts) == 0)
        snprintf(facts->ffts, sizeof facts->ffts, "%s %d", gpu.fft_library, ffts);
    snprintf(facts->name, sizeof facts->name, "%.*s", BX_DEVICE_TEXT - 1,
             properties_of(gpu.device));
}

static double free_memory(void)
{
    size_t left, all;
    must(gpu.memory(&left, &all), "MemGetInfo");
    return (double)left;
}

static void *alloc(size_t bytes)
{
    void *memory;
    must(gpu.alloc(&memory, bytes), "Malloc");
    return memory;
}

static void release(void *memory) { must(gpu.release(memory), "Free"); }

static void *alloc_host(size_t bytes)
{
    void *memory;
    must(gpu.alloc_host(&memory, bytes, 0), gpu.hip ? "HostMalloc" : "HostAlloc");
    return memory;
}

static void release_host(void *memory)
{
    must(gpu.release_host(memory), gpu.hip ? "HostFree" : "FreeHost");
}

/* The way is said and not guessed by the library (cudaMemcpyDefault), which would copy a wrong way
 * in silence. */
static void copy(void *to, const void *from, size_t bytes, bx_way way)
{
    must(gpu.copy(to, from, bytes, KIND[way], gpu.queue), "MemcpyAsync");
}

static void fill(void *to, int byte, size_t bytes)
{
    must(gpu.fill(to, byte, bytes, gpu.queue), "MemsetAsync");
}

static int number(void) { return gpu.device; }

/* Until it is enabled, both libraries copy through the host where a link is. */
static bool enable(int device)
{
    int can = 0, code = 0;
    must(gpu.can_access(&can, gpu.device, device), "DeviceCanAccessPeer");
    if (can) code = gpu.enable(device, 0);
    return can && (code == 0 || code == ALREADY_ENABLED);
}

/* A device in exclusive mode refuses a second process: CUDA 12 when it is set, 11 when memory is
 * allocated. */
static void *alloc_on(int device, size_t bytes, bool *direct, char *why, size_t size)
{
    void *memory = NULL;
    int code = gpu.set(device);
    if (code == 0) code = gpu.alloc(&memory, bytes);
    use(gpu.device);
    if (code == 0)
        *direct = enable(device);
    else
        snprintf(why, size, "error %d, %s", code, gpu.text(code));
    return code == 0 ? memory : NULL;
}

static void copy_peer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
    must(gpu.peer(to, to_device, from, from_device, bytes, gpu.queue), "MemcpyPeerAsync");
}

static void synchronise(void) { must(gpu.sync(gpu.queue), "StreamSynchronize"); }

static bool idle(void)
{
    int code = gpu.query(gpu.queue);
    if (code != NOT_READY) must(code, "StreamQuery");
    return code == 0;
}

static bool owns(const void *memory)
{
    /* Type and device are the first two of 24 bytes in CUDA 11 and 12, 88 in CUDA 13, 32 in HIP.
     * HIP before 6 has other numbers for types than CUDA. */
    int attributes[64] = {0}, version = 0;
    must(gpu.runtime(&version), "RuntimeGetVersion");
    int of_device = gpu.hip && version < HIP6 ? 1 : 2;
    return gpu.attributes(attributes, memory) == 0 && attributes[0] == of_device &&
           attributes[1] == gpu.device;
}

/* ---- libraries beside the runtime ---- */

/* Opens another library of the maker, whose name is then *name: that of the runtime's own version
 * comes first, as its code fits the driver, too.  Returns NULL with the reason in why[size]. */
static void *open_beside(int use, const char *called, const char **name, char *why, size_t size)
{
    int own = 0, first = gpu.hip ? FIRST_HIP : 0, end = gpu.hip ? LIBRARY_COUNT : FIRST_HIP;
    while (LIBRARIES[own][RUNTIME] != gpu.library) own++;
    void *library = dlopen(*name = LIBRARIES[own][use], RTLD_NOW);
    const char *fault = library ? NULL : dlerror(); /* a library that it needs may be missing */
    char said[128] = "";
    if (fault) snprintf(said, sizeof said, "%s", fault);
    for (int i = first; i < end && !library; i++)
        library = dlopen(*name = LIBRARIES[i][use], RTLD_NOW);
    snprintf(why, size, "no %s is found: %s fits %s: %s", called, LIBRARIES[own][use], gpu.library,
             said);
    return library;
}

/* ---- the one function that runs on the device, compiled there ---- */

#define BX_DEVICE_SOURCE(...) #__VA_ARGS__
static const char SOURCE[] = "#define BX_DEVICE_FUNCTION extern \"C\" __global__\n"
#include "device_move.h"
    ;
enum { BLOCK = 256, MAJOR = 75, MINOR = 76 }; /* CUDA's numbers of a device's capability */

/* The first line of the compiler's log; the number of the error where there is none. */
static void report_log(void *program, int failed, char *why, size_t size)
{
    size_t bytes = 0;
    bool logged = program && gpu.log_size(program, &bytes) == 0 && bytes > 1;
    char *log = bx_memory_alloc(bytes + 1, 1);
    if (logged && gpu.log(program, log) == 0)
        snprintf(why, size, "bx_move does not compile: %.*s", (int)strcspn(log, "\n"), log);
    else
        snprintf(why, size, "bx_move does not compile: error %d", failed);
    free(log);
}

static bool open_move(char *why, size_t size)
{
    const char *missing = NULL, *name, *prefix = gpu.hip ? "hiprtc" : "nvrtc";
    void *library = open_beside(COMPILERS, "compiler", &name, why, size), *program = NULL, *module;
    if (!library) return false;
    COMPILER(RESOLVE)
    if (!missing) {
        name = gpu.hip ? gpu.library : "libcuda.so.1";
        prefix = gpu.hip ? "hip" : "cu";
        library = dlopen(name, RTLD_NOW);
        snprintf(why, size, "%s is not found", name);
        if (!library) return false;
        DRIVER(RESOLVE)
    }
    if (missing) snprintf(why, size, "%s has no function %s", name, missing);
    if (missing) return false;
    int major = 0, minor = 0;
    char target[32];
    const char *const options[] = {target};
    if (!gpu.hip) { /* HIP's compiler knows the device */
        must(gpu.attribute(&major, MAJOR, gpu.device), "DeviceGetAttribute");
        must(gpu.attribute(&minor, MINOR, gpu.device), "DeviceGetAttribute");
    }
    snprintf(target, sizeof target, "--gpu-architecture=sm_%d%d", major, minor);
    size_t bytes = 0;
    int failed = gpu.create(&program, SOURCE, "bx_move", 0, NULL, NULL);
    if (failed == 0) failed = gpu.compile(program, !gpu.hip, options);
    if (failed != 0) {
        report_log(program, failed, why, size);
        return false;
    }
    must(gpu.code_size(program, &bytes), "the size of what is compiled");
    char *code = malloc(bytes + 1);
    if (!code) abort();
    must(gpu.code(program, code), "what is compiled");
    must(gpu.load(&module, code), "ModuleLoadData");
    must(gpu.function(&gpu.move, module, "bx_move"), "ModuleGetFunction");
    free(code);
    return true;
}

static void move(void *to, const int *to_index, const void *from, const int *from_index,
                 size_t count, int words)
{
    unsigned long long elements = count, each = (unsigned long long)words;
    void *arguments[] = {&to, &to_index, &from, &from_index, &elements, &each};
    if (count == 0) return;
    must(gpu.launch(gpu.move, (unsigned)((elements * each + BLOCK - 1) / BLOCK), 1, 1, BLOCK, 1, 1,
                    0, gpu.queue, arguments, NULL),
         "LaunchKernel");
}

/* ---- FFTs ---- */

struct bx_device_fft {
    void *plan;
};
enum { Z2Z = 0x69 }; /* complex numbers of two doubles */

/* Numbers and meanings are the same in both libraries, of which neither has a text. */
static const char *fft_error(int code)
{
    static const char *const TEXTS[] = {"none",         "invalid plan",  "no memory",
                                        "invalid type", "invalid value", "internal error",
                                        "execution",    "set-up",        "invalid size",
                                        "unaligned",    "incomplete",    "invalid device"};
    return code > 0 && code < (int)(sizeof TEXTS / sizeof *TEXTS) ? TEXTS[code] : "see its manual";
}

static bool open_fft(char *why, size_t size)
{
    const char *missing = NULL, *prefix = gpu.hip ? "hipfft" : "cufft";
    void *library = open_beside(FFTS, "FFT library", &gpu.fft_library, why, size);
    if (!library) return false;
    FFT(RESOLVE)
    if (missing) snprintf(why, size, "%s has no function %s", gpu.fft_library, missing);
    return !missing;
}

/* The layout is said: without it, both libraries ignore the strides. */
static bx_device_fft *plan_fft(int ny, int nx, int batch, char *why, size_t size)
{
    int points = ny * nx, rank = ny > 1 && nx > 1 ? 2 : 1, n[] = {rank == 1 ? points : ny, nx};
    bx_device_fft *fft = bx_memory_alloc(1, sizeof *fft);
    const char *call = "PlanMany";
    int code = gpu.plan_many(&fft->plan, rank, n, n, 1, points, n, 1, points, Z2Z, batch);
    if (code == 0) code = gpu.set_stream(fft->plan, gpu.queue), call = "SetStream";
    if (code == 0) return fft;
    snprintf(why, size, "%s: %s failed, of %d FFTs of %d x %d: error %d, %s", gpu.fft_library, call,
             batch, ny, nx, code, fft_error(code));
    free(fft);
    return NULL;
}

static void fft(const bx_device_fft *fft, void *planes, int sign)
{
    int code = gpu.transform(fft->plan, planes, planes, sign);
    if (code != 0)
        gpu.end("%s: ExecZ2Z failed: error %d, %s", gpu.fft_library, code, fft_error(code));
}

static void release_fft(bx_device_fft *fft)
{
    if (fft) gpu.destroy(fft->plan);
    free(fft);
}

const bx_device bx_device_gpu = {.count = count,
                                 .identify = identify,
                                 .open = open_device,
                                 .describe = describe,
                                 .free_memory = free_memory,
                                 .alloc = alloc,
                                 .release = release,
                                 .alloc_host = alloc_host,
                                 .release_host = release_host,
                                 .copy = copy,
                                 .fill = fill,
                                 .open_move = open_move,
                                 .move = move,
                                 .open_fft = open_fft,
                                 .plan_fft = plan_fft,
                                 .fft = fft,
                                 .release_fft = release_fft,
                                 .sync = synchronise,
                                 .number = number,
                                 .alloc_on = alloc_on,
                                 .copy_peer = copy_peer,
                                 .idle = idle,
                                 .owns = owns};
