#include "start.h"

#include "charge.h"
#include "profile.h"

#include <stdlib.h>

enum { ROUND_TRIPS = 20, REHEARSALS = 20 };
static const double MOST_LEAD = 1e-3; /* s, where other processes take cores from ranks */
/* Of the measurement: comparing clocks takes no more.  On many ranks it takes as long as a short
 * block of samples, or longer. */
static const double MOST_SHARE = 0.01;
const double bx_start_most_skew = 0.1;

typedef struct bx_start {
    MPI_Comm comm; /* the world's ranks: messages of their own */
    enum { AUTO, BARRIER, WINDOW } asked;
    double origin;  /* the reading of this rank's MPI_Wtime at time 0 of the common clock */
    double error;   /* s: by how much the last two measurements of it differ */
    double offset;  /* s: this clock is ahead of that of the parent in the tree */
    double trip;    /* s: of the round trip that has shown it */
    double lead;    /* s: from the arrival of the last rank to the start */
    double skew;    /* s: how far ranks are apart in windows without steps */
    bool rehearsed; /* both are known */
    double cost;    /* s: of the shortest comparison of all clocks, and when the next one is due */
    double next;    /* by this rank's MPI_Wtime: rank 0's count */
} bx_start;

int bx_start_create(bx_run *run)
{
    int asked = bx_run_one_of(run, "start", run->common.start, "auto, barrier, window");
    if (bx_run_agree(run) != BX_OK) return run->refusal;
    bool common = !BX_IS_SIMULATED && bx_resources_threads_per_core(run) <= 1;
    PMPI_Allreduce(MPI_IN_PLACE, &common, 1, MPI_C_BOOL, MPI_LAND, run->world);
    if (!common && asked == WINDOW)
        return bx_run_refuse(run, BX_RESOURCES,
                             "--start window: ranks share cores, or are simulated, so that there "
                             "are no common clocks; choose barrier");
    if (!common) return BX_OK;
    if (asked == AUTO && bx_run_is_emulated(run)) asked = BARRIER;
    run->start = bx_memory_alloc(1, sizeof *run->start);
    *run->start = (bx_start){.asked = asked, .trip = INFINITY, .cost = INFINITY};
    PMPI_Comm_dup(run->world, &run->start->comm);
    return BX_OK;
}

void bx_start_free(bx_run *run)
{
    if (run->start) PMPI_Comm_free(&run->start->comm);
    free(run->start);
    run->start = NULL;
}

/* ---- clocks ---- */

/* Measures the offset to the parent.  Returns by how much it differs from the one before.  That one
 * stays where its round trip was shorter, unless the new trip excludes it. */
static double ask(bx_start *s, int parent)
{
    double offset = 0, trip = INFINITY, theirs;
    for (int i = 0; i < ROUND_TRIPS; i++) {
        double before = PMPI_Wtime();
        PMPI_Send(NULL, 0, MPI_DOUBLE, parent, 0, s->comm);
        PMPI_Recv(&theirs, 1, MPI_DOUBLE, parent, 0, s->comm, MPI_STATUS_IGNORE);
        double after = PMPI_Wtime();
        if (after - before >= trip) continue;
        trip = after - before;
        offset = before + (after - before) / 2 - theirs;
    }
    double change = isfinite(s->trip) ? fabs(offset - s->offset) : 0;
    if (trip <= s->trip || change > trip / 2) {
        s->offset = offset;
        s->trip = trip;
    }
    return change;
}

static void answer(const bx_start *s, int child)
{
    for (int i = 0; i < ROUND_TRIPS; i++) {
        PMPI_Recv(NULL, 0, MPI_DOUBLE, child, 0, s->comm, MPI_STATUS_IGNORE);
        double now = PMPI_Wtime();
        PMPI_Send(&now, 1, MPI_DOUBLE, child, 0, s->comm);
    }
}

