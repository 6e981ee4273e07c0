/* Fewer messages, which go when the last part is ready. */
#include "method.h"

static void run(bx_messages *m)
{
    bx_messages_post_all(m);
    bx_method_drive(m, bx_method_receive_some);
}

const bx_method bx_method_aggregated = {
    .about = {.name = "aggregated",
              .summary = "as testsome; messages for one rank are joined",
              .wins = "where a node's rate of messages is the limit"},
    .joined = true,
    .run = run,
};
