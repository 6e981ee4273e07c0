/* What the files of common/ share; kernels see bx.h alone. */
#ifndef BX_HARNESS_H
#define BX_HARNESS_H

#include "bx.h"

enum {
    BX_MAX_PHASES = 24,
    BX_MAX_CHECKS = 24,
    BX_MAX_LABELS = 32,
    BX_MAX_NOTES = 64,
    BX_MAX_CLAIMS = 16
};

/* What the common options set. */
typedef struct {
    const char *case_name, *methods, *baselines, *output;
    int64_t repeats, block, warmup, ranks_per_node, seed;
    double limit, progress_timeout; /* s */
    bool list, help, separate_waiting, profile;
    const char *labels[BX_MAX_LABELS]; /* "key=value" */
    int label_count;
} bx_common;

/* A file of this launch. */
typedef struct {
    char option[32], *file;
    bx_file_use use;
} bx_claim;

struct bx_run {
    const bx_kernel *kernel;
    void *state;
    bx_common common;
    MPI_Comm world, node;
    MPI_Comm host; /* ranks that share memory: a node's, also where nodes are emulated */
    int rank, size, node_rank, node_size, node_count, threads;
    int *node_of;   /* [size] */
    bool *selected; /* [kernel->method_count] */
    double lap_start, phase[BX_MAX_PHASES];
    double lap_mpi, phase_mpi[BX_MAX_PHASES]; /* of a phase, seconds inside MPI */
    int refusal;                              /* this rank's exit code, and why */
    char message[512];
    char *notes[BX_MAX_NOTES];
    int note_count;
    bx_claim claims[BX_MAX_CLAIMS]; /* on rank 0 */
    int claim_count;
    double bytes_needed, seconds_needed; /* of a host, of the launch: what has been claimed */
};

typedef struct {
    char name[64], unit[32];
    double error, tolerance;
} bx_outcome;

struct bx_verification {
    bx_outcome outcomes[BX_MAX_CHECKS];
    int count;
};

/* Where the time of a method's steps went, on one rank: seconds. */
typedef struct {
    double step, phase[BX_MAX_PHASES], phase_mpi[BX_MAX_PHASES];
} bx_parts;

/* MPI calls by routine, region and class. */
typedef struct bx_recording bx_recording;

/* One method at one point: what becomes an entry of "results".  Sample arrays live on rank 0. */
typedef struct {
    size_t method, point;
    bool applicable;
    char why[160];
    bx_verification verification;
    bool verified; /* all outcomes so far */
    size_t sample_count, sample_capacity;
    double *seconds;         /* [sample_count] max over ranks */
    double *switches;        /* [sample_count] max over ranks of involuntary context switches */
    double *phases;          /* [sample_count][phase_count] mean over ranks */
    bx_parts parts;          /* this rank, all timed steps */
    bx_recording *recording; /* likewise */
} bx_result;

/* harness.c */
int bx_main(int argc, char **argv, const bx_kernel *kernel);

/* options.c */
int bx_options_parse(bx_run *run, int argc, char **argv);
void bx_options_help(const bx_run *run);
void bx_options_list(const bx_run *run);
cJSON *bx_options_json(const bx_run *run);

/* layout.c */
int bx_layout_discover(bx_run *run);
void bx_layout_free(bx_run *run);
cJSON *bx_layout_json(const bx_run *run);                  /* collective; NULL but on rank 0 */
void bx_duration(char *text, size_t size, double seconds); /* "35 s", "2.5 h"; local */

/* host.c: local */
cJSON *bx_host_json(void);
cJSON *bx_clock_json(void);                /* takes about a millisecond of computing */
void bx_firmware(char *text, size_t size); /* of this host, "" where nothing is readable */
double bx_memory_free(void); /* bytes this node can still hand out; infinity if unknown */

/* statistics.c: local; `values` is sorted in place by all but bx_paired_ratio */
double bx_quantile(double *values, size_t count, double q);

/* profile.c */
void bx_profile_start(MPI_Comm world, const int *node_of, bool separate_waiting);
cJSON *bx_traffic_json(MPI_Comm world, const bx_traffic *traffic, double steps); /* collective */
cJSON *bx_regions_json(MPI_Comm world);                                          /* collective */
double bx_profile_seconds(void);      /* inside MPI so far */
const char *bx_profile_routine(void); /* that this rank is in, from any thread; NULL: none */
void bx_profile_enter_own(const char *routine); /* of the harness, uncounted; NULL: it is over */
void bx_profile_stop(void);
bx_recording *bx_recording_create(void);       /* it lives until bx_profile_stop */
void bx_profile_into(bx_recording *recording); /* what is sent from now on; NULL: no method's */
void bx_recording_read(const bx_recording *recording, bx_traffic traffic[BX_CLASS_COUNT]);
cJSON *bx_parts_json(const bx_run *run, const bx_parts *parts,
                     const bx_recording *recording); /* collective */

/* watchdog.c: one tick when something is finished, with what comes next; `method` may be NULL, a
 * round below 1 is none; local, names live as long as the program */
void bx_watchdog_start(const bx_run *run); /* collective */
void bx_watchdog_tick(const char *stage, const char *method, int64_t round);
void bx_watchdog_stop(void); /* collective */

/* result.c: rank 0 */
cJSON *bx_build_json(void);
cJSON *bx_result_json(const bx_run *run, const bx_result *results, size_t count, size_t index);
cJSON *bx_best_json(const bx_run *run, const bx_result *results, size_t count);
int bx_result_write(const char *path, const cJSON *root); /* 0 or an errno */
void bx_table_print(const bx_run *run, const cJSON *root);
void bx_profile_print(const cJSON *root);

#endif
