/* Communication profile by interposition: every MPI call of the executable and its libraries goes
 * through these wrappers, C here and Fortran in profile_fortran.c, and is counted by class.
 * Persistent sends are not counted: none of our kernels or their libraries uses them. */
#include "profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REGIONS = 8, REGION_NAME = 32, MAX_REQUESTS = 64 };

static struct {
    bool started, separate_waiting;
    int depth; /* MPI libraries call themselves: only the outermost call counts */
    int world_size;
    MPI_Group world_group;
    const int *node_of;
    int keyval;
    bx_traffic total[BX_CLASS_COUNT];
    int region_count, region; /* region -1: none */
    char region_names[MAX_REGIONS][REGION_NAME];
    bx_traffic regions[MAX_REGIONS][BX_CLASS_COUNT];
    int request_count; /* non-blocking collectives under way */
    MPI_Request requests[MAX_REQUESTS];
    int request_at[MAX_REQUESTS]; /* place in the list that is being waited for, or -1 */
} profile = {.region = -1, .keyval = MPI_KEYVAL_INVALID};

/* What a communicator's ranks mean: cached on the communicator. */
struct bx_peers {
    int size, rank;
    int *node; /* [size] node of each (remote) rank, -1 if outside the launch */
    int own_node, off_node;
};

static int free_peers(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)extra;
    free(((bx_peers *)value)->node);
    free(value);
    return MPI_SUCCESS;
}

void bx_profile_start(MPI_Comm world, const int *node_of, bool separate_waiting)
{
    PMPI_Comm_group(world, &profile.world_group);
    PMPI_Comm_size(world, &profile.world_size);
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_peers, &profile.keyval, NULL);
    profile.node_of = node_of;
    profile.separate_waiting = separate_waiting;
    profile.started = true;
}

/* Local: the group is translated without communication. */
const bx_peers *bx_profile_peers(MPI_Comm comm)
{
    bx_peers *peers;
    int found, between;
    PMPI_Comm_get_attr(comm, profile.keyval, &peers, &found);
    if (found) return peers;
    peers = calloc(1, sizeof *peers);
    MPI_Group group;
    PMPI_Comm_test_inter(comm, &between);
    if (between)
        PMPI_Comm_remote_group(comm, &group);
    else
        PMPI_Comm_group(comm, &group);
    PMPI_Group_size(group, &peers->size);
    peers->rank = -1;
    if (!between) PMPI_Comm_rank(comm, &peers->rank);
    peers->node = malloc((size_t)peers->size * sizeof *peers->node);
    int *ranks = malloc(2 * (size_t)peers->size * sizeof *ranks), *world = ranks + peers->size;
    for (int i = 0; i < peers->size; i++) ranks[i] = i;
    PMPI_Group_translate_ranks(group, peers->size, ranks, profile.world_group, world);
    int me;
    PMPI_Group_rank(profile.world_group, &me);
    peers->own_node = profile.node_of[me];
    for (int i = 0; i < peers->size; i++) {
        peers->node[i] = world[i] == MPI_UNDEFINED ? -1 : profile.node_of[world[i]];
        if (peers->node[i] != peers->own_node) peers->off_node++;
    }
    free(ranks);
    PMPI_Group_free(&group);
    PMPI_Comm_set_attr(comm, profile.keyval, peers);
    return peers;
}

/* ---- counting ---- */

bx_call bx_profile_enter(bx_class class, MPI_Comm comm, bool blocking_collective)
{
    bx_call call = {.class = class, .outermost = profile.started && profile.depth++ == 0};
    if (!call.outermost) return call;
    call.start = PMPI_Wtime();
    if (blocking_collective && profile.separate_waiting) {
        PMPI_Barrier(comm);
        call.waiting = PMPI_Wtime() - call.start;
    }
    return call;
}

static void add(bx_traffic *sum, const bx_traffic *more)
{
    sum->calls += more->calls;
    sum->messages += more->messages;
    sum->off_node_messages += more->off_node_messages;
    sum->bytes += more->bytes;
    sum->off_node_bytes += more->off_node_bytes;
    sum->seconds += more->seconds;
    sum->waiting += more->waiting;
}

void bx_profile_leave(bx_call *call)
{
    if (!profile.started) return;
    profile.depth--;
    if (!call->outermost) return;
    call->sent.calls = 1;
    call->sent.seconds = PMPI_Wtime() - call->start;
    call->sent.waiting = call->waiting;
    add(&profile.total[call->class], &call->sent);
    if (profile.region >= 0) add(&profile.regions[profile.region][call->class], &call->sent);
}

void bx_profile_to(bx_call *call, MPI_Comm comm, int peer, double bytes)
{
    if (!call->outermost || peer == MPI_PROC_NULL) return;
    const bx_peers *peers = bx_profile_peers(comm);
    if (peer < 0 || peer >= peers->size || peer == peers->rank) return;
    bool off_node = peers->node[peer] != peers->own_node;
    call->sent.messages++;
    call->sent.bytes += bytes;
    call->sent.off_node_messages += off_node;
    if (off_node) call->sent.off_node_bytes += bytes;
}

void bx_profile_to_all(bx_call *call, MPI_Comm comm, double bytes_each)
{
    if (!call->outermost) return;
    const bx_peers *peers = bx_profile_peers(comm);
    double others = peers->size - (peers->rank >= 0);
    call->sent.messages += others;
    call->sent.bytes += others * bytes_each;
    call->sent.off_node_messages += peers->off_node;
    call->sent.off_node_bytes += peers->off_node * bytes_each;
}

