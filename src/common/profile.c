/* Communication profile by interposition: the executable and its libraries call the routines of MPI
 * that profile.def lists through wrappers (profile_c.c, profile_fortran.c).  A call is counted
 * once: in the row of its routine, region and class of the recording in force.  All else is sums of
 * rows.
 *
 * Not counted, and own code in the shares of time: what is not listed there.  These are
 * MPI_Rput and its kin, matched probes, neighbourhood collectives but MPI_Neighbor_alltoallv, most
 * routines of files, and the making of communicators, topologies and windows.  Persistent requests,
 * files, and requests under way are counted where C calls: no kernel in Fortran promises any. */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REGION_NAME = 32 };

struct bx_recording {
    bx_traffic *rows; /* [capacity]; rows that profile.rows has beyond are zero */
    int capacity;
    int most_open;              /* requests under way at once */
    double laps[BX_MAX_PHASES]; /* all along which one was */
    bx_recording *next;
};

static struct {
    bool started;
    int region_count;
    char region_names[BX_MAX_REGIONS][REGION_NAME];
    _Atomic(const char *) harness_place; /* place in the harness that this rank is in */
    int row_count, row_capacity;
    struct row {
        const char *routine;
        int region, name; /* name: its number in `names` */
        bx_class class;
    } *rows;                        /* routine, region and class of row i of every recording */
    char (*names)[BX_ROUTINE_NAME]; /* as the reports write them; the same on every rank */
    int name_count;
    bx_recording rest, *into; /* of no method; the recording in force */
    struct pending {
        MPI_Request request;
        int at; /* place in the list that is being waited for, or -1 */
    } *pending; /* [bx_calls.requests] of collectives */
    int pending_room;
    struct bound {
        MPI_Request request;
        bx_class class;
        bx_traffic sends;
    } *bound;                    /* what persistent requests send */
    int bound_count, bound_next; /* requests are mostly started in the order of their making */
} profile = {.into = &profile.rest};

struct bx_calls bx_calls = {.region = -1};

void bx_profile_start(MPI_Comm world, const int *node_of, bool separate_waiting)
{
    bx_peers_start(world, node_of);
    bx_ticks_start();
    bx_calls.separate_waiting = separate_waiting;
    bx_calls.counted = profile.started = true;
}

void bx_profile_stop(void)
{
    if (!profile.started) return;
    bx_calls.counted = profile.started = false;
    bx_peers_stop();
    for (bx_recording *next, *r = profile.rest.next; r; r = next) {
        next = r->next;
        BX_FREE(r->rows, r);
    }
    BX_FREE(profile.rest.rows, profile.rows, profile.names, profile.bound, profile.pending);
    profile.pending = NULL, profile.bound = NULL;
    profile.pending_room = bx_calls.requests = profile.bound_count = bx_calls.bound = 0;
}

/* ---- counting ---- */

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

/* Makes room for all rows. */
static void make_room(bx_recording *recording)
{
    size_t old = (size_t)recording->capacity, new = (size_t)profile.row_capacity;
    if (new > old) {
        recording->rows = bx_memory_grow(recording->rows, new, sizeof *recording->rows);
        memset(&recording->rows[old], 0, (new - old) * sizeof *recording->rows);
        recording->capacity = (int)new;
    }
}

/* Directs calls to a recording. */
static void write_into(bx_recording *recording)
{
    make_room(recording);
    if (bx_calls.most_open > profile.into->most_open) profile.into->most_open = bx_calls.most_open;
    profile.into = recording;
    bx_calls.rows = recording->rows;
}

int bx_calls_new_row(const char *routine, bx_class class)
{
    if (profile.row_count == profile.row_capacity) {
        profile.row_capacity += 64;
        profile.rows =
            bx_memory_grow(profile.rows, (size_t)profile.row_capacity, sizeof *profile.rows);
        write_into(profile.into);
    }
    profile.rows[profile.row_count] = (struct row){routine, bx_calls.region, -1, class};
    return ++profile.row_count;
}

double bx_profile_clock(void) { return PMPI_Wtime() - bx_calls.paused_s; }

double bx_profile_paused(void) { return bx_calls.paused_s; }

