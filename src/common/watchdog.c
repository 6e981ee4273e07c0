/* Ends a launch in which nothing has been finished for too long: a rank that was stopped, or whose
 * messages are lost, would let all others wait until somebody looks.  A thread of each rank watches
 * its rank's counter; ranks of a host tell each other through shared memory where they are, with
 * the stack of each rank's main thread, which a signal makes it write down. */
#include "watchdog.h"

#include "profile.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<execinfo.h>)
#include <execinfo.h>
#define HAS_BACKTRACE
#endif
#endif

enum { PLACE = 240, STACK = 2048, FRAMES = 32, CHECKS_PER_TIMEOUT = 20 };

/* Patience without --progress-timeout, s: between rounds so many of the longest round seen and at
 * least LEAST; where no round has ended yet, to go by, and after the last one, UNKNOWN. */
static const double ROUNDS = 20, LEAST = 60, UNKNOWN = 300;

/* What the other ranks of the host can read of a rank. */
typedef struct {
    atomic_bool placed;   /* whether `place` has been written */
    atomic_bool reported; /* of the host's first rank: somebody prints */
    char place[PLACE];    /* where the rank is */
    char stack[STACK];    /* of its main thread: a line per call, the innermost first */
    int rank;             /* in the world */
} board;

static struct {
    pthread_t thread, main;
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    bool running, stop;
    board *boards, alone; /* [size] of this host; of this rank, where none can be shared */
    int size, host_rank;
    const bx_run *run;
    double timeout;
    char host[256];
    /* written by the rank, read by its thread, to whom `finished` and `awaited` release the rest */
    atomic_ulong finished;
    _Atomic(const char *) stage, method;
    atomic_long round, part;
    _Atomic double longest, longest_part; /* s; of the rounds; of the parts of steps */
    double part_began;                    /* s; the rank's own */
    atomic_int awaited;                   /* rank, -1: no single one; -2: this kernel never says */
    _Atomic(const char *) awaited_host;
    /* written by the main thread in the signal's handler */
    void *frames[FRAMES];
    atomic_int frame_count;
} watchdog = {.mutex = PTHREAD_MUTEX_INITIALIZER, .awaited = -2};

void bx_watchdog_tick(const char *stage, const char *method, int64_t round)
{
    atomic_store_explicit(&watchdog.stage, stage, memory_order_relaxed);
    atomic_store_explicit(&watchdog.method, method, memory_order_relaxed);
    atomic_store_explicit(&watchdog.round, (long)round, memory_order_relaxed);
    atomic_store_explicit(&watchdog.part, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&watchdog.finished, 1, memory_order_release);
}

void bx_watchdog_part(int64_t part)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    if (atomic_load(&watchdog.part) > 0)
        atomic_store(&watchdog.longest_part,
                     fmax(atomic_load(&watchdog.longest_part), seconds - watchdog.part_began));
    watchdog.part_began = seconds;
    atomic_store_explicit(&watchdog.part, (long)part, memory_order_relaxed);
    atomic_fetch_add_explicit(&watchdog.finished, 1, memory_order_release);
}

void bx_watchdog_await(int rank, const char *host)
{
    atomic_store_explicit(&watchdog.awaited_host, host, memory_order_relaxed);
    atomic_store_explicit(&watchdog.awaited, rank, memory_order_release);
}

void bx_watchdog_round(const bx_run *run, double seconds)
{
    if (run->common.progress_timeout >= 0) return;
    PMPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, run->world);
    atomic_store(&watchdog.longest, fmax(atomic_load(&watchdog.longest), seconds));
}

static double patience(void)
{
    if (watchdog.timeout > 0) return watchdog.timeout;
    double longest = atomic_load(&watchdog.part) > 0    ? atomic_load(&watchdog.longest_part)
                     : atomic_load(&watchdog.round) > 0 ? atomic_load(&watchdog.longest)
                                                        : 0;
    return longest > 0 ? fmax(LEAST, ROUNDS * longest) : UNKNOWN;
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
    long round = atomic_load(&watchdog.round), part = atomic_load(&watchdog.part);
    int awaited = atomic_load(&watchdog.awaited);
    char within[48];
    bx_profile_place(within, sizeof within);
    int used = snprintf(place, PLACE, "%s, %s", within, atomic_load(&watchdog.stage));
    if (method) used += snprintf(place + used, PLACE - (size_t)used, " %.40s", method);
    if (round > 0) used += snprintf(place + used, PLACE - (size_t)used, ", round %ld", round);
    if (part > 0) used += snprintf(place + used, PLACE - (size_t)used, ", part %ld", part);
    if (awaited >= 0)
        snprintf(place + used, PLACE - (size_t)used, ", waits for rank %d on %.64s", awaited,
                 atomic_load(&watchdog.awaited_host));
}

