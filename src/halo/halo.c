#include "halo.h"

#include "device.h"

#include "charge.h"

#include <stdlib.h>
#include <string.h>

enum { TAG = 1 };

/* ---- who needs what ---- */

typedef struct {
    int owner;
    int64_t ghost;
} wanted;

static int by_owner(const void *a, const void *b)
{
    const wanted *x = a, *y = b;
    if (x->owner != y->owner) return x->owner < y->owner ? -1 : 1;
    return (x->ghost > y->ghost) - (x->ghost < y->ghost);
}

static int by_rank(const void *a, const void *b)
{
    return ((const bx_peer *)a)->rank - ((const bx_peer *)b)->rank;
}

static void complete_peer(const bx_mesh *mesh, bx_peer *peer)
{
    for (int64_t i = 0; i < peer->count; i++)
        bx_region_add(&peer->region, peer->places[i] * mesh->width, mesh->width);
}

static bx_peer new_peer(int rank, int64_t count)
{
    return (bx_peer){.rank = rank,
                     .count = count,
                     .cells = bx_memory_alloc((size_t)count, sizeof(int64_t)),
                     .places = bx_memory_alloc((size_t)count, sizeof(int64_t))};
}

/* Finds the own cells that a rank has asked for. */
static void find_places(const bx_mesh *mesh, bx_peer *peer)
{
    for (int64_t i = 0; i < peer->count; i++) peer->places[i] = bx_mesh_place(mesh, peer->cells[i]);
    complete_peer(mesh, peer);
}

/* Sorts the ghosts by owner. */
static void find_owners(bx_halo *halo)
{
    const bx_mesh *mesh = halo->mesh;
    wanted *list = bx_memory_alloc((size_t)mesh->ghosts, sizeof *list);
    for (int64_t i = 0; i < mesh->ghosts; i++)
        list[i] = (wanted){bx_mesh_owner(mesh, mesh->ghost_cell[i]), i};
    qsort(list, (size_t)mesh->ghosts, sizeof *list, by_owner);
    for (int64_t first = 0, last = 0; first < mesh->ghosts; first = last) {
        while (last < mesh->ghosts && list[last].owner == list[first].owner) last++;
        bx_peer peer = new_peer(list[first].owner, last - first);
        for (int64_t i = first; i < last; i++) {
            peer.cells[i - first] = mesh->ghost_cell[list[i].ghost];
            peer.places[i - first] = mesh->ghost_at[list[i].ghost];
        }
        complete_peer(mesh, &peer);
        if (peer.rank == halo->rank) {
            halo->own_receives = peer;
            continue;
        }
        halo->receives =
            bx_memory_grow(halo->receives, (size_t)halo->receive_count + 1, sizeof *halo->receives);
        halo->receives[halo->receive_count++] = peer;
    }
    halo->own_sends = new_peer(halo->rank, halo->own_receives.count);
    if (halo->own_sends.count > 0)
        memcpy(halo->own_sends.cells, halo->own_receives.cells,
               (size_t)halo->own_sends.count * sizeof(int64_t));
    find_places(mesh, &halo->own_sends);
    free(list);
}

/* Asks the owners; each learns how many will ask. */
static void ask(bx_halo *halo)
{
    int *asked = bx_memory_alloc((size_t)halo->ranks, sizeof *asked), asking;
    MPI_Request *requests = bx_memory_alloc((size_t)halo->receive_count, sizeof *requests);
    for (int i = 0; i < halo->receive_count; i++) {
        const bx_peer *peer = &halo->receives[i];
        asked[peer->rank] = 1;
        MPI_Isend(peer->cells, (int)peer->count, MPI_INT64_T, peer->rank, TAG, halo->comm,
                  &requests[i]);
    }
    /* not MPI_Reduce_scatter_block, of which libraries make a message per pair of ranks */
    MPI_Allreduce(MPI_IN_PLACE, asked, halo->ranks, MPI_INT, MPI_SUM, halo->comm);
    asking = asked[halo->rank];
    halo->send_count = asking;
    BX_ALLOC((size_t)asking, halo->sends);
    for (int i = 0; i < asking; i++) {
        MPI_Status status;
        int count;
        MPI_Probe(MPI_ANY_SOURCE, TAG, halo->comm, &status);
        MPI_Get_count(&status, MPI_INT64_T, &count);
        halo->sends[i] = new_peer(status.MPI_SOURCE, count);
        MPI_Recv(halo->sends[i].cells, count, MPI_INT64_T, status.MPI_SOURCE, TAG, halo->comm,
                 MPI_STATUS_IGNORE);
        find_places(halo->mesh, &halo->sends[i]);
    }
    qsort(halo->sends, (size_t)asking, sizeof *halo->sends, by_rank);
    MPI_Waitall(halo->receive_count, requests, MPI_STATUSES_IGNORE);
    BX_FREE(asked, requests);
}

