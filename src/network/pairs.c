/* Latency and bandwidth between pairs of nodes, so that a slow node, cable or switch shows: a
 * tournament of which a few rounds are enough, and the suspects again in the same launch. */
#include "pairs.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(bx_pairs_record) == 28, "the matrix file has no padding");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the matrix file is little-endian");

enum { WORD = sizeof(uint64_t), REPEATS = 5, MOST_NAMED = 10, SAMPLED_ROUNDS = 16 };
enum { PROBE_BYTES = 65536, PROBE_GROWTH = 8 }; /* of a node, in the rounds that verify */
static const double LONGEST = 0.02;             /* s that a message may take */
enum { STAGE_TOURNAMENT, STAGE_AGAIN, STAGE_VERIFYING };
enum { MEETINGS_AGAIN = BX_PAIRS_SUSPECTS * 2 * BX_PAIRS_PARTNERS + BX_PAIRS_PATHS };

/* What is known of a node: its first rank, and the host's name. */
typedef struct {
    int rank;
    char host[BX_PAIRS_NAME];
} seat;

/* What the first rank of a node sends to rank 0 after a round. */
typedef struct {
    bx_pairs_values values;
    double wrong; /* bytes that arrived wrong */
} account;

typedef struct {
    bx_run *run;
    MPI_Comm world;
    int rank, node, nodes;
    bx_pairs_mode mode;
    int rounds;     /* of a tournament, that are played */
    double message; /* B of a node, that are asked for */
    bx_pairs_line line;
    seat *seats;                /* [nodes] on the first ranks of nodes */
    bx_pairs_switches switches; /* switch_of: NULL where unknown; names on rank 0 */
    bx_pairs_meeting *meetings; /* [nodes / 2], or MEETINGS_AGAIN */
    int64_t tournaments, parts; /* played; since the start: each meeting has its own content */
    double sent[2];             /* messages and bytes between two ranks, in the last step */
    bx_pairs_summary summary;   /* on rank 0 */
    /* on rank 0 */
    bx_json *details;  /* of the result */
    account *accounts; /* [nodes] */
    bx_pairs_record *records;
    size_t record_count, record_room, step_from; /* step_from: the first record of the last step */
    char *matrix_path;                           /* NULL without --output */
    FILE *matrix;
    int matrix_error; /* errno */
    int named;        /* pairs whose wrong content was reported */
    /* the pair with most wrong bytes, on every rank after a step */
    struct {
        double bytes;
        int from, to;
        char name[BX_PAIRS_NAME];
    } wrong;
} pairs;

static int64_t node_bytes = 32 << 20, round_limit, samples = 5;
static const char *mode_name = "thin", *switches_path;
static bool cold;

#define CALLS "Sendrecv Send Recv Isend Irecv Waitall Barrier Bcast Gather Reduce"
static const bx_choice methods[] = {
#define CHOICE(name, summary, wins) {#name, summary, wins, false, NULL, CALLS},
    BX_METHODS(CHOICE)};

static const char *const modes[] = {
#define NAME(name, summary) #name,
    BX_MODES(NAME)};

/* ---- setup ---- */

/* Message of a rank: its share of a node's, in whole words. */
static void set_bytes(pairs *p, double of_node)
{
    p->message = of_node;
    p->line.words = (size_t)ceil(of_node / p->line.talker_count / WORD);
}

/* The lines to other nodes: as many ranks of each node talk as the emptiest one has. */
static void draw_lines(pairs *p)
{
    MPI_Comm node = bx_run_node_comm(p->run);
    int size, fewest;
    MPI_Comm_rank(node, &p->line.local);
    MPI_Comm_size(node, &size);
    MPI_Allreduce(&size, &fewest, 1, MPI_INT, MPI_MIN, p->world);
    bool talks = p->line.local < fewest;
    p->line.talker_count = fewest;
    p->line.seed = bx_run_seed(p->run);
    p->line.samples = (int)samples;
    set_bytes(p, (double)node_bytes);
    MPI_Comm_split(p->world, talks ? p->line.local : MPI_UNDEFINED, p->node, &p->line.column);
    MPI_Comm_split(node, talks ? 0 : MPI_UNDEFINED, p->line.local, &p->line.talkers);
}

