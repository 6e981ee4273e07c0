/* A counter for each node, which takes chunks of tasks from the shared one.
 *
 * Word 0 of a node's window counts its draws.  Draw n has place n % chunk of the node's chunk
 * number n / chunk; who draws place 0 fetches the chunk and publishes it in the word of that
 * number. */
#include "tasks.h"

#include "window.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNKS_PER_NODE = 4 }; /* at least, of a build */

typedef struct {
    MPI_Comm node;
    MPI_Win window;
    uint64_t *memory;
    int64_t chunk; /* tasks; the same on all nodes */
    size_t bytes;
} node_counter;

static bool create(bx_tasks *s)
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

static void begin(bx_tasks *s)
{
    node_counter *c = s->self;
    memset(c->memory, 0, c->bytes);
    bx_window_sync(c->node, &c->window, 1);
}

static void destroy(bx_tasks *s)
{
    node_counter *c = s->self;
    bx_window_close(&c->window);
    free(c);
}

static int64_t draw(bx_tasks *s)
{
    const node_counter *c = s->self;
    int64_t number = bx_tasks_fetch_and_add(c->window, 0, 0, 1), first;
    int64_t word = 1 + number / c->chunk, slot = number % c->chunk;
    if (slot == 0) {
        first = c->chunk * bx_tasks_draw_shared(s);
        bx_tasks_fetch_and_add(c->window, 0, word, first + 1);
    } else { /* 0: not published yet */
        while ((first = bx_tasks_fetch_and_add(c->window, 0, word, 0) - 1) < 0) {
        }
    }
    return first + slot;
}

const bx_tasks_method bx_tasks_hierarchical = {
    .about = {.name = "hierarchical",
              .summary = "a counter for each node, which takes chunks of tasks from rank 0's",
              .wins = "a draw leaves the node once for a chunk; chunks are coarser at the end"},
    .asks = true,
    .create = create,
    .begin = begin,
    .destroy = destroy,
    .draw = draw,
};
