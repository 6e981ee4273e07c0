/* Restart files: what is written is read, bit for bit; what is not right is refused by name. */
#include "bx_restart.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int rank, ranks, failures;
static char why[400];

static void expect(int condition, const char *expectation)
{
    if (condition) return;
    printf("rank %d: failed: %s (%s)\n", rank, expectation, why);
    failures++;
}

static const char *const SCHEMA = "bisection-test-restart-1";
static const double ENERGY = -1234.5678;
enum { COLUMNS = 3, SETS = 3, NUMBERS = 3, MOST = 64 };

/* This rank's rows: none on every third rank. */
static int64_t rows_here(void) { return rank % 3 == 2 ? 0 : 2 + rank; }

typedef struct {
    double reals[MOST * COLUMNS];
    int64_t integers[MOST];
} content;

static void fill(content *all)
{
    memset(all, 0, sizeof *all);
    for (int64_t i = 0; i < rows_here() * COLUMNS; i++)
        all->reals[i] = 1.0 / (double)(i + 1) + rank;
    for (int64_t i = 0; i < rows_here(); i++) all->integers[i] = INT64_MAX - i - 1000 * rank;
    if (rows_here() > 0) {
        const uint64_t signalling = UINT64_C(0x7ff4000000012345);
        all->reals[0] = -0.0;
        all->reals[1] = nan("123");
        memcpy(&all->reals[2], &signalling, sizeof signalling);
        all->integers[0] = INT64_MIN;
    }
}

static void list(content *all, int64_t mine, bx_restart_set sets[SETS])
{
    sets[0] = (bx_restart_set){"reals", COLUMNS, mine, all ? all->reals : NULL};
    sets[1] = (bx_restart_set){"integers", 1, mine, all ? all->integers : NULL};
    sets[2] = (bx_restart_set){"nothing", 2, all ? 0 : -1, NULL};
}

static void number(double must_agree, double energy, bx_restart_number numbers[NUMBERS])
{
    numbers[0] = (bx_restart_number){"number", must_agree, false};
    numbers[1] = (bx_restart_number){"step", 41, true};
    numbers[2] = (bx_restart_number){"energy", energy, true};
}

static int save(const char *path, double must_agree)
{
    content all;
    bx_restart_number numbers[NUMBERS];
    bx_restart_set sets[SETS];
    fill(&all);
    number(must_agree, ENERGY, numbers);
    list(&all, rows_here(), sets);
    return bx_restart_write(&(bx_restart_file){path, SCHEMA, MPI_COMM_WORLD, numbers, NUMBERS, sets,
                                               SETS, why, sizeof why});
}

static void release(bx_restart_set sets[SETS])
{
    for (int i = 0; i < SETS; i++) free(sets[i].rows);
}

static int load(const char *path, const char *schema, double must_agree)
{
    content wanted;
    bx_restart_number numbers[NUMBERS];
    bx_restart_set sets[SETS];
    fill(&wanted);
    number(must_agree, 0, numbers);
    list(NULL, -1, sets);
    int failed = bx_restart_read(&(bx_restart_file){path, schema, MPI_COMM_WORLD, numbers, NUMBERS,
                                                    sets, SETS, why, sizeof why});
    if (!failed) {
        const size_t rows = (size_t)rows_here();
        expect(sets[0].mine == rows_here() && sets[1].mine == rows_here() && sets[2].mine == 0,
               "rows are as many as were written");
        expect(memcmp(&numbers[2].value, &ENERGY, sizeof ENERGY) == 0 &&
                   lround(numbers[1].value) == 41,
               "numbers are carried");
        expect(memcmp(sets[0].rows, wanted.reals, rows * COLUMNS * sizeof *wanted.reals) == 0 &&
                   memcmp(sets[1].rows, wanted.integers, rows * sizeof *wanted.integers) == 0,
               "rows are the same bits");
    }
    release(sets);
    return failed;
}

/* Refused on every rank, for the same reason, which has `path` and `words`. */
static void refused(int failed, const char *path, const char *words, const char *expectation)
{
    char first[sizeof why];
    expect(failed == 1 && strncmp(why, path, strlen(path)) == 0 && strstr(why, words), expectation);
    memcpy(first, why, sizeof why);
    MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
    expect(strcmp(first, why) == 0, "every rank has the same reason");
}

