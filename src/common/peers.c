#include "peers.h"

#include <stdlib.h>
#include <string.h>

static struct {
    MPI_Comm world;
    MPI_Group group; /* of world */
    const int *node_of;
    int comm_key, win_key; /* attributes that hold the peers, freed with their owners */
} all = {.comm_key = MPI_KEYVAL_INVALID, .win_key = MPI_KEYVAL_INVALID};

struct bx_peers_recent bx_peers_recent;

/* A handle may come again as another's once its owner has been freed. */
static void free_peers(bx_peers *peers)
{
    for (int i = 0; i < BX_RECENT; i++) {
        if (bx_peers_recent.comms[i].peers == peers) bx_peers_recent.comms[i].peers = NULL;
        if (bx_peers_recent.wins[i].peers == peers) bx_peers_recent.wins[i].peers = NULL;
    }
    BX_FREE((int *)peers->near, (int *)peers->neighbours);
    if (peers->node != all.node_of) free((int *)peers->node);
    free(peers);
}

static int free_of_comm(MPI_Comm comm, int key, void *value, void *extra)
{
    free_peers(value);
    return MPI_SUCCESS;
}

static int free_of_window(MPI_Win win, int key, void *value, void *extra)
{
    free_peers(value);
    return MPI_SUCCESS;
}

void bx_peers_start(MPI_Comm world, const int *node_of)
{
    all.world = world;
    all.node_of = node_of;
    PMPI_Comm_group(world, &all.group);
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_of_comm, &all.comm_key, NULL);
    PMPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, free_of_window, &all.win_key, NULL);
}

void bx_peers_stop(void)
{
    PMPI_Group_free(&all.group);
    memset(&bx_peers_recent, 0, sizeof bx_peers_recent);
}

/* Returns the nodes [size] of a group's ranks. */
static const int *nodes_of(MPI_Group group, int size)
{
    int *ranks = bx_memory_alloc(2 * (size_t)size, sizeof *ranks), *world = ranks + size,
        *node = bx_memory_alloc((size_t)size, sizeof *node);
    for (int i = 0; i < size; i++) ranks[i] = i;
    PMPI_Group_translate_ranks(group, size, ranks, all.group, world);
    for (int i = 0; i < size; i++) node[i] = world[i] == MPI_UNDEFINED ? -1 : all.node_of[world[i]];
    free(ranks);
    return node;
}

/* The peers of a group; `like_world`: it has the world's ranks in their order. */
static bx_peers *create(MPI_Group group, bool like_world)
{
    bx_peers *peers = bx_memory_alloc(1, sizeof *peers);
    PMPI_Group_size(group, &peers->size);
    PMPI_Group_rank(group, &peers->rank);
    if (peers->rank == MPI_UNDEFINED) peers->rank = -1;
    int me, count = 0;
    PMPI_Group_rank(all.group, &me);
    peers->own_node = all.node_of[me];
    peers->node = like_world ? all.node_of : nodes_of(group, peers->size);
    for (int i = 0; i < peers->size; i++) count += peers->node[i] == peers->own_node;
    int *near = bx_memory_alloc((size_t)count, sizeof *near);
    peers->near = near;
    peers->off_node = peers->size - count;
    for (int i = 0; i < peers->size; i++)
        if (peers->node[i] == peers->own_node) *near++ = i;
    return peers;
}

#ifdef SMPI_H /* which has no graphs */
static void find_neighbours(MPI_Comm comm, bx_peers *peers) {}
#else
static void find_neighbours(MPI_Comm comm, bx_peers *peers)
{
    int in, out, weighted, topology;
    PMPI_Topo_test(comm, &topology);
    if (topology != MPI_DIST_GRAPH) return;
    PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
    int *from = bx_memory_alloc(2 * (size_t)(in + out), sizeof *from), *weights = from + in + out,
        *to = bx_memory_alloc((size_t)out, sizeof *to);
    PMPI_Dist_graph_neighbors(comm, in, from, weights, out, to, weights + in);
    free(from);
    peers->neighbours = to;
    peers->neighbour_count = out;
}
#endif

static bx_peers *create_of_comm(MPI_Comm comm)
{
    MPI_Group group;
    int between, likeness = MPI_UNEQUAL;
    PMPI_Comm_test_inter(comm, &between);
    if (between)
        PMPI_Comm_remote_group(comm, &group);
    else {
        PMPI_Comm_compare(comm, all.world, &likeness);
        PMPI_Comm_group(comm, &group);
    }
    bx_peers *peers = create(group, likeness == MPI_IDENT || likeness == MPI_CONGRUENT);
    PMPI_Group_free(&group);
    if (!between) find_neighbours(comm, peers);
    PMPI_Comm_set_attr(comm, all.comm_key, peers);
    return peers;
}

const bx_peers *bx_peers_find_comm(MPI_Comm comm)
{
    bx_peers *peers;
    int cached;
    PMPI_Comm_get_attr(comm, all.comm_key, &peers, &cached);
    if (!cached) peers = create_of_comm(comm);
    size_t at = BX_PLACE(comm);
    bx_peers_recent.comms[at].comm = comm;
    return bx_peers_recent.comms[at].peers = peers;
}

const bx_peers *bx_peers_find_window(MPI_Win win)
{
    bx_peers *peers;
    int cached;
    PMPI_Win_get_attr(win, all.win_key, &peers, &cached);
    if (!cached) {
        MPI_Group group;
        PMPI_Win_get_group(win, &group);
        peers = create(group, false);
        PMPI_Group_free(&group);
        PMPI_Win_set_attr(win, all.win_key, peers);
    }
    size_t at = BX_PLACE(win);
    bx_peers_recent.wins[at].win = win;
    return bx_peers_recent.wins[at].peers = peers;
}
