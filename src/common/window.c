#include "window.h"

#include "charge.h"
#include "host.h"
#include "run.h"

#include <string.h>
#include <unistd.h>

/* Parts are whole cache lines, of up to 256 bytes: MPICH 4.0.2 gets wrong words, without an error,
 * of a part on its node that begins behind one whose size is no multiple of 16 bytes. */
enum { LINE = 256 };
/* Bytes per rank: what a library needs beside the rank's part and the end of a page, for its own
 * state; what its buffers for messages may still take in the same folder: Open MPI 4 maps 4 MiB
 * that have no memory before they are used; Intel MPI 2021 took 5 to 24 MiB in a run of transpose.
 */
enum { STATE = 4 << 10, BUFFERS = 4 << 20, BUFFERS_OF_INTEL = 24 << 20 };

static double overhead_bytes_per_rank(void) { return (double)(STATE + bx_memory_whole_pages(1)); }

/* Where this host has windows, bytes for all windows there, bytes claimed by those that exist. */
static struct {
    bool known;
    char folder[256];
    double room, claimed;
} host = {.folder = "/dev/shm"};

static char why[160];

const char *bx_window_why(void) { return why; }

/* Returns whether no rank has failed; `failure` is above 0 where one has.  All ranks then have the
 * reason of the rank with the largest. */
static bool agree(const bx_run *run, double failure)
{
    struct {
        double failure;
        int rank;
    } mine = {failure, run->rank}, worst;
    PMPI_Allreduce(&mine, &worst, 1, MPI_DOUBLE_INT, MPI_MAXLOC, run->world);
    if (!(worst.failure > 0)) return true;
    PMPI_Bcast(why, sizeof why, MPI_CHAR, worst.rank, run->world);
    return false;
}

/* ---- MPI's calls ---- */

typedef enum { CREATED, ALLOCATED, SHARED } kind;

/* Returns MPI's code. */
static int make(kind which, MPI_Comm comm, MPI_Aint bytes, int unit, void **memory, MPI_Win *window)
{
    MPI_Errhandler of_comm, of_world;
    MPI_Comm_get_errhandler(comm, &of_comm);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &of_world);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int code = which == CREATED ? MPI_Win_create(*memory, bytes, unit, MPI_INFO_NULL, comm, window)
               : which == ALLOCATED
                   ? MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, comm, memory, window)
                   : MPI_Win_allocate_shared(bytes, unit, MPI_INFO_NULL, comm, memory, window);
    MPI_Comm_set_errhandler(comm, of_comm);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, of_world);
    MPI_Errhandler_free(&of_comm);
    MPI_Errhandler_free(&of_world);
    return code;
}

/* As `make`; of emulated nodes, one after the other.  Open MPI 4 (osc/rdma) names a window's file
 * by host, launch and number of the communicator, which is the same for those that share no rank:
 * nodes of one host would open, or miss, each other's. */
static int make_node_by_node(const bx_run *run, kind which, MPI_Comm comm, MPI_Aint bytes, int unit,
                             void **memory, MPI_Win *window)
{
    int rank, first, this_node = 0, nodes, code = MPI_SUCCESS;
    if (!bx_run_is_emulated(run)) return make(which, comm, bytes, unit, memory, window);
    PMPI_Comm_rank(comm, &rank);
    first = rank == 0;
    PMPI_Exscan(&first, &this_node, 1, MPI_INT, MPI_SUM, run->world);
    PMPI_Allreduce(&first, &nodes, 1, MPI_INT, MPI_SUM, run->world);
    PMPI_Bcast(&this_node, 1, MPI_INT, 0, comm);
    for (int node = 0; node < nodes; node++) {
        if (node == this_node) code = make(which, comm, bytes, unit, memory, window);
        PMPI_Barrier(run->world);
    }
    return code;
}

/* As `make`; returns whether every rank has succeeded. */
static bool make_everywhere(const bx_run *run, kind which, MPI_Comm comm, MPI_Aint bytes, int unit,
                            void **memory, MPI_Win *window)
{
    static const char *const calls[] = {"MPI_Win_create", "MPI_Win_allocate",
                                        "MPI_Win_allocate_shared"};
    int code = make_node_by_node(run, which, comm, bytes, unit, memory, window);
    if (code != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(code, text, &length);
        snprintf(why, sizeof why, "MPI makes no window here: %s: %.90s", calls[which], text);
        why[strcspn(why, "\n")] = '\0'; /* MPICH adds the stack of its calls */
    }
    if (agree(run, code != MPI_SUCCESS)) return true;
    /* where it was made, it cannot be freed by some ranks alone */
    *window = MPI_WIN_NULL;
    return false;
}

/* ---- room ---- */

/* Where a window of one page lies tells where the library has windows: Open MPI takes another
 * folder by osc_sm_backing_directory, or where /dev/shm cannot be written.  Collective over the
 * host. */
static void ask_library(const bx_run *run)
{
    int rank;
    MPI_Aint page = (MPI_Aint)bx_memory_whole_pages(1);
    MPI_Win window;
    void *memory;
    PMPI_Comm_rank(run->host, &rank);
    int failed = make(SHARED, run->host, rank == 0 ? page : 0, 1, &memory, &window) != MPI_SUCCESS;
    PMPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, run->host);
    if (failed) return;
    if (rank == 0) {
        bx_host_folder_of(memory, host.folder, sizeof host.folder);
        host.room = bx_host_folder_room(host.folder);
    }
    PMPI_Bcast(&host, sizeof host, MPI_BYTE, 0, run->host);
    MPI_Win_free(&window);
}