/* Leaves a part of the file, at least its last byte is lost. */
static void cut(const char *path, double share)
{
    struct stat status;
    if (rank == 0 && (stat(path, &status) != 0 ||
                      truncate(path, (off_t)(share * (double)(status.st_size - 1))) != 0))
        expect(0, "the file is cut");
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Changes a bit of the first place that has these 8 bytes. */
static void flip(const char *path, const void *bytes)
{
    char here[8];
    int descriptor = rank == 0 ? open(path, O_RDWR) : -1;
    for (off_t at = 0; descriptor >= 0; at++) {
        if (pread(descriptor, here, sizeof here, at) != (ssize_t)sizeof here) {
            expect(0, "what is to be changed is in the file");
            break;
        }
        if (memcmp(here, bytes, sizeof here) == 0) {
            here[3] ^= 4;
            expect(pwrite(descriptor, here, sizeof here, at) == (ssize_t)sizeof here, "changed");
            break;
        }
    }
    if (descriptor >= 0) close(descriptor);
    MPI_Barrier(MPI_COMM_WORLD);
}

static int there(const char *path)
{
    MPI_Barrier(MPI_COMM_WORLD); /* rank 0 removes */
    return access(path, F_OK) == 0;
}

static void make_folder(const char *path)
{
    if (rank == 0) expect(mkdir(path, 0700) == 0, "a folder is made");
    MPI_Barrier(MPI_COMM_WORLD);
}

static void remove_it(const char *path)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) expect(remove(path) == 0, "what there was is removed");
    MPI_Barrier(MPI_COMM_WORLD);
}

static int read_into(const char *path, MPI_Comm comm, bx_restart_number *numbers, size_t count,
                     bx_restart_set sets[SETS])
{
    return bx_restart_read(
        &(bx_restart_file){path, SCHEMA, comm, numbers, count, sets, SETS, why, sizeof why});
}

static void test_refusals(const char *path)
{
    refused(load(path, SCHEMA, 4), path, "its number is 3, here it is 4", "another number");
    refused(load(path, SCHEMA, 3 + 1e-15), path, "here it is 3.000000000000000", "by a last bit");
    refused(load(path, SCHEMA, NAN), path, "its number is 3, here it is nan", "not a number");
    refused(load(path, "bisection-other-1", 3), path, "is no bisection-other-1", "another schema");

    content all, wanted;
    bx_restart_set sets[SETS];
    bx_restart_number numbers[NUMBERS];
    number(3, 0, numbers);
    fill(&wanted);
    list(&all, rows_here(), sets);
    refused(read_into(path, MPI_COMM_WORLD, numbers, 1, sets), path,
            "has 3 numbers and 3 sets of rows, expected 1 and 3", "other numbers");
    sets[1].columns = 2;
    refused(read_into(path, MPI_COMM_WORLD, numbers, NUMBERS, sets), path,
            "its integers have 1 columns, expected 2", "other columns");
    list(&all, rows_here() + (rank == ranks - 1), sets);
    refused(read_into(path, MPI_COMM_WORLD, numbers, NUMBERS, sets), path,
            "rows of reals on a rank, expected", "rows of which the last rank has fewer");
    list(&all, rows_here(), sets);
    memset(&all, 0, sizeof all);
    expect(read_into(path, MPI_COMM_WORLD, numbers, NUMBERS, sets) == 0, "rows are read");
    expect(memcmp(&all, &wanted, sizeof all) == 0, "rows are read in place, and no more");

    MPI_Comm fewer;
    MPI_Comm_split(MPI_COMM_WORLD, rank < ranks - 1 ? 0 : MPI_UNDEFINED, 0, &fewer);
    if (fewer != MPI_COMM_NULL) {
        char words[40];
        snprintf(words, sizeof words, "of %d ranks, here are %d", ranks, ranks - 1);
        expect(read_into(path, fewer, numbers, NUMBERS, sets) == 1 && strstr(why, words),
               "fewer ranks are refused");
        MPI_Comm_free(&fewer);
    }
}

