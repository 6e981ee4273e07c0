/* No receive is posted: a message is probed for, then received, as Converse does on MPI. */
#include "method.h"

static void receive(bx_messages *m, bool wait)
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

static void run(bx_messages *m) { bx_method_drive(m, receive); }

const bx_method bx_method_iprobe = {
    .about = {.name = "iprobe",
              .summary = "MPI_Iprobe between pairs, then MPI_Recv, as Charm++ does on MPI",
              .wins = "nowhere: messages wait unexpected; many codes have no other way"},
    .run = run,
};
