/* The patterns of communication that codes are made of, over the size of a block. */
#include "adapters.h"
#include "charge.h"
#include "pattern.h"
#include "sizes.h"
#include "window.h"

#include <stdlib.h>
#include <string.h>

enum { STEP_BYTES = 65536, MOST_EXCHANGES = 64 }; /* see exchanges() */
enum { FEW_BLOCKS = 16 };                         /* which take no longer than a barrier */
enum { BANDWIDTH_FROM = 32768 };                  /* B; the time of shorter blocks is latency */

static int64_t smallest = 8, largest = 4 << 20; /* B */
static int64_t memory = 64;                     /* MiB */
static double adapter_rate;                     /* Gbit/s of a node; 0: unknown */
static bool cold;

static const bx_choice *methods;
static int *most_blocks;    /* [method] of any rank, to be sent or to be received */
static uint64_t generation; /* of the input: each step has its own */
static struct {
    int first, last; /* ranks that this one has sent to in the last block */
    double chance;   /* that they are those of the blocks before; 0: there was none */
} *partners;         /* [method] */

static const bx_pattern *pattern_of(size_t method) { return bx_pattern_table[method].pattern; }

/* ---- points: the first has no size, the others are powers of two ---- */

static size_t point_count(void *state) { return 1 + bx_sizes_count(smallest, largest); }

static int64_t point_bytes(size_t point) { return point == 0 ? 0 : smallest << (point - 1); }

