/* The interior is computed while the halo travels. */
#include "packed.h"

const bx_method bx_method_overlap = {
    .about = {.name = "overlap",
              .summary = "as isend; cells that read no halo are computed while it travels",
              .wins = "where the network moves messages while cores compute"},
    .overlaps = true,
    BX_PACKED,
};