/* Hosts' names, to the first ranks of nodes; emulated nodes of a host are numbered. */
static void name_nodes(pairs *p)
{
    if (p->line.local != 0) return;
    seat mine = {.rank = p->rank};
    gethostname(mine.host, sizeof mine.host - 1);
    if (bx_run_is_emulated(p->run))
        snprintf(mine.host + strlen(mine.host), sizeof mine.host - strlen(mine.host), "/%d",
                 p->node);
    BX_ALLOC((size_t)p->nodes, p->seats);
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, p->seats, sizeof mine, MPI_BYTE, p->line.column);
}

static int find_switches(pairs *p)
{
    if (!switches_path) return BX_OK;
    if (p->rank == 0) {
        char (*hosts)[BX_PAIRS_NAME] = bx_memory_alloc((size_t)p->nodes, sizeof *hosts);
        for (int i = 0; i < p->nodes; i++) memcpy(hosts[i], p->seats[i].host, BX_PAIRS_NAME);
        bx_pairs_switches_read(p->run, switches_path, hosts, p->nodes, &p->switches);
        free(hosts);
    }
    int code = bx_run_agree(p->run);
    if (code != BX_OK) return code;
    MPI_Bcast(&p->switches.count, 1, MPI_INT, 0, p->world);
    if (p->rank != 0) BX_ALLOC((size_t)p->nodes, p->switches.switch_of);
    MPI_Bcast(p->switches.switch_of, p->nodes, MPI_INT, 0, p->world);
    return BX_OK;
}

/* RESULT.pairs beside RESULT.json, or beside any other name of --output. */
static void name_matrix(pairs *p)
{
    const char *output = bx_run_output(p->run);
    if (!output || p->rank != 0) return;
    size_t length = strlen(output), size = length + sizeof ".pairs";
    if (length > 5 && strcmp(output + length - 5, ".json") == 0) length -= 5;
    p->matrix_path = bx_memory_alloc(size, 1);
    snprintf(p->matrix_path, size, "%.*s.pairs", (int)length, output);
    bx_file_claim(p->run, "output", p->matrix_path, BX_FILE_WRITTEN);
}

static int setup(bx_run *run, void **state)
{
    static pairs the_pairs;
    pairs *p = &the_pairs;
    *state = p;
    p->run = run;
    p->world = bx_run_comm(run);
    p->nodes = bx_run_node_count(run);
    MPI_Comm_rank(p->world, &p->rank);
    p->node = bx_run_node_of(run)[p->rank];
    int mode = bx_run_one_of(run, "mode", mode_name, "thin, serial, concurrent");
    if (mode < 0) return BX_USAGE;
    p->mode = (bx_pairs_mode)mode;
    draw_lines(p);
    name_nodes(p);
    name_matrix(p);
    int code = find_switches(p);
    if (code != BX_OK) return code;

    int most = p->nodes + p->nodes % 2 - 1; /* rounds of all pairs */
    bool sampled = strcmp(bx_run_case(run), "sampled") == 0;
    int64_t wanted = round_limit > 0 ? round_limit : sampled ? SAMPLED_ROUNDS : most;
    p->rounds = wanted > most ? most : (int)wanted;
    if (p->rounds > INT16_MAX) /* as the matrix has them */
        return bx_run_refuse(run, BX_USAGE,
                             "%d rounds: the matrix takes %d; name fewer by --rounds", p->rounds,
                             INT16_MAX);
    size_t records = (size_t)p->rounds * (size_t)(p->nodes / 2) + REPEATS * MEETINGS_AGAIN;
    size_t bytes = (size_t)fmax((double)p->line.words, BX_PAIRS_TRIPS) * WORD;
    double buffers = p->line.local < p->line.talker_count ? 2 * (double)bytes : 0;
    double beside = p->rank == 0 ? 8 * (double)(records * sizeof *p->records) : 0; /* to judge */
    code = bx_comm_buffers_open(run, buffers, beside, "--bytes: two buffers, --rounds: the matrix");
    if (code == BX_OK && cold) code = bx_cold_open(run);
    if (code != BX_OK) return code;
    int most_meetings = p->nodes / 2 > MEETINGS_AGAIN ? p->nodes / 2 : MEETINGS_AGAIN;
    BX_ALLOC((size_t)most_meetings, p->meetings);
    if (p->rank == 0) p->accounts = bx_memory_alloc((size_t)p->nodes, sizeof *p->accounts);
    if (p->line.local >= p->line.talker_count) return BX_OK;
    if (!bx_comm_buffer_create(&p->line.sent, bytes, "sent") ||
        !bx_comm_buffer_create(&p->line.received, bytes, "received"))
        return bx_run_refuse(run, BX_RESOURCES, "--bytes %lld: out of memory",
                             (long long)node_bytes);
    /* The pages are there before anything is timed. */
    bx_comm_buffer_fill(&p->line.sent, 0, p->line.sent.exchanged, bytes);
    bx_comm_buffer_fill(&p->line.received, 0, p->line.received.exchanged, bytes);
    return BX_OK;
}