static void describe(void *state, size_t point, bx_json *description)
{
    if (point > 0) bx_json_number(description, "bytes", (double)point_bytes(point));
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Whether a size is one of the method's, regardless of memory. */
static bool is_size_of(size_t method, int64_t bytes)
{
    const bx_pattern_entry *entry = &bx_pattern_table[method];
    if (entry->factor == 0 || bytes == 0) return (entry->factor == 0) == (bytes == 0);
    int64_t size = larger(smallest, entry->smallest);
    while (size < bytes) size *= entry->factor;
    return size == bytes && bytes <= entry->largest;
}

static double most_bytes(void) { return (double)memory * 0x1p20 / 2; } /* of a buffer */

static bool fits(size_t method, int64_t bytes)
{
    return (double)bytes * most_blocks[method] <= most_bytes();
}

static bool has_point(void *state, size_t method, size_t point)
{
    return is_size_of(method, point_bytes(point)) && fits(method, point_bytes(point));
}

static int items_of(const bx_pattern *pattern) { return pattern->items ? pattern->items : 1; }

/* Exchanges in a step: one of a few bytes is too short for the clock, and for the ranks to stay in
 * step after the barrier. */
static int exchanges(size_t method, size_t point)
{
    const bx_pattern *pattern = pattern_of(method);
    int items = items_of(pattern), blocks = most_blocks[method];
    int64_t bytes = point_bytes(point);
    if (pattern->single) return 1;
    if (BX_IS_SIMULATED && blocks > FEW_BLOCKS) return 1; /* whose clock is exact */
    if (bytes == 0) return MOST_EXCHANGES;
    double room = blocks > 0 ? most_bytes() / ((double)blocks * (double)bytes) : 1;
    double count = fmin(room, (double)(STEP_BYTES / (bytes * items)));
    return count < 1 ? 1 : count > MOST_EXCHANGES ? MOST_EXCHANGES : (int)count;
}

/* ---- content: every word says between whom, in which exchange of a step and where; the first and
 * the last word of a block also say in which step, which is cheap to renew ---- */

static uint64_t block_key(const bx_patterns *s, int source, int destination, int slot, int number)
{
    uint64_t key = bx_random_hash(bx_run_seed(s->run), (uint64_t)(uint32_t)source);
    key = bx_random_hash(key, (uint64_t)(uint32_t)destination);
    key = bx_random_hash(key, s->pattern->slots ? (uint64_t)slot : 0);
    return bx_random_hash(key, (uint64_t)number << 32 | (uint64_t)(uint32_t)s->words);
}

/* A word before it is stamped.  Of what is added up, each rank has its own multiple of an odd
 * number: no contribution can be left out, or counted twice, unseen. */
static uint64_t word_sent(const bx_patterns *s, uint64_t key, int word)
{
    uint64_t value = bx_random_hash(key, (uint64_t)word);
    if (!s->pattern->reduced) return value;
    return value + (uint64_t)s->rank * (bx_random_hash(~key, (uint64_t)word) | 1);
}

static uint64_t word_expected(const bx_patterns *s, uint64_t key, int word, uint64_t stamp)
{
    uint64_t value = bx_random_hash(key, (uint64_t)word), ranks = (uint64_t)s->size;
    if (word == 0 || word == s->words - 1) value += stamp;
    if (!s->pattern->reduced) return value;
    return ranks * value + ranks * (ranks - 1) / 2 * (bx_random_hash(~key, (uint64_t)word) | 1);
}

static uint64_t stamp_of(const bx_patterns *s, uint64_t number)
{
    return bx_random_hash(~bx_run_seed(s->run), number);
}

static uint64_t key_sent(const bx_patterns *s, int block, int number)
{
    int source = s->pattern->reduced ? BX_EVERYONE : s->rank;
    int destination = s->pattern->to_everyone ? BX_EVERYONE : s->to[block];
    return block_key(s, source, destination, block, number);
}

static uint64_t key_received(const bx_patterns *s, int block, int number)
{
    int destination = s->pattern->to_everyone ? BX_EVERYONE : s->rank;
    return block_key(s, s->from[block], destination, block, number);
}

/* ---- the kernel ---- */

static void lay_route(bx_patterns *s, size_t method)
{
    s->pattern = pattern_of(method);
    s->sent_blocks = s->received_blocks = 0;
    s->pattern->route(s);
}

/* A block of an exchange where the kernel makes it, or looks at it: MPI is given others. */
static uint64_t *block_made(const bx_patterns *s, int number, int block)
{
    uint64_t *first = bx_comm_buffer_host(&s->sending, bx_pattern_sent(s, number));
    return first + (size_t)block * (size_t)s->words;
}
static const uint64_t *block_arrived(const bx_patterns *s, int number, int block)
{
    const uint64_t *first = bx_comm_buffer_host(&s->receiving, bx_pattern_received(s, number));
    return first + (size_t)block * (size_t)s->words;
}

/* New stamps in the set, and nothing where a block is to arrive. */
static void arm(bx_patterns *s, uint64_t stamp)
{
    int last = s->words - 1;
    for (int number = 0; number < s->count; number++)
        for (int b = 0; b < s->sent_blocks; b++) {
            uint64_t key = key_sent(s, b, number);
            uint64_t *block = block_made(s, number, b);
            block[0] = word_sent(s, key, 0) + stamp;
            block[last] = word_sent(s, key, last) + stamp;
        }
    bx_comm_buffer_bring(&s->sending, bx_pattern_sent(s, 0),
                         bx_pattern_bytes(s, s->count * s->sent_blocks));
    bx_comm_buffer_fill(&s->receiving, 0xa5, bx_pattern_received(s, 0),
                        bx_pattern_bytes(s, s->count * s->received_blocks));
}

/* With --cold all sets are made ready here, and no step finds its own in a cache. */
static void begin(void *state, size_t method, size_t point)
{
    bx_patterns *s = state;
    s->block_number++;
    s->words = (int)(point_bytes(point) / BX_WORD);
    s->count = exchanges(method, point);
    lay_route(s, method);
    for (int rank = 0; rank < s->size; rank++) {
        s->counts[rank] = s->words;
        /* of a block per rank: memory bounds them */
        s->offsets[rank] = s->received_blocks == s->size ? rank * s->words : 0;
    }
    for (s->set = 0; s->set < s->sets; s->set++) {
        for (int number = 0; number < s->count; number++)
            for (int b = 0; b < s->sent_blocks; b++) {
                uint64_t key = key_sent(s, b, number);
                uint64_t *block = block_made(s, number, b);
                for (int w = 0; w < s->words; w++) block[w] = word_sent(s, key, w);
            }
        if (cold) arm(s, stamp_of(s, generation + 1 + (uint64_t)s->set));
    }
    if (s->pattern->open) s->pattern->open(s);
    s->set = -1;
    bx_cold_sweep();
}

static void prepare(void *state, size_t method, size_t point)
{
    bx_patterns *s = state;
    generation++;
    s->set = (s->set + 1) % s->sets;
    if (!cold) arm(s, stamp_of(s, generation));
    if (s->pattern->one_sided) bx_window_sync(s->comm, s->windows, 2);
}

static void step(void *state, size_t method, size_t point)
{
    bx_patterns *s = state;
    bool staged = !s->pattern->stages;
    for (int number = 0; number < s->count; number++) {
        if (staged) bx_pattern_stage_out(s, number);
        s->pattern->exchange(s, number);
        if (staged) bx_pattern_stage_in(s, number);
    }
}

/* Every byte of every exchange, after every step. */
static void inspect(void *state, size_t method, size_t point, bx_verification *verification)
{
    bx_patterns *s = state;
    if (s->pattern->one_sided) bx_window_sync(s->comm, s->windows, 2);
    bx_comm_buffer_fetch(&s->receiving, bx_pattern_received(s, 0),
                         bx_pattern_bytes(s, s->count * s->received_blocks));
    uint64_t stamp = stamp_of(s, generation);
    double wrong = 0;
    for (int number = 0; number < s->count; number++)
        for (int b = 0; b < s->received_blocks; b++) {
            uint64_t key = key_received(s, b, number);
            const uint64_t *block = block_arrived(s, number, b);
            for (int w = 0; w < s->words; w++) {
                uint64_t expected = word_expected(s, key, w, stamp);
                if (block[w] != expected) wrong += bx_verification_wrong_bytes(block[w], expected);
            }
        }
    if (s->pattern->inspect)
        bx_verification_check(verification, "left early", s->pattern->inspect(s), 0, "ranks");
    else
        bx_verification_check_always(verification, "content", wrong, 0, "bytes");
}

static double items(void *state, size_t method, size_t point)
{
    return (double)exchanges(method, point) * items_of(pattern_of(method));
}

/* Whether this rank has had the same partners in so many blocks, one after the other, as random
 * orders give once in 10^15 launches.  Where there are no others, it has them for ever. */
static bool has_same_partners(const bx_patterns *s, size_t method)
{
    int first = s->sent_blocks > 0 ? s->to[0] : MPI_PROC_NULL, last = first;
    if (s->sent_blocks > 1) last = s->to[s->sent_blocks - 1];
    double others = s->sent_blocks > 1 ? (s->size - 1) * (s->size - 2) / 2.0 : s->units - 1;
    bool same = (partners[method].first == first && partners[method].last == last) ||
                (partners[method].first == last && partners[method].last == first);
    bool may_stay = partners[method].chance <= 0 || first == MPI_PROC_NULL || others <= 1;
    partners[method].chance = same && !may_stay ? partners[method].chance / others : 1;
    partners[method].first = first;
    partners[method].last = last;
    return partners[method].chance < 1e-15;
}

/* A block of steps was between ranks that were dealt for it. */
static void end(void *state, size_t method, size_t point, int64_t steps,
                bx_verification *verification)
{
    bx_patterns *s = state;
    const bx_pattern *pattern = pattern_of(method);
    uint64_t seed = bx_random_hash(bx_run_seed(s->run), ++s->ended);
    if (pattern->close) pattern->close(s);
    if (!pattern->is_dealt) return;
    bx_verification_check(verification, "not dealt for this block", !pattern->is_dealt(s, seed), 0,
                          "ranks");
    bx_verification_check(verification, "never dealt anew", has_same_partners(s, method), 0,
                          "ranks");
}

/* The steps of a block have sent what was asked for, in as many exchanges as divide times. */
static void promise(void *state, size_t method, size_t point, const bx_shown *shown,
                    bx_verification *verification)
{
    const bx_patterns *s = state;
    const bx_pattern *pattern = pattern_of(method);
    double sent[4], number = items(state, method, point) / items_of(pattern);
    if (!pattern->messages) {
        double calls = bx_shown_calls(shown, "Barrier", NULL);
        bx_verification_count(verification, "barriers", calls, number, number);
        return;
    }
    bx_shown_sent(shown, sent);
    MPI_Allreduce(MPI_IN_PLACE, sent, 4, MPI_DOUBLE, MPI_SUM, s->comm);
    double messages = number * pattern->messages(s), bytes = messages * (double)point_bytes(point);
    bx_verification_count(verification, "messages sent", sent[0], messages, messages);
    bx_verification_count(verification, "bytes sent", sent[2], bytes, bytes);
    double at_once = pattern->at_once ? s->sent_blocks + s->received_blocks : pattern->open ? 1 : 0;
    bx_verification_count(verification, "messages under way at once", bx_shown_requests(shown),
                          at_once, at_once);
}

static void verify(void *state, size_t method, size_t point, bx_verification *verification)
{
    begin(state, method, point);
    prepare(state, method, point);
    step(state, method, point);
    inspect(state, method, point, verification);
    end(state, method, point, 1, verification);
}

static char no_windows[160]; /* why there are none, found out at setup; "": there are */

static bool applicable(void *state, size_t method, char *why, size_t why_size)
{
    const bx_pattern *pattern = pattern_of(method);
    if (pattern->applicable && !pattern->applicable(state, why, why_size)) return false;
    const bx_pattern_entry *entry = &bx_pattern_table[method];
    int64_t first = entry->factor ? larger(smallest, entry->smallest) : 0;
    if (entry->factor && (first > entry->largest || first > largest))
        snprintf(why, why_size, "has sizes from %lld to %lld B", (long long)entry->smallest,
                 (long long)entry->largest);
    else if (pattern->one_sided && bx_comm_buffers_are_staged())
        snprintf(why, why_size, "staged: nothing tells the target when to copy");
    else if (pattern->one_sided && *no_windows)
        snprintf(why, why_size, "%s", no_windows);
    else if (!fits(method, first))
        snprintf(why, why_size, "%lld B for each of %d blocks exceed half of --memory %lld MiB",
                 (long long)first, most_blocks[method], (long long)memory);
    else
        return true;
    return false;
}

/* Ratios are of collectives that do the same: allgather to allgatherv, alltoall to alltoallv. */
static bool comparable(size_t method, size_t other)
{
    const char *name = methods[method].name, *base = methods[other].name;
    size_t length = strlen(name) < strlen(base) ? strlen(name) : strlen(base);
    return strncmp(name, base, length) == 0;
}

static void metrics(void *state, size_t method, size_t point, bx_metrics *metrics_of_point)
{
    const bx_patterns *s = state;
    const bx_pattern *pattern = pattern_of(method);
    double blocks = pattern->volume ? pattern->volume(s) : 0;
    if (point_bytes(point) < BANDWIDTH_FROM || blocks <= 0) return;
    double rate = blocks * (double)point_bytes(point) / bx_metrics_value(metrics_of_point, "time");
    bx_metrics_add(metrics_of_point, "bandwidth", rate, "B/s", "higher");
    if (adapter_rate > 0)
        bx_metrics_add(metrics_of_point, "of_adapter", rate / (adapter_rate * 1e9 / 8), "ratio",
                       "higher");
}

/* ---- set-up ---- */

static void find_units(bx_patterns *s)
{
    int nodes = bx_run_node_count(s->run), place = 0;
    const int *node_of = bx_run_node_of(s->run);
    s->units = nodes > 1 ? nodes : s->size;
    BX_ALLOC((size_t)s->units + 1, s->unit_first);
    BX_ALLOC((size_t)s->size, s->order, s->place);
    for (int rank = 0; rank < s->size; rank++)
        s->unit_first[nodes > 1 ? node_of[rank] + 1 : rank + 1]++;
    for (int unit = 0; unit < s->units; unit++) s->unit_first[unit + 1] += s->unit_first[unit];
    int *next = bx_memory_alloc((size_t)s->units, sizeof(int));
    memcpy(next, s->unit_first, (size_t)s->units * sizeof(int));
    for (int rank = 0; rank < s->size; rank++) {
        place = next[nodes > 1 ? node_of[rank] : rank]++;
        s->order[place] = rank;
        s->place[rank] = place;
    }
    free(next);
}

/* What the fastest adapters of this host carry together, Gbit/s; 0: unknown, or all ranks are on
 * this host and use none. */
static double find_rate(const bx_patterns *s)
{
    static bx_adapters all;
    MPI_Comm host;
    int ranks;
    MPI_Comm_split_type(s->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &ranks);
    MPI_Comm_free(&host);
    if (ranks == s->size) return 0;
    bx_adapters_read(&all);
    double fastest = 0, sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < all.count; i++) {
            const bx_adapter *adapter = &all.adapters[i];
            bool up = strcmp(adapter->state, "up") == 0 || strcmp(adapter->state, "active") == 0;
            if (up && pass == 0) fastest = fmax(fastest, adapter->rate);
            if (up && pass == 1 && adapter->rate == fastest) sum += adapter->rate;
        }
    return fastest > 0 ? sum : 0;
}

