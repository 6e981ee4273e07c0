/* Communication profile by interposition: every MPI call of the executable and its libraries goes
 * through the wrappers of profile_c.c and profile_fortran.c, and is counted once: in the row of its
 * routine, region and class of the recording in force.  All else is sums of rows.  Persistent sends
 * are counted where C starts them: none of our kernels in Fortran uses them. */
#include "profile.h"

#include "charge.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REGION_NAME = 32, MAX_REQUESTS = 64, ROUTINE_NAME = 64 };

struct bx_recording {
    bx_traffic *rows; /* [capacity]; rows that profile.rows has beyond are zero */
    int capacity;
    bx_recording *next;
};

static struct {
    bool started, separate_waiting;
    int depth; /* MPI libraries call themselves: only the outermost call counts */
    int world_size;
    MPI_Group world_group;
    const int *node_of;
    int keyval;
    int region_count, region; /* region -1: none */
    char region_names[BX_MAX_REGIONS][REGION_NAME];
    double seconds;                     /* in all calls */
    _Atomic(const char *) routine, own; /* that this rank is in: of MPI, of the harness */
    int row_count, row_capacity;
    struct row {
        const char *routine;
        int region, name; /* name: its number in `names` */
        bx_class class;
    } *rows;                     /* routine, region and class of row i of every recording */
    char (*names)[ROUTINE_NAME]; /* as the reports write them; the same on every rank */
    int name_count;
    bx_recording rest, *into; /* of no method; the recording in force */
    int request_count;        /* non-blocking collectives under way */
    MPI_Request requests[MAX_REQUESTS];
    int request_at[MAX_REQUESTS]; /* place in the list that is being waited for, or -1 */
    struct bound {
        MPI_Request request;
        bx_call sends;
    } *bound;                    /* what persistent requests send */
    int bound_count, bound_next; /* requests are mostly started in the order of their making */
} profile = {.region = -1, .keyval = MPI_KEYVAL_INVALID, .into = &profile.rest};

/* The nodes of a communicator's ranks, cached on the communicator. */
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

void bx_profile_stop(void)
{
    if (!profile.started) return;
    profile.started = false;
    PMPI_Group_free(&profile.world_group);
    for (bx_recording *next, *r = profile.rest.next; r; r = next) {
        next = r->next;
        free(r->rows);
        free(r);
    }
    free(profile.rest.rows);
    free(profile.rows);
    free(profile.names);
    free(profile.bound);
}

