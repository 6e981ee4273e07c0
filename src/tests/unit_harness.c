/* Statistics, random numbers and the option parser of the harness. */
#include "profile.h"
#include "run.h"
#include "unit.h"
#include "verification.h"
#include "window.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The kernel whose options are parsed; it is never run. */
static struct {
    int64_t count, grid[3];
    double ratio;
    bool flag;
} set;

const bx_kernel *bx_kernel_get(void)
{
    static const bx_choice cases[] = {{"small", "", NULL, false, NULL},
                                      {"large", "", NULL, false, NULL}};
    static const bx_choice methods[] = {
        {"one", "", "", false, NULL}, {"two", "", "", false, NULL}, {"base", "", "", true, NULL}};
    static const bx_option options[] = {
        {"count", "N", "", BX_INTEGER, 1, 100, &set.count},
        {"ratio", "R", "", BX_REAL, 0, 2, &set.ratio},
        {"grid", "NX,NY,NZ", "", BX_GRID, 1, 64, set.grid},
        {"flag", NULL, "", BX_FLAG, 0, 0, &set.flag},
    };
    static const bx_kernel kernel = {.name = "unit",
                                     .cases = cases,
                                     .case_count = 2,
                                     .methods = methods,
                                     .method_count = 3,
                                     .options = options,
                                     .option_count = 4};
    return &kernel;
}

static int parse(bx_run *run, int argc, const char **argv)
{
    *run = (bx_run){.kernel = bx_kernel_get()};
    optind = 0; /* begin again */
    int code = bx_options_parse(run, argc, (char **)argv);
    free(run->selected);
    return code;
}

/* One argument; expects the code and, when refused, both texts in the message. */
static void expect(const char *argument, int code, const char *named, const char *allowed)
{
    bx_run run;
    const char *argv[] = {"unit", argument, NULL};
    int got = parse(&run, 2, argv);
    bool good = got == code && (code == BX_OK || (strstr(run.message, named) != NULL &&
                                                  strstr(run.message, allowed) != NULL));
    if (!good) fprintf(stderr, "%s: code %d, message '%s'\n", argument, got, run.message);
    CHECK(good);
}

static void test_refusals(void)
{
    static const char *const numbers[] = {"0",   "-1",  "101", "1e9999", "99999999999999999999",
                                          "1.5", "ten", "",    " 5",     "5 ",
                                          "0x5", "nan", "inf"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char argument[64];
        snprintf(argument, sizeof argument, "--count=%s", numbers[i]);
        expect(argument, BX_USAGE, numbers[i], "from 1 to 100");
    }
    expect("--ratio=nan", BX_USAGE, "nan", "from 0 to 2");
    expect("--ratio=1e999", BX_USAGE, "1e999", "from 0 to 2");
    expect("--ratio=2.5", BX_USAGE, "2.5", "from 0 to 2");
    expect("--grid=0,0,0", BX_USAGE, "0,0,0", "from 1 to 64");
    expect("--grid=4,4", BX_USAGE, "4,4", "NX,NY,NZ");
    expect("--grid=4,4,4,4", BX_USAGE, "4,4,4,4", "NX,NY,NZ");
    expect("--grid=4,4,65", BX_USAGE, "65", "from 1 to 64");
    expect("--method=thre", BX_USAGE, "thre", "one, two");
    expect("--method=base", BX_USAGE, "base", "one, two");
    expect("--method=one,", BX_USAGE, "one,", "one, two");
    expect("--method=,", BX_USAGE, ",", "one, two");
    expect("--baseline=one", BX_USAGE, "one", "base");
    expect("--case=medium", BX_USAGE, "medium", "small, large");
    expect("--label=novalue", BX_USAGE, "novalue", "KEY=VALUE");
    expect("--label==x", BX_USAGE, "=x", "KEY=VALUE");
    expect("--repeats=-1", BX_USAGE, "-1", "from 1");
    expect("--ranks-per-node=0", BX_USAGE, "0", "from 1");
    expect("--coun=5", BX_USAGE, "--coun=5", "--help"); /* no abbreviations */
    expect("--nonsense", BX_USAGE, "--nonsense", "--help");
    expect("--flag=5", BX_USAGE, "--flag=5", "--help");
    expect("--count", BX_USAGE, "--count", "needs a value");
    expect("-c", BX_USAGE, "-c", "--help");
    expect("stray", BX_USAGE, "stray", "--name");
    expect("--", BX_USAGE, "--", "--name");
    expect("--count=\t5", BX_USAGE, "5", "from 1 to 100");
    expect("--ratio=\n1", BX_USAGE, "1", "from 0 to 2");
    /* a surrogate, overlong forms, above U+10FFFF, cut off, a lone byte */
    static const char *const no_utf8[] = {"\xed\xa0\x80",     "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf",
                                          "\xf4\x90\x80\x80", "\xe2\x82",     "\xbf"};
    for (size_t i = 0; i < sizeof no_utf8 / sizeof *no_utf8; i++) {
        char argument[64];
        snprintf(argument, sizeof argument, "--label=a=%s", no_utf8[i]);
        expect(argument, BX_USAGE, "argument 1", "UTF-8");
    }
    expect("--label=a=\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf", BX_OK, "", "");
}

