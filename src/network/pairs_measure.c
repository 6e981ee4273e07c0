/* One meeting of two nodes: its latency and bandwidths, and whether every byte arrived. */
#include "pairs.h"

/* In the order in which they are measured: the latency last, when cores that slept run at full
 * clock. */
enum { OUT, BACK, BOTH, LATENCY, KINDS };
enum { TRIPS = BX_PAIRS_TRIPS }; /* there and back, in one sample of the latency */
enum { TAG_READY = 1, TAG_CONTENT, TAG_RECEIPT, TAG_TIMES };

static const uint64_t ODD = UINT64_C(0x9e3779b97f4a7c15); /* words of a message are apart by it */

/* One sample: who sends, who receives, what the words go by. */
typedef struct {
    bx_pairs_line *line;
    int peer;              /* node */
    bool first;            /* mine is the meeting's node a */
    uint64_t mine, theirs; /* keys of the content */
    double wrong;          /* bytes */
} talk;

static uint64_t word(uint64_t key, size_t index) { return key + (index + 1) * ODD; }

/* Both ranks are here. */
static void meet(const talk *t, int tag)
{
    char mine = 0, theirs;
    MPI_Sendrecv(&mine, 1, MPI_CHAR, t->peer, tag, &theirs, 1, MPI_CHAR, t->peer, tag,
                 t->line->column, MPI_STATUS_IGNORE);
}

/* Writes the words that are sent. */
static void make(const talk *t, size_t words)
{
    uint64_t *made = t->line->sent.host;
    for (size_t w = 0; w < words; w++) made[w] = word(t->mine, w);
    bx_comm_buffer_bring(&t->line->sent, t->line->sent.exchanged, words * sizeof *made);
}

/* Compares the words that were received. */
static void compare(talk *t, size_t words)
{
    const uint64_t *arrived = t->line->received.host;
    bx_comm_buffer_fetch(&t->line->received, t->line->received.exchanged, words * sizeof *arrived);
    for (size_t w = 0; w < words; w++)
        if (arrived[w] != word(t->theirs, w))
            t->wrong += bx_verification_wrong_bytes(arrived[w], word(t->theirs, w));
}

static void send_word(const talk *t, size_t i)
{
    bx_pairs_line *line = t->line;
    uint64_t *content = (uint64_t *)line->sent.exchanged + i;
    bx_comm_buffer_stage_out(&line->sent, content, sizeof *content);
    MPI_Send(content, 1, MPI_UINT64_T, t->peer, TAG_CONTENT, line->column);
}

static void receive_word(const talk *t, size_t i)
{
    bx_pairs_line *line = t->line;
    uint64_t *content = (uint64_t *)line->received.exchanged + i;
    MPI_Recv(content, 1, MPI_UINT64_T, t->peer, TAG_CONTENT, line->column, MPI_STATUS_IGNORE);
    bx_comm_buffer_stage_in(&line->received, content, sizeof *content);
}

static double sample_latency(talk *t)
{
    make(t, TRIPS);
    meet(t, TAG_READY);
    double start = MPI_Wtime();
    for (size_t i = 0; i < TRIPS; i++) {
        if (t->first) send_word(t, i);
        receive_word(t, i);
        if (!t->first) send_word(t, i);
    }
    double seconds = MPI_Wtime() - start;
    compare(t, TRIPS);
    return seconds / (2 * TRIPS);
}

/* Ends with a receipt, as a send may be complete long before its message has arrived. */
static double sample_transfer(talk *t, int kind)
{
    bx_pairs_line *line = t->line;
    bool sends = kind == BOTH || (kind == OUT) == t->first,
         receives = kind == BOTH || (kind == OUT) != t->first;
    MPI_Request requests[2];
    int count = 0, words = (int)line->words;
    size_t bytes = line->words * sizeof(uint64_t);
    if (sends) make(t, line->words);
    bx_cold_sweep();
    MPI_Barrier(line->talkers);
    if (receives)
        MPI_Irecv(line->received.exchanged, words, MPI_UINT64_T, t->peer, TAG_CONTENT, line->column,
                  &requests[count++]);
    meet(t, TAG_READY);
    double start = MPI_Wtime();
    if (sends) {
        bx_comm_buffer_stage_out(&line->sent, line->sent.exchanged, bytes);
        MPI_Isend(line->sent.exchanged, words, MPI_UINT64_T, t->peer, TAG_CONTENT, line->column,
                  &requests[count++]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    if (receives) bx_comm_buffer_stage_in(&line->received, line->received.exchanged, bytes);
    meet(t, TAG_RECEIPT);
    double seconds = MPI_Wtime() - start;
    if (receives) compare(t, line->words);
    return seconds;
}

void bx_pairs_measure(bx_pairs_line *line, bx_pairs_meeting meeting, uint64_t moment,
                      bx_pairs_values *values, double *wrong)
{
    int node;
    MPI_Comm_rank(line->column, &node);
    talk t = {.line = line, .first = node == meeting.a, .peer = meeting.a + meeting.b - node};
    size_t samples = (size_t)line->samples, times = KINDS * samples;
    double *mine = bx_memory_alloc(times + 1, sizeof *mine),
           *node_worst = bx_memory_alloc(times + 1, sizeof *node_worst),
           *peer_worst = bx_memory_alloc(times + 1, sizeof *peer_worst);
    for (int kind = OUT; kind < KINDS; kind++) {
        if (kind == LATENCY && line->local != 0) continue;
        /* the first is not timed: MPI may only then connect the two */
        for (size_t i = 0; i <= samples; i++) {
            uint64_t key = bx_random_hash(bx_random_hash(line->seed, moment),
                                          (uint64_t)kind * (samples + 1) + i);
            uint64_t locals = (uint64_t)line->talker_count;
            t.mine = bx_random_hash(key, (uint64_t)node * locals + (uint64_t)line->local);
            t.theirs = bx_random_hash(key, (uint64_t)t.peer * locals + (uint64_t)line->local);
            double seconds = kind == LATENCY ? sample_latency(&t) : sample_transfer(&t, kind);
            if (i > 0) mine[(size_t)kind * samples + i - 1] = seconds;
        }
    }
    MPI_Reduce(mine, node_worst, (int)times, MPI_DOUBLE, MPI_MAX, 0, line->talkers);
    MPI_Reduce(&t.wrong, wrong, 1, MPI_DOUBLE, MPI_SUM, 0, line->talkers);
    if (line->local == 0) {
        MPI_Sendrecv(node_worst, (int)times, MPI_DOUBLE, t.peer, TAG_TIMES, peer_worst, (int)times,
                     MPI_DOUBLE, t.peer, TAG_TIMES, line->column, MPI_STATUS_IGNORE);
        double medians[KINDS];
        for (size_t i = 0; i < times; i++) mine[i] = fmax(node_worst[i], peer_worst[i]);
        for (size_t kind = 0; kind < KINDS; kind++)
            medians[kind] = bx_statistics_quantile(&mine[kind * samples], samples, 0.5);
        double bytes = (double)line->words * sizeof(uint64_t) * line->talker_count;
        *values =
            (bx_pairs_values){(float)medians[LATENCY], (float)(bytes / medians[OUT]),
                              (float)(bytes / medians[BACK]), (float)(2 * bytes / medians[BOTH])};
    }
    BX_FREE(mine, node_worst, peer_worst);
}
