/* The timed loops, by OSU's rules. */
#include "osu.h"

#include "profile.h"

enum { TAG_MESSAGE, TAG_RECEIPT };
enum { WINDOW = BX_OSU_WINDOW };

static void send(bx_osu *s, int bytes, int tag)
{
    MPI_Send(s->sent, bytes, MPI_CHAR, s->partner, tag, s->comm);
}

static void receive(bx_osu *s, int bytes, int tag)
{
    MPI_Recv(s->received, bytes, MPI_CHAR, s->partner, tag, s->comm, MPI_STATUS_IGNORE);
}

static void send_window(bx_osu *s, MPI_Request *requests)
{
    for (int m = 0; m < WINDOW; m++)
        MPI_Isend(s->sent, s->bytes, MPI_CHAR, s->partner, TAG_MESSAGE, s->comm, &requests[m]);
}

/* All into one buffer, as OSU does: what arrives is the same in each message. */
static void receive_window(bx_osu *s, MPI_Request *requests)
{
    for (int m = 0; m < WINDOW; m++)
        MPI_Irecv(s->received, s->bytes, MPI_CHAR, s->partner, TAG_MESSAGE, s->comm, &requests[m]);
}

static double loop_latency(bx_osu *s, int iterations)
{
    double start = bx_profile_clock();
    for (int i = 0; i < iterations; i++) {
        if (s->first) send(s, s->bytes, TAG_MESSAGE);
        receive(s, s->bytes, TAG_MESSAGE);
        if (!s->first) send(s, s->bytes, TAG_MESSAGE);
    }
    return (bx_profile_clock() - start) / 2;
}

static double loop_bw(bx_osu *s, int iterations)
{
    double start = bx_profile_clock();
    for (int i = 0; i < iterations; i++)
        if (s->first) {
            send_window(s, s->requests);
            MPI_Waitall(WINDOW, s->requests, MPI_STATUSES_IGNORE);
            receive(s, BX_OSU_RECEIPT, TAG_RECEIPT);
        } else {
            receive_window(s, s->requests);
            MPI_Waitall(WINDOW, s->requests, MPI_STATUSES_IGNORE);
            send(s, BX_OSU_RECEIPT, TAG_RECEIPT);
        }
    return bx_profile_clock() - start;
}

static double loop_bibw(bx_osu *s, int iterations)
{
    MPI_Request *sends = s->requests, *receives = s->requests + WINDOW;
    double start = bx_profile_clock();
    for (int i = 0; i < iterations; i++) {
        receive_window(s, receives);
        send_window(s, sends);
        MPI_Waitall(WINDOW, s->first ? sends : receives, MPI_STATUSES_IGNORE);
        MPI_Waitall(WINDOW, s->first ? receives : sends, MPI_STATUSES_IGNORE);
    }
    return bx_profile_clock() - start;
}

/* A collective call; the barrier after it is not counted. */
#define LOOP(name, call)                                                                           \
    static double loop_##name(bx_osu *s, int iterations)                                           \
    {                                                                                              \
        double seconds = 0;                                                                        \
        for (int i = 0; i < iterations; i++) {                                                     \
            double start = bx_profile_clock();                                                     \
            call;                                                                                  \
            seconds += bx_profile_clock() - start;                                                 \
            MPI_Barrier(s->comm);                                                                  \
        }                                                                                          \
        return seconds;                                                                            \
    }
LOOP(alltoall, MPI_Alltoall(s->sent, s->bytes, MPI_CHAR, s->received, s->bytes, MPI_CHAR, s->comm))
LOOP(allreduce, MPI_Allreduce(s->sent, s->received, s->bytes / (int)sizeof(float), MPI_FLOAT,
                              MPI_SUM, s->comm))

const bx_osu_benchmark bx_osu_latency = {
    .summary = "osu_latency: half of the way there and back between two ranks",
    .wins = "the number that adapters are sold by",
    .calls = "Send Recv",
    .who = BX_OSU_PAIR,
    .messages = 2,
    .loops = {1000, 100},
    .loop = loop_latency,
};

#define WINDOWS(name, of, talkers, sent, under_way)                                                \
    .summary = of, .who = talkers, .rate = true, .messages = sent, .at_once = under_way,           \
    .loops = {100, 20}, .loop = loop_##name

const bx_osu_benchmark bx_osu_bw = {
    WINDOWS(bw, "osu_bw: windows of 64 messages one way between two ranks, then a receipt",
            BX_OSU_PAIR, WINDOW, WINDOW),
    .wins = "what one rank can send",
    .calls = "Isend Irecv Waitall Send Recv",
    .receipt = true,
};

const bx_osu_benchmark bx_osu_bibw = {
    WINDOWS(bibw, "osu_bibw: windows of 64 messages both ways between two ranks", BX_OSU_PAIR,
            2 * WINDOW, 2 * WINDOW),
    .wins = "what one rank can send and receive together",
    .calls = "Isend Irecv Waitall",
};

const bx_osu_benchmark bx_osu_mbw_mr = {
    WINDOWS(bw, "osu_mbw_mr: as bw, from each rank of the first half to one of the second half",
            BX_OSU_PAIRS, WINDOW, WINDOW),
    .wins = "what a node can send, and how many messages",
    .calls = "Isend Irecv Waitall Send Recv",
    .receipt = true,
};

#define COLLECTIVE(name) .who = BX_OSU_ALL, .messages = 1, .loops = {1000, 100}, .loop = loop_##name

const bx_osu_benchmark bx_osu_alltoall = {
    .summary = "osu_alltoall: MPI_Alltoall, the mean over calls and ranks",
    .wins = "the time of a call after a barrier, by buffers that stay in caches",
    .calls = "Alltoall Barrier",
    COLLECTIVE(alltoall),
};

const bx_osu_benchmark bx_osu_allreduce = {
    .summary = "osu_allreduce: MPI_Allreduce of floats, the mean over calls and ranks",
    .wins = "the time of a call after a barrier, by buffers that stay in caches",
    .calls = "Allreduce Barrier",
    COLLECTIVE(allreduce),
};