static bool applicable(void *state, size_t method, char *why, size_t why_size)
{
    const pairs *p = state;
    snprintf(why, why_size, "1 node: a pair needs 2 (--ranks-per-node emulates more)");
    return p->nodes > 1;
}

static void report(void *state, bx_run *run, bx_json *details)
{
    pairs *p = state;
    if (!details) return;
    double bytes = (double)p->line.words * WORD * p->line.talker_count;
    if (bytes < (double)node_bytes)
        bx_run_note(run, "messages of %.0f bytes per node, not %lld, which take more than %g s",
                    bytes, (long long)node_bytes, LONGEST);
    bx_json *json = p->details = bx_json_object(details, "pairs");
    bx_json *names = bx_json_array(json, "nodes");
    for (int i = 0; i < p->nodes; i++) bx_json_text(names, NULL, p->seats[i].host);
    bx_json_text(json, "mode", modes[p->mode]);
    bx_json_number(json, "rounds", p->rounds);
    bx_json_text(json, "switches", NULL);
    if (p->switches.switch_of) {
        bx_json *of = bx_json_array(json, "switches"), *all = bx_json_array(json, "switch_names");
        for (int i = 0; i < p->nodes; i++) bx_json_number(of, NULL, p->switches.switch_of[i]);
        for (int i = 0; i < p->switches.count; i++) bx_json_text(all, NULL, p->switches.names[i]);
    }
    BX_NUMBERS(json, {"bytes", (double)(p->line.words * WORD)},
               {"ranks_per_node", p->line.talker_count});
    const char *folder = p->matrix_path ? strrchr(p->matrix_path, '/') : NULL;
    bx_json_text(json, "file", folder ? folder + 1 : p->matrix_path);
}

/* ---- the matrix file, on rank 0: a launch that dies leaves FILE.partial ---- */

static void begin(void *state, size_t method, size_t point)
{
    pairs *p = state;
    if (!p->matrix_path) return;
    if (p->tournaments == 0) unlink(p->matrix_path); /* of an earlier launch */
    p->matrix = bx_file_open(p->matrix_path);
    if (!p->matrix) p->matrix_error = errno;
    if (p->matrix && p->records) fwrite(p->records, sizeof *p->records, p->record_count, p->matrix);
}

static void keep(pairs *p, bx_pairs_record record)
{
    if (p->record_count == p->record_room) {
        p->record_room = 2 * p->record_room + 1024;
        p->records = bx_memory_grow(p->records, p->record_room, sizeof *p->records);
    }
    p->records[p->record_count++] = record;
    if (p->matrix) fwrite(&record, sizeof record, 1, p->matrix);
}

/* ---- a round ---- */

static void note_wrong(pairs *p, int from, int to, double bytes)
{
    if (bytes == 0) return;
    if (bytes > p->wrong.bytes) {
        p->wrong.bytes = bytes;
        p->wrong.from = from;
        p->wrong.to = to;
    }
    if (p->named++ < MOST_NAMED)
        fprintf(stderr, "bisection-pairs: WRONG content from host %s to host %s: %.0f bytes\n",
                p->seats[from].host, p->seats[to].host, bytes);
}