static void test_damage(const char *path)
{
    const double quarter = 0.25; /* in the second row of rank 0 */
    const int last = (ranks - 1) % 3 == 2 ? ranks - 2 : ranks - 1;
    const int64_t second = INT64_MAX - 1 - 1000 * last; /* of the last rank that has rows */
    const struct {
        const void *bytes;
        const char *words;
    } flips[] = {{&quarter, "is damaged"}, {&second, "is damaged"}, {&ENERGY, "is damaged"}};
    for (size_t i = 0; i < sizeof flips / sizeof *flips; i++) {
        expect(save(path, 3) == 0 && load(path, SCHEMA, 3) == 0, "it is written again");
        flip(path, flips[i].bytes);
        refused(load(path, SCHEMA, 3), path, flips[i].words, "a changed bit is seen");
    }
    for (int less = 1; less < 8; less++) { /* the header's length is a number of words */
        uint64_t bytes = 0;
        expect(save(path, 3) == 0, "it is written again");
        int descriptor = rank == 0 ? open(path, O_RDWR) : -1;
        if (rank == 0) {
            const off_t at = 56; /* behind the schema and the checksum */
            expect(pread(descriptor, &bytes, sizeof bytes, at) == 8 && bytes % 8 == 0, "a length");
            bytes -= (uint64_t)less;
            expect(pwrite(descriptor, &bytes, sizeof bytes, at) == 8, "changed");
            close(descriptor);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        refused(load(path, SCHEMA, 3), path, "is damaged", "another length of the header");
    }
    for (double share = 0; share <= 1; share += 0.125) {
        expect(save(path, 3) == 0, "it is written again");
        cut(path, share);
        refused(load(path, SCHEMA, 3), path, "truncated", "a part of a file is refused");
    }
    if (rank == 0) {
        FILE *file = fopen(path, "w");
        expect(file && fprintf(file, "%4096d", 0) == 4096 && fclose(file) == 0,
               "another's file is made");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    refused(load(path, SCHEMA, 3), path, "is no bisection-test-restart-1", "another's file");
    refused(load("/nowhere/file", SCHEMA, 3), "/nowhere/file", "No such file", "no file");
}

/* Whatever fails, the old file stays, and no part of the new one. */
static void test_failed_writes(const char *path)
{
    char partial[220];
    snprintf(partial, sizeof partial, "%s.partial", path);
    refused(save("/nowhere/file", 3), "/nowhere/file", "No such file", "a folder that is missing");

    expect(save(path, 3) == 0, "it is written again");
    make_folder(partial);
    refused(save(path, 5), path, "cannot be written: Is a directory", "a folder in its place");
    remove_it(partial);
    expect(load(path, SCHEMA, 3) == 0, "the old file survives");

    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 200;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    int failed = save(path, 5);
    setrlimit(RLIMIT_FSIZE, &before);
    refused(failed, path, "cannot be written: File too large", "a file too large");
    expect(!there(partial), "no part is left");
    expect(load(path, SCHEMA, 3) == 0, "the old file survives");
    expect(save(path, 5) == 0 && load(path, SCHEMA, 5) == 0, "and then makes place");

    remove_it(path);
    make_folder(path);
    refused(save(path, 5), path, "Is a directory", "a folder in the file's place");
    expect(!there(partial), "no part is left");
    remove_it(path);
}

/* A folder that the last rank does not see: its working folder is another one. */
static void test_unseen(const char *folder)
{
    char words[80], elsewhere[220];
    if (ranks != 2) return; /* once: a rank looks for ten seconds */
    snprintf(words, sizeof words, "rank %d does not see the file of rank 0: No such file",
             ranks - 1);
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", folder);
    make_folder(elsewhere);
    expect(chdir(rank == ranks - 1 ? elsewhere : folder) == 0, "a folder is entered");
    alarm(120); /* without the file, some MPI libraries wait for ever */
    refused(save("unseen", 3), "unseen.partial", words, "a file that is not seen is not written");
    expect(!there("unseen") && !there("unseen.partial"), "no part is left");
    char path[220];
    snprintf(path, sizeof path, "%s/unseen", folder);
    expect(save(path, 3) == 0, "a file that is seen is written");
    refused(load("unseen", SCHEMA, 3), "unseen", words, "a file that is not seen is not read");
    alarm(0);
    expect(chdir("/") == 0, "the folder is left");
    remove_it(path);
    remove_it(elsewhere);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char path[200], folder[] = "/tmp/unit-restart-XXXXXX";
    if (rank == 0 && !mkdtemp(folder)) perror(folder);
    MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
    snprintf(path, sizeof path, "%s/file", folder);

    expect(save(path, 3) == 0, "it is written");
    expect(load(path, SCHEMA, 3) == 0, "it is read");
    test_refusals(path);
    test_damage(path);
    test_failed_writes(path);
    test_unseen(folder);

    if (rank == 0) expect(rmdir(folder) == 0, "nothing else is left");
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return failures > 0;
}
