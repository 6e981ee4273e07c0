/* A system's atoms in a restart file; md_restart.f90 says what they are. */
#include <stdint.h>
#include <stdlib.h>

#include "bx_restart.h"

static const char *const SCHEMA = "bisection-md-restart-1";
enum { MUST_AGREE = 17, NUMBERS = MUST_AGREE + 1, REALS = 9, INTEGERS = 5 };

int md_restart_write(const char *path, MPI_Fint comm, const double *identity, double step, int mine,
                     double *reals, int64_t *integers, char *why, int why_size);
int md_restart_read(const char *path, MPI_Fint comm, const double *identity, double *step,
                    int *mine, void **reals, void **integers, char *why, int why_size);

static void describe(const double *identity, double step, bx_restart_number numbers[NUMBERS])
{
    static const char *const names[MUST_AGREE] = {"number of atoms",
                                                  "number of ranks",
                                                  "number of threads",
                                                  "potential",
                                                  "cutoff",
                                                  "skin",
                                                  "timestep in ps",
                                                  "communication style",
                                                  "box vector a, x",
                                                  "box vector a, y",
                                                  "box vector a, z",
                                                  "box vector b, x",
                                                  "box vector b, y",
                                                  "box vector b, z",
                                                  "box vector c, x",
                                                  "box vector c, y",
                                                  "box vector c, z"};
    for (int i = 0; i < MUST_AGREE; i++)
        numbers[i] = (bx_restart_number){names[i], identity[i], false};
    numbers[MUST_AGREE] = (bx_restart_number){"step", step, true};
}

static void list(int mine, double *reals, int64_t *integers, bx_restart_set sets[2])
{
    sets[0] = (bx_restart_set){"atoms", REALS, mine, reals};
    sets[1] = (bx_restart_set){"names", INTEGERS, mine, integers};
}

int md_restart_write(const char *path, MPI_Fint comm, const double *identity, double step, int mine,
                     double *reals, int64_t *integers, char *why, int why_size)
{
    bx_restart_number numbers[NUMBERS];
    bx_restart_set sets[2];
    describe(identity, step, numbers);
    list(mine, reals, integers, sets);
    return bx_restart_write(path, MPI_Comm_f2c(comm), SCHEMA, numbers, NUMBERS, sets, 2, why,
                            (size_t)why_size);
}

/* The caller frees both arrays of rows; there are none after a failure. */
int md_restart_read(const char *path, MPI_Fint comm, const double *identity, double *step,
                    int *mine, void **reals, void **integers, char *why, int why_size)
{
    bx_restart_number numbers[NUMBERS];
    bx_restart_set sets[2];
    describe(identity, 0, numbers);
    list(-1, NULL, NULL, sets);
    int failed = bx_restart_read(path, MPI_Comm_f2c(comm), SCHEMA, numbers, NUMBERS, sets, 2, why,
                                 (size_t)why_size);
    if (failed) {
        free(sets[0].rows);
        free(sets[1].rows);
    }
    *step = numbers[MUST_AGREE].value;
    *mine = (int)sets[0].mine;
    *reals = sets[0].rows;
    *integers = sets[1].rows;
    return failed;
}