/* Plays meetings[count], which are in the order of their slots and have a node once at most, and
 * keeps what they measured. */
static void play(pairs *p, int stage, int round, const bx_pairs_meeting *meetings, int count)
{
    account mine = {.values = {NAN, NAN, NAN, NAN}};
    bool first_rank = p->line.local == 0;
    for (int next = 0, slot = 0; next < count; slot++) {
        bx_run_progress(p->run, ++p->parts);
        for (; next < count && meetings[next].slot == slot; next++) {
            bx_pairs_meeting meeting = meetings[next];
            if (p->line.local >= p->line.talker_count) continue;
            if (meeting.a != p->node && meeting.b != p->node) continue;
            const seat *peer = first_rank ? &p->seats[meeting.a + meeting.b - p->node] : NULL;
            if (peer) bx_run_await(p->run, peer->rank, peer->host);
            bx_pairs_measure(&p->line, meeting, (uint64_t)p->parts, &mine.values, &mine.wrong);
            bx_run_await(p->run, -1, NULL);
        }
        bx_run_sleep_barrier(p->world);
    }
    if (!first_rank) return;
    MPI_Gather(&mine, sizeof mine, MPI_BYTE, p->accounts, sizeof mine, MPI_BYTE, 0, p->line.column);
    if (p->rank != 0) return;
    for (int i = 0; i < count; i++) {
        int a = meetings[i].a, b = meetings[i].b;
        if (stage != STAGE_VERIFYING)
            keep(p, (bx_pairs_record){(int16_t)stage, (int16_t)round, a, b, p->accounts[a].values});
        note_wrong(p, b, a, p->accounts[a].wrong);
        note_wrong(p, a, b, p->accounts[b].wrong);
    }
    if (p->matrix) fflush(p->matrix);
}

static void create_schedule(const pairs *p, bx_pairs_schedule *schedule)
{
    bx_pairs_schedule_create(schedule, p->nodes, p->mode, p->switches.switch_of, p->switches.count,
                             bx_random_hash(bx_run_seed(p->run), (uint64_t)p->tournaments));
}

/* The suspects of the tournament whose records begin at `from`, each pair on its own. */
static void play_again(pairs *p, const bx_pairs_schedule *schedule, size_t from)
{
    int count = 0;
    if (p->rank == 0) {
        bx_pairs_summarise(&p->records[from], p->record_count - from, p->nodes,
                           p->switches.switch_of, &p->summary);
        count = bx_pairs_second_stage(schedule, &p->summary, p->meetings);
    }
    MPI_Bcast(&count, 1, MPI_INT, 0, p->world);
    MPI_Bcast(p->meetings, count * (int)sizeof *p->meetings, MPI_BYTE, 0, p->world);
    for (int repeat = 0; repeat < REPEATS; repeat++)
        for (int i = 0; i < count; i++) {
            bx_pairs_meeting meeting = {p->meetings[i].a, p->meetings[i].b, 0};
            play(p, STAGE_AGAIN, repeat, &meeting, 1);
        }
}

static void share_wrong(pairs *p)
{
    if (p->rank == 0 && p->wrong.bytes > 0)
        snprintf(p->wrong.name, sizeof p->wrong.name, "content from %.20s to %.20s",
                 p->seats[p->wrong.from].host, p->seats[p->wrong.to].host);
    MPI_Bcast(&p->wrong, sizeof p->wrong, MPI_BYTE, 0, p->world);
}

static void add_sent(pairs *p, double sign)
{
    bx_traffic traffic[BX_CLASS_COUNT];
    bx_profile_read(traffic);
    p->sent[0] += sign * traffic[BX_P2P].messages;
    p->sent[1] += sign * traffic[BX_P2P].bytes;
}

static void step(void *state, size_t method, size_t point)
{
    pairs *p = state;
    bx_pairs_schedule schedule;
    create_schedule(p, &schedule);
    p->step_from = p->record_count;
    p->sent[0] = p->sent[1] = 0;
    add_sent(p, -1);
    bx_run_await(p->run, -1, NULL);
    for (int round = 0; round < p->rounds; round++) {
        int count = bx_pairs_schedule_round(&schedule, round, p->meetings);
        play(p, STAGE_TOURNAMENT, round, p->meetings, count);
    }
    play_again(p, &schedule, p->step_from);
    add_sent(p, 1);
    p->tournaments++;
    share_wrong(p);
    bx_pairs_schedule_free(&schedule);
}