static void find_room(const bx_run *run)
{
    int ranks, length;
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Get_library_version(library, &length);
    PMPI_Comm_size(run->host, &ranks);
    host.known = true;
    host.room = INFINITY;
    if (BX_IS_SIMULATED) return;
    host.room = bx_host_folder_room(host.folder);
    PMPI_Bcast(&host.room, 1, MPI_DOUBLE, 0, run->host);
    if (host.room >= ranks * overhead_bytes_per_rank()) ask_library(run);
    /* others are left half of the folder at most, as they seldom need all */
    host.room -= strncmp(library, "Intel", 5) == 0
                     ? fmin(host.room, (double)ranks * BUFFERS_OF_INTEL)
                     : fmin(host.room / 2, (double)ranks * BUFFERS);
}

/* Claims room for `bytes` of this rank.  Returns the bytes of the host; 0 if some host lacks room.
 */
static double claim(const bx_run *run, MPI_Aint bytes)
{
    double mine = (double)bytes + overhead_bytes_per_rank(), need;
    if (!host.known) find_room(run);
    PMPI_Allreduce(&mine, &need, 1, MPI_DOUBLE, MPI_SUM, run->host);
    double missing = host.claimed + need - host.room;
    if (missing > 0) {
        char name[64] = "";
        gethostname(name, sizeof name - 1);
        int length =
            snprintf(why, sizeof why,
                     "needs %.3g MiB of shared memory on host %.40s; %.40s has room for %.3g MiB",
                     need / 0x1p20, name, host.folder, host.room / 0x1p20);
        if (host.claimed > 0)
            snprintf(why + length, sizeof why - (size_t)length, ", %.3g MiB of it in use",
                     host.claimed / 0x1p20);
    }
    if (!agree(run, missing)) return 0;
    host.claimed += need;
    return need;
}

/* ---- access epochs ---- */

/* Windows that this rank has open, in the order of their making, and the bytes claimed for each. */
static struct {
    MPI_Win window;
    double claimed;
} *opened;
static size_t opened_count;

static void begin_epoch(MPI_Win window, int assert, double claimed)
{
    opened = bx_memory_grow(opened, opened_count + 1, sizeof *opened);
    opened[opened_count].window = window;
    opened[opened_count++].claimed = claimed;
    MPI_Win_lock_all(assert, window);
}

void bx_window_close(MPI_Win *window)
{
    size_t at = 0;
    if (*window == MPI_WIN_NULL) return;
    while (opened[at].window != *window) at++;
    host.claimed -= opened[at].claimed;
    opened_count--;
    memmove(&opened[at], &opened[at + 1], (opened_count - at) * sizeof *opened);
    MPI_Win_unlock_all(*window);
    MPI_Win_free(window);
}

void bx_window_end(void)
{
    while (opened_count > 0) bx_window_close(&(MPI_Win){opened[opened_count - 1].window});
    BX_FREE(opened);
    opened = NULL;
}

/* ---- shared memory ---- */

enum { SLACK = 16, UNIT = 16 }; /* bytes: a window is never empty */

bool bx_shared_create(bx_run *run, MPI_Comm node, size_t bytes, bx_shared *memory)
{
    int rank, unit;
    PMPI_Comm_rank(node, &rank);
    MPI_Aint size = rank == 0 ? (MPI_Aint)(bytes + SLACK) : 0;
    double claimed = claim(run, size);
    *memory = (bx_shared){.window = MPI_WIN_NULL};
    if (claimed == 0) return false;
    if (!make_everywhere(run, SHARED, node, size, UNIT, &memory->base, &memory->window)) {
        host.claimed -= claimed;
        return false;
    }
    MPI_Win_shared_query(memory->window, 0, &size, &unit, &memory->base);
    begin_epoch(memory->window, MPI_MODE_NOCHECK, claimed);
    return true;
}

void bx_shared_free(bx_shared *memory) { bx_window_close(&memory->window); }

void bx_shared_sync(const bx_shared *memory, MPI_Comm node)
{
    bx_window_sync(node, &memory->window, 1);
}

/* ---- one-sided calls ---- */

MPI_Win bx_window_create(bx_run *run, MPI_Comm comm, void *buffer, size_t bytes, int unit)
{
    MPI_Win window;
    make_everywhere(run, CREATED, comm, (MPI_Aint)bytes, unit, &buffer, &window);
    return window;
}

bool bx_window_open(bx_run *run, MPI_Comm comm, uint64_t **memory, size_t bytes, MPI_Win *window)
{
    void *part = *memory;
    MPI_Aint size = (MPI_Aint)bytes;
    kind which = part ? CREATED : ALLOCATED;
    if (!part) size = (size + LINE - 1) / LINE * LINE;
    double claimed = part ? 0 : claim(run, size);
    *window = MPI_WIN_NULL;
    if (!part && claimed == 0) return false;
    if (!make_everywhere(run, which, comm, size, sizeof **memory, &part, window)) {
        host.claimed -= claimed;
        return false;
    }
    *memory = part;
    begin_epoch(*window, 0, claimed);
    return true;
}

void bx_window_sync(MPI_Comm comm, const MPI_Win *windows, int count)
{
    for (int i = 0; i < count; i++) MPI_Win_sync(windows[i]);
    MPI_Barrier(comm);
    for (int i = 0; i < count; i++) MPI_Win_sync(windows[i]);
}