double bx_profile_bytes(int count, MPI_Datatype type)
{
    int size = 0;
    if (count > 0 && type != MPI_DATATYPE_NULL) PMPI_Type_size(type, &size);
    return (double)count * size;
}

/* One-sided targets are ranks of the window's group, which MPI cannot tell from the window without
 * a group; the origin's node is compared by world rank. */
void bx_profile_to_window(bx_call *call, MPI_Win win, int target, double bytes)
{
    if (!call->outermost || target == MPI_PROC_NULL) return;
    MPI_Group group;
    int world, me;
    PMPI_Win_get_group(win, &group);
    PMPI_Group_translate_ranks(group, 1, &target, profile.world_group, &world);
    PMPI_Group_free(&group);
    PMPI_Group_rank(profile.world_group, &me);
    if (world == me) return;
    bool off_node = world == MPI_UNDEFINED || profile.node_of[world] != profile.node_of[me];
    call->sent.messages++;
    call->sent.bytes += bytes;
    call->sent.off_node_messages += off_node;
    if (off_node) call->sent.off_node_bytes += bytes;
}

/* ---- requests of collectives ---- */

void bx_profile_remember(const bx_call *call, MPI_Request request)
{
    if (call->outermost && profile.request_count < MAX_REQUESTS)
        profile.requests[profile.request_count++] = request;
}

bx_class bx_profile_class_of(int count, const MPI_Request *requests)
{
    bool any = false;
    for (int k = 0; k < profile.request_count; k++) {
        profile.request_at[k] = -1;
        for (int i = 0; i < count; i++)
            if (requests[i] == profile.requests[k]) profile.request_at[k] = i;
        any = any || profile.request_at[k] >= 0;
    }
    return any ? BX_COLLECTIVE : BX_P2P;
}

void bx_profile_forget(int count, const MPI_Request *requests)
{
    int kept = 0;
    for (int k = 0; k < profile.request_count; k++) {
        int at = profile.request_at[k];
        bool done = at >= 0 && at < count && requests[at] == MPI_REQUEST_NULL;
        if (!done) profile.requests[kept++] = profile.requests[k];
    }
    profile.request_count = kept;
}

/* ---- reading ---- */

void bx_traffic_read(bx_traffic traffic[BX_CLASS_COUNT])
{
    memcpy(traffic, profile.total, sizeof profile.total);
}

void bx_region_enter(const char *name)
{
    for (profile.region = 0; profile.region < profile.region_count; profile.region++)
        if (strcmp(profile.region_names[profile.region], name) == 0) return;
    if (profile.region_count == MAX_REGIONS) {
        profile.region = -1;
        return;
    }
    snprintf(profile.region_names[profile.region_count++], REGION_NAME, "%s", name);
}

void bx_region_leave(void) { profile.region = -1; }

static const char *const CLASS_NAMES[BX_CLASS_COUNT] = {"p2p", "collective", "barrier",
                                                        "one_sided"};
static const char *const FIELD_NAMES[] = {
    "calls", "messages", "off_node_messages", "bytes", "off_node_bytes", "seconds", "waiting"};
enum { FIELDS = sizeof(bx_traffic) / sizeof(double) };

cJSON *bx_traffic_json(MPI_Comm world, const bx_traffic *traffic, double steps)
{
    double mine[BX_CLASS_COUNT * FIELDS], low[BX_CLASS_COUNT * FIELDS],
        high[BX_CLASS_COUNT * FIELDS], sum[BX_CLASS_COUNT * FIELDS];
    memcpy(mine, traffic, sizeof mine);
    int count = BX_CLASS_COUNT * FIELDS, rank, size;
    PMPI_Reduce(mine, low, count, MPI_DOUBLE, MPI_MIN, 0, world);
    PMPI_Reduce(mine, high, count, MPI_DOUBLE, MPI_MAX, 0, world);
    PMPI_Reduce(mine, sum, count, MPI_DOUBLE, MPI_SUM, 0, world);
    PMPI_Comm_rank(world, &rank);
    PMPI_Comm_size(world, &size);
    if (rank != 0) return NULL;
    cJSON *json = cJSON_CreateObject();
    for (int c = 0; c < BX_CLASS_COUNT; c++) {
        cJSON *class = cJSON_AddObjectToObject(json, CLASS_NAMES[c]);
        for (int f = 0; f < FIELDS; f++) {
            cJSON *field = cJSON_AddObjectToObject(class, FIELD_NAMES[f]);
            int i = c * FIELDS + f;
            cJSON_AddNumberToObject(field, "min", low[i] / steps);
            cJSON_AddNumberToObject(field, "mean", sum[i] / steps / size);
            cJSON_AddNumberToObject(field, "max", high[i] / steps);
        }
    }
    return json;
}

/* Ranks enter the same regions in the same order. */
cJSON *bx_regions_json(MPI_Comm world)
{
    cJSON *json = bx_traffic_json(world, profile.total, 1);
    cJSON *regions = json ? cJSON_AddObjectToObject(json, "regions") : NULL;
    int count;
    PMPI_Allreduce(&profile.region_count, &count, 1, MPI_INT, MPI_MIN, world);
    for (int r = 0; r < count; r++) {
        cJSON *region = bx_traffic_json(world, profile.regions[r], 1);
        if (regions) cJSON_AddItemToObject(regions, profile.region_names[r], region);
    }
    return json;
}