static void test_values(void)
{
    bx_run run;
    const char *argv[] = {"unit",   "--count", "100",   "--ratio=0.5", "--grid",     "1,2,64",
                          "--flag", "--case",  "large", "--label",     "lock=a=b=c", NULL};
    CHECK(parse(&run, 11, argv) == BX_OK);
    CHECK(set.count == 100 && set.ratio == 0.5 && set.flag);
    CHECK(set.grid[0] == 1 && set.grid[1] == 2 && set.grid[2] == 64);
    CHECK(strcmp(run.common.case_name, "large") == 0);
    CHECK(run.common.label_count == 1 && strcmp(run.common.labels[0], "lock=a=b=c") == 0);
}

static void test_quantiles(void)
{
    double odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2}, single[] = {7};
    CHECK(bx_statistics_quantile(odd, 3, 0.5) == 3);
    CHECK(bx_statistics_quantile(even, 4, 0.5) == 2.5);
    CHECK(bx_statistics_quantile(even, 4, 0) == 1 && bx_statistics_quantile(even, 4, 1) == 4);
    CHECK(bx_statistics_quantile(even, 4, 0.25) == 1.75); /* type 7 */
    CHECK(bx_statistics_quantile(single, 1, 0.99) == 7);
    CHECK(isnan(bx_statistics_quantile(NULL, 0, 0.5)));
}

/* Published first outputs of splitmix64 from seed 0 (Vigna's reference implementation). */
static void test_hash(void)
{
    CHECK(bx_random_hash(0, 0) == UINT64_C(0xe220a8397b1dcdaf));
    CHECK(bx_random_hash(0, 1) == UINT64_C(0x6e789e6aa1b965f4));
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < 100000; i++) {
        double x = bx_random_uniform(3, i);
        CHECK(x >= -1 && x < 1);
        sum += x;
        squares += x * x;
    }
    CHECK(fabs(sum / 100000) < 0.01 && fabs(squares / 100000 - 1.0 / 3) < 0.01);
}

static void test_checks(void)
{
    bx_verification v = {0};
    bx_verification_check(&v, "a", 1e-3, 1e-2, "x");
    bx_verification_check(&v, "b", NAN, 1, "x");
    bx_verification_check(&v, "a", 5e-3, 1e-1, "x"); /* less, in its tolerance */
    CHECK(v.count == 2);
    CHECK(v.outcomes[0].error == 1e-3 && v.outcomes[0].tolerance == 1e-2);
    CHECK(isinf(v.outcomes[1].error));
    bx_verification_check(&v, "a", 2e-2, 1e-2, "x");
    CHECK(v.outcomes[0].error == 2e-2);
    char name[] = "c";
    bx_verification_check(&v, name, 0, 0, "x");
    name[0] = 'd'; /* what is kept is a copy */
    CHECK(strcmp(v.outcomes[2].name, "c") == 0);
}

/* A verification that compares nothing is wrong, and says why. */
static void test_no_outcome(void)
{
    bx_verification v = {0};
    CHECK(!bx_verification_settle(&v, MPI_COMM_SELF));
    CHECK(v.count == 1 && strstr(v.outcomes[0].unit, "verify must add one"));
    v = (bx_verification){0};
    bx_verification_check(&v, "a", 0, 0, "x");
    CHECK(bx_verification_settle(&v, MPI_COMM_SELF) && v.count == 1);
}

/* Ranks whose tolerances differ come to one verdict, by each rank's own. */
static void test_tolerances_of_ranks(void)
{
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    bool last = rank == ranks - 1;
    bx_verification v = {0};
    bx_verification_check(&v, "within", 0.75 * (rank + 1), rank + 1, "x");
    bx_verification_check(&v, "exact", 0, 0, "x");
    CHECK(bx_verification_settle(&v, MPI_COMM_WORLD));
    CHECK(v.outcomes[0].error == 0.75 * v.outcomes[0].tolerance && v.outcomes[1].error == 0);
    v = (bx_verification){0};
    bx_verification_check(&v, "beyond", last ? 2 : 3, last ? 1 : 10, "x");
    CHECK(!bx_verification_settle(&v, MPI_COMM_WORLD));
    CHECK(v.outcomes[0].error == 2 && v.outcomes[0].tolerance == 1);
    v = (bx_verification){0};
    bx_verification_check(&v, "exact", 1e-3 * rank, last ? 0 : 1, "x");
    CHECK(bx_verification_settle(&v, MPI_COMM_WORLD) == (ranks == 1));
    v = (bx_verification){0};
    bx_verification_check(&v, "wrong", rank, 0, "x");
    CHECK(bx_verification_settle(&v, MPI_COMM_WORLD) == (ranks == 1));
    CHECK(v.outcomes[0].error == ranks - 1);
    v = (bx_verification){0};
    bx_verification_check(&v, "nan", last ? NAN : 0, 1, "x");
    CHECK(!bx_verification_settle(&v, MPI_COMM_WORLD) && isinf(v.outcomes[0].error));
}

