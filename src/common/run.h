/* One launch: its options, layout and kernel, what the kernel has noted, and its parts. */
#pragma once

#include "bx.h"

enum { BX_MAX_PHASES = 24, BX_MAX_LABELS = 32, BX_MAX_CLAIMS = 16 };

/* The values of the options that all kernels have. */
typedef struct {
    const char *case_name, *methods, *baselines, *output, *start;
    int64_t repeats, block, warmup, ranks_per_node, expect_ranks, seed;
    double limit, progress_timeout; /* s; progress_timeout < 0: by the rounds */
    bool list, help, separate_waiting, profile;
    const char *labels[BX_MAX_LABELS]; /* "key=value" */
    int label_count;
} bx_common;

/* A file of this launch: the option that names it, its canonical path, its use. */
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
    bool sampling;
    double lap_start, phase[BX_MAX_PHASES];
    double lap_mpi, phase_mpi[BX_MAX_PHASES]; /* of a phase, seconds inside MPI */
    int refusal;                              /* this rank's exit code */
    char message[512];                        /* and the reason */
    char **notes;                             /* [note_count] lines under the table */
    int note_count;
    bx_claim claims[BX_MAX_CLAIMS]; /* on rank 0 */
    int claim_count;
    double bytes_needed, seconds_needed; /* claimed: bytes per host, seconds of the launch */
    struct bx_start *start;              /* of steps (start.h); NULL without common clocks */
};

/* ---- harness.c ---- */

/* Reads the command line, verifies and measures the selected methods, prints and writes the result.
 * Initialises and finalises MPI.  Returns the exit code of bx.h. */
int bx_harness_run(int argc, char **argv, const bx_kernel *kernel);

/* ---- memory.c ---- */

/* Returns the place, from 0, of a word in a list of words between separators, each a character;
 * -1 where it is not there.  Local. */
int bx_text_index(const char *word, const char *list, const char *separators);

/* ---- options.c: the command line ---- */

/* Fills run->common, run->selected and the kernel's own options.  Refuses with BX_USAGE an unknown
 * option, method or case, and a value that is no number or is outside its bounds.  Returns BX_OK or
 * the code of the refusal.  Local. */
int bx_options_parse(bx_run *run, int argc, char **argv);
/* Prints the text of --help.  Local. */
void bx_options_help(const bx_run *run);
/* Prints the cases and methods of --list.  Local. */
void bx_options_list(const bx_run *run);
/* Adds the values of all options to an object.  Local. */
void bx_options_add(const bx_run *run, bx_json *object);

/* ---- file.c ---- */

/* Notes a call of MPI_File_sync, for bx_file_syncs.  Local. */
void bx_file_note_sync(void);

/* ---- resources.c ---- */

/* Prints the claimed memory and time; nothing if nothing was claimed.  Prints on rank 0; local. */
void bx_resources_print(const bx_run *run);
/* Returns how many threads of this launch share a core of this host, on average; 1 at least.
 * Collective over the host. */
double bx_resources_threads_per_core(const bx_run *run);
