/* Communication profile by interposition: every MPI call of the executable and its libraries goes
 * through these wrappers, C here and Fortran in profile_fortran.c, and is counted by class.
 * Persistent sends are not counted: none of our kernels or their libraries uses them. */
#include "profile.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REGIONS = 8, REGION_NAME = 32, MAX_REQUESTS = 64, ROUTINE_NAME = 64 };

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
    double seconds; /* in all calls */
    int routine_count;
    struct {
        const char *name;
        int region;
    } routines[BX_MAX_ROUTINES];
    bx_parts *into;
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

bx_call bx_profile_enter(const char *routine, bx_class class, MPI_Comm comm,
                         bool blocking_collective)
{
    bx_call call = {
        .class = class, .routine = routine, .outermost = profile.started && profile.depth++ == 0};
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

/* The routine within the region; the last number is for what finds no place. */
static int routine_number(const char *name)
{
    for (int i = 0; i < profile.routine_count; i++)
        if (profile.routines[i].name == name && profile.routines[i].region == profile.region)
            return i;
    if (profile.routine_count == BX_MAX_ROUTINES - 1) return BX_MAX_ROUTINES - 1;
    profile.routines[profile.routine_count].name = name;
    profile.routines[profile.routine_count].region = profile.region;
    return profile.routine_count++;
}

void bx_profile_leave(bx_call *call)
{
    if (!profile.started) return;
    profile.depth--;
    if (!call->outermost) return;
    call->sent.calls = 1;
    call->sent.seconds = PMPI_Wtime() - call->start;
    call->sent.waiting = call->waiting;
    profile.seconds += call->sent.seconds;
    if (profile.into) {
        int routine = routine_number(call->routine);
        profile.into->routine[routine] += call->sent.seconds;
        profile.into->waiting[routine] += call->sent.waiting;
    }
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

double bx_profile_seconds(void) { return profile.seconds; }
void bx_profile_into(bx_parts *parts) { profile.into = parts; }

void bx_region_read(const char *name, bx_traffic traffic[BX_CLASS_COUNT])
{
    memset(traffic, 0, BX_CLASS_COUNT * sizeof *traffic);
    for (int r = 0; r < profile.region_count; r++)
        if (strcmp(profile.region_names[r], name) == 0)
            memcpy(traffic, profile.regions[r], sizeof profile.regions[r]);
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

/* ---- parts of a step's time ---- */

/* As the reports write it: MPI_Bcast, MPI_Bcast (ScaLAPACK). */
static void routine_text(int number, char text[ROUTINE_NAME])
{
    const char *name = profile.routines[number].name;
    int region = profile.routines[number].region;
    snprintf(text, ROUTINE_NAME, "MPI_%c%s%s%s%s", toupper((unsigned char)name[0]), name + 1,
             region < 0 ? "" : " (", region < 0 ? "" : profile.region_names[region],
             region < 0 ? "" : ")");
}

static cJSON *add_part(cJSON *list, const char *group, const char *name, double share)
{
    if (!(share > 0)) return NULL;
    cJSON *part = cJSON_CreateObject();
    cJSON_AddStringToObject(part, "group", group);
    cJSON_AddStringToObject(part, "name", name);
    cJSON_AddNumberToObject(part, "share", share);
    cJSON_AddItemToArray(list, part);
    return part;
}

/* C and Fortran spell a routine differently; here they are one. */
static void add_routine(cJSON *list, const char *name, double share)
{
    cJSON *part;
    cJSON_ArrayForEach(part, list)
    {
        cJSON *value = cJSON_GetObjectItem(part, "share");
        if (strcmp(cJSON_GetObjectItem(part, "name")->valuestring, name) == 0) {
            cJSON_SetNumberValue(value, value->valuedouble + share);
            return;
        }
    }
    add_part(list, "MPI", name, share);
}

/* Every rank numbers routines as it meets them: rank 0's numbers are taken, and what it has not met
 * is left to its last. */
static void renumber(MPI_Comm world, const double *mine, double *sums)
{
    char texts[BX_MAX_ROUTINES][ROUTINE_NAME] = {{0}}, own[ROUTINE_NAME];
    double ordered[BX_MAX_ROUTINES] = {0};
    for (int i = 0; i < profile.routine_count; i++) routine_text(i, texts[i]);
    PMPI_Bcast(texts, sizeof texts, MPI_CHAR, 0, world);
    for (int i = 0; i < BX_MAX_ROUTINES; i++) {
        int to = 0;
        if (i < profile.routine_count) routine_text(i, own);
        while (to < BX_MAX_ROUTINES - 1 &&
               (i >= profile.routine_count || strcmp(texts[to], own) != 0))
            to++;
        ordered[to] += mine[i];
    }
    PMPI_Reduce(ordered, sums, BX_MAX_ROUTINES, MPI_DOUBLE, MPI_SUM, 0, world);
}

cJSON *bx_parts_json(const bx_run *run, const bx_parts *parts)
{
    bx_parts sums;
    int rank, own_part = 1 + 2 * BX_MAX_PHASES;
    PMPI_Comm_rank(run->world, &rank);
    PMPI_Reduce(&parts->step, &sums.step, own_part, MPI_DOUBLE, MPI_SUM, 0, run->world);
    renumber(run->world, parts->routine, sums.routine);
    renumber(run->world, parts->waiting, sums.waiting);
    if (rank != 0 || !(sums.step > 0)) return NULL;
    double shares[3] = {0}; /* user, library, MPI */
    static const char *const GROUPS[3] = {"user", "library", "MPI"};
    cJSON *json = cJSON_CreateObject(), *list = cJSON_CreateArray();
    for (int i = 0; i < BX_MAX_ROUTINES; i++) {
        char name[ROUTINE_NAME] = "other routines", waiting[ROUTINE_NAME + 16];
        if (i < profile.routine_count) routine_text(i, name);
        snprintf(waiting, sizeof waiting, "waiting for %s", name);
        if (sums.routine[i] > 0) {
            add_routine(list, name, (sums.routine[i] - sums.waiting[i]) / sums.step);
            add_routine(list, waiting, sums.waiting[i] / sums.step);
        }
        shares[2] += sums.routine[i] / sums.step;
    }
    for (size_t k = 0; k < run->kernel->phase_count; k++) {
        const char *const *groups = run->kernel->phase_groups;
        int group = groups && strcmp(groups[k], "library") == 0;
        double share = (sums.phase[k] - sums.phase_mpi[k]) / sums.step;
        add_part(list, GROUPS[group], run->kernel->phases[k], share);
        shares[group] += share;
    }
    shares[0] = 1 - shares[1] - shares[2]; /* with what no phase has */
    for (int group = 0; group < 3; group++)
        cJSON_AddNumberToObject(json, GROUPS[group], shares[group]);
    cJSON_AddItemToObject(json, "parts", list);
    return json;
}
