/* The Bisection kernel harness.
 *
 * A kernel is one executable, `bisection-<name>`.  The harness owns `main`: options, warm-up,
 * repeats, timing, statistics, verification, the JSON result and the exit code.  A kernel supplies
 * the functions of `bx_kernel`; only `step` is timed.
 *
 * Exit codes: 0 verified, 1 wrong answer, 2 usage, 3 resources, 4 no progress; anything else is a
 * crash.  Every function is collective over the world communicator unless it says "local".
 */
#ifndef BX_H
#define BX_H

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0)
#error "a NaN must fail verification: build without -ffast-math and -ffinite-math-only"
#endif

#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cjson/cJSON.h>

enum { BX_OK = 0, BX_WRONG = 1, BX_USAGE = 2, BX_RESOURCES = 3, BX_STALLED = 4 };

typedef struct bx_run bx_run; /* one launch: options, communicators, phase clock */
typedef struct bx_verification bx_verification;
typedef struct bx_metrics bx_metrics;

/* A case, or a method: what the user can name. */
typedef struct {
    const char *name;
    const char *summary; /* what it does, one sentence */
    const char *wins;    /* what it trades and when it wins (methods; NULL for cases) */
    bool baseline;       /* a yardstick measured beside the methods (--baseline), not under test */
    const char *family;  /* methods of one are compared with its fastest (ratio_best); or NULL */
} bx_choice;

typedef enum { BX_FLAG, BX_INTEGER, BX_REAL, BX_TEXT, BX_GRID } bx_option_type;

/* One long option.  `value` points at what it sets: bool, int64_t, double, const char *, or
 * int64_t[3] for BX_GRID ("NX,NY,NZ").  Integers and reals outside [low, high] are refused. */
typedef struct {
    const char *name, *metavar, *help;
    bx_option_type type;
    double low, high;
    void *value;
} bx_option;

typedef struct bx_kernel {
    const char *name;
    const char *summary;
    const bx_choice *cases; /* the first is the default */
    size_t case_count;
    const bx_choice *methods;
    size_t method_count;
    const bx_option *options; /* the kernel's own, beside the common ones */
    size_t option_count;
    const char *const *phases; /* names for bx_run_lap; a sample's time is split over them */
    size_t phase_count;
    /* Methods or baselines that every method is compared with, as ratio_NAME; "ALIAS=NAME" calls it
     * ratio_ALIAS. */
    const char *const *ratios;
    size_t ratio_count;
    const char *baselines; /* measured unless --baseline says otherwise: "a,b"; NULL for none */

    /* Allocates everything; *state is passed to all that follow.  Returns BX_OK, or the value of
     * bx_run_refuse.  A rank that can fail alone calls bx_run_agree before the next collective
     * call. */
    int (*setup)(bx_run *run, void **state);
    /* Number of points of a sweep (message sizes, say) and one point's description, an object of
     * numbers.  NULL: a kernel without a sweep, which has one point. */
    size_t (*point_count)(void *state);
    void (*point)(void *state, size_t point, cJSON *description);
    /* Whether a method can run here; if not, `why` says why.  Same answer on every rank. */
    bool (*applicable)(void *state, size_t method, char *why, size_t why_size);
    /* Correctness of one method by independent means, before anything is timed.  May refuse, as a
     * file that cannot be written: that ends the launch. */
    void (*verify)(void *state, size_t method, size_t point, bx_verification *verification);
    /* Untimed: fresh input for a block of steps / evolve the input before each step / examine what
     * the block of `steps` left behind.  Each may be NULL. */
    void (*begin)(void *state, size_t method, size_t point);
    void (*prepare)(void *state, size_t method, size_t point);
    void (*end)(void *state, size_t method, size_t point, int64_t steps,
                bx_verification *verification);
    /* The timed work. */
    void (*step)(void *state, size_t method, size_t point);
    /* Work items in one step (transforms, say): the metric `time` is seconds per item.  NULL: 1. */
    double (*items)(void *state, size_t method, size_t point);
    /* The kernel's own entries in the result's "details" object, and human lines by bx_run_note.
     * Before the measurement, on every rank; `details` is NULL on all but rank 0.  NULL: none. */
    void (*report)(void *state, bx_run *run, cJSON *details);
    void (*teardown)(void *state);

    /* Each may be NULL. */
    const char *const *phase_groups; /* [phase_count] "user" or "library"; NULL: all are user's */
    /* Before the options are read, once: fills the kernel's tables with what depends on `ranks`. */
    void (*arrange)(int ranks);
    /* The kernel's own metrics of a method; on rank 0, local. */
    void (*metrics)(void *state, size_t method, size_t point, bx_metrics *metrics);
    /* Untimed: examines what the step just done left behind, after each step, where later steps of
     * the block would overwrite it.  Same checks in the same order on every rank. */
    void (*inspect)(void *state, size_t method, size_t point, bx_verification *verification);
} bx_kernel;

/* Each executable defines this one function; Fortran kernels through bind(C). */
const bx_kernel *bx_kernel_get(void);

/* ---- what a kernel asks of its run (all local) ---- */
MPI_Comm bx_run_comm(const bx_run *run);      /* the world of the kernel */
MPI_Comm bx_run_node_comm(const bx_run *run); /* ranks of my node, discovered or emulated */
const int *
bx_run_node_of(const bx_run *run); /* [ranks] node index of each rank, 0.. in rank order */
int bx_run_node_count(const bx_run *run);
int bx_run_threads(const bx_run *run);
uint64_t bx_run_seed(const bx_run *run);
const char *bx_run_case(const bx_run *run);
bool bx_run_case_is_given(const bx_run *run);        /* whether --case names it */
void bx_run_set_case(bx_run *run, const char *name); /* where options have made it another */
bool bx_run_is_selected(const bx_run *run,
                        const char *method);   /* named by --method or --baseline */
