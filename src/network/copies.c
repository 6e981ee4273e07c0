/* Copies between a device and its host, and between devices: each way, from and to each NUMA node
 * and each other device, one after the other.  A slow bus, link or lane is so told from MPI. */
#include "device.h"

#include "charge.h"
#include "comm_buffers.h"
#include "device.def"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TO_DEVICE, TO_HOST, TO_DEVICE_PAGEABLE, TO_HOST_PAGEABLE, PEER, METHODS };
enum { MOST = BX_DEVICES_MOST };               /* NUMA nodes, other devices */
enum { MPOL_DEFAULT = 0, MPOL_BIND = 2 };      /* of set_mempolicy(2) */
enum { USUAL_BYTES = 32 << 20, UNBOUND = -1 }; /* a place without a NUMA node */

/* What rank 0 knows of a rank. */
typedef struct {
    char id[BX_DEVICE_TEXT];
    int nodes, peers; /* places */
    int refused;      /* other devices where this rank gets no memory, each with its reason */
    int node[MOST];   /* NUMA nodes; UNBOUND alone: all memory is alike */
    char peer[MOST][BX_DEVICE_TEXT], refusing[MOST][BX_DEVICE_TEXT], why[MOST][BX_DEVICE_TEXT];
    bool direct[MOST];          /* copies to the peer do not go through the host */
    double rate[METHODS][MOST]; /* B/s, medians; 0: not measured */
} account;

typedef struct {
    bx_run *run;
    size_t bytes;
    account mine, *accounts;                 /* [ranks] on rank 0 */
    uint64_t *pinned[MOST], *pageable[MOST]; /* by NUMA node */
    uint64_t *content, *arrived;             /* of the host: what is copied, what is compared */
    void *device, *other[MOST];              /* memory of the own device and of the others */
    int number[MOST];                        /* of the other devices */
    uint64_t key;
    double *seconds[METHODS][MOST];
    size_t count[METHODS];
    bx_json *details;
} copies;

static int64_t bytes_per_copy = USUAL_BYTES;

static const bx_choice methods[METHODS] = {
#define CHOICE(name, summary, wins) {#name, summary, wins, false, NULL, ""},
    BX_METHODS(CHOICE)};

static bool is_pageable(size_t method) { return method / 2 == TO_DEVICE_PAGEABLE / 2; }
static bool is_to_device(size_t method) { return method % 2 == TO_DEVICE; }
static int places(const copies *c, size_t method)
{
    return method == PEER ? c->mine.peers : c->mine.nodes;
}
static uint64_t *on_host(const copies *c, size_t method, int place)
{
    return is_pageable(method) ? c->pageable[place] : c->pinned[place];
}

/* ---- memory ---- */

/* Has this thread allocate on a NUMA node, UNBOUND: anywhere.  Returns whether it may. */
static bool bind_to(int node)
{
    enum { WORDS = 16, BITS = 8 * sizeof(unsigned long) };
    unsigned long mask[WORDS] = {0};
    if (node >= WORDS * (int)BITS) return false;
    if (node != UNBOUND) mask[(size_t)node / BITS] = 1UL << ((size_t)node % BITS);
    long mode = node == UNBOUND ? MPOL_DEFAULT : MPOL_BIND;
    return syscall(SYS_set_mempolicy, mode, node == UNBOUND ? NULL : mask, WORDS * BITS + 1) == 0;
}

/* The NUMA nodes with CPUs on which this rank may allocate; UNBOUND where that is one, or unknown:
 * containers forbid the call. */
static void find_nodes(account *mine)
{
    enum { LAST = 255 };
    char path[64], list[8];
    for (int node = 0; node <= LAST && mine->nodes < MOST; node++) {
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
        FILE *file = fopen(path, "r");
        bool has_cpus = file && fgets(list, sizeof list, file) && *list != '\n';
        if (file) fclose(file);
        if (has_cpus && bind_to(node)) mine->node[mine->nodes++] = node;
    }
    bind_to(UNBOUND);
    if (mine->nodes < 2) mine->nodes = 1, *mine->node = UNBOUND;
}

/* Another device, in whose memory copies end. */
static void add_peer(copies *c, int number)
{
    const bx_device *device = bx_device_get();
    account *mine = &c->mine;
    int place = mine->peers, refusal = mine->refused;
    if (place + refusal == MOST) return;
    device->identify(number, mine->peer[place]);
    c->number[place] = number;
    c->other[place] = device->alloc_on(number, c->bytes, &mine->direct[place], mine->why[refusal],
                                       sizeof mine->why[refusal]);
    if (c->other[place])
        mine->peers++;
    else
        memcpy(mine->refusing[mine->refused++], mine->peer[place], sizeof *mine->peer);
}

