/* Messages are looked for between any two pairs. */
#include "method.h"

const bx_method bx_method_testsome = {
    .about = {.name = "testsome",
              .summary = "MPI_Testsome between pairs, MPI_Waitsome when none can run",
              .wins = "where computing hides messages"},
    .run = bx_method_run_some,
};
