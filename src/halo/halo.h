/* The exchange of a halo, as every method sees it: with which rank, which region, how many numbers.
 * A method moves the messages of the list that it is given; it knows no mesh.
 *
 * A box of a rank, in two dimensions, with a halo one cell deep:
 *
 *      c  n  n  n  n  c     n, e, s, w, c: ghosts, copies of cells of other ranks (`receives`), or
 *      w  o  o  o  o  e         of this rank's own, where the grid ends (`own_receives`)
 *      w  o  .  .  o  e     o: own cells of which others have ghosts (`sends`): "boundary"
 *      w  o  o  o  o  e     .: own cells that read no ghost: "interior"
 *      c  s  s  s  s  c     c: corners, of meshes whose stencil reads them */
#pragma once

#include "charge.h"
#include "comm_buffers.h"
#include "mesh.h"
#include "region.h"
#include "window.h"

/* The cells that go to, or come from, one rank, in each field. */
typedef struct {
    int rank;
    int64_t count;
    int64_t *cells, *places; /* [count] numbers in the grid; places in memory */
    bx_region region;
    double *fields; /* of a rank of this node that cells come from, in shared memory: both copies */
    int64_t stride; /* numbers from one of these fields to the next */
} bx_peer;

typedef struct {
    const bx_mesh *mesh;
    MPI_Comm comm, node;
    int rank, ranks;
    const int *node_of;        /* [ranks] */
    bx_peer *sends, *receives; /* [counts] by ascending rank, none of them this rank */
    int send_count, receive_count;
    bx_peer own_sends, own_receives; /* cells of which this rank itself has ghosts */
    /* All places that are read for ghosts of any rank, as often as there are ghosts; all ghosts. */
    bx_region read, ghosts;
    /* The fields of all ranks of the node; without a window, those of this rank alone, and why. */
    bx_shared memory;
    char unshared[160];
    double *fields[2]; /* both copies of this rank's, [fields][mesh->stride] each */
    /* The same where exchanges read and write them: elsewhere with --buffers (comm_buffers.h). */
    double *exchanged[2];
    bx_comm_buffer copied;  /* of both copies; `device` NULL: of the host */
    int *own_from, *own_to; /* on the device: places of own_sends and own_receives in all fields */
} bx_halo;

/* Asks the owners of all ghosts for their cells.  Collective. */
bx_halo *bx_halo_create(const bx_mesh *mesh);
void bx_halo_free(bx_halo *halo);
/* Fills the ghosts that are copies of own cells. */
void bx_halo_copy_own(const bx_halo *halo, int copy);
/* Copies the numbers that are sent into the ghosts: an exchange without another rank. */
void bx_halo_copy_alone(const bx_halo *halo, int copy);
/* Returns how many ghosts differ from what bx_halo_copy_alone has copied there. */
int64_t bx_halo_copied_wrong(const bx_halo *halo, int copy);
/* Fills all ghosts, number by number, by means that no method uses.  Collective. */
void bx_halo_exchange_plainly(const bx_halo *halo, int copy);
/* The ranks of `other`'s node can address each other's memory. */
static inline bool bx_halo_on_node(const bx_halo *halo, int other)
{
    return halo->node_of[other] == halo->node_of[halo->rank];
}

/* The copies of the fields that have memory of their own: of a hollow run both are one. */
static inline int bx_halo_copies(void) { return bx_charge_is_hollow() ? 1 : 2; }

typedef struct bx_halo_message bx_halo_message;
/* Returns the places in all fields of the numbers of `count` messages, on the device. */
int *bx_halo_index(const bx_halo *halo, const bx_halo_message *messages, int count);

/* ---- messages ---- */

/* One message: a region of one field, or of several fields after one another. */
struct bx_halo_message {
    int rank, field, fields;
    int64_t at, numbers; /* in the buffer of packed messages */
    const bx_region *region;
};

/* The messages of one exchange; both sides have those of a pair of ranks in the same order. */
typedef struct {
    const bx_halo *halo;
    bx_halo_message *sends, *receives;    /* [counts] by rank, then field */
    int send_count, receive_count, count; /* count: of both */
    double *sent, *received;              /* packed */
    bx_comm_buffer sending, receiving;    /* which these are, unless they are of the host */
    int *sent_from, *received_to;         /* on the device: their places in all fields */
} bx_halo_messages;

/* A message per peer and field, or with `aggregated` per peer; `between_nodes`: none to ranks of
 * the same node. */
bx_halo_messages *bx_halo_messages_create(const bx_halo *halo, bool aggregated, bool between_nodes);
void bx_halo_messages_free(bx_halo_messages *messages);
/* Packs field `f` of a message; all fields of all messages. */
void bx_halo_messages_pack_field(const bx_halo_messages *messages, int copy,
                                 const bx_halo_message *m, int f);
void bx_halo_messages_pack(const bx_halo_messages *messages, int copy);
void bx_halo_messages_unpack(const bx_halo_messages *messages, int copy);
