/* Ends a launch in which nothing has been finished for too long: a rank that was stopped, or whose
 * messages are lost, would let all others wait until somebody looks.  A thread of each rank watches
 * its rank's counter; ranks of a host tell each other through shared memory where they are. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "watchdog.h"

#include "profile.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PLACE = 120, CHECKS_PER_TIMEOUT = 20 };

/* What the other ranks of the host can read of a rank. */
typedef struct {
    atomic_bool placed;   /* whether `place` has been written */
    atomic_bool reported; /* of the host's first rank: somebody prints */
    char place[PLACE];    /* where the rank is */
    int rank;             /* in the world */
} board;

static struct {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    bool running, stop;
    MPI_Win window;
    board *boards; /* [size] of this host */
    int size, own;
    const bx_run *run;
    double timeout;
    char host[256];
    /* written by the rank, read by its thread */
    atomic_ulong finished;
    _Atomic(const char *) stage, method;
    atomic_long round;
} watchdog = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void bx_watchdog_tick(const char *stage, const char *method, int64_t round)
{
    atomic_store_explicit(&watchdog.stage, stage, memory_order_relaxed);
    atomic_store_explicit(&watchdog.method, method, memory_order_relaxed);
    atomic_store_explicit(&watchdog.round, (long)round, memory_order_relaxed);
    atomic_fetch_add_explicit(&watchdog.finished, 1, memory_order_relaxed);
}

/* False once the launch has ended. */
static bool wait_for(double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    double fraction = seconds - (double)(time_t)seconds + 1e-9 * (double)until.tv_nsec;
    until.tv_sec += (time_t)seconds + (fraction >= 1);
    until.tv_nsec = (long)(1e9 * (fraction - (fraction >= 1)));
    pthread_mutex_lock(&watchdog.mutex);
    while (!watchdog.stop &&
           pthread_cond_timedwait(&watchdog.ended, &watchdog.mutex, &until) != ETIMEDOUT) {
    }
    bool stop = watchdog.stop;
    pthread_mutex_unlock(&watchdog.mutex);
    return !stop;
}

static void describe_place(char place[PLACE])
{
    const char *method = atomic_load(&watchdog.method);
    long round = atomic_load(&watchdog.round);
    char within[48];
    bx_profile_place(within, sizeof within);
    int used = snprintf(place, PLACE, "%s, %s", within, atomic_load(&watchdog.stage));
    if (method) used += snprintf(place + used, PLACE - (size_t)used, " %.40s", method);
    if (round > 0) snprintf(place + used, PLACE - (size_t)used, ", round %ld", round);
}

static const char *place_of(int index)
{
    const board *b = &watchdog.boards[index];
    return atomic_load(&b->placed) ? b->place : "no answer: stopped, or still advancing";
}

/* One line for the ranks of the host that are in the same place. */
static void report(void)
{
    char *listed = calloc((size_t)watchdog.size, 1), line[512];
    fprintf(stderr,
            "bisection-%s: nothing finished for %g s (--progress-timeout) on host %s; its ranks:\n",
            watchdog.run->kernel->name, watchdog.timeout, watchdog.host);
    for (int i = 0; listed && i < watchdog.size; i++) {
        if (listed[i]) continue;
        size_t used = 0, most = sizeof line - PLACE;
        int count = 0;
        for (int k = i; k < watchdog.size; k++) {
            if (listed[k] || strcmp(place_of(i), place_of(k)) != 0) continue;
            listed[k] = 1;
            if (count++ && used < most)
                used += (size_t)snprintf(line + used, sizeof line - used, ",");
            if (used < most)
                used += (size_t)snprintf(line + used, sizeof line - used, " %d",
                                         watchdog.boards[k].rank);
        }
        fprintf(stderr, "  rank%s%s%s: %s\n", count > 1 ? "s" : "", line, used < most ? "" : " ...",
                place_of(i));
    }
    free(listed);
    fflush(stderr);
}

/* Ranks see within one check of each other that nothing moves: that long they wait for each other's
 * places, and once more for the other hosts' reports. */
static void give_up(double check)
{
    board *own = &watchdog.boards[watchdog.own];
    describe_place(own->place);
    atomic_store(&own->placed, true);
    if (!wait_for(2 * check)) return;
    bool expected = false;
    if (atomic_compare_exchange_strong(&watchdog.boards[0].reported, &expected, true)) report();
    if (!wait_for(check)) return;
    _exit(BX_STALLED); /* the launcher ends the other ranks, stopped ones too */
}

static void *watch(void *unused)
{
    (void)unused;
    double check = watchdog.timeout / CHECKS_PER_TIMEOUT, still = 0;
    unsigned long seen = atomic_load(&watchdog.finished);
    while (wait_for(check)) {
        unsigned long now = atomic_load(&watchdog.finished);
        still = now == seen ? still + check : 0;
        seen = now;
        if (still >= watchdog.timeout) give_up(check);
    }
    return NULL;
}

void bx_watchdog_start(const bx_run *run)
{
    if (run->common.progress_timeout <= 0) return;
    MPI_Aint bytes;
    int unit;
    PMPI_Comm_size(run->host, &watchdog.size);
    PMPI_Comm_rank(run->host, &watchdog.own);
    PMPI_Win_allocate_shared(watchdog.own == 0 ? (MPI_Aint)((size_t)watchdog.size * sizeof(board))
                                               : 0,
                             1, MPI_INFO_NULL, run->host, &watchdog.boards, &watchdog.window);
    PMPI_Win_shared_query(watchdog.window, 0, &bytes, &unit, &watchdog.boards);
    memset(&watchdog.boards[watchdog.own], 0, sizeof(board));
    watchdog.boards[watchdog.own].rank = run->rank;
    watchdog.run = run;
    watchdog.timeout = run->common.progress_timeout;
    watchdog.stop = false;
    gethostname(watchdog.host, sizeof watchdog.host - 1);
    bx_watchdog_tick("setting up", NULL, 0);
    PMPI_Barrier(run->host); /* boards are written before anybody reads them */
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&watchdog.ended, &clock);
    watchdog.running = pthread_create(&watchdog.thread, NULL, watch, NULL) == 0;
}

void bx_watchdog_stop(void)
{
    if (!watchdog.boards) return;
    if (watchdog.running) {
        pthread_mutex_lock(&watchdog.mutex);
        watchdog.stop = true;
        pthread_cond_signal(&watchdog.ended);
        pthread_mutex_unlock(&watchdog.mutex);
        pthread_join(watchdog.thread, NULL);
    }
    PMPI_Win_free(&watchdog.window);
    watchdog.boards = NULL;
}