static void list_copied(bx_halo *halo)
{
    const bx_peer *own = &halo->own_sends;
    int64_t places = own->count, width = halo->mesh->width;
    for (int i = -1; i < halo->receive_count; i++) {
        const bx_peer *peer = i < 0 ? &halo->own_receives : &halo->receives[i];
        for (int64_t k = 0; k < peer->count; k++)
            bx_region_add(&halo->ghosts, peer->places[k] * width, (int)width);
    }
    for (int i = 0; i < halo->send_count; i++) places += halo->sends[i].count;
    while (places > 0 && halo->read.numbers < halo->ghosts.numbers)
        for (int i = -1; i < halo->send_count; i++) {
            const bx_peer *peer = i < 0 ? own : &halo->sends[i];
            for (int64_t k = 0; k < peer->count; k++)
                if (halo->read.numbers < halo->ghosts.numbers)
                    bx_region_add(&halo->read, peer->places[k] * width, (int)width);
        }
}

/* ---- memory ---- */

static int64_t paged(int64_t numbers)
{
    return (int64_t)(bx_memory_whole_pages((size_t)numbers * sizeof(double)) / sizeof(double));
}

/* Returns the fields of this rank alone, where no window can be had. */
static double *allocate_alone(bx_halo *halo, int64_t numbers)
{
    bx_run *run = halo->mesh->run;
    snprintf(halo->unshared, sizeof halo->unshared, "%s", bx_window_why());
    size_t bytes = (size_t)(numbers + 1) * sizeof(double); /* above 0 */
    double *fields = bx_memory_alloc_pages(bytes);
    if (!fields) bx_run_refuse(run, BX_RESOURCES, "out of memory for %zu bytes of fields", bytes);
    halo->memory.base = fields;
    return fields;
}

/* Returns this rank's part of a window that has the fields of all ranks of its node, so that
 * neighbours can be read; NULL where it cannot be had. */
static double *allocate_shared(bx_halo *halo, int64_t fields)
{
    int size;
    MPI_Comm_size(halo->node, &size);
    int64_t total = 0, mine[2] = {halo->rank, halo->mesh->stride};
    int64_t (*all)[2] = bx_memory_alloc((size_t)size, sizeof *all);
    MPI_Allgather(mine, 2, MPI_INT64_T, all, 2, MPI_INT64_T, halo->node);
    for (int i = 0; i < size; i++) total += paged(fields * all[i][1]);
    bool shared = bx_shared_create(halo->mesh->run, halo->node, (size_t)total * sizeof(double),
                                   &halo->memory);
    double *next = halo->memory.base, *own = NULL;
    bx_peer *peer = halo->receives, *end = peer + halo->receive_count;
    for (int i = 0; shared && i < size; next += paged(fields * all[i++][1])) {
        if (all[i][0] == halo->rank) own = next;
        while (peer < end && peer->rank < all[i][0]) peer++; /* both by ascending rank */
        if (peer == end || peer->rank != all[i][0]) continue;
        peer->fields = next;
        peer->stride = all[i][1];
    }
    free(all);
    return own;
}

/* On a device; the fields that are computed are the buffer's on the host. */
static void allocate_copied(bx_halo *halo, int64_t of_copy)
{
    bx_comm_buffer *buffer = &halo->copied;
    bx_halo_message from = {0, 0, halo->mesh->fields, 0, 0, &halo->own_sends.region}, to = from;
    from.numbers = to.numbers = from.fields * from.region->numbers;
    to.region = &halo->own_receives.region;
    bx_comm_buffer_create(buffer, (size_t)(2 * of_copy + 1) * sizeof(double), "fields");
    snprintf(halo->unshared, sizeof halo->unshared, BX_NO_DEVICE_WINDOW);
    halo->memory.window = MPI_WIN_NULL;
    halo->own_from = bx_halo_index(halo, &from, 1);
    halo->own_to = bx_halo_index(halo, &to, 1);
    for (int copy = 0; copy < 2; copy++) {
        halo->fields[copy] = (double *)buffer->host + copy * of_copy;
        halo->exchanged[copy] = (double *)buffer->exchanged + copy * of_copy;
    }
}

static void allocate(bx_halo *halo)
{
    int64_t of_copy = halo->mesh->fields * halo->mesh->stride;
    if (bx_comm_buffers_are_copied()) {
        allocate_copied(halo, of_copy);
        return;
    }
    double *own = allocate_shared(halo, bx_halo_copies() * halo->mesh->fields);
    if (!own) own = allocate_alone(halo, bx_halo_copies() * of_copy);
    for (int copy = 0; copy < 2; copy++)
        halo->exchanged[copy] = halo->fields[copy] = own + copy % bx_halo_copies() * of_copy;
}

bx_halo *bx_halo_create(const bx_mesh *mesh)
{
    bx_halo *halo = bx_memory_alloc(1, sizeof *halo);
    halo->mesh = mesh;
    halo->comm = bx_run_comm(mesh->run);
    halo->node = bx_run_node_comm(mesh->run);
    halo->node_of = bx_run_node_of(mesh->run);
    halo->rank = mesh->rank;
    halo->ranks = mesh->ranks;
    find_owners(halo);
    ask(halo);
    list_copied(halo);
    allocate(halo);
    return halo;
}