/* The steps' clock has stood still since then; returns the ticks at which it goes on. */
static double resume_step_clock(double since)
{
    double now = bx_ticks_after();
    bx_calls.paused_s += (now - since + bx_ticks_reading) * bx_ticks_second;
    return now;
}

void bx_count_alltoallv(bx_traffic *row, MPI_Comm comm, const int *counts, MPI_Datatype type)
{
    const bx_peers *peers = bx_peers_of_comm(comm);
    double since = bx_ticks_now();
    int64_t sum = 0, near = 0, to_self = peers->rank >= 0 ? counts[peers->rank] : 0;
    for (int i = 0; i < peers->size; i++) sum += counts[i];
    for (int i = 0; i < peers->size - peers->off_node; i++) near += counts[peers->near[i]];
    double item = bx_count_bytes(sum > 0, type);
    bx_count_messages(row, peers, (double)(sum - to_self) * item, (double)(sum - near) * item);
    bx_calls.resumed_at = resume_step_clock(since);
}

/* Bytes to one rank; `type` is that of the last, mostly the same for all, `item` its size. */
static inline double bytes_to(int peer, const int *counts, const MPI_Datatype *types,
                              MPI_Datatype *type, double *item)
{
    if (counts[peer] == 0) return 0;
    if (types[peer] != *type) *item = bx_count_bytes(1, *type = types[peer]);
    return counts[peer] * *item;
}

void bx_count_alltoallw(bx_traffic *row, MPI_Comm comm, const int *counts,
                        const MPI_Datatype *types)
{
    const bx_peers *peers = bx_peers_of_comm(comm);
    double since = bx_ticks_now();
    enum { TOGETHER = 64 }; /* ranks, of which few have anything */
    MPI_Datatype type = MPI_DATATYPE_NULL;
    double item = 0, sum = 0, near = 0;
    double to_self = peers->rank >= 0 ? bytes_to(peers->rank, counts, types, &type, &item) : 0;
    for (int first = 0, any; first < peers->size; first += TOGETHER) {
        int end = first + TOGETHER < peers->size ? first + TOGETHER : peers->size;
        any = 0;
        for (int i = first; i < end; i++) any |= counts[i];
        for (int i = first; any && i < end; i++) sum += bytes_to(i, counts, types, &type, &item);
    }
    for (int i = 0; i < peers->size - peers->off_node; i++)
        near += bytes_to(peers->near[i], counts, types, &type, &item);
    bx_count_messages(row, peers, sum - to_self, sum - near);
    bx_calls.resumed_at = resume_step_clock(since);
}

void bx_count_neighbours(bx_traffic *row, MPI_Comm comm, const int *counts, MPI_Datatype type)
{
    const bx_peers *peers = bx_peers_of_comm(comm);
    double since = bx_ticks_now();
    for (int i = 0; i < peers->neighbour_count; i++)
        bx_count_message(row, peers, peers->neighbours[i], bx_count_bytes(counts[i], type));
    bx_calls.resumed_at = resume_step_clock(since);
}

/* ---- persistent requests ---- */

bx_traffic *bx_count_bind(MPI_Request request, bx_class class)
{
    struct bound new = {.request = request, .class = class};
    profile.bound = bx_memory_grow(profile.bound, (size_t)profile.bound_count + 1, sizeof new);
    profile.bound[profile.bound_count] = new;
    bx_calls.bound += class == BX_COLLECTIVE;
    return &profile.bound[profile.bound_count++].sends;
}

/* The number of a request, from the last that was asked for on; -1: nothing bound. */
static int find_bound(MPI_Request request)
{
    for (int i = 0; i < profile.bound_count; i++) {
        int at = (profile.bound_next + i) % profile.bound_count;
        if (profile.bound[at].request != request) continue;
        profile.bound_next = at;
        return at;
    }
    return -1;
}

void bx_count_started(bx_traffic *row, int count, const MPI_Request *requests)
{
    for (int i = 0; i < count; i++) {
        int at = find_bound(requests[i]);
        if (at < 0) continue;
        add(row, &profile.bound[at].sends);
        if (profile.bound[at].class == BX_COLLECTIVE) bx_calls_remember(requests[i]);
    }
}

bx_class bx_count_class_of(int count, const MPI_Request *requests)
{
    int at = count > 0 ? find_bound(requests[0]) : -1;
    return at >= 0 ? profile.bound[at].class : BX_P2P;
}