static int setup(bx_run *run, void **state)
{
    static copies the_copies;
    copies *c = &the_copies;
    *state = c;
    c->run = run;
    c->bytes = bx_memory_whole_pages((size_t)bytes_per_copy);
    c->key = bx_run_seed(run) + ((uint64_t)bx_run_rank(run) << 32);
    find_nodes(&c->mine);
    double bytes = (double)c->bytes;
    char why[320];
    int devices = bx_device_count(why, sizeof why);
    /* On each device a buffer of each rank, as ranks copy to those of others. */
    int code = bx_device_open(run, "copies", bx_comm_buffer_options.devices,
                              bx_comm_buffer_options.ranks_per_device, fmax(1, devices) * bytes);
    if (code == BX_OK)
        code = bx_resources_claim_memory(run, (2 * c->mine.nodes + 2) * bytes,
                                         "--bytes: two buffers per NUMA node, and two");
    if (code != BX_OK) return code;
    const bx_device *device = bx_device_get();
    device->identify(device->number(), c->mine.id);
    for (int node = 0; node < c->mine.nodes; node++) {
        bind_to(c->mine.node[node]);
        c->pinned[node] = device->alloc_host(c->bytes);
        c->pageable[node] = bx_memory_alloc_pages(c->bytes);
        if (!c->pageable[node])
            bx_run_refuse(run, BX_RESOURCES, "--bytes %lld: out of memory",
                          (long long)bytes_per_copy);
        else
            memset(c->pageable[node], 0, c->bytes); /* it is allocated when it is touched */
    }
    bind_to(UNBOUND);
    c->content = device->alloc_host(c->bytes);
    c->arrived = device->alloc_host(c->bytes);
    c->device = bx_device_alloc(c->bytes, "device");
    for (int d = 0; d < devices; d++)
        if (d != device->number()) add_peer(c, d);
    if (bx_run_rank(run) == 0) BX_ALLOC((size_t)bx_run_ranks(run), c->accounts);
    return bx_run_agree(run);
}

static bool applicable(void *state, size_t method, char *why, size_t size)
{
    const copies *c = state;
    int fewest;
    MPI_Allreduce(&c->mine.peers, &fewest, 1, MPI_INT, MPI_MIN, bx_run_comm(c->run));
    if (method != PEER || fewest > 0) return true;
    snprintf(why, size, "a rank sees one device alone, or all others refuse it");
    return false;
}

/* ---- a step ---- */

/* New content where a copy begins, other content where it ends. */
static void prepare(void *state, size_t method, size_t point)
{
    copies *c = state;
    const bx_device *device = bx_device_get();
    c->key++;
    for (size_t i = 0; i < c->bytes / sizeof *c->content; i++)
        c->content[i] = (c->key + i) * UINT64_C(0x9e3779b97f4a7c15);
    device->fill(c->device, 0xff, c->bytes);
    for (int place = 0; place < places(c, method); place++) {
        if (method == PEER)
            device->copy_peer(c->other[place], c->number[place], c->device, device->number(),
                              c->bytes);
        else if (is_to_device(method))
            memcpy(on_host(c, method, place), c->content, c->bytes);
        else
            memset(on_host(c, method, place), 0xff, c->bytes);
    }
    if (method == PEER || !is_to_device(method))
        device->copy(c->device, c->content, c->bytes, BX_TO_DEVICE);
    device->sync();
}

/* Begins a copy. */
static void copy(copies *c, size_t method, int place)
{
    const bx_device *device = bx_device_get();
    if (method == PEER)
        device->copy_peer(c->other[place], c->number[place], c->device, device->number(), c->bytes);
    else if (is_to_device(method))
        device->copy(c->device, on_host(c, method, place), c->bytes, BX_TO_DEVICE);
    else
        device->copy(on_host(c, method, place), c->device, c->bytes, BX_TO_HOST);
}

static void step(void *state, size_t method, size_t point)
{
    copies *c = state;
    size_t count = c->count[method]++;
    for (int place = 0; place < places(c, method); place++) {
        double start = MPI_Wtime();
        copy(c, method, place);
        bx_device_get()->sync();
        double took = MPI_Wtime() - start, **seconds = &c->seconds[method][place];
        *seconds = bx_memory_grow(*seconds, count + 1, sizeof **seconds);
        (*seconds)[count] = took;
    }
}

/* All bytes of the last copy of each place.  Copies to the device end in one buffer: each is made
 * once more, and looked at. */
static void inspect(void *state, size_t method, size_t point, bx_verification *verification)
{
    copies *c = state;
    const bx_device *device = bx_device_get();
    double wrong = 0;
    for (int place = 0; place < places(c, method); place++) {
        const uint64_t *arrived = c->arrived;
        memset(c->arrived, 0x55, c->bytes);
        if (method == PEER) {
            device->fill(c->device, 0xff, c->bytes);
            device->copy_peer(c->device, device->number(), c->other[place], c->number[place],
                              c->bytes);
            device->copy(c->arrived, c->device, c->bytes, BX_TO_HOST);
        } else if (is_to_device(method)) {
            if (places(c, method) > 1) {
                device->fill(c->device, 0xff, c->bytes);
                copy(c, method, place);
            }
            device->copy(c->arrived, c->device, c->bytes, BX_TO_HOST);
        } else {
            arrived = on_host(c, method, place);
        }
        device->sync();
        for (size_t i = 0; i < c->bytes / sizeof *arrived; i++)
            wrong += arrived[i] != (c->key + i) * UINT64_C(0x9e3779b97f4a7c15);
    }
    bx_verification_check_always(verification, "content", wrong, 0, "words");
}