double __wrap_bx_host_folder_room(const char *folder);
double __wrap_bx_host_folder_room(const char *folder) { return 16 << 20; }

/* A window that is closed gives its room back; so does one that is left. */
static void test_windows(void)
{
    bx_run run = {.world = MPI_COMM_WORLD, .node = MPI_COMM_WORLD, .host = MPI_COMM_WORLD};
    MPI_Comm_rank(run.world, &run.rank);
    MPI_Comm_size(run.world, &run.size);
    const size_t bytes = (size_t)(5 << 20) / (size_t)run.size;
    for (int i = 0; i < 6; i++) {
        uint64_t *memory = NULL;
        MPI_Win window;
        bx_shared shared;
        bool had = i % 2 ? bx_shared_create(&run, run.node, 5 << 20, &shared)
                         : bx_window_open(&run, run.world, &memory, bytes, &window);
        if (i == 0 && !had && run.size == 1) return; /* Open MPI 4.1 has none for one rank */
        CHECK(had);
        if (!had) fprintf(stderr, "window %d: %s\n", i, bx_window_why());
        if (had && i % 2) bx_shared_free(&shared);
        if (had && i % 2 == 0) bx_window_close(&window);
        if (i < 3) continue;
        CHECK(bx_shared_create(&run, run.node, 5 << 20, &shared));
        bx_window_end();
    }
}

/* The file's content, as far as it fits. */
static const char *content_of(const char *path)
{
    static char text[64];
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[length] = '\0';
    return text;
}

/* A file takes the place of an older one whole, or not at all. */
static void test_files(void)
{
    char folder[] = "/tmp/bx_unit_XXXXXX", path[64], partial[80];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(partial, sizeof partial, "%s.partial", path);
    FILE *file = bx_file_open(path);
    CHECK(file && fputs("older", file) >= 0 && bx_file_close(file, path) == 0);
    CHECK(strcmp(content_of(path), "older") == 0 && access(partial, F_OK) != 0);

    /* a disk that is full after 4 KiB: writes fail, or only closing does */
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN);
    small = (struct rlimit){4096, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    for (int size = 4097; size <= 100000; size += 95903) {
        file = bx_file_open(path);
        for (int i = 0; i < size; i++) fputc('x', file);
        CHECK(bx_file_close(file, path) == EFBIG);
        CHECK(strcmp(content_of(path), "older") == 0 && access(partial, F_OK) != 0);
    }
    setrlimit(RLIMIT_FSIZE, &before);

    CHECK(bx_file_open("/nowhere/file") == NULL && errno == ENOENT);
    char longer[5000];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    CHECK(bx_file_open(longer) == NULL && errno == ENAMETOOLONG);
    CHECK(remove(path) == 0 && rmdir(folder) == 0);
}

static double barriers(const bx_traffic traffic[BX_CLASS_COUNT])
{
    for (int c = 0; c < BX_CLASS_COUNT; c++) CHECK(c == BX_BARRIER || traffic[c].calls == 0);
    return traffic[BX_BARRIER].calls;
}

/* Each call is in one recording; totals and regions are sums over all of them. */
static void test_recordings(void)
{
    static const int node_of[] = {0};
    bx_traffic traffic[BX_CLASS_COUNT];
    bx_profile_start(MPI_COMM_SELF, node_of, false);
    bx_recording *first = bx_recording_create(), *second = bx_recording_create();
    MPI_Barrier(MPI_COMM_SELF);
    bx_profile_into(first);
    MPI_Barrier(MPI_COMM_SELF);
    bx_profile_enter_region("inner");
    MPI_Barrier(MPI_COMM_SELF);
    bx_profile_into(second);
    MPI_Barrier(MPI_COMM_SELF);
    bx_profile_leave_region();
    bx_profile_into(NULL);
    MPI_Barrier(MPI_COMM_SELF);
    bx_recording_read(first, traffic);
    CHECK(barriers(traffic) == 2);
    double seconds = traffic[BX_BARRIER].seconds;
    bx_recording_read(second, traffic);
    CHECK(barriers(traffic) == 1);
    seconds += traffic[BX_BARRIER].seconds;
    bx_profile_read_region("inner", traffic);
    CHECK(barriers(traffic) == 2);
    bx_profile_read_region("outer", traffic);
    CHECK(barriers(traffic) == 0);
    bx_profile_read(traffic);
    CHECK(barriers(traffic) == 5);
    CHECK(traffic[BX_BARRIER].seconds >= seconds);
    CHECK(fabs(traffic[BX_BARRIER].seconds - bx_profile_seconds()) < 1e-9);
    bx_profile_stop();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    test_refusals();
    test_values();
    test_quantiles();
    test_hash();
    test_files();
    test_checks();
    test_no_outcome();
    test_tolerances_of_ranks();
    test_windows();
    test_recordings();
    MPI_Finalize();
    return unit_failures != 0;
}
