/* All messages at once, as most codes do today. */
#include "packed.h"

const bx_method bx_method_isend = {
    .about = {.name = "isend",
              .summary = "MPI_Irecv and MPI_Isend of all neighbours' packed messages at once",
              .wins = "the usual form: nothing waits for anything but its own message"},
    BX_PACKED,
};