static void verify(void *state, size_t method, size_t point, bx_verification *verification)
{
    copies *c = state;
    prepare(state, method, point);
    step(state, method, point);
    inspect(state, method, point, verification);
    c->count[method] = 0; /* the first step is a warm-up */
}

/* ---- the result ---- */

/* A list in details.copies: of each rank its device, of each method the rates (B/s) by NUMA node
 * (null: one memory) or peer, and the devices that refuse it. */
static void describe(copies *c)
{
    bx_json *list = bx_json_array(c->details, "copies");
    for (int rank = 0; rank < bx_run_ranks(c->run); rank++) {
        const account *a = &c->accounts[rank];
        bx_json *json = bx_json_object(list, NULL);
        bx_json_number(json, "rank", rank);
        bx_json_text(json, "id", a->id);
        bx_json *rates = bx_json_array(json, "rates");
        for (size_t m = 0; m < METHODS; m++)
            for (int place = 0; place < (m == PEER ? a->peers : a->nodes); place++) {
                if (!(a->rate[m][place] > 0)) continue;
                bx_json *entry = bx_json_object(rates, NULL);
                bx_json_text(entry, "method", methods[m].name);
                bx_json_number(entry, "rate", a->rate[m][place]);
                if (m == PEER) {
                    bx_json_text(entry, "peer", a->peer[place]);
                    bx_json_bool(entry, "direct", a->direct[place]);
                } else {
                    bx_json_number(entry, "numa", a->node[place] == UNBOUND ? NAN : a->node[place]);
                }
            }
        bx_json *refused = bx_json_array(json, "refused");
        for (int i = 0; i < a->refused; i++)
            BX_TEXTS(bx_json_object(refused, NULL), {"peer", a->refusing[i]},
                     {"reason", a->why[i]});
    }
}

static void end(void *state, size_t method, size_t point, int64_t steps,
                bx_verification *verification)
{
    copies *c = state;
    for (int place = 0; place < places(c, method); place++)
        c->mine.rate[method][place] =
            (double)c->bytes /
            bx_statistics_quantile(c->seconds[method][place], c->count[method], 0.5);
    MPI_Gather(&c->mine, sizeof c->mine, MPI_BYTE, c->accounts, sizeof c->mine, MPI_BYTE, 0,
               bx_run_comm(c->run));
    if (c->details) describe(c);
}

static void report(void *state, bx_run *run, bx_json *details)
{
    ((copies *)state)->details = details;
}

/* Of the slowest device and place: a slow lane shows, however many are fast. */
static void metrics(void *state, size_t method, size_t point, bx_metrics *metrics)
{
    const copies *c = state;
    double slowest = INFINITY;
    for (int rank = 0; rank < bx_run_ranks(c->run); rank++) {
        const account *a = &c->accounts[rank];
        for (int place = 0; place < (method == PEER ? a->peers : a->nodes); place++)
            slowest = fmin(slowest, a->rate[method][place]);
    }
    bx_metrics_add(metrics, "rate", slowest, "B/s", "higher");
}

static void teardown(void *state)
{
    copies *c = state;
    const bx_device *device = bx_device_get();
    if (!device) return;
    for (int i = 0; i < MOST; i++) {
        if (c->pinned[i]) device->release_host(c->pinned[i]);
        if (c->other[i]) device->release(c->other[i]);
        free(c->pageable[i]);
        for (int m = 0; m < METHODS; m++) free(c->seconds[m][i]);
    }
    if (c->content) device->release_host(c->content);
    if (c->arrived) device->release_host(c->arrived);
    bx_device_release(c->device);
    free(c->accounts);
}

const bx_kernel *bx_kernel_get(void)
{
    static const bx_choice cases[] = {
        {.name = "devices", .summary = "each device, all at the same time"},
    };
    static const bx_option options[] = {
        {"bytes", "BYTES", "size of a copy", BX_INTEGER, 4096, 1e12, &bytes_per_copy},
        BX_DEVICE_OPTIONS,
    };
    static const bx_kernel kernel = {
        .name = "device",
        .summary = "copies between devices and their hosts, and between devices",
        .cases = BX_COUNTED(cases),
        .methods = BX_COUNTED(methods),
        .options = BX_COUNTED(options),
        .setup = setup,
        .applicable = applicable,
        .verify = verify,
        .prepare = prepare,
        .inspect = inspect,
        .end = end,
        .step = step,
        .report = report,
        .metrics = metrics,
        .teardown = teardown,
    };
    return &kernel;
}