/* Rank r's parent in the tree is r without its lowest bit. */
static void measure_clocks(const bx_run *run)
{
    bx_start *s = run->start;
    double change = 0, began = PMPI_Wtime();
    int bit = 1;
    bx_profile_enter_harness("the harness's comparison of clocks");
    for (; bit < run->size && !(run->rank & bit); bit *= 2)
        if (run->rank + bit < run->size) answer(s, run->rank + bit);
    if (run->rank > 0) change = ask(s, run->rank - bit);
    double known[2] = {s->origin, 0}; /* the parent's origin, and its error */
    if (run->rank == 0 && !s->rehearsed) known[0] = PMPI_Wtime();
    if (run->rank > 0)
        PMPI_Recv(known, 2, MPI_DOUBLE, run->rank - bit, 0, s->comm, MPI_STATUS_IGNORE);
    s->origin = known[0] + s->offset;
    s->error = known[1] + change;
    for (bit /= 2; bit > 0; bit /= 2)
        if (run->rank + bit < run->size)
            PMPI_Send((double[]){s->origin, s->error}, 2, MPI_DOUBLE, run->rank + bit, 0, s->comm);
    double ended = PMPI_Wtime();
    s->cost = fmin(s->cost, ended - began);
    s->next = ended + s->cost / MOST_SHARE;
    bx_profile_enter_harness(NULL);
}

static bool is_due(const bx_run *run)
{
    bool due = PMPI_Wtime() >= run->start->next;
    bx_profile_enter_harness("the harness's comparison of clocks");
    PMPI_Bcast(&due, 1, MPI_C_BOOL, 0, run->world);
    bx_profile_enter_harness(NULL);
    return due;
}

/* ---- starts ---- */

double bx_start_meet(const bx_run *run, bool by_window)
{
    double due = -INFINITY;
    const bx_start *s = run->start;
    bx_profile_enter_harness("the harness's barrier");
    if (by_window) {
        double now = PMPI_Wtime() - s->origin, last;
        PMPI_Allreduce(&now, &last, 1, MPI_DOUBLE, MPI_MAX, run->world);
        /* the last arrived before this moment, unless a clock has jumped since it was measured */
        last = fmin(last, PMPI_Wtime() - s->origin);
        due = last + s->lead + s->origin - bx_profile_paused();
    } else {
        PMPI_Barrier(run->world);
    }
    bx_profile_enter_harness(NULL);
    return due;
}

void bx_start_ends(const bx_run *run, double reading, double ends[2])
{
    const bx_start *s = run->start;
    double time = s ? reading - s->origin : NAN;
    ends[0] = time + (s ? s->error : 0);
    ends[1] = (s ? s->error : 0) - time;
}

/* Windows without steps.  Returns how far the ranks are apart, and, after a lead of 0, how late the
 * last one knew of the start: medians. */
static double rehearse(const bx_run *run, double *late)
{
    double ends[REHEARSALS][2], delays[REHEARSALS], sums[REHEARSALS];
    for (int i = 0; i < REHEARSALS; i++) {
        double due = bx_start_meet(run, true), now;
        do now = bx_profile_clock();
        while (now < due);
        delays[i] = now - due;
        bx_start_ends(run, now + bx_profile_paused(), ends[i]);
    }
    PMPI_Allreduce(MPI_IN_PLACE, ends, 2 * REHEARSALS, MPI_DOUBLE, MPI_MAX, run->world);
    PMPI_Allreduce(MPI_IN_PLACE, delays, REHEARSALS, MPI_DOUBLE, MPI_MAX, run->world);
    for (int i = 0; i < REHEARSALS; i++) sums[i] = ends[i][0] + ends[i][1];
    *late = bx_statistics_quantile(delays, REHEARSALS, 0.5);
    return bx_statistics_quantile(sums, REHEARSALS, 0.5);
}

void bx_start_adjust(bx_run *run)
{
    bx_start *s = run->start;
    double late = 0;
    if (!s || !is_due(run)) return;
    measure_clocks(run);
    if (s->rehearsed) return;
    s->rehearsed = true;
    measure_clocks(run); /* the first has nothing to differ from */
    rehearse(run, &late);
    s->lead = fmin(2 * late, MOST_LEAD);
    s->skew = rehearse(run, &late);
}

bool bx_start_choose(const bx_run *run, double step)
{
    const bx_start *s = run->start;
    if (!s || s->asked != AUTO) return s && s->asked == WINDOW;
    bx_profile_enter_harness("the harness's reduction");
    PMPI_Allreduce(MPI_IN_PLACE, &step, 1, MPI_DOUBLE, MPI_MAX, run->world);
    bx_profile_enter_harness(NULL);
    return s->skew < bx_start_most_skew * step;
}