void bx_count_unbind(MPI_Request request)
{
    int at = find_bound(request);
    if (at < 0) return;
    bx_calls.bound -= profile.bound[at].class == BX_COLLECTIVE;
    profile.bound[at] = profile.bound[--profile.bound_count];
}

/* ---- requests of collectives ---- */

void bx_calls_remember(MPI_Request request)
{
    if (request == MPI_REQUEST_NULL) return; /* a library may complete it at once */
    if (bx_calls.requests == profile.pending_room) {
        profile.pending_room = 2 * profile.pending_room + 16;
        profile.pending =
            bx_memory_grow(profile.pending, (size_t)profile.pending_room, sizeof *profile.pending);
    }
    profile.pending[bx_calls.requests++].request = request;
}

/* Several may have one handle, where a library completes them at once. */
bx_class bx_calls_class_of(int count, const MPI_Request *requests)
{
    double since = bx_ticks_now();
    bool any = false;
    for (int k = 0; k < bx_calls.requests; k++) profile.pending[k].at = -1;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < bx_calls.requests && requests[i] != MPI_REQUEST_NULL; k++) {
            struct pending *pending = &profile.pending[k];
            if (pending->at >= 0 || pending->request != requests[i]) continue;
            pending->at = i;
            any = true;
            break;
        }
    resume_step_clock(since);
    return any ? BX_COLLECTIVE : BX_P2P;
}