/* ---- what was asked for, without a look at the schedule and at what measures ---- */

static double asked_meetings(const pairs *p)
{
    double pairs_of_all = p->nodes * (p->nodes - 1.0) / 2, limit = INFINITY;
    if (round_limit > 0)
        limit = (double)round_limit;
    else if (strcmp(bx_run_case(p->run), "sampled") == 0)
        limit = SAMPLED_ROUNDS;
    return fmin(limit * (p->nodes / 2), pairs_of_all);
}

/* Suspects against the nodes that are not suspected, as many as there are up to the limit; and the
 * suspected pairs. */
static double asked_again(const pairs *p)
{
    const bx_pairs_summary *s = &p->summary;
    const int *switch_of = p->switches.switch_of;
    double meetings = s->path_count;
    for (int i = 0; i < s->suspect_count; i++) {
        int node = s->suspects[i], near = switch_of ? -1 : 0, others = p->nodes - 1; /* itself */
        for (int k = 0; k < p->nodes && switch_of; k++) near += switch_of[k] == switch_of[node];
        for (int k = 0; k < s->suspect_count; k++) {
            int other = s->suspects[k];
            others -= other != node;
            near -= switch_of && other != node && switch_of[other] == switch_of[node];
        }
        meetings += switch_of
                        ? fmin(near, BX_PAIRS_PARTNERS) + fmin(others - near, BX_PAIRS_PARTNERS)
                        : fmin(others, 2 * BX_PAIRS_PARTNERS);
    }
    return REPEATS * meetings;
}

/* Messages and bytes of one meeting, of both nodes together. */
static void ask_meeting(const pairs *p, double sent[2])
{
    int *ranks = bx_memory_alloc((size_t)p->nodes, sizeof *ranks), size;
    MPI_Comm_size(p->world, &size);
    double talkers = size;
    for (int r = 0; r < size; r++) ranks[bx_run_node_of(p->run)[r]]++;
    for (int i = 0; i < p->nodes; i++) talkers = fmin(talkers, ranks[i]);
    free(ranks);
    double message = WORD * ceil(p->message / (WORD * talkers)), tries = 1 + (double)samples;
    /* a message there, one back, two at once, each between two tokens of each side */
    sent[0] = tries * talkers * (4 + 12);
    sent[1] = tries * talkers * (4 * message + 12);
    /* two tokens, ten trips there and back */
    sent[0] += tries * (2 + 20);
    sent[1] += tries * (2 + 20 * WORD);
    /* the times of four values, each to the other */
    sent[0] += 2;
    sent[1] += 2 * 4 * (double)samples * sizeof(double);
}

static int by_pair(const void *a, const void *b)
{
    const bx_pairs_record *left = *(bx_pairs_record *const *)a,
                          *right = *(bx_pairs_record *const *)b;
    int low[2] = {left->a < left->b ? left->a : left->b, right->a < right->b ? right->a : right->b};
    int sum[2] = {left->a + left->b, right->a + right->b};
    if (low[0] != low[1]) return low[0] < low[1] ? -1 : 1;
    return (sum[0] > sum[1]) - (sum[0] < sum[1]);
}

/* The meetings of the last step by stage, and how many tournament pairs had met before. */
static void count_meetings(const pairs *p, double stages[2], double *twice)
{
    size_t count = p->record_count - p->step_from, met = 0;
    const bx_pairs_record **pair = bx_memory_alloc(count, sizeof *pair);
    for (size_t i = 0; i < count; i++) {
        const bx_pairs_record *record = &p->records[p->step_from + i];
        stages[record->stage]++;
        if (record->stage == STAGE_TOURNAMENT) pair[met++] = record;
    }
    qsort(pair, met, sizeof *pair, by_pair);
    for (size_t i = 1; i < met; i++) *twice += by_pair(&pair[i - 1], &pair[i]) == 0;
    free(pair);
}