int64_t bx_run_block_steps(const bx_run *run); /* steps of a block, warm-up included */

/* ---- refusing (local; collected over the ranks by bx_run_agree and after setup) ---- */
int bx_run_refuse(bx_run *run, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int bx_run_agree(bx_run *run); /* collective: the largest code any rank refused with */

/* ---- inside step: the phase clock (local) ---- */
void bx_run_lap(bx_run *run,
                size_t phase); /* time since the last lap, or the step's start, is `phase` */

/* ---- inside verify and end: one outcome; error is maximised over ranks, non-finite fails.  The
 * name has at most 63 characters, the unit 31; both are copied. ---- */
void bx_verification_check(bx_verification *verification, const char *name, double error,
                           double tolerance, const char *unit);

/* Whether every outcome so far is within its tolerance, on all ranks (collective). */
bool bx_verification_passed(const bx_run *run, const bx_verification *verification);

/* The larger of two errors, where a NaN is the largest of all (fmax would drop it; local). */
static inline double bx_verification_worse(double largest, double error)
{
    if (error <= largest) return largest;
    return isnan(error) ? INFINITY : error;
}

/* ---- inside metrics; `better` is "lower" or "higher" ---- */
void bx_metrics_add(bx_metrics *metrics, const char *name, double value, const char *unit,
                    const char *better);
/* One that is there already: `time`, ratios; NaN if it is not. */
double bx_metrics_value(const bx_metrics *metrics, const char *name);

/* Memory, which `free` takes back, or the launch ends with BX_RESOURCES: zeroed; enlarged to
 * `count` items of `size` bytes, as realloc does; a copy of a text (all local). */
void *bx_memory_alloc(size_t count, size_t size);
void *bx_memory_grow(void *memory, size_t count, size_t size);
char *bx_memory_copy_text(const char *text);

/* ---- inside setup: a library's version, for the result (local) ---- */
void bx_build_add_library(const char *name, const char *version);

/* ---- inside report: a line under the table (rank 0 prints it) ---- */
void bx_run_note(bx_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- resources: refuses with BX_RESOURCES when the ranks of a node need more memory than it has
 * free.  Collective; `bytes` is this rank's need, `what` names it in the message. ---- */
int bx_resources_claim_memory(bx_run *run, double bytes, const char *what);
/* Refuses with BX_RESOURCES when the launch would take longer than --limit.  Collective, once, in
 * setup.  Estimates for this rank on a core of its own: `setup_seconds` of the rest of setup,
 * `round_seconds` of one step of each selected method at each point.  `what` names options in the
 * message. */
int bx_resources_claim_time(bx_run *run, double setup_seconds, double round_seconds,
                            const char *what);
/* Bytes that this process has in memory, without what it shares; 0 if unknown (local). */
double bx_host_memory_used(void);

/* ---- files that users name (file.c) ---- */
typedef enum { BX_FILE_READ, BX_FILE_WRITTEN, BX_FILE_UPDATED } bx_file_use;
/* Refuses with BX_USAGE, before anything is computed, what cannot be read or written later: a
 * missing file, one that is not regular (a device is never replaced), a folder that takes no new
 * file, and a file that another option of this launch names, unless both read it.  An updated file
 * is read where it exists, then written.  To be called on every rank, looks on rank 0: bx_run_agree
 * or the end of setup spreads the refusal (local). */
int bx_file_claim(bx_run *run, const char *option, const char *path, bx_file_use use);
/* A file is written to PATH.partial and takes the place of PATH when it is whole and on disk: a
 * reader sees the old one or the new one.  A symbolic link stays one.  All local.
 * bx_file_open returns NULL with errno; bx_file_close 0 or an errno, and PATH is then as it was. */
FILE *bx_file_open(const char *path);
int bx_file_close(FILE *file, const char *path);
/* The same for a writer that opens files by name: the name to write to, at most `size` bytes (false
 * if it is longer), and the replacement, which returns 0 or an errno. */
bool bx_file_partial(char *partial, size_t size, const char *path);
int bx_file_replace(const char *partial, const char *path);

/* ---- communication profile (profile.c): what this rank has sent since the start, local ----
 * Messages go from one rank to another: a message to oneself is none.  A collective counts one
 * message a peer it sends to, also an empty one, as MPI is called with it (Bethune 2010, section
 * 4.1 counts the same way); a reduction or scan one for the vector that a rank contributes.  Bytes
 * are the payload handed to MPI. */
typedef enum { BX_P2P, BX_COLLECTIVE, BX_BARRIER, BX_ONE_SIDED, BX_CLASS_COUNT } bx_class;
typedef struct {
    double calls, messages, off_node_messages, bytes, off_node_bytes;
    double seconds; /* inside MPI, this class */
    double waiting; /* of it, in a barrier put before collectives by --separate-waiting */
} bx_traffic;
void bx_profile_read(bx_traffic traffic[BX_CLASS_COUNT]);
/* What is sent between enter and leave is also counted under `name` (a library's part, say). */
void bx_profile_enter_region(const char *name);
void bx_profile_leave_region(void);
void bx_profile_read_region(const char *name, bx_traffic traffic[BX_CLASS_COUNT]);

/* ---- a counter-based random number: same value on every layout ---- */
static inline uint64_t bx_random_hash(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * UINT64_C(0x9e3779b97f4a7c15); /* splitmix64, Steele 2014 */
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
/* Uniform in [-1, 1). */
static inline double bx_random_uniform(uint64_t seed, uint64_t index)
{
    return (double)(int64_t)bx_random_hash(seed, index) * 0x1p-63;
}

#endif
