/* Restart files: what is written is read, bit for bit; what is not right is refused by name. */
#include "bx_restart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int rank, ranks, failures;

static void expect(int condition, const char *what)
{
    if (condition) return;
    printf("rank %d: failed: %s\n", rank, what);
    failures++;
}

static const char *const SCHEMA = "bisection-test-restart-1";
enum { COLUMNS = 3 };

/* This rank's rows: none on every third rank. */
static int64_t rows_here(void) { return rank % 3 == 2 ? 0 : 2 + rank; }

static void fill(double *reals, int64_t *integers)
{
    for (int64_t i = 0; i < rows_here() * COLUMNS; i++) reals[i] = 1.0 / (double)(i + 1) + rank;
    for (int64_t i = 0; i < rows_here(); i++) integers[i] = INT64_MAX - i - 1000 * rank;
    if (rows_here() > 0) {
        reals[0] = -0.0;
        reals[1] = nan("123");
    }
}

static int save(const char *path, double number, char *why)
{
    double reals[64 * COLUMNS];
    int64_t integers[64];
    fill(reals, integers);
    const bx_restart_number numbers[] = {{"number", number, false}, {"step", 41, true}};
    const bx_restart_set sets[] = {{"reals", false, COLUMNS, rows_here(), reals},
                                   {"integers", true, 1, rows_here(), integers},
                                   {"nothing", false, 2, 0, reals}};
    return bx_restart_write(path, MPI_COMM_WORLD, SCHEMA, numbers, 2, sets, 3, why, 400);
}

static int load(const char *path, const char *schema, double number, char *why)
{
    double reals[64 * COLUMNS], wanted[64 * COLUMNS];
    int64_t integers[64], wanted_integers[64];
    bx_restart_number numbers[] = {{"number", number, false}, {"step", 0, true}};
    bx_restart_set sets[] = {{"reals", false, COLUMNS, -1, reals},
                             {"integers", true, 1, -1, integers},
                             {"nothing", false, 2, -1, reals}};
    if (bx_restart_open(path, MPI_COMM_WORLD, schema, numbers, 2, sets, 3, why, 400)) return 1;
    expect(sets[0].mine == rows_here() && sets[1].mine == rows_here() && sets[2].mine == 0,
           "rows are as many as were written");
    expect(!(numbers[1].value < 41 || numbers[1].value > 41), "a number is carried");
    if (bx_restart_read(path, MPI_COMM_WORLD, sets, 2, why, 400)) return 1;
    fill(wanted, wanted_integers);
    size_t count = (size_t)rows_here();
    expect(memcmp(reals, wanted, count * COLUMNS * sizeof *reals) == 0, "reals are the same bits");
    expect(memcmp(integers, wanted_integers, count * sizeof *integers) == 0, "integers too");
    return 0;
}

/* Rank 0 changes the file; the others wait. */
static void damage(const char *path, long keep, long flip)
{
    if (rank == 0) {
        if (keep > 0 && truncate(path, keep) != 0) perror(path);
        FILE *file = flip > 0 ? fopen(path, "r+b") : NULL;
        if (file) {
            fseek(file, flip, SEEK_SET);
            int byte = fgetc(file);
            fseek(file, flip, SEEK_SET);
            fputc(byte ^ 4, file);
            fclose(file);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Where the first real of rank 0's second row lies in the file. */
static long find_in(const char *path, double value)
{
    long found = -1;
    FILE *file = rank == 0 ? fopen(path, "rb") : NULL;
    if (file) {
        double here;
        for (long at = 0; found < 0 && fseek(file, at, SEEK_SET) == 0; at += 8) {
            if (fread(&here, sizeof here, 1, file) != 1) break;
            if (memcmp(&here, &value, sizeof here) == 0) found = at;
        }
        fclose(file);
    }
    MPI_Bcast(&found, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    return found;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char path[200], why[400] = "";
    char folder[] = "/tmp/unit-restart-XXXXXX";
    if (rank == 0 && !mkdtemp(folder)) perror(folder);
    MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
    snprintf(path, sizeof path, "%s/file.h5", folder);

    expect(save(path, 3, why) == 0, "it is written");
    expect(load(path, SCHEMA, 3, why) == 0, "it is read");
    expect(load(path, SCHEMA, 4, why) == 1 && strstr(why, "its number is 3, here it is 4"),
           "another number is refused by name");
    expect(load(path, "bisection-other-1", 3, why) == 1 && strstr(why, "is no bisection-other-1"),
           "another schema is refused by name");
    damage(path, 0, find_in(path, 0.25));
    expect(load(path, SCHEMA, 3, why) == 1 && strstr(why, "is damaged"), "a changed bit is seen");
    expect(save(path, 3, why) == 0 && load(path, SCHEMA, 3, why) == 0, "it is written again");
    damage(path, 1000, 0);
    expect(load(path, SCHEMA, 3, why) == 1 && strstr(why, "truncated"), "half a file is refused");
    expect(load("/nowhere/file", SCHEMA, 3, why) == 1 && strstr(why, "No such file"),
           "no file is refused");
    expect(save("/nowhere/file", 3, why) == 1 && strstr(why, "/nowhere/file"),
           "a place that cannot be written is told");

    if (rank == 0) {
        remove(path);
        rmdir(folder);
    }
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return failures > 0;
}