/* Of all ranks in the last step: rates are worth what was sent for them. */
static void check_sent(const pairs *p, bx_verification *verification)
{
    double sums[2] = {0}, meeting[2], stages[2] = {0}, asked[2] = {0}, twice = 0, errors[2] = {0};
    MPI_Reduce(p->sent, sums, 2, MPI_DOUBLE, MPI_SUM, 0, p->world);
    ask_meeting(p, meeting);
    if (p->rank == 0) {
        count_meetings(p, stages, &twice);
        asked[0] = asked_meetings(p);
        asked[1] = asked_again(p);
        for (int i = 0; i < 2; i++) errors[i] = sums[i] - (asked[0] + asked[1]) * meeting[i];
    }
    bx_verification_check(verification, "meetings of the tournament", fabs(stages[0] - asked[0]), 0,
                          "pairs");
    bx_verification_check(verification, "pairs that met twice", twice, 0, "pairs");
    bx_verification_check(verification, "meetings of the second stage", fabs(stages[1] - asked[1]),
                          0, "pairs");
    bx_verification_check_always(verification, "messages sent", fabs(errors[0]), 0, "messages");
    bx_verification_check_always(verification, "bytes sent", fabs(errors[1]), 0, "bytes");
}

static void check_content(const pairs *p, bx_verification *verification)
{
    bx_verification_check_always(verification, "content", p->wrong.bytes, 0, "bytes");
    if (p->wrong.bytes > 0)
        bx_verification_check_always(verification, p->wrong.name, p->wrong.bytes, 0, "bytes");
}

static void inspect(void *state, size_t method, size_t point, bx_verification *verification)
{
    check_content(state, verification);
    check_sent(state, verification);
}

/* The seconds of a message between two nodes, one way, of the median pair of those that met. */
static double typical_seconds(pairs *p, const bx_pairs_meeting *meetings, int count)
{
    double bytes = (double)p->line.words * WORD * p->line.talker_count, seconds = 0;
    if (p->rank == 0) {
        double *all = bx_memory_alloc((size_t)count, sizeof *all);
        for (int i = 0; i < count; i++) all[i] = bytes / p->accounts[meetings[i].a].values.out;
        seconds = bx_statistics_quantile(all, (size_t)count, 0.5);
        free(all);
    }
    MPI_Bcast(&seconds, 1, MPI_DOUBLE, 0, p->world);
    return seconds;
}

/* Shows that content arrives, by the first round, and finds what a message may hold on this network
 * if it is to take LONGEST at most: on a slow one --bytes would take hours. */
static void verify(void *state, size_t method, size_t point, bx_verification *verification)
{
    pairs *p = state;
    bx_pairs_schedule schedule;
    create_schedule(p, &schedule);
    bx_run_await(p->run, -1, NULL);
    int count = bx_pairs_schedule_round(&schedule, 0, p->meetings);
    double most = (double)node_bytes, bytes = fmin(most, PROBE_BYTES), seconds;
    p->line.samples = 1;
    for (;; bytes = fmin(most, bytes * PROBE_GROWTH)) {
        set_bytes(p, bytes);
        play(p, STAGE_VERIFYING, 0, p->meetings, count);
        seconds = typical_seconds(p, p->meetings, count);
        if (bytes >= most || seconds * PROBE_GROWTH > LONGEST) break;
    }
    p->line.samples = (int)samples;
    set_bytes(p, fmin(most, fmax(PROBE_BYTES, bytes * LONGEST / seconds)));
    share_wrong(p);
    bx_pairs_schedule_free(&schedule);
    check_content(p, verification);
}