#ifdef HAS_BACKTRACE
static void write_stack_down(int signal)
{
    atomic_store(&watchdog.frame_count, backtrace(watchdog.frames, FRAMES));
}
#endif

/* Without malloc, whose lock the main thread may hold.  A main thread that waits in the kernel for
 * a file system does not answer: no stack then. */
static void describe_stack(char stack[STACK])
{
#ifdef HAS_BACKTRACE
    const struct timespec pause = {0, 10000000};
    struct sigaction action = {.sa_handler = write_stack_down, .sa_flags = SA_RESTART};
    if (sigaction(SIGUSR2, &action, NULL) != 0 || pthread_kill(watchdog.main, SIGUSR2) != 0) return;
    for (int i = 0; i < 100 && atomic_load(&watchdog.frame_count) == 0; i++)
        nanosleep(&pause, NULL);
    size_t used = 0;
    /* the first two are the handler and its return */
    for (int i = 2; i < atomic_load(&watchdog.frame_count) && used + 1 < STACK; i++) {
        Dl_info info;
        if (dladdr(watchdog.frames[i], &info) == 0 || !info.dli_fname) continue;
        const char *file = strrchr(info.dli_fname, '/');
        used += (size_t)snprintf(
            stack + used, STACK - used, "    %.80s (%.60s+0x%lx)\n",
            info.dli_sname ? info.dli_sname : "?", file ? file + 1 : info.dli_fname,
            (unsigned long)((char *)watchdog.frames[i] - (char *)info.dli_fbase));
        if (info.dli_sname && strcmp(info.dli_sname, "bx_harness_run") == 0) break;
    }
#endif
}

/* ranks[count] in ascending order: 0-3,7. */
static void print_ranks(FILE *file, const int *ranks, int count)
{
    for (int i = 0, last; i < count; i = last + 1) {
        for (last = i; last + 1 < count && ranks[last + 1] == ranks[last] + 1;) last++;
        fprintf(file, "%s%d", i > 0 ? "," : "", ranks[i]);
        if (last > i) fprintf(file, "-%d", ranks[last]);
    }
}

/* One line for the ranks of the host that are in the same place, and the stack of the first.  Each
 * line names the host: a launcher mixes the lines of hosts that report at the same time. */
static void report(double seconds)
{
    int size = watchdog.size, *ranks = calloc((size_t)size, sizeof *ranks);
    const char **places = calloc((size_t)size, sizeof *places);
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length); /* in one piece: hosts report at the same time */
    if (!ranks || !places || !file) return;
    fprintf(file, "bisection-%s: nothing finished for %g s on host %s; its ranks:\n",
            watchdog.run->kernel->name, seconds, watchdog.host);
    for (int i = 0; i < size; i++) {
        const board *b = &watchdog.boards[i];
        places[i] = atomic_load(&b->placed) ? b->place : "no answer: stopped, or still advancing";
    }
    for (int i = 0; i < size; i++) {
        const char *place = places[i];
        int count = 0;
        if (!place) continue; /* listed */
        for (int k = i; k < size; k++) {
            if (!places[k] || strcmp(place, places[k]) != 0) continue;
            ranks[count++] = watchdog.boards[k].rank;
            places[k] = NULL;
        }
        fprintf(file, count > 1 ? "  ranks " : "  rank ");
        print_ranks(file, ranks, count);
        fprintf(file, " on %s: %s\n%s", watchdog.host, place,
                place == watchdog.boards[i].place ? watchdog.boards[i].stack : "");
    }
    fclose(file);
    fputs(text, stderr);
    fflush(stderr);
    free(text);
    free(ranks);
    free(places);
}

/* Ranks see within one check of each other that nothing moves: that long they wait for each other's
 * places, and once more for the other hosts' reports. */
