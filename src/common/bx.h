/* The Bisection kernel harness.
 *
 * A kernel is one executable, `bisection-<name>`.  The harness owns `main`: options, warm-up,
 * repeats, timing, statistics, verification, the JSON result and the exit code.  A kernel supplies
 * the functions of `bx_kernel`; only `step` is timed.
 *
 * Exit codes: 0 verified, 1 wrong answer, 2 usage, 3 resources, 4 no progress; anything else is a
 * crash.  Every function is collective over the world communicator unless it says "local". */
#pragma once

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0)
#error "a NaN must fail verification: build without -ffast-math and -ffinite-math-only"
#endif

#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes, and the codes of refusals. */
enum { BX_OK = 0, BX_WRONG = 1, BX_USAGE = 2, BX_RESOURCES = 3, BX_HANG = 4 };

/* A value of the result, which is JSON.  Opaque to kernels. */
typedef struct bx_json bx_json;
/* One launch: options, communicators, phase clock.  Opaque to kernels. */
typedef struct bx_run bx_run;
/* The outcomes of one method's verification.  Opaque to kernels. */
typedef struct bx_verification bx_verification;
/* The metrics of one method at one point.  Opaque to kernels. */
typedef struct bx_metrics bx_metrics;
/* What a block of samples of one method has shown of its way.  Opaque to kernels. */
typedef struct bx_shown bx_shown;

/* A case or a method: a name that the user can give. */
typedef struct {
    const char *name;
    const char *summary; /* one sentence for --list */
    const char *wins;    /* what a method trades and when it wins; NULL for cases */
    bool baseline;       /* a yardstick measured beside the methods (--baseline), not under test */
    /* A group of methods, which --method takes by its name too; or NULL.  ratio_best compares a
     * method with the fastest of its family. */
    const char *family;
    /* Of a method under test: the routines of MPI that its steps call, without MPI_, as "Isend
     * Irecv Waitall"; a step that calls another is wrong.  "": none.  What libraries call in
     * regions of their own is left out. */
    const char *calls;
} bx_choice;

/* The type of an option's value: bool, int64_t, double, const char *, int64_t[3]. */
typedef enum { BX_FLAG, BX_INTEGER, BX_REAL, BX_TEXT, BX_GRID } bx_option_type;

/* One long option, --name METAVAR. */
typedef struct {
    const char *name, *metavar, *help;
    bx_option_type type;
    double low, high; /* integers, reals and grids ("NX,NY,NZ") outside [low, high] are refused */
    void *value;      /* the variable that the option sets; holds the default before */
} bx_option;

/* How the reason begins why a method does not run that needs a library which was not linked. */
#define BX_BUILT_WITHOUT "built without "

/* Returns whether methods run that need MPI 4's persistent collectives and partitioned messages; if
 * not, writes the reason.  Local. */
bool bx_mpi_4_applies(char *why, size_t why_size);

/* A list for a bx_kernel's member, and its length for the next one: .cases = BX_COUNTED(cases) */
#define BX_COUNTED(list) list, sizeof(list) / sizeof *(list)

/* A kernel.  Every function takes the `state` that setup has made; `method` is an index into
 * `methods`, `point` one from 0 to point_count() - 1.  tests/first_kernel.c and .f90 are
 * small ones; bx_kernel_t of bx_harness.f90 has the same members. */