static void end(void *state, size_t method, size_t point, int64_t steps,
                bx_verification *verification)
{
    pairs *p = state;
    if (p->matrix) p->matrix_error = bx_file_close(p->matrix, p->matrix_path);
    p->matrix = NULL;
    if (p->matrix_error)
        fprintf(stderr, "bisection-pairs: %s: %s\n", p->matrix_path, strerror(p->matrix_error));
    bx_verification_check(verification, "matrix file written", p->matrix_error, 0, "errno");
    if (p->rank != 0) return;
    bx_json_number(p->details, "records", (double)p->record_count);
    const bx_pairs_summary *s = &p->summary;
    bx_run_note(p->run, "latency %.3g us, bandwidth %.4g GB/s one way, %.4g GB/s both ways",
                1e6 * s->latency, 1e-9 * s->bandwidth, 1e-9 * s->both);
    for (int i = 0; i < s->suspect_count; i++)
        bx_run_note(p->run, "measured again: node %s", p->seats[s->suspects[i]].host);
    for (int i = 0; i < s->path_count && i < MOST_NAMED; i++)
        bx_run_note(p->run, "measured again: pair %s and %s", p->seats[s->paths[i].a].host,
                    p->seats[s->paths[i].b].host);
    if (s->path_count > MOST_NAMED)
        bx_run_note(p->run, "measured again: %d more pairs", s->path_count - MOST_NAMED);
}

static void metrics(void *state, size_t method, size_t point, bx_metrics *all)
{
    const pairs *p = state;
    const bx_pairs_summary *s = &p->summary;
    bx_metrics_add(all, "latency", s->latency, "s", "lower");
    bx_metrics_add(all, "bandwidth", s->bandwidth, "B/s", "higher");
    bx_metrics_add(all, "bandwidth_both", s->both, "B/s", "higher");
    bx_metrics_add(all, "worst_latency", s->worst_latency, "ratio", "lower");
    bx_metrics_add(all, "worst_bandwidth", s->worst_bandwidth, "ratio", "higher");
    bx_metrics_add(all, "suspects", s->suspect_count, "nodes", "lower");
    bx_metrics_add(all, "suspect_pairs", s->path_count, "pairs", "lower");
}

static void teardown(void *state)
{
    pairs *p = state;
    if (p->line.column != MPI_COMM_NULL) MPI_Comm_free(&p->line.column);
    if (p->line.talkers != MPI_COMM_NULL) MPI_Comm_free(&p->line.talkers);
    bx_pairs_switches_free(&p->switches);
    bx_comm_buffer_free(&p->line.sent);
    bx_comm_buffer_free(&p->line.received);
    BX_FREE(p->seats, p->meetings, p->accounts, p->records, p->matrix_path);
    bx_cold_close();
}

const bx_kernel *bx_kernel_get(void)
{
    static const bx_choice cases[] = {
        {.name = "sampled", .summary = "16 rounds: each node against 16 others"},
        {.name = "all", .summary = "all rounds: every pair of nodes"},
    };
    static const bx_option options[] = {
        {"mode", "NAME", "what is measured at once: thin, serial or concurrent (see --list)",
         BX_TEXT, 0, 0, &mode_name},
        {"rounds", "N", "rounds of the tournament at most; default: those of the case", BX_INTEGER,
         1, SHRT_MAX, &round_limit},
        {"switches", "FILE", "lines SWITCH HOST HOST ...: who shares a switch", BX_TEXT, 0, 0,
         &switches_path},
        {"bytes", "BYTES",
         "message of a node, shared by its ranks, at most; shorter where it would take more than "
         "20 ms",
         BX_INTEGER, WORD, 1 << 30, &node_bytes},
        {"samples", "N", "samples of each value of a pair, whose median counts", BX_INTEGER, 1,
         1000, &samples},
        BX_COMM_BUFFER_OPTIONS,
        {"cold", NULL, "no cache has what is sent, or where it arrives, in samples of a bandwidth",
         BX_FLAG, 0, 0, &cold},
    };
    static const int64_t sampling[] = {1, 1, 0};
    static const bx_kernel kernel = {
        .name = "pairs",
        .summary = "latency and bandwidth between pairs of nodes, and who is slow",
        .cases = BX_COUNTED(cases),
        .methods = BX_COUNTED(methods),
        .options = BX_COUNTED(options),
        .sampling = sampling,
        .setup = setup,
        .applicable = applicable,
        .report = report,
        .verify = verify,
        .begin = begin,
        .step = step,
        .inspect = inspect,
        .end = end,
        .metrics = metrics,
        .teardown = teardown,
    };
    return &kernel;
}