/* A persistent request is not null when it is complete: its first wait or test ends it here. */
void bx_calls_forget(int count, const MPI_Request *requests)
{
    double since = bx_ticks_now();
    int kept = 0;
    for (int k = 0; k < bx_calls.requests; k++) {
        int at = profile.pending[k].at;
        bool done = at >= 0 && at < count &&
                    (requests[at] == MPI_REQUEST_NULL || find_bound(requests[at]) >= 0);
        if (!done) profile.pending[kept++] = profile.pending[k];
    }
    bx_calls.requests = kept;
    resume_step_clock(since);
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

static void sum_classes(const bx_traffic traffic[BX_CLASS_COUNT], double sent[4])
{
    bx_traffic sum = {0};
    for (int c = 0; c < BX_CLASS_COUNT; c++) add(&sum, &traffic[c]);
    sent[0] = sum.messages;
    sent[1] = sum.off_node_messages;
    sent[2] = sum.bytes;
    sent[3] = sum.off_node_bytes;
}

void bx_profile_read_sum(double sent[4])
{
    bx_traffic traffic[BX_CLASS_COUNT];
    bx_profile_read(traffic);
    sum_classes(traffic, sent);
}

void bx_recording_read(const bx_recording *recording, bx_traffic traffic[BX_CLASS_COUNT])
{
    memset(traffic, 0, BX_CLASS_COUNT * sizeof *traffic);
    sum_rows(recording, ANY_REGION, traffic);
}

static int region_of(const char *name)
{
    int region = 0;
    while (region < profile.region_count && strcmp(profile.region_names[region], name) != 0)
        region++;
    return region;
}

double bx_shown_calls(const bx_shown *shown, const char *routine, const char *region)
{
    int wanted = region ? region_of(region) : -1;
    double calls = 0;
    for (int i = 0; i < shown->recording->capacity && i < profile.row_count; i++)
        if (profile.rows[i].region == wanted &&
            (!routine || strcmp(profile.rows[i].routine, routine) == 0))
            calls += shown->recording->rows[i].calls;
    return calls / shown->steps;
}

void bx_shown_sent(const bx_shown *shown, double sent[4])
{
    bx_traffic traffic[BX_CLASS_COUNT] = {{0}};
    sum_rows(shown->recording, -1, traffic);
    sum_classes(traffic, sent);
    for (int i = 0; i < 4; i++) sent[i] /= shown->steps;
}

double bx_shown_requests(const bx_shown *shown) { return shown->recording->most_open; }

double bx_shown_laps(const bx_shown *shown, size_t phase)
{
    return shown->recording->laps[phase] / shown->steps;
}

double bx_profile_seconds(void) { return bx_calls.seconds; }

void bx_profile_place(char *text, size_t size)
{
    const char *place = atomic_load(&profile.harness_place),
               *routine = atomic_load(&bx_calls.routine);
    if (place || !routine)
        snprintf(text, size, "in %s", place ? place : "the kernel's own code");
    else
        snprintf(text, size, "in MPI_%s", routine);
}

void bx_profile_enter_harness(const char *place) { atomic_store(&profile.harness_place, place); }

bx_recording *bx_recording_create(void)
{
    bx_recording *recording = bx_memory_grow(NULL, 1, sizeof *recording);
    *recording = (bx_recording){.next = profile.rest.next};
    profile.rest.next = recording;
    return recording;
}

void bx_recording_move(bx_recording *from, bx_recording *to)
{
    make_room(to);
    for (int i = 0; i < from->capacity; i++) add(&to->rows[i], &from->rows[i]);
    if (from->rows) memset(from->rows, 0, (size_t)from->capacity * sizeof *from->rows);
    memset(from->laps, 0, sizeof from->laps);
    from->most_open = 0;
}

void bx_profile_into(bx_recording *recording)
{
    write_into(recording ? recording : &profile.rest);
    bx_calls.open = bx_calls.done_at_once = bx_calls.fewest_open = bx_calls.most_open = 0;
    bx_ticks_adjust();
}

double bx_profile_lap(size_t phase)
{
    profile.into->laps[phase] += bx_calls.fewest_open > 0;
    bx_calls.fewest_open = bx_calls.open;
    return bx_calls.seconds;
}

void bx_profile_read_region(const char *name, bx_traffic traffic[BX_CLASS_COUNT])
{
    sum_all(region_of(name), traffic);
}

void bx_profile_enter_region(const char *name)
{
    for (bx_calls.region = 0; bx_calls.region < profile.region_count; bx_calls.region++)
        if (strcmp(profile.region_names[bx_calls.region], name) == 0) return;
    if (profile.region_count == BX_MAX_REGIONS) {
        bx_calls.region = -1;
        return;
    }
    snprintf(profile.region_names[profile.region_count++], REGION_NAME, "%s", name);
}

void bx_profile_leave_region(void) { bx_calls.region = -1; }

static const char *const CLASS_NAMES[BX_CLASS_COUNT] = {"p2p", "collective", "barrier", "one_sided",
                                                        "file"};
static const char *const FIELD_NAMES[] = {
    "calls", "messages", "off_node_messages", "bytes", "off_node_bytes", "seconds", "waiting"};
enum { FIELDS = sizeof(bx_traffic) / sizeof(double) };

bx_spread *bx_profile_spread(MPI_Comm world, const bx_traffic *traffic, double steps)
{
    enum { COUNT = BX_CLASS_COUNT * FIELDS };
    double per_step[COUNT];
    int rank;
    bx_spread *spread = NULL;
    PMPI_Comm_rank(world, &rank);
    for (int i = 0; i < COUNT; i++) per_step[i] = ((const double *)traffic)[i] / steps;
    if (rank == 0) BX_ALLOC(COUNT, spread);
    bx_spread_reduce(world, COUNT, per_step, spread);
    return spread;
}

void bx_profile_add_spread(bx_json *object, const bx_spread *spread)
{
    for (int c = 0; c < BX_CLASS_COUNT; c++) {
        bx_json *class = bx_json_object(object, CLASS_NAMES[c]);
        for (int f = 0; f < FIELDS; f++)
            bx_spread_add(class, FIELD_NAMES[f], &spread[c * FIELDS + f]);
    }
}

double bx_profile_mean(const bx_spread *spread, const char *name)
{
    char known[64];
    for (int i = 0; i < BX_CLASS_COUNT * FIELDS; i++) {
        snprintf(known, sizeof known, "%s.%s", CLASS_NAMES[i / FIELDS], FIELD_NAMES[i % FIELDS]);
        if (strcmp(known, name) == 0) return spread[i].mean;
    }
    return NAN;
}

static void add_traffic(MPI_Comm world, const bx_traffic *traffic, bx_json *object)
{
    bx_spread *spread = bx_profile_spread(world, traffic, 1);
    if (spread) bx_profile_add_spread(object, spread);
    free(spread);
}

/* Ranks enter the same regions in the same order. */
void bx_profile_add_regions(MPI_Comm world, bx_json *object)
{
    bx_traffic traffic[BX_CLASS_COUNT];
    bx_profile_read(traffic);
    add_traffic(world, traffic, object);
    bx_json *regions = bx_json_object(object, "regions");
    int count;
    PMPI_Allreduce(&profile.region_count, &count, 1, MPI_INT, MPI_MIN, world);
    for (int r = 0; r < count; r++) {
        sum_all(r, traffic);
        add_traffic(world, traffic, bx_json_object(regions, profile.region_names[r]));
    }
}

/* ---- parts of a step's time ---- */

/* As the reports write it, C's routine and Fortran's alike: MPI_Bcast, MPI_Bcast (ScaLAPACK). */
static void name_of_row(int number, char text[BX_ROUTINE_NAME])
{
    const char *name = profile.rows[number].routine;
    int region = profile.rows[number].region;
    snprintf(text, BX_ROUTINE_NAME, "MPI_%s%s%s%s", name, region < 0 ? "" : " (",
             region < 0 ? "" : profile.region_names[region], region < 0 ? "" : ")");
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
        char row_name[BX_ROUTINE_NAME];
        int number = profile.name_count++;
        profile.names =
            bx_memory_grow(profile.names, (size_t)profile.name_count, sizeof *profile.names);
        if (speaker.rank == rank) name_of_row(first, profile.names[number]);
        PMPI_Bcast(profile.names[number], BX_ROUTINE_NAME, MPI_CHAR, speaker.rank, world);
        for (int i = first; i < profile.row_count; i++) {
            name_of_row(i, row_name);
            if (strcmp(row_name, profile.names[number]) == 0) profile.rows[i].name = number;
        }
    }
}