typedef struct bx_kernel {
    /* ---- needed ---- */
    const char *name;
    const char *summary;
    const bx_choice *cases; /* [case_count]; the first is the default */
    size_t case_count;
    const bx_choice *methods; /* [method_count] */
    size_t method_count;
    /* Allocates everything and sets *state.  Returns BX_OK, or the value of bx_run_refuse.  A rank
     * that can fail alone calls bx_run_agree before the next collective call. */
    int (*setup)(bx_run *run, void **state);
    /* Verifies one method by independent means, before any timing.  Must add an outcome by
     * bx_verification_check: a method without any is wrong.  May call bx_run_refuse (a file cannot
     * be written, for example), which ends the launch. */
    void (*verify)(void *state, size_t method, size_t point, bx_verification *verification);
    /* The timed work. */
    void (*step)(void *state, size_t method, size_t point);

    /* All that follows may be NULL. */

    /* ---- tables ---- */
    const bx_option *options; /* [option_count] the kernel's own, beside the common ones */
    size_t option_count;
    const char *const *phases; /* [phase_count] names for bx_run_lap; parts of a sample's time */
    size_t phase_count;
    const char *const *phase_groups; /* [phase_count] "user" or "library"; NULL: all are user's */
    /* [ratio_count] methods or baselines that every method is compared with, as ratio_NAME;
     * "ALIAS=NAME" gives ratio_ALIAS. */
    const char *const *ratios;
    size_t ratio_count;
    const char *baselines; /* measured unless --baseline says otherwise: "a,b"; NULL for none */
    const char *excluded_family; /* a family that `--method all` leaves out; NULL: none */
    const int64_t *sampling;     /* [3] defaults of --repeats, --block, --warmup; NULL: 10, 5, 1 */

    /* ---- which methods and points there are ---- */
    /* Fills the parts of the kernel's tables that depend on the number of ranks; once, before the
     * options are read.  NULL: none do. */
    void (*arrange)(int ranks);
    /* Returns whether a method can run here, the same on every rank; if not, writes the reason to
     * `why`, at most why_size bytes; it begins with BX_BUILT_WITHOUT where a library was not there
     * to be linked.  NULL: every method can. */
    bool (*applicable)(void *state, size_t method, char *why, size_t why_size);
    /* Returns whether `ratios` compare a method with another.  NULL: all methods. */
    bool (*comparable)(size_t method, size_t other);
    /* Returns the number of points of a sweep, of message sizes for example.  NULL: one point. */
    size_t (*point_count)(void *state);
    /* Adds numbers that describe a point to the object `description`.  NULL: without a sweep. */
    void (*point)(void *state, size_t point, bx_json *description);
    /* Returns whether a point is one of the method's; the same on every rank.  NULL: every is. */
    bool (*has_point)(void *state, size_t method, size_t point);

    /* ---- around the steps of a block, untimed ---- */
    /* Makes fresh input for a block of steps.  NULL: nothing to do. */
    void (*begin)(void *state, size_t method, size_t point);
    /* Changes the input before each step.  NULL: nothing to do. */
    void (*prepare)(void *state, size_t method, size_t point);
    /* Verifies what a step has left behind, where later steps of the block overwrite it; after each
     * step, with the same checks in the same order on every rank.  NULL: none. */
    void (*inspect)(void *state, size_t method, size_t point, bx_verification *verification);
    /* Verifies the state after a block of `steps` steps.  NULL: nothing to do. */
    void (*end)(void *state, size_t method, size_t point, int64_t steps,
                bx_verification *verification);
    /* Compares what the samples of a block have shown with what the method's name promises, by
     * bx_verification_count and bx_verification_sent, with the same names in the same order on
     * every rank.  NULL: the calls of MPI (bx_choice.calls) say it all. */
    void (*promise)(void *state, size_t method, size_t point, const bx_shown *shown,
                    bx_verification *verification);

    /* ---- the result ---- */
    /* Returns the work items in one step, for example transforms: the metric `time` is seconds per
     * item.  NULL: 1. */
    double (*items)(void *state, size_t method, size_t point);
    /* Adds the kernel's own metrics of a method by bx_metrics_add; on rank 0, local. NULL: none. */
    void (*metrics)(void *state, size_t method, size_t point, bx_metrics *metrics);
    /* Adds the kernel's entries to the result's "details" object, and lines by bx_run_note.  Runs
     * on every rank before the measurement; `details` is NULL on all but rank 0, where the kernel
     * may add to it until the end of the last block.  NULL: none. */
    void (*report)(void *state, bx_run *run, bx_json *details);
    /* Frees the state.  NULL: nothing to free. */
    void (*teardown)(void *state);
} bx_kernel;

