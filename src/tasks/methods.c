/* Ways to share out tasks of unequal cost. */
#include "charge.h"
#include "tasks.h"

#include "window.h"

#include <stdlib.h>
#include <string.h>

/* ---- static: tasks dealt beforehand, whatever they cost ---- */

static int64_t draw_dealt(bx_tasks *s) { return s->rank + s->next++ * s->ranks; }

static const bx_tasks_method bx_tasks_static = {
    .about = {.name = "static",
              .summary = "tasks dealt round-robin beforehand",
              .wins =
                  "no messages for numbers; the rank with the longest tasks holds up the others",
              .calls = BX_FOCK_CALLS},
    .dealt = true,
    .draw = draw_dealt,
};

/* ---- a number at a time: all tasks', and for each rank that takes tasks one that is none's ----
 */

static void each(const bx_tasks *s, double *least, double *most)
{
    *least = *most = (double)s->tasks + s->ranks;
}

static void each_of_others(const bx_tasks *s, double *least, double *most)
{
    *least = *most = (double)s->tasks + s->ranks - 1;
}

/* ---- counter: one shared counter, on rank 0, which computes too; counter_progress: on a rank that
 * is spared for it ---- */

/* Returns the value of a word of a rank's part of a window before `added` is added to it. */
static int64_t fetch_and_add(MPI_Win window, int rank, int64_t word, int64_t added)
{
    int64_t before;
    MPI_Fetch_and_op(&added, &before, MPI_INT64_T, rank, (MPI_Aint)word, MPI_SUM, window);
    MPI_Win_flush(rank, window);
    return before;
}

int64_t bx_tasks_draw_shared(bx_tasks *s) { return fetch_and_add(s->window, 0, 0, 1); }

static const bx_tasks_method bx_tasks_counter = {
    .about = {.name = "counter",
              .summary = "a counter on rank 0, which takes tasks too, by MPI_Fetch_and_op",
              .wins = "balanced; where accesses to rank 0 need its help, they wait until its task "
                      "has ended",
              .calls = BX_FOCK_CALLS " Fetch_and_op"},
    .asks = true,
    .taken = each,
    .draw = bx_tasks_draw_shared,
};

static const bx_tasks_method bx_tasks_counter_progress = {
    .about = {.name = "counter_progress",
              .summary = "a counter on rank 0, which takes no tasks and stays in MPI",
              .wins = "no draw waits for a task; costs a rank",
              .calls = BX_FOCK_CALLS " Fetch_and_op"},
    .spare = true,
    .asks = true,
    .taken = each_of_others,
    .draw = bx_tasks_draw_shared,
};

/* ---- manager: a rank that hands out numbers by messages ---- */

enum { ASK, ANSWER, LEAVE };

static int64_t ask(bx_tasks *s)
{
    int64_t number;
    MPI_Send(NULL, 0, MPI_INT64_T, 0, ASK, s->comm);
    MPI_Recv(&number, 1, MPI_INT64_T, 0, ANSWER, s->comm, MPI_STATUS_IGNORE);
    return number;
}

static void leave(bx_tasks *s) { MPI_Send(NULL, 0, MPI_INT64_T, 0, LEAVE, s->comm); }

static void serve(bx_tasks *s)
{
    for (int workers = s->ranks - 1; workers > 0;) {
        MPI_Status from;
        MPI_Recv(NULL, 0, MPI_INT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, s->comm, &from);
        if (from.MPI_TAG == ASK)
            MPI_Send(&s->next, 1, MPI_INT64_T, from.MPI_SOURCE, ANSWER, s->comm);
        s->next += from.MPI_TAG == ASK;
        workers -= from.MPI_TAG == LEAVE;
    }
}

static const bx_tasks_method bx_tasks_manager = {
    .about = {.name = "manager",
              .summary = "rank 0 takes no tasks and answers messages that ask for numbers",
              .wins = "needs no one-sided counter; costs a rank, and a way and back for each task",
              .calls = BX_FOCK_CALLS " Send Recv"},
    .spare = true,
    .asks = true,
    .taken = each_of_others,
    .draw = ask,
    .leave = leave,
    .serve = serve,
};

