/* bisection-metadata: small files, which other ranks look at, list and read. */
#include "metadata.def"
#include "charge.h"
#include "folder.h"
#include "io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Phases of a step; another rank does those that change nothing. */
enum { CREATE, STAT, RENAME, LIST, READ, REMOVE, PHASES };
static const char *const PHASE_NAMES[PHASES] = {"create", "stat", "rename",
                                                "list",   "read", "remove"};
enum { FILE_NAME = PATH_MAX + 64 }; /* of a file in a folder of the launch's */
enum { WORDS = 488 }; /* of a file: 3904 bytes, as the hard mdtest of IO500 has 3901 */

static const bx_choice CASES[] = {
#define CASE(id, text, files) {.name = #id, .summary = text},
    BX_CASES(CASE)};
static const int64_t FILES[] = {
#define COUNT(id, text, files) files,
    BX_CASES(COUNT)};
static const bx_choice METHODS[] = {
#define METHOD(id, text, when) {.name = #id, .summary = text, .wins = when, .calls = BX_IO_CALLS},
    BX_METHODS(METHOD)};
enum { OWN, SHARED, METHOD_COUNT };

static bx_folder_place place = BX_FOLDER_PLACE;
static int64_t files_per_rank;

static const bx_option OPTIONS[] = {
    {"files-per-rank", "N", "small files of each rank (default: the case's)", BX_INTEGER, 1, 1e7,
     &files_per_rank},
    BX_FOLDER_OPTIONS(place),
};

typedef struct {
    bx_io io;
    int64_t files, step; /* of a rank; how many */
    int other;           /* the rank whose files this one looks at */
    char folder[PATH_MAX], others[PATH_MAX];
    uint64_t *mine, *read;        /* [files][WORDS] this rank's, and what it read of the other's */
    int64_t *sizes;               /* [files] of the other's, B; 0: not looked at */
    bool *listed;                 /* [files] of the other's, in the last list */
    double misnamed;              /* names in the list of new files that are wrong or missing */
    double listed_all;            /* names in the other's folder, of any rank */
    bx_series (*seconds)[PHASES]; /* [METHOD_COUNT] on rank 0 */
} metadata_state;

static int setup(bx_run *run, void **address)
{
    if (!bx_charge_has_disks())
        return bx_run_refuse(run, BX_USAGE, "a simulated machine has no disks to write to");
    metadata_state *s = bx_memory_alloc(1, sizeof *s);
    *address = s;
    bx_io_begin(&s->io, run);
    s->files = files_per_rank ? files_per_rank : FILES[bx_run_case_index(run)];
    if (files_per_rank) bx_run_set_case(run, "custom");
    s->other = (s->io.rank + bx_io_apart(&s->io)) % s->io.ranks;
    double bytes = (double)s->files * WORDS * 8;
    int code = bx_resources_claim_memory(run, 2 * bytes, "--files-per-rank");
    if (code != BX_OK) return code;
    /* A file takes a page, its name and its inode another. */
    code = bx_folder_create(run, &place, (double)s->files * s->io.ranks * 8192, s->io.folder,
                            sizeof s->io.folder);
    if (code != BX_OK) return code;
    BX_ALLOC((size_t)s->files * WORDS, s->mine, s->read);
    BX_ALLOC((size_t)s->files, s->sizes);
    BX_ALLOC((size_t)s->files, s->listed);
    BX_ALLOC(METHOD_COUNT, s->seconds);
    return BX_OK;
}

static void teardown(void *address)
{
    metadata_state *s = address;
    if (s->io.rank == 0) bx_folder_remove(s->io.folder);
    for (int m = 0; m < METHOD_COUNT; m++)
        for (int phase = 0; phase < PHASES; phase++) BX_FREE(s->seconds[m][phase].values);
    bx_io_end(&s->io);
    BX_FREE(s->mine, s->read, s->sizes, s->listed, s->seconds, s);
}

/* ---- files ---- */

static uint64_t word_at(const metadata_state *s, int rank, int64_t word)
{
    uint64_t seed = bx_run_seed(s->io.run) + (uint64_t)s->step;
    return bx_random_hash(seed, (uint64_t)(rank * s->files * WORDS + word));
}

static void name_file(char path[FILE_NAME], const char *folder, const char *kind, int rank,
                      int64_t file)
{
    snprintf(path, FILE_NAME, "%s/%s-%d-%lld", folder, kind, rank, (long long)file);
}