/* Counts blocks; returns the bytes of a buffer. */
static double find_sizes(bx_patterns *s, bool *one_sided)
{
    double bytes = (double)bx_memory_whole_pages(1);
    for (size_t m = 0; m < bx_pattern_count; m++) {
        char why[160];
        const bx_pattern *pattern = pattern_of(m);
        if (!bx_run_is_selected(s->run, methods[m].name)) continue;
        if (pattern->applicable && !pattern->applicable(s, why, sizeof why)) continue;
        lay_route(s, m);
        int blocks = s->sent_blocks > s->received_blocks ? s->sent_blocks : s->received_blocks;
        MPI_Allreduce(&blocks, &most_blocks[m], 1, MPI_INT, MPI_MAX, s->comm);
        if (!applicable(s, m, why, sizeof why)) continue;
        *one_sided = *one_sided || pattern->one_sided;
        for (size_t p = 0; p < point_count(s); p++)
            if (has_point(s, m, p))
                bytes =
                    fmax(bytes, (double)most_blocks[m] * (double)point_bytes(p) * exchanges(m, p));
    }
    return bytes;
}

static int setup(bx_run *run, void **state)
{
    static bx_patterns the_patterns = {.windows = {MPI_WIN_NULL, MPI_WIN_NULL}};
    bx_patterns *s = &the_patterns;
    *state = s;
    s->run = run;
    s->comm = bx_run_comm(run);
    MPI_Comm_rank(s->comm, &s->rank);
    MPI_Comm_size(s->comm, &s->size);

    int code = bx_sizes_check(run, smallest, largest);
    if (code != BX_OK) return code;

    find_units(s);
    if (adapter_rate == 0) adapter_rate = find_rate(s);
    size_t slots = (size_t)(s->size > BX_WINDOW ? s->size : BX_WINDOW);
    BX_ALLOC(slots, s->to, s->from);
    BX_ALLOC((size_t)s->size, s->counts, s->offsets);
    BX_ALLOC(2 * (size_t)BX_WINDOW, s->requests);
    bool one_sided = false;
    double bytes = find_sizes(s, &one_sided);
    s->sets = cold ? (int)bx_run_block_steps(run) : 1;
    bytes *= s->sets;
    code = cold ? bx_cold_open(run) : BX_OK;
    if (code == BX_OK)
        code = bx_comm_buffers_open(run, 2 * bytes, 0, "--memory: two buffers for each rank");
    if (code != BX_OK) return code;
    if (!bx_comm_buffer_create(&s->sending, (size_t)bytes, "sent") ||
        !bx_comm_buffer_create(&s->receiving, (size_t)bytes, "received"))
        bx_run_refuse(run, BX_RESOURCES, "--memory %lld: out of memory", (long long)memory);
    code = bx_run_agree(run);
    if (code != BX_OK) return code;
    s->sent = s->sending.exchanged;
    s->received = s->receiving.exchanged;
    size_t capacity = s->sending.bytes;
    /* The pages are there before anything is timed. */
    bx_comm_buffer_fill(&s->sending, 0, s->sent, capacity);
    bx_comm_buffer_fill(&s->receiving, 0, s->received, capacity);
    if (one_sided && (!bx_window_open(run, s->comm, &s->sent, capacity, &s->windows[0]) ||
                      !bx_window_open(run, s->comm, &s->received, capacity, &s->windows[1])))
        snprintf(no_windows, sizeof no_windows, "%s", bx_window_why());
    return BX_OK;
}

