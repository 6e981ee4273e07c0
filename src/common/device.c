/* The device of this rank: which one, whether MPI takes its addresses, who touches its memory. */
#include "device.h"

#include "charge.h"
#include "json.h"
#include "layout.h"
#include "profile.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Memory of the device. */
typedef struct range {
    struct range *next;
    uintptr_t first;
    size_t bytes;
    const char *name;
} range;

static struct {
    const bx_device *open;
    bx_device_facts facts;
    int visible;                /* devices that this rank sees */
    char aware[BX_DEVICE_TEXT]; /* what says that MPI takes its addresses; "": was not asked */
    char rank[80];              /* "bisection-NAME: rank R on host H" */
    char host[40];
    range *ranges;
    struct sigaction before[2]; /* of SIGSEGV and SIGBUS */
} device;

const bx_device *bx_device_get(void) { return device.open; }

static void end_launch(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s: %s\n", device.rank, line);
    sleep(1); /* Open MPI 5 loses what a rank prints just before it aborts, now and then */
    PMPI_Abort(MPI_COMM_WORLD, BX_RESOURCES);
    abort(); /* MPI_Abort need not end this rank */
}

/* ---- memory ---- */

void *bx_device_alloc(size_t bytes, const char *name)
{
    range *new = bx_memory_alloc(1, sizeof *new);
    void *memory = device.open->alloc(bytes);
    *new = (range){device.ranges, (uintptr_t)memory, bytes, name};
    device.ranges = new;
    return memory;
}

void bx_device_release(void *memory)
{
    for (range **at = &device.ranges; *at; at = &(*at)->next) {
        range *released = *at;
        if (released->first != (uintptr_t)memory) continue;
        *at = released->next;
        device.open->release(memory);
        free(released);
        return;
    }
}

/* Names what was touched; what handled the signal before then handles it. */
static void report_touch(int number, siginfo_t *info, void *context)
{
    uintptr_t touched = (uintptr_t)info->si_addr;
    for (const range *r = device.ranges; r; r = r->next) {
        if (touched < r->first || touched >= r->first + r->bytes) continue;
        char line[256], place[80];
        bx_profile_place(place, sizeof place);
        int length = snprintf(line, sizeof line,
                              "%s: the host touches memory of the device: byte %zu of `%s`, %s\n",
                              device.rank, (size_t)(touched - r->first), r->name, place);
        if (write(STDERR_FILENO, line, (size_t)length) < 0) break;
    }
    sigaction(number, &device.before[number == SIGBUS], NULL);
    if (info->si_code <= 0) raise(number); /* sent by somebody; else the access is repeated */
}

static void watch(const bx_run *run)
{
    struct sigaction action = {.sa_sigaction = report_touch, .sa_flags = SA_SIGINFO};
    snprintf(device.rank, sizeof device.rank, "bisection-%s: rank %d on host %s", run->kernel->name,
             run->rank, device.host);
    sigaction(SIGSEGV, &action, &device.before[0]);
    sigaction(SIGBUS, &action, &device.before[1]);
}

/* ---- the choice ---- */

/* What ranks of a host tell each other. */
typedef struct {
    char id[BX_DEVICE_TEXT];
    double bytes;
    int rank; /* of the world */
} seat;

/* Refuses what the ranks of a host do with its devices, of which this rank sees `devices`. */
static void check_seats(bx_run *run, const char *option, const seat *seats, int count, int self,
                        int devices, int64_t most_ranks)
{
    const char *id = seats[self].id;
    int sharing = 0, other = -1, different = 0, fewest = count;
    double need = 0, left = device.open->free_memory();
    for (int i = 0; i < count; i++) {
        int users = 0, first = count;
        for (int k = count - 1; k >= 0; k--)
            if (strcmp(seats[k].id, seats[i].id) == 0) users++, first = k;
        different += first == i;
        fewest = users < fewest ? users : fewest;
        if (strcmp(seats[i].id, id) != 0) continue;
        sharing++;
        need += seats[i].bytes;
        if (i != self) other = seats[i].rank;
    }
    bool idle = different < (count < devices ? count : devices);
    if (most_ranks > 0 && sharing > most_ranks)
        bx_run_refuse(run, BX_USAGE,
                      "%s: %d ranks of host %s are on device %s, more than --ranks-per-device %lld",
                      option, sharing, device.host, id, (long long)most_ranks);
    else if (sharing > 1 && (idle || sharing - fewest > 1))
        bx_run_refuse(run, BX_USAGE, "%s: ranks %d and %d of host %s share device %s, %s", option,
                      run->rank < other ? run->rank : other, run->rank < other ? other : run->rank,
                      device.host, id,
                      idle ? "while another has none" : "while another has fewer ranks");
    else if (need > left)
        bx_run_refuse(run, BX_USAGE,
                      "%s: needs %.6g GiB on device %s of host %s, which has %.6g "
                      "GiB free",
                      option, need / 0x1p30, id, device.host, left / 0x1p30);
}