/* Returns the kernel, which lives as long as the program.  Each executable defines this function;
 * Fortran kernels through bind(C).  Local. */
const bx_kernel *bx_kernel_get(void);

/* ---- facts about the run (all local) ---- */

/* The world of the kernel. */
MPI_Comm bx_run_comm(const bx_run *run);
/* This rank, and the number of ranks, in it. */
int bx_run_rank(const bx_run *run);
int bx_run_ranks(const bx_run *run);
/* The ranks of this rank's node, discovered or emulated (--ranks-per-node). */
MPI_Comm bx_run_node_comm(const bx_run *run);
/* [ranks] the node of each rank, numbered from 0 in the order of their first ranks; owned by the
 * run. */
const int *bx_run_node_of(const bx_run *run);
int bx_run_node_count(const bx_run *run);
/* Threads per rank, the same on every rank. */
int bx_run_threads(const bx_run *run);
/* The value of --seed. */
uint64_t bx_run_seed(const bx_run *run);
/* The name of the case; owned by the run. */
const char *bx_run_case(const bx_run *run);
/* Its index in the kernel's cases; 0 where it is not among them. */
size_t bx_run_case_index(const bx_run *run);
/* Whether --case names the case; otherwise it is the kernel's default. */
bool bx_run_case_is_given(const bx_run *run);
/* Renames the case in the result, where options have changed it.  `name` is not copied. */
void bx_run_set_case(bx_run *run, const char *name);
/* Whether --method or --baseline names `method`. */
bool bx_run_is_selected(const bx_run *run, const char *method);
/* The value of --output; NULL: none.  Owned by the run. */
const char *bx_run_output(const bx_run *run);
/* Whether nodes are those of --ranks-per-node, not the machine's. */
bool bx_run_is_emulated(const bx_run *run);
/* Steps of a block, warm-up included. */
int64_t bx_run_block_steps(const bx_run *run);
/* Whether the step is a sample: neither verified alone nor a warm-up. */
bool bx_run_is_sampling(const bx_run *run);

/* ---- refusals: local; bx_run_agree and the end of setup collect them over the ranks ---- */

/* Notes that this rank cannot run, with an exit code and a line (printf's format, at most 511
 * characters) that names the value and what is allowed.  Only the first refusal of a rank counts.
 * Returns the code of that first refusal. */
