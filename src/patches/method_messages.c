/* Ways to take messages: all in turn, or between objects that run. */
#include "method.h"

/* ---- static: every rank first waits for all positions, then for all forces ---- */

static void take(bx_messages *m, bool forces)
{
    for (int i = 0; i < m->receive_count; i++) {
        if (m->received.list[m->receives[i].first].forces != forces) continue;
        MPI_Wait(&m->requests[i], MPI_STATUS_IGNORE);
        while (!bx_messages_deliver(m, i)) {
            bx_messages_post(m, i);
            MPI_Wait(&m->requests[i], MPI_STATUS_IGNORE);
        }
    }
}

static void run_static(bx_messages *m)
{
    for (bx_objects *o = m->objects; o->step < o->last_step; o->step++) {
        bx_messages_post_all(m);
        bx_messages_release(m);
        take(m, false);
        while (bx_objects_run(o)) continue;
        bx_messages_release(m);
        take(m, true);
    }
}

static const bx_patches_method bx_patches_method_static = {
    .about = {.name = "static",
              .summary = "all positions, then all pairs, then all forces",
              .wins = "nowhere, if polling is free and the network carries single messages",
              .calls = "Isend Irecv Wait"},
    .holds = true,
};

/* ---- between objects ---- */

void bx_patches_run(const bx_patches_method *method, bx_messages *m)
{
    bx_objects *o = m->objects;
    if (method->holds) run_static(m);
    if (!method->holds && !method->unposted) bx_messages_post_all(m);
    while (o->events_left > 0) {
        bool idle = bx_objects_idle(o);
        if (idle || o->pairs_since_poll >= BX_LOOK_AFTER) {
            method->receive(m, idle);
            o->pairs_since_poll = 0;
        }
        bx_objects_run(o);
    }
}

/* ---- testsome: messages are looked for between any two pairs; aggregated: fewer messages, which
 * go when the last part is ready ---- */

static void receive_some(bx_messages *m, bool wait)
{
    int count;
    if (wait)
        MPI_Waitsome(m->receive_count, m->requests, &count, m->indices, m->statuses);
    else
        MPI_Testsome(m->receive_count, m->requests, &count, m->indices, m->statuses);
    for (int i = 0; count != MPI_UNDEFINED && i < count; i++) bx_messages_take(m, m->indices[i]);
}

static const bx_patches_method bx_patches_method_testsome = {
    .about = {.name = "testsome",
              .summary = "MPI_Testsome between pairs, MPI_Waitsome when none can run",
              .wins = "where computing hides messages",
              .calls = "Isend Irecv Testsome Waitsome Wait"},
    .looks = "Testsome",
    .receive = receive_some,
};

static const bx_patches_method bx_patches_method_aggregated = {
    .about = {.name = "aggregated",
              .summary = "as testsome; messages for one rank are joined",
              .wins = "where a node's rate of messages is the limit",
              .calls = "Isend Irecv Testsome Waitsome Wait"},
    .looks = "Testsome",
    .joined = true,
    .receive = receive_some,
};

/* ---- waitany: one message after the other, all that it enables runs before the next ---- */

static void receive_any(bx_messages *m, bool wait)
{
    int index;
    if (!wait) return;
    MPI_Waitany(m->receive_count, m->requests, &index, MPI_STATUS_IGNORE);
    bx_messages_take(m, index);
}

static const bx_patches_method bx_patches_method_waitany = {
    .about = {.name = "waitany",
              .summary = "MPI_Waitany when no pair can run",
              .wins = "where each look for messages is dear",
              .calls = "Isend Irecv Waitany Wait"},
    .receive = receive_any,
};

/* ---- iprobe: a message is probed for, then received, as Converse does on MPI ---- */

static void receive_probed(bx_messages *m, bool wait)
{
    MPI_Status status;
    int arrived = wait;
    if (wait)
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, m->comm, &status);
    else
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, m->comm, &arrived, &status);
    while (arrived) {
        bx_messages_receive(m, &status);
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, m->comm, &arrived, &status);
    }
}

static const bx_patches_method bx_patches_method_iprobe = {
    .about = {.name = "iprobe",
              .summary = "MPI_Iprobe between pairs, then MPI_Recv, as Charm++ does on MPI",
              .wins = "nowhere: messages wait unexpected; many codes have no other way",
              .calls = "Isend Probe Iprobe Recv Wait"},
    .looks = "Iprobe",
    .unposted = true,
    .receive = receive_probed,
};

/* ---- the table ---- */

const bx_patches_method *const bx_patches_methods[] = {
#define LISTED(name) &bx_patches_method_##name,
    BX_METHODS(LISTED)};
const int bx_patches_method_count = sizeof bx_patches_methods / sizeof *bx_patches_methods;
