/* bisection-tasks: a Fock build, whose tasks of unequal cost are shared out in several ways. */
#include "charge.h"
#include "tasks.h"
#include "window.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DRAWS = 200 }; /* of one measurement of latency */
enum { QUANTUM = 500 };    /* turns: how often a rank that computes looks at the clock */
/* s: so long the others compute, while one rank draws from the first to the last of these times */
static const double WINDOW = 2e-3, DRAWS_FROM = 0.5e-3, DRAWS_TO = 1.5e-3;
static const double TURN = 2.3e-9; /* s, about */

typedef struct {
    bx_choice about;
    bx_fock_size size;
} tasks_case;

static const tasks_case CASES[] = {
#define CASE(id, text, blocks, rows, partners, work)                                               \
    {{.name = #id, .summary = text}, {blocks, rows, partners, work}},
    BX_CASES(CASE)};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

static bx_fock_size given; /* 0: the case's */

static const bx_option OPTIONS[] = {
    {"blocks", "N", "rows of blocks of the matrix (default: the case's)", BX_INTEGER, 1, 1000,
     &given.blocks},
    {"rows", "N", "rows of a block (default: the case's)", BX_INTEGER, 1, 1000, &given.rows},
    {"partners", "N", "tasks for each pair of blocks (default: the case's)", BX_INTEGER, 1, 100,
     &given.partners},
    {"work", "TURNS", "turns of a mean task, about 2 ns each (default: the case's)", BX_INTEGER, 1,
     1e9, &given.work},
};

/* What the method asks for: the latency of a number while the others wait in MPI, and while those
 * that take tasks compute; of the bare call of MPI, while the others wait. */
enum { IDLE, COMPUTING, BARE, LATENCIES };

typedef struct {
    bx_tasks *methods; /* [method_count] each with its own `self` */
    bx_fock fock;
    MPI_Win window; /* the shared counter's */
    uint64_t *counter;
    char (*why)[160];  /* [method_count] it cannot run; "": it can */
    uint64_t computed; /* by the last step of the baseline */
    struct {
        bx_series latency[LATENCIES]; /* s */
        bx_rank_series turns;
    } *series; /* [method_count] */
} tasks_state;

static const bx_choice IDEAL = {.name = "ideal",
                                .summary = "all tasks' work in equal parts, without messages",
                                .wins = "the best that sharing out can reach",
                                .baseline = true};

/* NULL: the baseline. */
static const bx_tasks_method *method_of(size_t m)
{
    return m < bx_tasks_count ? bx_tasks_table[m] : NULL;
}

/* ---- set-up ---- */

static bx_fock_size settle_size(bx_run *run)
{
    bx_fock_size size = CASES[bx_run_case_index(run)].size, of_case = size;
    if (given.blocks) size.blocks = given.blocks;
    if (given.rows) size.rows = given.rows;
    if (given.partners) size.partners = given.partners;
    if (given.work) size.work = given.work;
    if (memcmp(&size, &of_case, sizeof size) != 0) bx_run_set_case(run, "custom");
    return size;
}

static int claim(bx_run *run, const bx_fock_size *size)
{
    char sized_by[128];
    int ranks = bx_run_ranks(run);
    double round = 0, each = bx_fock_turns(size) * TURN / bx_run_threads(run);
    snprintf(sized_by, sizeof sized_by, "--blocks %lld --rows %lld --partners %lld --work %lld",
             (long long)size->blocks, (long long)size->rows, (long long)size->partners,
             (long long)size->work);
    for (size_t m = 0; m <= bx_tasks_count; m++) {
        if (!run->selected[m]) continue;
        bool spare = method_of(m) && method_of(m)->spare;
        if (!spare || ranks > 1) round += each / (ranks - spare);
    }
    int code = bx_resources_claim_memory(run, bx_fock_memory(size, ranks), sized_by);
    return code != BX_OK ? code : bx_resources_claim_time(run, 0, round, sized_by);
}

static int setup(bx_run *run, void **address)
{
    tasks_state *s = bx_memory_alloc(1, sizeof *s);
    *address = s;
    bx_fock_size size = settle_size(run);
    int code = claim(run, &size);
    if (code != BX_OK) return code;
    BX_ALLOC(bx_tasks_count, s->methods, s->series, s->why);
    s->window = MPI_WIN_NULL;
    bool windows =
        bx_fock_open(&s->fock, run, &size) &&
        bx_window_open(run, bx_run_comm(run), &s->counter, sizeof *s->counter, &s->window);
    for (size_t m = 0; m < bx_tasks_count; m++) {
        int64_t tasks = s->fock.tasks;
        s->methods[m] = (bx_tasks){.run = run,
                                   .comm = bx_run_comm(run),
                                   .rank = bx_run_rank(run),
                                   .ranks = bx_run_ranks(run),
                                   .tasks = tasks,
                                   .draws = tasks > MOST_DRAWS ? tasks : MOST_DRAWS + 1,
                                   .window = s->window};
        if (!windows || (method_of(m)->create && !method_of(m)->create(&s->methods[m])))
            snprintf(s->why[m], sizeof s->why[m], "%s", bx_window_why());
    }
    return BX_OK;
}

static bool applicable(void *address, size_t method, char *why, size_t why_size)
{
    const tasks_state *s = address;
    const bx_tasks_method *m = method_of(method);
    if (!m) return true;
    if (m->spare && s->fock.ranks < 2) {
        snprintf(why, why_size, "needs two ranks: rank 0 takes no tasks");
        return false;
    }
    snprintf(why, why_size, "%s", s->why[method]);
    return !*why;
}

static void teardown(void *address)
{
    tasks_state *s = address;
    for (size_t m = 0; m < bx_tasks_count; m++) {
        if (method_of(m)->destroy && s->methods[m].self) method_of(m)->destroy(&s->methods[m]);
        for (int i = 0; i < LATENCIES; i++) free(s->series[m].latency[i].values);
        bx_rank_series_free(&s->series[m].turns);
    }
    bx_window_close(&s->window);
    bx_fock_close(&s->fock);
    BX_FREE(s->methods, s->series, s->why, s);
}

/* ---- a build ---- */

/* The next number is 0.  Collective. */
static void reset_numbers(tasks_state *s, size_t method)
{
    bx_tasks *t = &s->methods[method];
    t->next = 0;
    *s->counter = 0;
    if (method_of(method)->begin) method_of(method)->begin(t);
    bx_window_sync(t->comm, &s->window, 1);
}

static void prepare(void *address, size_t method, size_t point)
{
    tasks_state *s = address;
    s->computed = 0;
    if (!method_of(method)) return;
    bx_fock_begin(&s->fock);
    reset_numbers(s, method);
    bx_window_sync(s->fock.comm, s->fock.windows, 2);
}

static bool takes_tasks(const bx_tasks *t, const bx_tasks_method *m)
{
    return !m->spare || t->rank > 0;
}

/* This rank's part of all turns, without tasks. */
static int64_t part_of(const bx_fock *f)
{
    return f->turns / f->ranks + (f->rank < f->turns % f->ranks);
}

static void step(void *address, size_t method, size_t point)
{
    tasks_state *s = address;
    const bx_tasks_method *m = method_of(method);
    if (!m) {
        s->computed = bx_fock_integrals(&s->fock, (uint64_t)s->fock.rank, part_of(&s->fock));
        return;
    }
    bx_tasks *t = &s->methods[method];
    if (takes_tasks(t, m)) {
        int64_t task;
        while ((task = m->draw(t)) < t->tasks) {
            bx_run_lap(t->run, BX_FOCK_COUNTER);
            bx_fock_run(&s->fock, task);
        }
        if (m->leave) m->leave(t);
    } else if (m->serve) {
        m->serve(t);
    }
    bx_run_lap(t->run, BX_FOCK_COUNTER);
    bx_fock_end(&s->fock);
}

/* The numbers that rank 0 has given in a build, by its word or by messages; the turns of a rank,
 * where a task that is lost or done twice is another check's. */
static void check_sharing(const tasks_state *s, size_t method, int64_t turns,
                          bx_verification *verification)
{
    const bx_fock *f = &s->fock;
    const bx_tasks *t = &s->methods[method];
    const bx_tasks_method *m = method_of(method);
    double taken = 0, least = 0, most = 0, dealt = 0, longest = (double)f->largest;
    MPI_Win_sync(s->window);
    if (t->rank == 0) taken = (double)*s->counter + (m->serve ? (double)t->next : 0);
    if (t->rank == 0 && m->taken) m->taken(t, &least, &most);
    bx_verification_count(verification, "numbers taken from rank 0", taken, least, most);
    least = 0, most = m->spare && t->rank == 0 ? 0 : (double)f->turns + longest;
    for (int64_t task = t->rank; m->dealt && task < f->tasks; task += f->ranks)
        dealt += (double)bx_fock_cost(f, task);
    if (m->dealt) least = dealt - longest, most = dealt + longest;
    bx_verification_count(verification, "turns", (double)turns, least, most);
}

static void inspect(void *address, size_t method, size_t point, bx_verification *verification)
{
    tasks_state *s = address;
    const bx_fock *f = &s->fock;
    if (!method_of(method)) {
        bool wrong = s->computed != bx_fock_expected(f, (uint64_t)f->rank, part_of(f));
        bx_verification_check(verification, "outcome", wrong, 0, "ranks");
        return;
    }
    int64_t turns = bx_fock_inspect(&s->fock, verification);
    check_sharing(s, method, turns, verification);
    if (bx_run_is_sampling(f->run))
        bx_rank_series_add(&s->series[method].turns, f->comm, (double)turns);
}

static void verify(void *address, size_t method, size_t point, bx_verification *verification)
{
    tasks_state *s = address;
    double tolerance, unexpected = bx_fock_unexpected_turns(&s->fock, &tolerance);
    bx_verification_check(verification, "work", unexpected, tolerance, "turns");
    prepare(address, method, point);
    step(address, method, point);
    inspect(address, method, point, verification);
}

/* ---- latency of a number, between the blocks of builds ---- */

/* Seconds per draw of the last rank, which makes as many as there is time for.  Nobody else draws:
 * the numbers are 0, 1, and so on, and one more draw shows that each of them was drawn. */
static double time_draws(bx_tasks *t, int64_t (*draw)(bx_tasks *), int64_t *wrong)
{
    double start = MPI_Wtime(), seconds;
    int64_t draws = 0;
    do {
        *wrong += draw(t) != draws;
        draws++;
        seconds = MPI_Wtime() - start;
    } while (draws < MOST_DRAWS && seconds < DRAWS_TO - DRAWS_FROM);
    *wrong += draw(t) != draws;
    return seconds / (double)draws;
}

/* Computes until `limit` seconds are over.  Returns how often, and adds the wrong outcomes. */
static int64_t compute_for(const bx_fock *f, double limit, int64_t *wrong)
{
    const uint64_t expected = bx_fock_expected(f, 0, QUANTUM);
    double start = MPI_Wtime();
    int64_t quanta = 0;
    do {
        *wrong += bx_fock_integrals(f, 0, QUANTUM) != expected;
        quanta++;
        bx_charge_pay();
    } while (MPI_Wtime() - start < limit);
    return quanta;
}

static void measure_latency(tasks_state *s, size_t method, int kind, bx_verification *verification)
{
    bx_tasks *t = &s->methods[method];
    const bx_tasks_method *m = method_of(method);
    int drawer = t->ranks - 1;
    bool computes = kind == COMPUTING && takes_tasks(t, m);
    int64_t wrong = 0, quanta = 0;
    double seconds = 0;
    reset_numbers(s, method);
    if (t->rank == drawer && computes) quanta = compute_for(&s->fock, DRAWS_FROM, &wrong);
    if (t->rank == drawer)
        seconds = time_draws(t, kind == BARE ? bx_tasks_draw_shared : m->draw, &wrong);
    if (kind != BARE && takes_tasks(t, m)) {
        if (m->leave) m->leave(t);
        if (computes && t->rank != drawer) quanta = compute_for(&s->fock, WINDOW, &wrong);
    } else if (kind != BARE && m->serve) {
        m->serve(t);
    }
    MPI_Barrier(t->comm);
    MPI_Bcast(&seconds, 1, MPI_DOUBLE, drawer, t->comm);
    bx_series_add(&s->series[method].latency[kind], seconds);
    wrong += computes && quanta == 0;
    bx_verification_check(verification, "latency", (double)wrong, 0, "numbers or outcomes");
}

static void end(void *address, size_t method, size_t point, int64_t steps,
                bx_verification *verification)
{
    tasks_state *s = address;
    if (!method_of(method) || !method_of(method)->asks) return;
    for (int kind = 0; kind < LATENCIES; kind++)
        if (kind != COMPUTING || s->fock.ranks > 1) measure_latency(s, method, kind, verification);
}

static void metrics(void *address, size_t method, size_t point, bx_metrics *list)
{
    const tasks_state *s = address;
    if (!method_of(method)) return;
    const bx_series *latency = s->series[method].latency;
    const bx_rank_series *turns = &s->series[method].turns;
    bx_metrics_add_series(list, "imbalance", bx_series_quantile(&turns->imbalance, 0.5), "ratio",
                          "lower", turns);
    double ratio = bx_metrics_value(list, "ratio_ideal");
    if (isfinite(ratio)) bx_metrics_add(list, "efficiency", 1 / ratio, "ratio", "higher");
    if (latency[IDLE].count == 0) return;
    bx_metrics_add(list, "latency", bx_series_quantile(&latency[IDLE], 0.5), "s", "lower");
    bx_metrics_add(list, "ratio_bare",
                   bx_series_quantile(&latency[IDLE], 0.5) /
                       bx_series_quantile(&latency[BARE], 0.5),
                   "ratio", "lower");
    if (latency[COMPUTING].count > 0)
        bx_metrics_add(list, "latency_computing", bx_series_quantile(&latency[COMPUTING], 0.5), "s",
                       "lower");
}

static void report(void *address, bx_run *run, bx_json *details)
{
    const tasks_state *s = address;
    const bx_fock *f = &s->fock;
    double mean = (double)f->turns / (double)f->tasks;
    bx_run_note(
        run, "%lld tasks, the largest %.0f times the mean; a matrix of %lld rows in blocks of %lld",
        (long long)f->tasks, (double)f->largest / mean, (long long)(f->size.blocks * f->size.rows),
        (long long)f->size.rows);
    BX_NUMBERS(details, {"tasks", f->tasks}, {"turns", f->turns}, {"largest_task", f->largest},
               {"rows", (double)(f->size.blocks * f->size.rows)});
}

const bx_kernel *bx_kernel_get(void)
{
    static const char *const phases[BX_FOCK_PHASES] = {"counter", "blocks", "integrals", "waiting"};
    static const char *const ratios[] = {"ideal", "static"};
    static bx_kernel kernel = {
        .name = "tasks",
        .summary = "a Fock build: tasks of unequal cost, shared out while they run",
        .options = BX_COUNTED(OPTIONS),
        .phases = phases,
        .phase_count = BX_FOCK_PHASES,
        .ratios = BX_COUNTED(ratios),
        .baselines = "ideal",
        .setup = setup,
        .applicable = applicable,
        .verify = verify,
        .prepare = prepare,
        .inspect = inspect,
        .end = end,
        .step = step,
        .metrics = metrics,
        .report = report,
        .teardown = teardown,
    };
    for (size_t i = 0; i < CASE_COUNT; i++) bx_kernel_add_case(&kernel, &CASES[i].about);
    for (size_t m = 0; m < bx_tasks_count; m++) {
        bx_kernel_add_method(&kernel, &bx_tasks_table[m]->about);
    }
    bx_kernel_add_method(&kernel, &IDEAL);
    return &kernel;
}