/* ---- hierarchical: a counter for each node, which takes chunks of tasks from the shared one ----
 *
 * Word 0 of a node's window counts its draws.  Draw n has place n % chunk of the node's chunk
 * number n / chunk; who draws place 0 fetches the chunk and publishes it in the word of that
 * number. */

enum { CHUNKS_PER_NODE = 4 }; /* at least, of a build */

typedef struct {
    MPI_Comm node;
    MPI_Win window;
    uint64_t *memory;
    int64_t chunk; /* tasks; the same on all nodes */
    size_t bytes;
} node_counter;

static bool create_node_counter(bx_tasks *s)
{
    node_counter *c = bx_memory_alloc(1, sizeof *c);
    int of_node, most;
    s->self = c;
    c->node = bx_run_node_comm(s->run);
    MPI_Comm_size(c->node, &of_node);
    MPI_Allreduce(&of_node, &most, 1, MPI_INT, MPI_MAX, s->comm);
    int64_t bound = s->tasks / (CHUNKS_PER_NODE * bx_run_node_count(s->run));
    c->chunk = bound < 1 ? 1 : bound < most ? bound : most;
    c->bytes = sizeof *c->memory * (size_t)(s->draws / c->chunk + s->ranks + 2);
    return bx_window_open(s->run, c->node, &c->memory, c->bytes, &c->window);
}

static void clear_node_counter(bx_tasks *s)
{
    node_counter *c = s->self;
    memset(c->memory, 0, c->bytes);
    bx_window_sync(c->node, &c->window, 1);
}

static void free_node_counter(bx_tasks *s)
{
    node_counter *c = s->self;
    bx_window_close(&c->window);
    free(c);
}

static int64_t draw_of_chunk(bx_tasks *s)
{
    const node_counter *c = s->self;
    int64_t number = fetch_and_add(c->window, 0, 0, 1), first;
    int64_t word = 1 + number / c->chunk, slot = number % c->chunk;
    if (slot == 0) {
        first = c->chunk * bx_tasks_draw_shared(s);
        fetch_and_add(c->window, 0, word, first + 1);
    } else { /* 0: not published yet */
        /* Open MPI 4 (osc/ucx) serves other ranks in calls for messages alone, so that a rank that
         * only asks for its own word waits for ever */
        for (int probed; (first = fetch_and_add(c->window, 0, word, 0) - 1) < 0;)
            if (!BX_IS_SIMULATED)
                MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, s->comm, &probed, MPI_STATUS_IGNORE);
    }
    return first + slot;
}

/* A chunk has a task for each rank of the largest node, and each node has four chunks at least
 * where there are tasks enough.  Of its last chunk a node may need a part. */
static void chunks(const bx_tasks *s, double *least, double *most)
{
    int nodes = bx_run_node_count(s->run), largest = 0;
    int *ranks = bx_memory_alloc((size_t)nodes, sizeof *ranks);
    for (int rank = 0; rank < s->ranks; rank++) {
        int *here = &ranks[bx_run_node_of(s->run)[rank]];
        if (++*here > largest) largest = *here;
    }
    free(ranks);
    double draws = (double)s->tasks + s->ranks,
           chunk = fmax(1, fmin(largest, floor((double)s->tasks / (4 * nodes))));
    *least = ceil(draws / chunk);
    *most = floor((draws + nodes * (chunk - 1)) / chunk);
}

static const bx_tasks_method bx_tasks_hierarchical = {
    .about = {.name = "hierarchical",
              .summary = "a counter for each node, which takes chunks of tasks from rank 0's",
              .wins = "a draw leaves the node once for a chunk; chunks are coarser at the end",
              .calls = BX_FOCK_CALLS " Fetch_and_op Iprobe"},
    .asks = true,
    .taken = chunks,
    .create = create_node_counter,
    .begin = clear_node_counter,
    .destroy = free_node_counter,
    .draw = draw_of_chunk,
};

/* ---- the table ---- */

const bx_tasks_method *const bx_tasks_table[] = {
#define ENTRY(name) &bx_tasks_##name,
    BX_METHODS(ENTRY)};
const size_t bx_tasks_count = sizeof bx_tasks_table / sizeof *bx_tasks_table;