/* "64 KiB" */
static void size_text(char *text, size_t size, int64_t bytes)
{
    const char *unit = bytes >= 1 << 20 ? "MiB" : bytes >= 1 << 10 ? "KiB" : "B";
    int64_t scale = bytes >= 1 << 20 ? 1 << 20 : bytes >= 1 << 10 ? 1 << 10 : 1;
    snprintf(text, size, "%lld %s", (long long)(bytes / scale), unit);
}

/* Lists the sizes of each method, and those that memory leaves out. */
static void report(void *state, bx_run *run, bx_json *details)
{
    const bx_patterns *s = state;
    if (!details) return;
    bx_json *points = bx_json_object(details, "points"),
            *left_out = bx_json_object(details, "left_out");
    for (size_t m = 0; m < bx_pattern_count; m++) {
        char why[160], size[32];
        if (!bx_run_is_selected(run, methods[m].name)) continue;
        if (!applicable(state, m, why, sizeof why)) continue;
        bx_json *sizes = bx_json_array(points, methods[m].name), *without = NULL;
        for (size_t p = 0; p < point_count(state); p++) {
            int64_t bytes = point_bytes(p);
            if (!is_size_of(m, bytes)) continue;
            if (!fits(m, bytes) && !without) {
                without = bx_json_array(left_out, methods[m].name);
                size_text(size, sizeof size, bytes);
                bx_run_note(run, "%s: blocks from %s on are left out: --memory %lld MiB",
                            methods[m].name, size, (long long)memory);
            }
            bx_json_number(fits(m, bytes) ? sizes : without, NULL, (double)bytes);
        }
    }
    bx_json_text(details, "unit", bx_run_node_count(run) > 1 ? "node" : "rank");
    bx_json_number(details, "units", s->units);
    if (adapter_rate > 0) bx_json_number(details, "adapter_rate", adapter_rate * 1e9 / 8); /* B/s */
    bx_run_note(run, "bandwidth, from blocks of %d KiB on, per %s: in result.json",
                BANDWIDTH_FROM >> 10, bx_run_node_count(run) > 1 ? "node" : "rank");
}

