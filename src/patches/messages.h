/* The messages of patches: positions to copies, forces back, one message each or joined per rank.
 *
 * A message has a header per patch: a stamp, which depends on patch, step, direction and sender,
 * and the sum of its words.  Both are verified on arrival, in timed steps too. */
#pragma once

#include "objects.h"

/* A patch's positions to one rank, or forces from one. */
typedef struct {
    bx_patch *patch;
    bool forces, outgoing;
    int rank;            /* the other side */
    uint64_t *words;     /* [count] with their header */
    int64_t count, step; /* step: the number of the next one */
    int message;         /* which one carries it */
    int next;            /* of outgoing ones: the next of the same patch; -1: none */
} bx_patch_part;

typedef struct {
    bx_patch_part *list;
    int count;
} bx_patch_parts;

typedef struct {
    int rank, tag, first, parts; /* parts[first .. first + parts - 1] */
    int ready;                   /* of outgoing ones: parts that are in it */
    uint64_t *buffer;            /* [count] the only part's words, or a copy of all parts' */
    int64_t count;
    MPI_Request request;
} bx_message;

typedef struct {
    bx_objects *objects;
    MPI_Comm comm;                 /* a method's own */
    bx_patch_parts sent, received; /* by rank, direction, patch */
    bx_message *sends, *receives;  /* [counts] likewise */
    int send_count, receive_count;
    int *sends_of;         /* [patches of this rank] its first outgoing part; -1: none */
    MPI_Request *requests; /* [receive_count] for methods that post all receives */
    int *indices;          /* [receive_count] of those that have completed */
    MPI_Status *statuses;  /* [receive_count] */
    bool holds;            /* complete messages wait for bx_messages_release */
    int *held, held_count; /* [send_count] */
} bx_messages;

/* Plans the messages of all objects; `joined`: those between two ranks in one.  Collective. */
bx_messages *bx_messages_create(bx_objects *objects, bool joined);
void bx_messages_free(bx_messages *m);
/* Makes `m` the outlet of its objects; the next messages are of step 0.  Local. */
void bx_messages_begin(bx_messages *m);
/* Sends all messages that are held.  Local. */
void bx_messages_release(bx_messages *m);
/* Waits until MPI has sent what it was given.  Local. */
void bx_messages_settle_all(bx_messages *m);
/* Posts the receive of a message: m->requests[index].  Local. */
void bx_messages_post(bx_messages *m, int index);
/* Posts the receives of all messages.  Local. */
void bx_messages_post_all(bx_messages *m);
/* Delivers a message that has arrived in its buffer.  Returns false if it is not the next one of
 * its kind: another must be received.  Local. */
bool bx_messages_deliver(bx_messages *m, int index);
/* The same, and posts the next receive of it before the steps at work end.  Local. */
void bx_messages_take(bx_messages *m, int index);
/* Receives and delivers a message that was probed for.  One that is not of the plan is dropped,
 * counts as wrong, and is named on stderr.  Local. */
void bx_messages_receive(bx_messages *m, const MPI_Status *status);