double bx_shown_other_calls(MPI_Comm world, const bx_shown *shown, const char *allowed, char *other)
{
    agree_on_names(world);
    double *calls = bx_memory_alloc((size_t)profile.name_count, sizeof *calls), sum = 0;
    for (int i = 0; i < shown->recording->capacity && i < profile.row_count; i++)
        if (profile.rows[i].region < 0 && bx_text_index(profile.rows[i].routine, allowed, " ") < 0)
            calls[profile.rows[i].name] += shown->recording->rows[i].calls;
    PMPI_Allreduce(MPI_IN_PLACE, calls, profile.name_count, MPI_DOUBLE, MPI_SUM, world);
    for (int n = 0; n < profile.name_count; n++) {
        if (calls[n] > 0) strcpy(other, profile.names[n]);
        sum += calls[n] / shown->steps;
    }
    free(calls);
    return sum;
}

const char *const bx_share_groups[3] = {"user", "library", "MPI"};

static void add_part(bx_shares *shares, int group, const char *name, double share)
{
    if (!(share > 0)) return;
    shares->parts = bx_memory_grow(shares->parts, shares->part_count + 1, sizeof(bx_part));
    bx_part *part = &shares->parts[shares->part_count++];
    *part = (bx_part){.group = group, .share = share};
    snprintf(part->name, sizeof part->name, "%s", name);
}

bx_shares *bx_profile_shares(const bx_run *run, const bx_parts *parts,
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
    bx_shares *shares = run->rank == 0 && step > 0 ? bx_memory_alloc(1, sizeof *shares) : NULL;
    if (shares) {
        for (size_t i = 0; i < names; i++) {
            char text[BX_ROUTINE_NAME + 16];
            snprintf(text, sizeof text, "waiting for %s", profile.names[i]);
            add_part(shares, 2, profile.names[i], (routine[i] - waiting[i]) / step);
            add_part(shares, 2, text, waiting[i] / step);
            shares->of_group[2] += routine[i] / step;
        }
        for (size_t k = 0; k < phases; k++) {
            const char *const *groups = run->kernel->phase_groups;
            int group = groups && strcmp(groups[k], "library") == 0;
            double share = (phase[k] - phase_mpi[k]) / step;
            add_part(shares, group, run->kernel->phases[k], share);
            shares->of_group[group] += share;
        }
        /* with what no phase has */
        shares->of_group[0] = 1 - shares->of_group[1] - shares->of_group[2];
    }
    free(mine);
    return shares;
}

void bx_shares_free(bx_shares *shares)
{
    if (shares) free(shares->parts);
    free(shares);
}