/* The number of the device that a list has for a rank of a host; -1 if it names none of `devices`.
 */
static int listed(const char *order, int rank, int devices)
{
    long numbers[256], count = 0;
    for (const char *at = order;; at++) {
        char *end;
        long number = strtol(at, &end, 10);
        if (end == at || number < 0 || number >= devices || count == 256) return -1;
        numbers[count++] = number;
        at = end;
        if (*at == '\0') return (int)numbers[rank % count];
        if (*at != ',') return -1;
    }
}

/* The number of the device that is chosen for this rank; all ranks of the host call it. */
static int choose(const bx_run *run, int ranks, int self, int devices)
{
    int own = 0, *chosen = NULL;
    bx_device_view view = {.count = devices < BX_DEVICES_MOST ? devices : BX_DEVICES_MOST};
    bx_device_view *views = NULL;
    for (int d = 0; d < view.count; d++) {
        bx_device_gpu.identify(d, view.devices[d].id);
        view.devices[d].near = bx_device_is_near(view.devices[d].id);
    }
    if (self == 0) BX_ALLOC((size_t)ranks, views, chosen);
    PMPI_Gather(&view, sizeof view, MPI_BYTE, views, sizeof view, MPI_BYTE, 0, run->host);
    if (self == 0) bx_device_choose(views, ranks, chosen);
    PMPI_Scatter(chosen, 1, MPI_INT, &own, 1, MPI_INT, 0, run->host);
    BX_FREE(views, chosen);
    return own;
}

int bx_device_count(char *why, size_t size)
{
    if (!BX_IS_SIMULATED) return bx_device_gpu.count(end_launch, why, size);
    snprintf(why, size, "no device is simulated");
    return 0;
}

int bx_device_open(bx_run *run, const char *option, const char *order, int64_t most_ranks,
                   double bytes)
{
    char why[320];
    int self, count, number = 0;
    gethostname(device.host, sizeof device.host - 1);
    PMPI_Comm_rank(run->host, &self);
    PMPI_Comm_size(run->host, &count);
    int devices = bx_device_count(why, sizeof why);
    if (devices == 0)
        bx_run_refuse(run, BX_USAGE, "%s: rank %d on host %s: %s", option, run->rank, device.host,
                      why);
    else if (order && (number = listed(order, self, devices)) < 0)
        bx_run_refuse(run, BX_USAGE,
                      "--devices %s: rank %d on host %s sees devices 0 to %d; numbers of these are "
                      "allowed, such as 0,1",
                      order, run->rank, device.host, devices - 1);
    if (bx_run_agree(run) != BX_OK) return run->refusal;
    watch(run);
    device.open = &bx_device_gpu;
    device.visible = devices;
    if (!order) number = choose(run, count, self, devices);
    device.open->open(number);
    device.open->describe(&device.facts);
    bx_device_locate(&device.facts);
    seat own = {.bytes = bytes, .rank = run->rank}, *seats;
    memcpy(own.id, device.facts.id, sizeof own.id);
    BX_ALLOC((size_t)count, seats);
    /* From here on each rank's own state is there, which takes memory of the device. */
    PMPI_Allgather(&own, sizeof own, MPI_BYTE, seats, sizeof own, MPI_BYTE, run->host);
    check_seats(run, option, seats, count, self, devices, most_ranks);
    free(seats);
    return bx_run_agree(run);
}

/* ---- MPI ---- */