/* Local: the group is translated without communication. */
const bx_peers *bx_profile_peers(MPI_Comm comm)
{
    bx_peers *peers;
    int cached, between;
    PMPI_Comm_get_attr(comm, profile.keyval, &peers, &cached);
    if (cached) return peers;
    peers = bx_memory_alloc(1, sizeof *peers);
    MPI_Group group;
    PMPI_Comm_test_inter(comm, &between);
    if (between)
        PMPI_Comm_remote_group(comm, &group);
    else
        PMPI_Comm_group(comm, &group);
    PMPI_Group_size(group, &peers->size);
    peers->rank = -1;
    if (!between) PMPI_Comm_rank(comm, &peers->rank);
    peers->node = bx_memory_alloc((size_t)peers->size, sizeof *peers->node);
    int *ranks = bx_memory_alloc(2 * (size_t)peers->size, sizeof *ranks),
        *world = ranks + peers->size;
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

bx_call bx_profile_enter(bx_routine *routine, bx_class class, MPI_Comm comm,
                         bool blocking_collective)
{
    bx_call call = {
        .class = class, .routine = routine, .outermost = profile.started && profile.depth++ == 0};
    if (!call.outermost) return call;
    bx_charge_pay();
    atomic_store_explicit(&profile.routine, routine->name, memory_order_relaxed);
    call.start = PMPI_Wtime();
    if (blocking_collective && profile.separate_waiting) {
        PMPI_Barrier(comm);
        call.sent.waiting = PMPI_Wtime() - call.start;
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

static int new_row(const char *routine, int region, bx_class class)
{
    if (profile.row_count == profile.row_capacity) {
        profile.row_capacity += 64;
        profile.rows =
            bx_memory_grow(profile.rows, (size_t)profile.row_capacity, sizeof *profile.rows);
    }
    profile.rows[profile.row_count] = (struct row){routine, region, -1, class};
    return profile.row_count++;
}

static bx_traffic *row_of(bx_recording *recording, int number)
{
    if (number >= recording->capacity) {
        size_t old = (size_t)recording->capacity, new = (size_t)profile.row_capacity;
        recording->rows = bx_memory_grow(recording->rows, new, sizeof *recording->rows);
        memset(&recording->rows[old], 0, (new - old) * sizeof *recording->rows);
        recording->capacity = (int)new;
    }
    return &recording->rows[number];
}

void bx_profile_leave(bx_call *call)
{
    if (!profile.started) return;
    profile.depth--;
    if (!call->outermost) return;
    atomic_store_explicit(&profile.routine, NULL, memory_order_relaxed);
    call->sent.calls = 1;
    call->sent.seconds = PMPI_Wtime() - call->start;
    profile.seconds += call->sent.seconds;
    int *number = &call->routine->row[1 + profile.region][call->class];
    if (*number == 0) *number = 1 + new_row(call->routine->name, profile.region, call->class);
    add(row_of(profile.into, *number - 1), &call->sent);
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

/* One-sided targets are ranks of the window's group; nodes are compared by world rank. */
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

/* ---- persistent requests ---- */

void bx_profile_bind(const bx_call *call, MPI_Request request, MPI_Comm comm, int peer,
                     double bytes)
{
    if (!call->outermost) return;
    struct bound new = {request, {.outermost = true}};
    bx_profile_to(&new.sends, comm, peer, bytes);
    profile.bound = bx_memory_grow(profile.bound, (size_t)profile.bound_count + 1, sizeof new);
    profile.bound[profile.bound_count++] = new;
}

/* The number of a request, from the one behind the last that was asked for; -1: nothing bound. */
static int find_bound(MPI_Request request)
{
    for (int i = 0; i < profile.bound_count; i++) {
        int at = (profile.bound_next + i) % profile.bound_count;
        if (profile.bound[at].request != request) continue;
        profile.bound_next = at + 1;
        return at;
    }
    return -1;
}

void bx_profile_started(bx_call *call, int count, const MPI_Request *requests)
{
    for (int i = 0; call->outermost && i < count; i++) {
        int at = find_bound(requests[i]);
        if (at >= 0) add(&call->sent, &profile.bound[at].sends.sent);
    }
}

void bx_profile_unbind(MPI_Request request)
{
    int at = find_bound(request);
    if (at >= 0) profile.bound[at] = profile.bound[--profile.bound_count];
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

/* Adds the rows of one region, or all rows, to `traffic`. */
enum { ANY_REGION = -2 };
static void sum_rows(const bx_recording *recording, int region, bx_traffic traffic[BX_CLASS_COUNT])
{
    for (int i = 0; i < recording->capacity && i < profile.row_count; i++)
        if (region == ANY_REGION || profile.rows[i].region == region)
            add(&traffic[profile.rows[i].class], &recording->rows[i]);
}

static void sum_all(int region, bx_traffic traffic[BX_CLASS_COUNT])
{
    memset(traffic, 0, BX_CLASS_COUNT * sizeof *traffic);
    for (const bx_recording *r = &profile.rest; r; r = r->next) sum_rows(r, region, traffic);
}

void bx_profile_read(bx_traffic traffic[BX_CLASS_COUNT]) { sum_all(ANY_REGION, traffic); }

void bx_profile_read_sum(double sent[4])
{
    bx_traffic traffic[BX_CLASS_COUNT], sum = {0};
    bx_profile_read(traffic);
    for (int c = 0; c < BX_CLASS_COUNT; c++) add(&sum, &traffic[c]);
    sent[0] = sum.messages;
    sent[1] = sum.off_node_messages;
    sent[2] = sum.bytes;
    sent[3] = sum.off_node_bytes;
}

void bx_recording_read(const bx_recording *recording, bx_traffic traffic[BX_CLASS_COUNT])
{
    memset(traffic, 0, BX_CLASS_COUNT * sizeof *traffic);
    sum_rows(recording, ANY_REGION, traffic);
}

double bx_profile_seconds(void) { return profile.seconds; }

void bx_profile_place(char *text, size_t size)
{
    const char *own = atomic_load(&profile.own), *routine = atomic_load(&profile.routine);
    if (own || !routine)
        snprintf(text, size, "in %s", own ? own : "the kernel's own code");
    else
        snprintf(text, size, "in MPI_%c%s", toupper((unsigned char)routine[0]), routine + 1);
}

void bx_profile_enter_own(const char *place) { atomic_store(&profile.own, place); }

bx_recording *bx_recording_create(void)
{
    bx_recording *recording = bx_memory_grow(NULL, 1, sizeof *recording);
    *recording = (bx_recording){.next = profile.rest.next};
    profile.rest.next = recording;
    return recording;
}

void bx_profile_into(bx_recording *recording)
{
    profile.into = recording ? recording : &profile.rest;
}

void bx_profile_read_region(const char *name, bx_traffic traffic[BX_CLASS_COUNT])
{
    int region = 0;
    while (region < profile.region_count && strcmp(profile.region_names[region], name) != 0)
        region++;
    sum_all(region, traffic);
}

void bx_profile_enter_region(const char *name)
{
    for (profile.region = 0; profile.region < profile.region_count; profile.region++)
        if (strcmp(profile.region_names[profile.region], name) == 0) return;
    if (profile.region_count == BX_MAX_REGIONS) {
        profile.region = -1;
        return;
    }
    snprintf(profile.region_names[profile.region_count++], REGION_NAME, "%s", name);
}

void bx_profile_leave_region(void) { profile.region = -1; }

static const char *const CLASS_NAMES[BX_CLASS_COUNT] = {"p2p", "collective", "barrier",
                                                        "one_sided"};
static const char *const FIELD_NAMES[] = {
    "calls", "messages", "off_node_messages", "bytes", "off_node_bytes", "seconds", "waiting"};
enum { FIELDS = sizeof(bx_traffic) / sizeof(double) };

cJSON *bx_profile_traffic_json(MPI_Comm world, const bx_traffic *traffic, double steps)
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
cJSON *bx_profile_regions_json(MPI_Comm world)
{
    bx_traffic traffic[BX_CLASS_COUNT];
    bx_profile_read(traffic);
    cJSON *json = bx_profile_traffic_json(world, traffic, 1);
    cJSON *regions = json ? cJSON_AddObjectToObject(json, "regions") : NULL;
    int count;
    PMPI_Allreduce(&profile.region_count, &count, 1, MPI_INT, MPI_MIN, world);
    for (int r = 0; r < count; r++) {
        sum_all(r, traffic);
        cJSON *region = bx_profile_traffic_json(world, traffic, 1);
        if (regions) cJSON_AddItemToObject(regions, profile.region_names[r], region);
    }
    return json;
}

/* ---- parts of a step's time ---- */

/* As the reports write it, C's routine and Fortran's alike: MPI_Bcast, MPI_Bcast (ScaLAPACK). */
static void name_of_row(int number, char text[ROUTINE_NAME])
{
    const char *name = profile.rows[number].routine;
    int region = profile.rows[number].region;
    snprintf(text, ROUTINE_NAME, "MPI_%c%s%s%s%s", toupper((unsigned char)name[0]), name + 1,
             region < 0 ? "" : " (", region < 0 ? "" : profile.region_names[region],
             region < 0 ? "" : ")");
}

/* Ranks meet routines in different orders, and some never: the lowest rank that has met one without
 * a number names it to all, until none is left. */
static void agree_on_names(MPI_Comm world)
{
    int rank, first = 0;
    PMPI_Comm_rank(world, &rank);
    for (;;) {
        while (first < profile.row_count && profile.rows[first].name >= 0) first++;
        struct {
            int has, rank;
        } mine = {first < profile.row_count, rank}, speaker;
        PMPI_Allreduce(&mine, &speaker, 1, MPI_2INT, MPI_MAXLOC, world);
        if (!speaker.has) return;
        char own[ROUTINE_NAME];
        int number = profile.name_count++;
        profile.names =
            bx_memory_grow(profile.names, (size_t)profile.name_count, sizeof *profile.names);
        if (speaker.rank == rank) name_of_row(first, profile.names[number]);
        PMPI_Bcast(profile.names[number], ROUTINE_NAME, MPI_CHAR, speaker.rank, world);
        for (int i = first; i < profile.row_count; i++) {
            name_of_row(i, own);
            if (strcmp(own, profile.names[number]) == 0) profile.rows[i].name = number;
        }
    }
}

static void add_part(cJSON *list, const char *group, const char *name, double share)
{
    if (!(share > 0)) return;
    cJSON *part = cJSON_CreateObject();
    cJSON_AddStringToObject(part, "group", group);
    cJSON_AddStringToObject(part, "name", name);
    cJSON_AddNumberToObject(part, "share", share);
    cJSON_AddItemToArray(list, part);
}

cJSON *bx_profile_parts_json(const bx_run *run, const bx_parts *parts,
                             const bx_recording *recording)
{
    agree_on_names(run->world);
    /* mine and their sums over the ranks: the step, its phases, MPI by name and its waiting */
    size_t names = (size_t)profile.name_count, phases = run->kernel->phase_count;
    size_t count = 1 + 2 * phases + 2 * names;
    double *mine = bx_memory_alloc(2 * count, sizeof *mine), *sums = mine + count;
    double *seconds = mine + 1 + 2 * phases;
    mine[0] = parts->step;
    memcpy(mine + 1, parts->phase, phases * sizeof *mine);
    memcpy(mine + 1 + phases, parts->phase_mpi, phases * sizeof *mine);
    for (int i = 0; i < recording->capacity && i < profile.row_count; i++) {
        seconds[profile.rows[i].name] += recording->rows[i].seconds;
        seconds[names + (size_t)profile.rows[i].name] += recording->rows[i].waiting;
    }
    PMPI_Reduce(mine, sums, (int)count, MPI_DOUBLE, MPI_SUM, 0, run->world);
    double step = sums[0];
    const double *phase = sums + 1, *phase_mpi = phase + phases;
    const double *routine = phase_mpi + phases, *waiting = routine + names;
    cJSON *json = run->rank == 0 && step > 0 ? cJSON_CreateObject() : NULL;
    if (json) {
        double shares[3] = {0}; /* user, library, MPI */
        static const char *const GROUPS[3] = {"user", "library", "MPI"};
        cJSON *list = cJSON_CreateArray();
        for (size_t i = 0; i < names; i++) {
            char text[ROUTINE_NAME + 16];
            snprintf(text, sizeof text, "waiting for %s", profile.names[i]);
            add_part(list, "MPI", profile.names[i], (routine[i] - waiting[i]) / step);
            add_part(list, "MPI", text, waiting[i] / step);
            shares[2] += routine[i] / step;
        }
        for (size_t k = 0; k < phases; k++) {
            const char *const *groups = run->kernel->phase_groups;
            int group = groups && strcmp(groups[k], "library") == 0;
            double share = (phase[k] - phase_mpi[k]) / step;
            add_part(list, GROUPS[group], run->kernel->phases[k], share);
            shares[group] += share;
        }
        shares[0] = 1 - shares[1] - shares[2]; /* with what no phase has */
        for (int group = 0; group < 3; group++)
            cJSON_AddNumberToObject(json, GROUPS[group], shares[group]);
        cJSON_AddItemToObject(json, "parts", list);
    }
    free(mine);
    return json;
}