static void free_peer(bx_peer *peer)
{
    BX_FREE(peer->cells, peer->places);
    bx_region_free(&peer->region);
}

void bx_halo_free(bx_halo *halo)
{
    for (int i = 0; i < halo->send_count; i++) free_peer(&halo->sends[i]);
    for (int i = 0; i < halo->receive_count; i++) free_peer(&halo->receives[i]);
    free_peer(&halo->own_sends);
    free_peer(&halo->own_receives);
    bx_region_free(&halo->read);
    bx_region_free(&halo->ghosts);
    BX_FREE(halo->sends, halo->receives);
    if (halo->copied.device) {
        bx_device_release(halo->own_from);
        bx_device_release(halo->own_to);
        bx_comm_buffer_free(&halo->copied);
    }
    if (*halo->unshared) free(halo->memory.base);
    bx_shared_free(&halo->memory);
    free(halo);
}

/* ---- copies ---- */

static void copy_within(const bx_halo *halo, const bx_region *from, const bx_region *to, int copy)
{
    const bx_mesh *mesh = halo->mesh;
    double *fields = halo->fields[copy];
#pragma omp parallel for schedule(static)
    for (int f = 0; f < mesh->fields; f++)
        bx_region_copy(from, &fields[f * mesh->stride], to, &fields[f * mesh->stride]);
    bx_charge(BX_COPY, (double)from->numbers * mesh->fields * (double)sizeof(double), true);
}

void bx_halo_copy_own(const bx_halo *halo, int copy)
{
    double *fields = halo->exchanged[copy];
    size_t numbers = (size_t)halo->own_sends.region.numbers * (size_t)halo->mesh->fields;
    if (halo->copied.device) {
        bx_comm_buffers_move(fields, halo->own_to, fields, halo->own_from, numbers, sizeof *fields);
        if (numbers > 0) bx_comm_buffers_sync();
        return;
    }
    copy_within(halo, &halo->own_sends.region, &halo->own_receives.region, copy);
}

void bx_halo_copy_alone(const bx_halo *halo, int copy)
{
    copy_within(halo, &halo->read, &halo->ghosts, copy);
}

int64_t bx_halo_copied_wrong(const bx_halo *halo, int copy)
{
    int64_t wrong = 0, numbers = halo->read.numbers;
    double *read = bx_memory_alloc((size_t)numbers, sizeof *read);
    double *ghosts = bx_memory_alloc((size_t)halo->ghosts.numbers, sizeof *ghosts);
    for (int f = 0; f < halo->mesh->fields; f++) {
        const double *field = &halo->fields[copy][f * halo->mesh->stride];
        bx_region_pack(&halo->read, field, read);
        bx_region_pack(&halo->ghosts, field, ghosts);
        for (int64_t i = 0; i < numbers; i++) wrong += read[i] != ghosts[i];
    }
    BX_FREE(read, ghosts);
    return wrong;
}

/* The number `n` of a peer's numbers, in the order field, cell, level. */
static double *number_of(const bx_halo *halo, const bx_peer *peer, int copy, int64_t n)
{
    const bx_mesh *mesh = halo->mesh;
    int64_t level = n % mesh->width, cell = n / mesh->width % peer->count;
    int64_t field = n / mesh->width / peer->count;
    return &halo->fields[copy][field * mesh->stride + peer->places[cell] * mesh->width + level];
}

void bx_halo_exchange_plainly(const bx_halo *halo, int copy)
{
    int64_t each = (int64_t)halo->mesh->width * halo->mesh->fields;
    int count = halo->send_count + halo->receive_count;
    double **buffers = bx_memory_alloc((size_t)count, sizeof *buffers);
    MPI_Request *requests = bx_memory_alloc((size_t)count, sizeof *requests);
    for (int i = 0; i < count; i++) {
        bool sends = i < halo->send_count;
        const bx_peer *peer = sends ? &halo->sends[i] : &halo->receives[i - halo->send_count];
        buffers[i] = bx_memory_alloc((size_t)(peer->count * each), sizeof **buffers);
        for (int64_t n = 0; sends && n < peer->count * each; n++)
            buffers[i][n] = *number_of(halo, peer, copy, n);
        if (sends)
            MPI_Isend(buffers[i], (int)(peer->count * each), MPI_DOUBLE, peer->rank, TAG,
                      halo->comm, &requests[i]);
        else
            MPI_Irecv(buffers[i], (int)(peer->count * each), MPI_DOUBLE, peer->rank, TAG,
                      halo->comm, &requests[i]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; i++) {
        const bx_peer *peer = &halo->receives[i - halo->send_count];
        for (int64_t n = 0; i >= halo->send_count && n < peer->count * each; n++)
            *number_of(halo, peer, copy, n) = buffers[i][n];
        free(buffers[i]);
    }
    for (int64_t n = 0; n < halo->own_sends.count * each; n++)
        *number_of(halo, &halo->own_receives, copy, n) =
            *number_of(halo, &halo->own_sends, copy, n);
    BX_FREE(buffers, requests);
}