/* What MPI 4.1 says of itself, as "system,cuda:device:host,mpi"; "": nothing. */
static void read_kinds(char *kinds, size_t size)
{
    kinds[0] = '\0';
#ifdef BX_MPI_4
    MPI_Info info;
    int length = (int)size, there;
    MPI_Comm_get_info(MPI_COMM_WORLD, &info);
    MPI_Info_get_string(info, "mpi_memory_alloc_kinds", &length, kinds, &there);
    MPI_Info_free(&info);
#endif
}

/* Whether MPI sends by UCX, which is told to do without devices. */
static bool is_kept_by_ucx(const char *kind, char *says, size_t size)
{
    const char *transports = getenv("UCX_TLS");
    if (!transports || !dlopen("libucp.so.0", RTLD_NOW | RTLD_NOLOAD)) return false;
    snprintf(says, size, "UCX_TLS is %s, without %s", transports, kind);
    bool named = strstr(transports, kind);
    return transports[0] == '^' ? named : !named && bx_text_index("all", transports, ",") < 0;
}

/* Writes what MPI says to `says`. */
static bool is_aware(const char *kind, char *says, size_t size)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING], name[64];
    int length;
    MPI_Get_library_version(text, &length);
    if (is_kept_by_ucx(kind, says, size)) return false;
    if (strstr(text, "MVAPICH") && device.visible > 1) {
        snprintf(
            says, size,
            "MVAPICH takes the first device before a kernel can choose; let each rank see one");
        return false;
    }
    if (strncmp(text, "MPI VERSION    : CRAY MPICH", 27) == 0) { /* it crashes unless told to */
        const char *enabled = getenv("MPICH_GPU_SUPPORT_ENABLED");
        snprintf(says, size, "MPICH_GPU_SUPPORT_ENABLED is %s", enabled ? enabled : "not set");
        return enabled && strcmp(enabled, "1") == 0;
    }
    snprintf(says, size, "it has no MPIX_Query_%s_support()", kind);
    /* Open MPI calls it rocm, MPICH hip. */
    const char *const kinds[] = {kind, strcmp(kind, "rocm") == 0 ? "hip" : kind};
    for (int i = 0; i < 2; i++) {
        int (*query)(void);
        snprintf(name, sizeof name, "MPIX_Query_%s_support", kinds[i]);
        *(void **)&query = dlsym(RTLD_DEFAULT, name);
        if (!query) continue;
        bool aware = query() == 1;
        snprintf(says, size, "%s() is %d", name, aware);
        if (aware) return true;
    }
    read_kinds(text, sizeof text);
    if (bx_text_index(kind, text, ",:") < 0) return false;
    snprintf(says, size, "mpi_memory_alloc_kinds has %s", kind);
    return true;
}

int bx_device_require_aware(bx_run *run, const char *option, bool overruled)
{
    char says[BX_DEVICE_TEXT];
    bool aware = is_aware(device.facts.kind, says, sizeof says);
    snprintf(device.aware, sizeof device.aware, "%s%.140s", overruled ? "--aware, where " : "",
             says);
    if (!aware && !overruled)
        bx_run_refuse(run, BX_USAGE, "%s: MPI does not take addresses of a device: %s", option,
                      device.aware);
    return bx_run_agree(run);
}

int bx_device_require(bx_run *run, const char *option, bool can, const char *why)
{
    if (!can)
        bx_run_refuse(run, BX_USAGE, "%s: rank %d on host %s: %s", option, run->rank, device.host,
                      why);
    return bx_run_agree(run);
}

void bx_device_add(const bx_run *run, bx_json *layout)
{
    if (!device.open) return;
    device.open->describe(&device.facts); /* again, with what was opened since */
    const bx_device_facts *facts = &device.facts;
    bx_json *common = bx_json_create(), *own = bx_json_create();
    BX_TEXTS(common, {"name", facts->name}, {"library", facts->library},
             {"ffts", *facts->ffts ? facts->ffts : NULL},
             {"aware", *device.aware ? device.aware : NULL});
    BX_NUMBERS(common, {"runtime", facts->runtime}, {"driver", facts->driver},
               {"clock", facts->clock});
    BX_NUMBERS(own, {"rank", run->rank}, {"numa", facts->numa});
    BX_TEXTS(own, {"id", facts->id}, {"adapter", *facts->adapter ? facts->adapter : NULL});
    bx_layout_add_groups(run->world, common, own, bx_json_array(layout, "devices"), "ranks");
}
