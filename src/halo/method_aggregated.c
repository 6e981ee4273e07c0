/* All fields of a neighbour in one message. */
#include "packed.h"

const bx_method bx_method_aggregated = {
    .about = {.name = "aggregated",
              .summary = "as isend, with all fields of a neighbour in one message",
              .wins = "where messages are short: as many times fewer as there are fields"},
    .aggregated = true,
    BX_PACKED,
};
