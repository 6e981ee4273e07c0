/* Nodes, host names, and the cores of ranks and threads. */
#pragma once

#include "run.h"

#include <sched.h>

/* Fills the run's communicators, nodes and threads.  Refuses with BX_USAGE: --ranks-per-node above
 * what a node holds, a bad OMP_NUM_THREADS, or one that differs between ranks; with BX_RESOURCES:
 * threads that OpenMP or the MPI library does not grant.  Returns as bx_run_agree.  Collective. */
int bx_layout_discover(bx_run *run);
void bx_layout_free(bx_run *run);
/* Returns the CPUs that this rank and its threads may use, where the OpenMP runtime has placed
 * them, as a bound main thread has fewer than its process.  by_thread[threads], unless NULL, takes
 * the set of each.  Sets have *size bytes, and the caller frees them.  Local. */
cpu_set_t *bx_layout_cpus(int threads, cpu_set_t *by_thread[], size_t *size);
/* Adds the result's "layout" to an object of rank 0.  Collective. */
void bx_layout_add(const bx_run *run, bx_json *layout);
/* Measures the clock of every rank at the same time, and appends a list of all to "ghz" of `layout`
 * on rank 0; nothing where no clock is known.  Collective. */
void bx_layout_add_clock(const bx_run *run, bx_json *layout);
/* Adds the result's "hosts", groups of hosts that are alike, to an array of rank 0.  Collective. */
void bx_layout_add_hosts(const bx_run *run, bx_json *list);
/* Adds to an array of rank 0 of `comm` an object for each group of ranks whose objects `common` are
 * the same: that object's members, and an array `name` of the ranks' values `varied`.  Frees both.
 * Collective. */
void bx_layout_add_groups(MPI_Comm comm, bx_json *common, bx_json *varied, bx_json *list,
                          const char *name);
/* Returns, on rank 0 of `comm`, the texts of the ranks that have one (not NULL), in their order:
 * one after the other, and an empty one; the caller frees them.  NULL elsewhere.  Collective. */
char *bx_layout_gather_texts(MPI_Comm comm, const char *text);