int bx_run_refuse(bx_run *run, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Returns the index of an option's value in `names`, "one, two, three"; refuses any other with
 * BX_USAGE, and returns -1.  Local. */
int bx_run_one_of(bx_run *run, const char *option, const char *value, const char *names);
/* Returns the largest code of any rank's refusal, or BX_OK, on every rank.  Collective. */
int bx_run_agree(bx_run *run);

/* ---- inside step: the phase clock (local) ---- */

/* Adds the time since the last lap, or since the step's start, to a phase: an index into
 * bx_kernel.phases. */
void bx_run_lap(bx_run *run, size_t phase);

/* ---- inside verify and step: progress, for steps longer than --progress-timeout ---- */

/* Notes that a part of a step has finished, and the number of the next, from 1.  Local. */
void bx_run_progress(bx_run *run, int64_t part);
/* Records the rank of the world that this rank waits for, and its host, a text that must live as
 * long as the run; the report of a hang prints them.  -1, NULL: no other rank alone.  Local. */
void bx_run_await(bx_run *run, int rank, const char *host);
/* Completes a request.  Polls with growing pauses (up to 0.3 ms), so that waiting ranks do not take
 * cores or memory bandwidth from ranks that are timed.  Local. */
void bx_run_sleep_until(MPI_Request *request);
/* A barrier in which ranks sleep, as above; not in the profile.  Collective over `comm`. */
void bx_run_sleep_barrier(MPI_Comm comm);

/* ---- inside verify, end and inspect ---- */

/* Adds one outcome.  The `error` of no rank may exceed its `tolerance`; an error that is not finite
 * fails.  Of several outcomes of one name the worst counts.  `name` has at most 63
 * characters, `unit` (of error and tolerance) at most 31; both are copied.  Local, but every rank
 * must add the same names in the same order. */
void bx_verification_check(bx_verification *verification, const char *name, double error,
                           double tolerance, const char *unit);

/* The same, also in dry runs, which skip arithmetic alone: of what was sent or copied. */
void bx_verification_check_always(bx_verification *verification, const char *name, double error,
                                  double tolerance, const char *unit);

/* Adds one count, "files" for example: `shown` must be at least `least` and at most `most`, what
 * the method's name promises in terms that do not depend on how it is done.  INFINITY: no upper
 * limit. Counts hold in dry runs too.  Otherwise as bx_verification_check. */
void bx_verification_count(bx_verification *verification, const char *name, double shown,
                           double least, double most);

/* Returns whether every outcome so far is within its tolerance, on all ranks.  Collective. */
bool bx_verification_passed(const bx_run *run, const bx_verification *verification);

/* Returns the larger of two errors, infinity if `error` is a NaN (fmax would drop it).  Local. */
static inline double bx_verification_worse(double largest, double error)
{
    if (error <= largest) return largest;
    return isnan(error) ? INFINITY : error;
}

/* Returns how many bytes of two words differ.  Local. */
static inline double bx_verification_wrong_bytes(uint64_t got, uint64_t expected)
{
    int wrong = 0;
    for (uint64_t d = got ^ expected; d != 0; d >>= 8) wrong += (d & 0xff) != 0;
    return wrong;
}

/* ---- inside promise: what this rank has shown, per sample (local) ---- */

/* Returns the calls of a routine of MPI, "Isend"; NULL: of any.  Those in a region (see below), or
 * where `region` is NULL, outside of regions.  */
double bx_shown_calls(const bx_shown *shown, const char *routine, const char *region);
/* Reads what was sent outside of regions, as bx_profile_read_sum. */
void bx_shown_sent(const bx_shown *shown, double sent[4]);
/* Adds four counts: what was sent, of this rank or of all, and what was promised. */
void bx_verification_sent(bx_verification *verification, const double sent[4],
                          const double promised[4]);
/* Returns the largest number of requests that were under way at once, of calls from C. */
double bx_shown_requests(const bx_shown *shown);
/* Returns the laps of a phase (bx_run_lap) all along which a request was under way, of calls from
 * C. */
double bx_shown_laps(const bx_shown *shown, size_t phase);

/* ---- inside metrics (local) ---- */

/* Adds one metric; `better` is "lower" or "higher".  A value that is not finite becomes null in the
 * result. */
void bx_metrics_add(bx_metrics *metrics, const char *name, double value, const char *unit,
                    const char *better);
/* Adds a ratio of times, with its quartiles: the median over the rounds of the median time of a
 * round's steps of `method` (NULL: the metrics' own) over that of `base`'s in the same round; of
 * `phase` of those steps alone, an index into bx_kernel.phases, unless it is -1.  The time of each
 * step is that of its slowest rank.  Adds nothing where one of both was not measured. */
void bx_metrics_add_ratio(bx_metrics *metrics, const char *name, const char *better,
                          const char *method, int phase, const char *base);
/* Returns the value of a metric that is already there (`time`, ratios, shares of phases), of
 * `time_mean`, or of CLASS.FIELD of the result's communication (mean over ranks, of a sample); NaN
 * if it is not there (yet). */
double bx_metrics_value(const bx_metrics *metrics, const char *name);

/* Returns the quantile `q`, from 0 to 1, of values[count], interpolated between order statistics
 * (R. J. Hyndman, Y. Fan, Am. Stat. 50, 361 (1996), type 7); NaN if count is 0.  Sorts the values
 * in place. */
double bx_statistics_quantile(double *values, size_t count, double q);

/* Values that a kernel collects, of its steps for example; the kernel frees `values`. */
typedef struct {
    double *values;
    size_t count;
} bx_series;
void bx_series_add(bx_series *s, double value);
/* As bx_statistics_quantile; the order of the values changes. */
double bx_series_quantile(const bx_series *s, double q);

/* ---- over ranks ---- */

/* A number over the ranks of a communicator, and the lowest ranks that have the extremes. */
typedef struct {
    double min, mean, max;
    int min_rank, max_rank;
} bx_spread;
/* Reduces values[count] of each rank to spreads[count] on rank 0.  Not counted as communication.
 * Collective over `comm`. */
void bx_spread_reduce(MPI_Comm comm, size_t count, const double *values, bx_spread *spreads);
/* Adds a spread to an object by its name.  Local. */
void bx_spread_add(bx_json *parent, const char *name, const bx_spread *spread);

/* A number of each rank in step after step, the work of a rank for example: on rank 0 the maximum
 * over ranks of each step, that maximum over the mean of the ranks, and the spread of the ranks'
 * sums over all steps. */
typedef struct {
    bx_series most, imbalance;
    double sum; /* this rank's */
    bx_spread sums;
} bx_rank_series;
/* Adds the numbers of a step.  Collective over `comm`. */
void bx_rank_series_add(bx_rank_series *series, MPI_Comm comm, double value);
void bx_rank_series_free(const bx_rank_series *series);
/* As bx_metrics_add, of the rank that has the largest sum, which the result names. */
void bx_metrics_add_series(bx_metrics *metrics, const char *name, double value, const char *unit,
                           const char *better, const bx_rank_series *series);

/* ---- memory: never NULL, a failure ends the launch with BX_RESOURCES (all local) ---- */

/* Returns `count` items of `size` bytes, zeroed; the caller frees them. */
void *bx_memory_alloc(size_t count, size_t size);
/* BX_ALLOC(COUNT, A, B): sets each of up to 6 pointers to that many zeroed items of its type. */
#define BX_ALLOC(count, ...)                                                                       \
    BX_PICK(__VA_ARGS__, BX_6, BX_5, BX_4, BX_3, BX_2, BX_1, 0)(count, __VA_ARGS__)
#define BX_PICK(a, b, c, d, e, f, macro, ...) macro
#define BX_1(count, array) (array) = bx_memory_alloc(count, sizeof *(array))
#define BX_2(count, array, ...) BX_1(count, array), BX_1(count, __VA_ARGS__)
#define BX_3(count, array, ...) BX_1(count, array), BX_2(count, __VA_ARGS__)
#define BX_4(count, array, ...) BX_1(count, array), BX_3(count, __VA_ARGS__)
#define BX_5(count, array, ...) BX_1(count, array), BX_4(count, __VA_ARGS__)
#define BX_6(count, array, ...) BX_1(count, array), BX_5(count, __VA_ARGS__)
/* Enlarges `memory` to `count` items of `size` bytes, as realloc does. */
void *bx_memory_grow(void *memory, size_t count, size_t size);
/* Rounds bytes up to whole pages, of 4 KiB on x86 and up to 64 KiB on ARM and POWER. */
size_t bx_memory_whole_pages(size_t bytes);
/* Returns so many bytes that begin with a page, which the caller frees; NULL if there are none. */
void *bx_memory_alloc_pages(size_t bytes);
/* Returns a copy of a text, which the caller frees. */
char *bx_memory_copy_text(const char *text);
/* Frees several pointers. */
void bx_memory_free(size_t count, void *const *pointers);
#define BX_FREE(...)                                                                               \
    bx_memory_free(sizeof((void *[]){__VA_ARGS__}) / sizeof(void *), (void *[]){__VA_ARGS__})
/* Adds a copy of a case or of a method, for bx_kernel_get, where a constant cannot list them.  A
 * method's name has hyphens for the underscores of an identifier. */
void bx_kernel_add_case(bx_kernel *kernel, const bx_choice *about);
void bx_kernel_add_method(bx_kernel *kernel, const bx_choice *about);

/* ---- inside setup ---- */

/* Adds a library and its version to the result.  Local; both texts are copied. */
void bx_build_add_library(const char *name, const char *version);
/* Adds the version of the BLAS library to the result, where it reports one.  Local. */
void bx_blas_name_library(void);
/* Sets the threads of the BLAS library: some take every core of the node for every rank.  Local. */
void bx_blas_set_threads(int threads);
/* Claims memory: `bytes` for this rank.  Refuses with BX_RESOURCES where the ranks of a node need
 * more than it has free; `sized_by` names the option or case in the message.  Returns as
 * bx_run_agree. Collective. */
int bx_resources_claim_memory(bx_run *run, double bytes, const char *sized_by);
/* Sums `count` kinds of bytes of a rank over the ranks of its node: `need` has the most that a node
 * needs of each.  The same on every rank.  Collective. */
void bx_resources_by_node(const bx_run *run, int count, const double *bytes, double *need);
/* Returns whether every node has `bytes` for each of its ranks beside what they have `claimed`,
 * without a claim or a refusal.  `need` and `left` are the bytes of the node that has least beside,
 * for all its ranks.  The same on every rank.  Collective. */
bool bx_resources_fits(const bx_run *run, double claimed, double bytes, double *need, double *left);
/* Claims time: `setup_seconds` for the rest of setup, `round_seconds` for one step of each selected
 * method at each point, both estimated for this rank on a core of its own.  Refuses with
 * BX_RESOURCES where the launch would take longer than --limit; `sized_by` names the options in the
 * message.  Returns as bx_run_agree.  Collective, once. */
int bx_resources_claim_time(bx_run *run, double setup_seconds, double round_seconds,
                            const char *sized_by);
/* Takes memory of twice the last cache's size for bx_cold_sweep, and notes where that is assumed.
 * Refuses --cold with BX_RESOURCES where a node has not so much; with BX_USAGE where messages lie
 * in a device.  Returns as bx_run_agree.  Collective. */
int bx_cold_open(bx_run *run);
/* Writes to all of it: then no cache has anything else.  Nothing without bx_cold_open.  Local. */
void bx_cold_sweep(void);
void bx_cold_close(void);
/* Returns the bytes that this process has in memory, without shared ones; 0 if unknown.  Local. */
double bx_host_memory_used(void);

/* ---- inside report ---- */

/* Adds a line (printf's format, at most 1023 characters) that rank 0 prints under the table.
 * Local; other ranks' lines are dropped. */
void bx_run_note(bx_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Each adds a value to an object by its name, where one of that name is replaced, or to an array,
 * where the name is NULL.  Nothing, and NULL, where the parent is NULL.  Names and texts are
 * copied. */
bx_json *bx_json_object(bx_json *parent, const char *name);
bx_json *bx_json_array(bx_json *parent, const char *name);
/* null for no text, and for a number that is not finite. */
void bx_json_text(bx_json *parent, const char *name, const char *text);
void bx_json_number(bx_json *parent, const char *name, double value);
void bx_json_bool(bx_json *parent, const char *name, bool value);
/* An array of numbers. */
void bx_json_list(bx_json *parent, const char *name, size_t count, const double *values);
/* Several numbers, or texts: BX_NUMBERS(json, {"ranks", ranks}, {"each", 2}). */
#define BX_NUMBERS(object, ...)                                                                    \
    bx_json_numbers(object, sizeof((bx_number[]){__VA_ARGS__}) / sizeof(bx_number),                \
                    (bx_number[]){__VA_ARGS__})
#define BX_TEXTS(object, ...)                                                                      \
    bx_json_texts(object, sizeof((bx_text[]){__VA_ARGS__}) / sizeof(bx_text),                      \
                  (bx_text[]){__VA_ARGS__})
typedef struct {
    const char *name;
    double value;
} bx_number;
typedef struct {
    const char *name, *value;
} bx_text;
void bx_json_numbers(bx_json *object, size_t count, const bx_number *numbers);
void bx_json_texts(bx_json *object, size_t count, const bx_text *texts);

/* ---- files that users name (file.c; all local) ---- */

typedef enum { BX_FILE_READ, BX_FILE_WRITTEN, BX_FILE_UPDATED } bx_file_use;

/* Refuses with BX_USAGE, before anything is computed, a file that cannot be used later: a missing
 * file, one that is not regular (a device is never replaced), a folder that takes no new file, and
 * a file that another option of this launch names, unless both read it.  An updated file is read
 * where it exists, then written.  `option` is named in the message.  Every rank calls it; rank 0
 * looks.  Returns BX_OK or the code of the refusal. */
int bx_file_claim(bx_run *run, const char *option, const char *path, bx_file_use use);
/* What another rank has just created may appear so late: the client of a shared file system may
 * cache its folder. */
enum { BX_SECONDS_TO_APPEAR = 10 };
/* Returns whether this rank may write a file or folder that another rank has just created: waits
 * for it to appear. */
bool bx_file_appears(const char *path);
/* Opens PATH.partial for writing; bx_file_close puts it in the place of PATH, so that a reader sees
 * the old file or the whole new one.  A symbolic link stays one.  Returns NULL with errno. */
FILE *bx_file_open(const char *path);
/* Ends writing, waits until the file is on disk and moves it to PATH.  Returns 0, or an errno; PATH
 * is then as it was. */
int bx_file_close(FILE *file, const char *path);
/* For a writer that opens files by name: writes the name PATH.partial to `partial`, at most `size`
 * bytes.  Returns false if it is longer. */
bool bx_file_partial(char *partial, size_t size, const char *path);
/* Moves the file that was written under that name to PATH.  Returns 0 or an errno. */
int bx_file_replace(const char *partial, const char *path);
/* Waits until what was written to an open file is on disk.  Returns 0 or an errno. */
int bx_file_sync(int descriptor);
/* Returns how often this process has waited so, by bx_file_sync or, in a library too, by
 * MPI_File_sync. */
int64_t bx_file_syncs(void);

/* ---- communication profile (profile.c): what this rank has sent since the start (all local) ----
 *
 * Messages go from one rank to another; a message to oneself does not count.  A collective counts
 * one message per peer it sends to, empty ones too, as MPI is called with them (Bethune 2010,
 * section 4.1, counts the same way).  A reduction or scan counts one message, for the vector that a
 * rank contributes.  Bytes are the payload handed to MPI. */

typedef enum {
    BX_P2P,
    BX_COLLECTIVE,
    BX_BARRIER,
    BX_ONE_SIDED,
    BX_FILE, /* of calls from C; messages and bytes are 0 */
    BX_CLASS_COUNT
} bx_class;
/* What one rank has sent in one class of MPI calls. */
typedef struct {
    double calls, messages, off_node_messages, bytes, off_node_bytes;
    double seconds; /* inside MPI */
    double waiting; /* s, part of `seconds`: in the barriers that --separate-waiting adds */
} bx_traffic;
/* Reads what has been sent since the start, by class. */
void bx_profile_read(bx_traffic traffic[BX_CLASS_COUNT]);
/* Reads the same of all classes together: messages, those between nodes, bytes, those between
 * nodes. */
void bx_profile_read_sum(double sent[4]);
/* Begins a region: what is sent until bx_profile_leave_region is also counted under `name`, a
 * library's for example.  Regions do not nest; of more than 8 names the rest is not counted. */
void bx_profile_enter_region(const char *name);
void bx_profile_leave_region(void);
/* Reads what has been sent inside the region `name`; zeros if it was never entered. */
void bx_profile_read_region(const char *name, bx_traffic traffic[BX_CLASS_COUNT]);

/* ---- counter-based random numbers: the same on every layout (local) ---- */

/* Returns a hash of (seed, index), uniform over 64 bits: splitmix64 (G. L. Steele, D. Lea,
 * C. H. Flood, OOPSLA 2014). */
static inline uint64_t bx_random_hash(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
/* Returns the numbers 0 .. count-1 in a random order (Fisher and Yates), which the caller frees. */
int *bx_random_order(int count, uint64_t seed);
/* Returns a number uniform in [-1, 1). */
static inline double bx_random_uniform(uint64_t seed, uint64_t index)
{
    return (double)(int64_t)bx_random_hash(seed, index) * 0x1p-63;
}