/* Whether a method has this rank make and remove its folder. */
static bool owns_folder(const metadata_state *s, size_t method)
{
    return method == OWN || s->io.rank == 0;
}

/* A new folder for each step, which no node has in memory, and new words for its files. */
static void prepare(void *address, size_t method, size_t point)
{
    metadata_state *s = address;
    bx_io *io = &s->io;
    s->step++;
    int number = (int)s->step;
    char own[40];
    snprintf(own, sizeof own, "own-%d", io->rank);
    bx_io_name(io, s->folder, method == OWN ? own : "shared", number);
    snprintf(own, sizeof own, "own-%d", s->other);
    bx_io_name(io, s->others, method == OWN ? own : "shared", number);
    if (io->error == BX_OK && owns_folder(s, method) && mkdir(s->folder, 0777) != 0)
        bx_io_fail(io, s->folder, "created", strerror(errno));
    for (int64_t word = 0; word < s->files * WORDS; word++)
        s->mine[word] = word_at(s, io->rank, word);
    memset(s->read, 0xff, (size_t)s->files * WORDS * sizeof *s->read);
    memset(s->sizes, 0, (size_t)s->files * sizeof *s->sizes);
    s->misnamed = (double)s->files; /* until it is listed */
    MPI_Barrier(io->comm);
}

static void create_file(metadata_state *s, int64_t number)
{
    char path[FILE_NAME];
    const size_t bytes = WORDS * sizeof *s->mine;
    name_file(path, s->folder, "old", s->io.rank, number);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (file < 0) return bx_io_fail(&s->io, path, "created", strerror(errno));
    errno = ENOSPC; /* where less is written than asked for */
    if (write(file, s->mine + number * WORDS, bytes) != (ssize_t)bytes)
        bx_io_fail(&s->io, path, "written", strerror(errno));
    if (close(file) != 0) bx_io_fail(&s->io, path, "closed", strerror(errno));
}

static void stat_file(metadata_state *s, int64_t number)
{
    char path[FILE_NAME];
    struct stat about;
    name_file(path, s->others, "old", s->other, number);
    if (stat(path, &about) == 0) s->sizes[number] = about.st_size;
}

/* A file that is not there any more is a wrong answer, which the checks name. */
static void rename_file(metadata_state *s, int64_t number)
{
    char from[FILE_NAME], to[FILE_NAME];
    name_file(from, s->folder, "old", s->io.rank, number);
    name_file(to, s->folder, "new", s->io.rank, number);
    if (rename(from, to) != 0 && errno != ENOENT)
        bx_io_fail(&s->io, from, "renamed", strerror(errno));
}

static void read_file(metadata_state *s, int64_t number)
{
    char path[FILE_NAME];
    name_file(path, s->others, "new", s->other, number);
    int file = open(path, O_RDONLY);
    if (file < 0) return; /* its words are wrong */
    (void)!read(file, s->read + number * WORDS, WORDS * sizeof *s->read);
    close(file);
}

static void remove_file(metadata_state *s, int64_t number)
{
    char path[FILE_NAME];
    name_file(path, s->folder, "new", s->io.rank, number);
    if (unlink(path) != 0 && errno != ENOENT) bx_io_fail(&s->io, path, "removed", strerror(errno));
}

/* Returns how many names in the other rank's folder are missing, or there against expectation:
 * files of another name, twice, or any where all were removed. */
static double list_folder(metadata_state *s, bool removed)
{
    int64_t wrong = 0, listed = 0, all = 0;
    DIR *folder = opendir(s->others);
    memset(s->listed, 0, (size_t)s->files * sizeof *s->listed);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        int rank;
        long long number;
        char more;
        if (entry->d_name[0] == '.') continue;
        all++;
        bool known = sscanf(entry->d_name, "new-%d-%lld%c", &rank, &number, &more) == 2 &&
                     number >= 0 && number < s->files;
        bool others = known && rank == s->other;
        wrong += removed || !known || (others && s->listed[number]);
        if (!others || s->listed[number]) continue;
        s->listed[number] = true;
        listed++;
    }
    if (!folder) return (double)s->files;
    closedir(folder);
    if (!removed) s->listed_all = (double)all;
    return (double)(wrong + (removed ? 0 : s->files - listed));
}

/* ---- a step ---- */

