/* Charges are collected and paid in one piece before anyone looks at the clock, which stands still
 * while a rank computes: at a lap, on entry of MPI, at the end of a step. */
#include "charge.h"

#include "at_once.h"
#include "platform.h"

#include <simgrid/actor.h>
#include <simgrid/version.h>
#include <smpi/smpi.h>
#include <stdlib.h>
#include <string.h>

static const char *const RATES[BX_WORK_COUNT] = {"fft", "algebra", "pairs", "copy"};

static double owed; /* s, more than the clock shows */
static struct {
    int threads;
    double rate[BX_WORK_COUNT]; /* 1/s of a core; 0: free of charge */
    double copies;              /* B/s of a rank's share of the node's memory */
    double cache;               /* B of a rank's caches; 0: all is there */
    double cached;              /* B/s of reads from them; 0: free */
    double threaded;            /* time of loops over pairs in threads over that without */
    double fork, flops;         /* s; flop/s of a simulated host, which SimGrid counts in */
} machine;

static double number_or_0(const char *name)
{
    double rate = bx_platform_number(name);
    return rate > 0 ? rate : 0;
}

void bx_charge_start(const bx_run *run)
{
    machine.threads = run->threads;
    bx_platform_set_cores(run->node_rank * run->threads, run->threads);
    for (int i = 0; i < BX_WORK_COUNT; i++) machine.rate[i] = number_or_0(RATES[i]);
    machine.copies = number_or_0("memory") / run->node_size;
    machine.cache = number_or_0("cache") * run->threads;
    machine.cached = number_or_0("cache_bandwidth") * run->threads;
    machine.threaded = fmax(number_or_0("threaded"), 1);
    machine.fork = number_or_0("fork");
    machine.flops = number_or_0("flops");
}

void bx_charge(bx_work work, double amount, bool by_all_threads)
{
    double threads = by_all_threads ? machine.threads : 1, rate = machine.rate[work];
    if (work == BX_PAIRS && threads > 1) threads /= machine.threaded;
    rate *= threads;
    if (work == BX_COPY && machine.copies > 0) rate = fmin(rate, machine.copies);
    if (rate > 0 && amount > 0) owed += amount / rate;
}

void bx_charge_products(double flop, double bytes, double times)
{
    double rate = machine.rate[BX_ALGEBRA] * machine.threads, seconds = 0;
    double beyond = machine.cache > 0 ? fmax(bytes - machine.cache, 0) : 0;
    if (machine.cached > 0) seconds = (bytes - beyond) / machine.cached;
    /* a copy reads and writes: reads are twice as fast */
    if (machine.copies > 0) seconds += beyond / (2 * machine.copies);
    owed += times * (rate > 0 ? fmax(seconds, flop / rate) : seconds);
}

void bx_charge_fork(void)
{
    if (machine.threads > 1) owed += machine.fork;
}

void bx_charge_seconds(double seconds) { owed += seconds; }

/* Of SimGrid: its extension of an actor, which replays traces without data. Where a version hides
 * it, messages carry data. */
extern const size_t _ZN7simgrid4smpi8ActorExt12EXTENSION_IDE __attribute__((weak));
void _ZN7simgrid4smpi8ActorExt13set_replayingEb(void *extension, bool replaying)
    __attribute__((weak));

bool bx_charge_hollow_messages(bool hollow)
{
    bool before = bx_at_once_are_hollow;
    if (!bx_charge_is_hollow() || hollow == before) return before;
    if (bx_at_once() || !&_ZN7simgrid4smpi8ActorExt12EXTENSION_IDE) return before;
    /* an actor is a C++ object that begins with a vector of its extensions */
    void **extensions = *(void ***)sg_actor_self();
    bx_at_once_meet(MPI_COMM_WORLD); /* a message is hollow at both ends */
    _ZN7simgrid4smpi8ActorExt13set_replayingEb(extensions[_ZN7simgrid4smpi8ActorExt12EXTENSION_IDE],
                                               bx_at_once_are_hollow = hollow);
    bx_at_once_meet(MPI_COMM_WORLD);
    return before;
}

void bx_charge_repeat(MPI_Comm team, double since, double times)
{
    bx_charge_pay();
    double seconds = PMPI_Wtime() - since;
    PMPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, team);
    owed += times * seconds;
}

void bx_charge_pay(void)
{
    double flops = owed * machine.flops;
    owed = 0;
    /* smpi_execute drops what is shorter than a microsecond; this does not */
    if (flops > 0) smpi_execute_flops(flops);
}

void bx_charge_synchronise(MPI_Fint team)
{
    bx_charge_pay();
    bx_at_once_meet(MPI_Comm_f2c(team));
}

/* In the place of the clock of OpenMP, which is this machine's: with what is owed, so that parts of
 * a step between two calls of MPI are told apart. */
double __wrap_omp_get_wtime_(void) { return PMPI_Wtime() + owed; }

int bx_platform_panels(void)
{
    static int panels = -1; /* not asked yet */
    if (panels < 0) {
        const char *text = getenv("BX_HOLLOW");
        panels = text ? atoi(text) : 0;
    }
    return panels;
}

bool bx_charge_is_hollow(void) { return bx_platform_panels() > 0; }

bool bx_charge_is_sampled(void) { return bx_platform_panels() > 1; }

bool bx_charge_has_disks(void) { return bx_at_once(); }

void bx_charge_describe(bx_run *run, bx_json *result)
{
    char version[64];
    int major, minor, patch;
    sg_version_get(&major, &minor, &patch);
    snprintf(version, sizeof version, "SimGrid %d.%d", major, minor);
    bx_json *simulated = bx_json_object(result, "simulated");
    BX_TEXTS(simulated, {"by", version}, {"machine", bx_platform_text("name")});
    const char *changed = bx_platform_text("changed");
    if (changed) bx_json_text(simulated, "changed", changed);
    bx_json_bool(simulated, "hollow", bx_charge_is_hollow());
    bx_run_note(run, "simulated: %s%s%s by %s%s", bx_platform_text("name"), changed ? " with " : "",
                changed ? changed : "", version,
                !bx_charge_is_hollow() ? ""
                : bx_charge_is_sampled()
                    ? "; hollow: numbers are not computed, equal parts are sampled"
                    : "; hollow: numbers are not computed, messages are counted");
}
