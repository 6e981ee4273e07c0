/* Fewer messages, which go when the last part is ready. */
#include "method.h"

const bx_method bx_method_aggregated = {
    .about = {.name = "aggregated",
              .summary = "as testsome; messages for one rank are joined",
              .wins = "where a node's rate of messages is the limit"},
    .joined = true,
    .run = bx_method_run_some,
};