static void teardown(void *state)
{
    bx_patterns *s = state;
    for (int i = 0; i < 2; i++) bx_window_close(&s->windows[i]);
    bx_cold_close();
    bx_comm_buffer_free(&s->sending);
    bx_comm_buffer_free(&s->receiving);
    BX_FREE(s->unit_first, s->order, s->place, s->to, s->from, s->counts, s->offsets, s->requests);
}

const bx_kernel *bx_kernel_get(void)
{
    static const bx_choice cases[] = {
        {.name = "sweep", .summary = "blocks of --smallest to --largest bytes, in powers of two"},
    };
    static const bx_option options[] = {
        {"smallest", "BYTES", "first block size, a power of two", BX_INTEGER, BX_WORD, 1 << 30,
         &smallest},
        {"largest", "BYTES", "last block size, a power of two", BX_INTEGER, BX_WORD, 1 << 30,
         &largest},
        {"memory", "MIB", "buffers of a rank at most; larger blocks are left out", BX_INTEGER, 1,
         16384, &memory},
        BX_COMM_BUFFER_OPTIONS,
        {"cold", NULL,
         "no cache has what a step exchanges: each of a block has buffers of its own, of --memory",
         BX_FLAG, 0, 0, &cold},
        {"adapter-rate", "GBIT/S",
         "one way, of all adapters of a node; 0: as the operating system names it", BX_REAL, 0, 1e6,
         &adapter_rate},
    };
    static const char *const ratios[] = {"alltoall", "alltoallv", "allgather", "allgatherv"};
    static bx_kernel kernel = {
        .name = "patterns",
        .summary = "latency and bandwidth of the patterns that codes communicate in",
        .cases = BX_COUNTED(cases),
        .options = BX_COUNTED(options),
        .ratios = BX_COUNTED(ratios),
        .setup = setup,
        .point_count = point_count,
        .point = describe,
        .has_point = has_point,
        .comparable = comparable,
        .applicable = applicable,
        .verify = verify,
        .begin = begin,
        .prepare = prepare,
        .inspect = inspect,
        .end = end,
        .promise = promise,
        .step = step,
        .items = items,
        .metrics = metrics,
        .report = report,
        .teardown = teardown,
    };
    if (methods) return &kernel;
    BX_ALLOC(bx_pattern_count, most_blocks);
    BX_ALLOC(bx_pattern_count, partners);
    for (size_t m = 0; m < bx_pattern_count; m++)
        bx_kernel_add_method(&kernel, &(bx_choice){.name = bx_pattern_table[m].name,
                                                   .summary = pattern_of(m)->summary,
                                                   .wins = pattern_of(m)->wins,
                                                   .calls = pattern_of(m)->calls});
    methods = kernel.methods;
    return &kernel;
}