static void give_up(double seconds, double check)
{
    board *this_board = &watchdog.boards[watchdog.host_rank];
    describe_place(this_board->place);
    describe_stack(this_board->stack);
    atomic_store(&this_board->placed, true);
    if (!wait_for(fmax(2 * check, 2))) return;
    bool expected = false;
    if (atomic_compare_exchange_strong(&watchdog.boards[0].reported, &expected, true))
        report(seconds);
    if (!wait_for(fmax(check, 1))) return;
    _exit(BX_HANG); /* the launcher ends the other ranks, stopped ones too */
}

/* Whether another rank of the host gives up. */
static bool any_placed(void)
{
    for (int i = 0; i < watchdog.size; i++)
        if (atomic_load(&watchdog.boards[i].placed)) return true;
    return false;
}

/* Where some ranks know whom they wait for, the others, of whom there may be thousands, wait until
 * those have reported and ended the launch. */
static void *watch(void *unused)
{
    double check, still = 0;
    unsigned long seen = atomic_load(&watchdog.finished);
    while (wait_for(check = patience() / CHECKS_PER_TIMEOUT)) {
        unsigned long now = atomic_load(&watchdog.finished);
        still = now == seen ? still + check : 0; /* a launch that is suspended adds one check */
        seen = now;
        bool yields = atomic_load(&watchdog.awaited) == -1 && !any_placed();
        if (still >= patience() + (yields ? fmax(2 * check, 2) + 3 * fmax(check, 1) : 0))
            give_up(patience(), check);
    }
    return NULL;
}

/* Maps the boards of all ranks of the host, zeroed: a memory file of the first rank, which the
 * others open through /proc.  A window of MPI would need room in /dev/shm, and some sites' settings
 * leave MPI without shared windows.  Ranks in different process namespaces cannot open the file:
 * each then has a board of its own, and reports alone. */
static void map_boards(MPI_Comm host)
{
    struct {
        int64_t process, file;
        uint64_t device, inode;
    } shared = {.file = -1};
    struct stat facts;
    void *boards = MAP_FAILED;
    int file = -1;
    PMPI_Comm_size(host, &watchdog.size);
    PMPI_Comm_rank(host, &watchdog.host_rank);
    size_t bytes = (size_t)watchdog.size * sizeof(board);
    if (watchdog.host_rank == 0) {
        file = memfd_create("watchdog", MFD_CLOEXEC);
        if (file >= 0 && ftruncate(file, (off_t)bytes) == 0 && fstat(file, &facts) == 0) {
            shared.process = getpid();
            shared.file = file;
            shared.device = facts.st_dev;
            shared.inode = facts.st_ino;
        }
    }
    PMPI_Bcast(&shared, sizeof shared, MPI_BYTE, 0, host);
    if (watchdog.host_rank > 0 && shared.file >= 0) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)shared.process,
                 (long long)shared.file);
        file = open(path, O_RDWR | O_CLOEXEC);
    }
    /* in another namespace the same path is another file */
    if (file >= 0 && fstat(file, &facts) == 0 && facts.st_dev == shared.device &&
        facts.st_ino == shared.inode)
        boards = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    int failed = boards == MAP_FAILED;
    PMPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, host);
    if (file >= 0) close(file);
    if (failed) {
        if (boards != MAP_FAILED) munmap(boards, bytes);
        watchdog.size = 1;
        watchdog.host_rank = 0;
        boards = memset(&watchdog.alone, 0, sizeof watchdog.alone);
    }
    watchdog.boards = boards;
}

void bx_watchdog_start(const bx_run *run)
{
    if (run->common.progress_timeout == 0) return;
    map_boards(run->host);
    watchdog.boards[watchdog.host_rank].rank = run->rank;
    watchdog.run = run;
    watchdog.timeout = run->common.progress_timeout;
    watchdog.stop = false;
    watchdog.main = pthread_self();
    atomic_store(&watchdog.longest, 0);
    atomic_store(&watchdog.longest_part, 0);
#ifdef HAS_BACKTRACE
    backtrace(watchdog.frames, FRAMES); /* loads its library here, where that may allocate */
#endif
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
    if (watchdog.boards != &watchdog.alone)
        munmap(watchdog.boards, (size_t)watchdog.size * sizeof(board));
    watchdog.boards = NULL;
}