static void step(void *address, size_t method, size_t point)
{
    metadata_state *s = address;
    void (*const of_file[PHASES])(metadata_state *, int64_t) = {
        create_file, stat_file, rename_file, NULL, read_file, remove_file};
    double start = MPI_Wtime();
    for (int phase = 0; phase < PHASES; phase++) {
        for (int64_t file = 0; of_file[phase] && file < s->files && s->io.error == BX_OK; file++)
            of_file[phase](s, file);
        if (phase == LIST) s->misnamed = list_folder(s, false);
        double seconds = bx_io_end_phase(&s->io, phase, &start);
        if (s->io.rank == 0 && bx_run_is_sampling(s->io.run))
            bx_series_add(&s->seconds[method][phase], seconds);
    }
}

/* A folder of each rank with its files, or one with those of all ranks: some of each, as lost files
 * are another check's.  Folders are still there. */
static void check_folders(const metadata_state *s, size_t method, bx_verification *verification)
{
    double ranks = s->io.ranks, folders = method == OWN ? ranks : 1, files = (double)s->files,
           others = method == OWN ? 0 : files * (ranks - 1);
    double seen = folders;
    if (s->io.rank == 0)
        seen = bx_folder_count(s->io.folder, 1 + (int)folders) - 1; /* and a name */
    bx_verification_count(verification, "folders", seen, folders, folders);
    bx_verification_count(verification, "files in a folder", s->listed_all,
                          others > 0 ? others + 1 : 0, others + files);
}

static void inspect(void *address, size_t method, size_t point, bx_verification *verification)
{
    metadata_state *s = address;
    bool failed = bx_io_failed(&s->io);
    double left = list_folder(s, true), wrong = 0, sizes = 0;
    double near = bx_io_count_near(&s->io, bx_io_is_near(&s->io, s->other));
    for (int64_t word = 0; word < s->files * WORDS; word++)
        wrong += s->read[word] != word_at(s, s->other, word);
    for (int64_t file = 0; file < s->files; file++)
        sizes += s->sizes[file] != (int64_t)(WORDS * sizeof *s->mine);
    bx_verification_check(verification, "sizes", failed ? 0 : sizes, 0, "files");
    bx_verification_check(verification, "names", failed ? 0 : s->misnamed, 0, "files");
    bx_verification_check(verification, "read where it was written", near, 0, "ranks");
    bx_verification_check(verification, "contents", failed ? 0 : wrong, 0, "words");
    bx_verification_check(verification, "removed", failed ? 0 : left, 0, "files");
    if (!failed) check_folders(s, method, verification);
    MPI_Barrier(s->io.comm);
    if (owns_folder(s, method)) bx_folder_remove(s->folder);
}

static void verify(void *address, size_t method, size_t point, bx_verification *verification)
{
    prepare(address, method, point);
    step(address, method, point);
    inspect(address, method, point, verification);
}

/* ---- the result ---- */

static void metrics(void *address, size_t method, size_t point, bx_metrics *list)
{
    metadata_state *s = address;
    for (int phase = 0; phase < PHASES; phase++) {
        char name[40];
        snprintf(name, sizeof name, "operations_%s", PHASE_NAMES[phase]);
        double seconds = bx_series_quantile(&s->seconds[method][phase], 0.5);
        bx_metrics_add(list, name, (double)s->files * s->io.ranks / seconds, "operations/s",
                       "higher");
    }
}

static void report(void *address, bx_run *run, bx_json *details)
{
    const metadata_state *s = address;
    bx_run_note(run, "%lld files of %d bytes of each rank in %s", (long long)s->files, WORDS * 8,
                s->io.folder);
    BX_NUMBERS(details, {"files", s->files});
    BX_TEXTS(details, {"folder", s->io.folder});
}

const bx_kernel *bx_kernel_get(void)
{
    static const char *const ratios[] = {"own_folder=own-folder"};
    static const int64_t sampling[3] = {5, 1, 1};
    static const bx_kernel kernel = {
        .name = "metadata",
        .summary = "small files, which other ranks look at, list and read",
        .cases = BX_COUNTED(CASES),
        .methods = BX_COUNTED(METHODS),
        .options = BX_COUNTED(OPTIONS),
        .phases = PHASE_NAMES,
        .phase_count = PHASES,
        .ratios = BX_COUNTED(ratios),
        .sampling = sampling,
        .setup = setup,
        .verify = verify,
        .prepare = prepare,
        .inspect = inspect,
        .step = step,
        .metrics = metrics,
        .report = report,
        .teardown = teardown,
    };
    return &kernel;
}
