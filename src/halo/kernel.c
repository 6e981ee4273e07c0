/* bisection-halo: codes that exchange a halo with their neighbours, with every way to do it. */
#include "charge.h"
#include "method.h"
#include "verify.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    bx_choice about;
    const bx_kind *kind;
    int64_t extent[3];
} halo_case;

static const halo_case CASES[] = {
#define CASE(id, text, kind, nx, ny, nz)                                                           \
    {{.name = #id, .summary = text}, &bx_kind_##kind, {nx, ny, nz}},
    BX_CASES(CASE)};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

/* Beside the methods, in their order behind them. */
enum { STENCIL, COPY, STREAM, BASELINE_COUNT };
static const bx_choice BASELINES[BASELINE_COUNT] = {
    {.name = "stencil", .summary = "a step without its exchange", .baseline = true},
    {.name = "copy",
     .summary = "the numbers of an exchange, from where they are read to the ghosts, in own memory",
     .baseline = true},
    {.name = "stream",
     .summary = "a loop that reads both copies of the fields and writes one, as a step does",
     .baseline = true},
};
enum { PHASE_EXCHANGE, PHASE_STENCIL };

/* What the plain exchange gives after the steps of a block. */
typedef struct {
    uint64_t checksum;
    double error, exact; /* largest difference from the solution of the scheme, and the exact one */
} reference;

typedef struct {
    bx_run *run;
    bx_mesh *mesh;
    bx_halo *halo;
    bx_halo_messages **messages; /* [methods]; NULL: not selected, or not applicable */
    void **selves;               /* [methods] */
    char (*why)[160];            /* [methods] not applicable */
    int now;                     /* the copy of the fields that is of the current step */
    reference plain;
    double recomputed; /* difference of the plain exchange's fields from other code's */
    size_t ghosts;     /* numbers in them, of copies of own cells too */
    double points;     /* cells of all ranks, times levels */
} halo_state;

static bx_halo_options options = {.order = "ordered", .land = "islands", .courant = 0.3};
static bool exchange_only;

enum { LARGEST_GRID = 4096 };
static const bx_option OPTIONS[] = {
    {"grid", "NX,NY,NZ", "grid; of an ocean, NZ levels (default: the case's)", BX_GRID, 1,
     LARGEST_GRID, options.grid},
    {"order", "ORDER", "numbering of nodes of multi-block cases: ordered or shuffled", BX_TEXT, 0,
     0, &options.order},
    {"land", "LAND", "land of ocean cases: islands or none", BX_TEXT, 0, 0, &options.land},
    {"courant", "C", "Courant number, up to 0.45: the time step over the cell", BX_REAL, 1e-6, 0.45,
     &options.courant},
    {"exchange-only", NULL, "measure the exchanges; the stencil is computed behind the clock",
     BX_FLAG, 0, 0, &exchange_only},
    BX_COMM_BUFFER_OPTIONS,
};

/* ---- steps ---- */

/* Whether a step is an exchange, and the stencil is computed behind the clock.  It is where fields
 * are exchanged in memory of a device, as the host computes the stencil. */
static bool is_exchange_only(void) { return exchange_only || bx_comm_buffers_are_copied(); }

static void charge_step(const bx_mesh *mesh)
{
    static const double COPIES = 1.5; /* a copy reads and writes; a step reads twice and writes */
    bx_charge(BX_COPY, COPIES * bx_mesh_numbers(mesh) * sizeof(double), true);
    bx_charge(BX_PAIRS, mesh->kind->code_flops * (double)(mesh->own * mesh->width), true);
}

static void compute(halo_state *h, bx_step_part part)
{
    const bx_mesh *mesh = h->mesh;
    if (!bx_charge_is_hollow())
        mesh->kind->step(mesh, h->halo->fields[h->now], h->halo->fields[1 - h->now], part);
    if (part != BX_BOUNDARY) bx_charge_fork();
    if (part != BX_INTERIOR) charge_step(mesh);
    bx_run_lap(h->run, PHASE_STENCIL);
}

static void compute_behind_clock(halo_state *h)
{
    if (bx_charge_is_hollow()) return;
    h->mesh->kind->step(h->mesh, h->halo->fields[h->now], h->halo->fields[1 - h->now], BX_ALL);
    h->now = 1 - h->now;
}

static void step_with(halo_state *h, size_t m)
{
    const bx_halo_method *method = bx_halo_methods[m];
    if (method->start) method->start(h->selves[m], h->now);
    bx_halo_copy_own(h->halo, h->now);
    bx_run_lap(h->run, PHASE_EXCHANGE);
    if (method->overlaps) compute(h, BX_INTERIOR);
    method->finish(h->selves[m], h->now);
    bx_run_lap(h->run, PHASE_EXCHANGE);
    if (is_exchange_only()) return;
    compute(h, method->overlaps ? BX_BOUNDARY : BX_ALL);
    h->now = 1 - h->now;
}

static void fill(halo_state *h)
{
    h->now = 0;
    if (!bx_charge_is_hollow()) bx_verify_fill(h->halo);
}

static const double STREAMED = 0x1p-10; /* with what treat_stream writes, sums are exact */

static void stream(const halo_state *h)
{
    const bx_mesh *mesh = h->mesh;
    int64_t numbers = mesh->own * mesh->width;
    for (int f = 0; f < mesh->fields; f++) {
        const double *restrict from = &h->halo->fields[0][f * mesh->stride];
        double *restrict to = &h->halo->fields[1][f * mesh->stride];
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < numbers; i++) to[i] += STREAMED * from[i];
    }
}

/* Writes what the stream begins with, or counts what is otherwise after some steps. */
static int64_t treat_stream(const halo_state *h, int64_t steps, bool write)
{
    const bx_mesh *mesh = h->mesh;
    int64_t numbers = mesh->own * mesh->width, wrong = 0;
    for (int f = 0; f < mesh->fields; f++) {
        double *from = &h->halo->fields[0][f * mesh->stride];
        double *to = &h->halo->fields[1][f * mesh->stride];
#pragma omp parallel for schedule(static) reduction(+ : wrong)
        for (int64_t i = 0; i < numbers; i++) {
            double number = (double)(1 + i % 1024);
            if (write) from[i] = number, to[i] = 0;
            wrong += to[i] != (double)steps * STREAMED * number;
        }
    }
    return wrong;
}

static bool is_method(size_t index) { return index < (size_t)bx_halo_method_count; }
static bool is_baseline(size_t index, size_t baseline)
{
    return index == (size_t)bx_halo_method_count + baseline;
}

static void step(void *state, size_t index, size_t point)
{
    halo_state *h = state;
    if (is_method(index)) {
        step_with(h, index);
        return;
    }
    switch (index - (size_t)bx_halo_method_count) {
    case STENCIL:
        compute(h, BX_ALL);
        h->now = 1 - h->now;
        break;
    case COPY:
        bx_halo_copy_alone(h->halo, h->now);
        break;
    case STREAM:
        if (!bx_charge_is_hollow()) stream(h);
        bx_charge(BX_COPY, 1.5 * bx_mesh_numbers(h->mesh) * sizeof(double), true);
        break;
    }
}

static void begin(void *state, size_t index, size_t point)
{
    const halo_state *h = state;
    fill(state);
    if (is_baseline(index, STREAM) && !bx_charge_is_hollow()) treat_stream(state, 0, true);
    for (int copy = 0; copy < 2 && is_baseline(index, COPY); copy++)
        bx_halo_copy_alone(h->halo, copy); /* ghosts that no step has filled are not numbers */
}

/* The stencil alone finds its ghosts filled: it computes what a step with an exchange does.  The
 * copy finds caches as an exchange does: behind a stencil. */
static void prepare(void *state, size_t index, size_t point)
{
    halo_state *h = state;
    if (bx_charge_is_hollow()) return;
    bx_comm_buffers_bring();
    if (is_baseline(index, STENCIL)) bx_halo_exchange_plainly(h->halo, h->now);
    if (is_baseline(index, COPY)) compute_behind_clock(h);
}

/* ---- verification ---- */

static reference take_reference(const halo_state *h, int64_t steps)
{
    reference r = {.checksum = bx_verify_checksum(h->halo, h->now)};
    if (h->mesh->has_solution) {
        r.error = bx_verify_error(h->halo, h->now, steps, false);
        r.exact = bx_verify_error(h->halo, h->now, steps, true);
    }
    double worst[2] = {r.error, r.exact};
    MPI_Allreduce(MPI_IN_PLACE, worst, 2, MPI_DOUBLE, MPI_MAX, h->halo->comm);
    r.error = worst[0];
    r.exact = worst[1];
    return r;
}

static int64_t recomputed_steps(const halo_state *h)
{
    int64_t steps = bx_run_block_steps(h->run);
    return steps < BX_RECOMPUTED_STEPS ? steps : BX_RECOMPUTED_STEPS;
}

/* A step rounds each number a few times, and a wave carries it on. */
static double rounded(int64_t steps) { return 16 * 0x1p-52 * (double)((steps + 2) * (steps + 2)); }

/* Fields after a block of steps: the same bits as by the plain exchange, whose first steps other
 * code gives too; the solution of the scheme where its closed form is known; and land as it was. */
static void end(void *state, size_t index, size_t point, int64_t steps,
                bx_verification *verification)
{
    halo_state *h = state;
    const bx_mesh *mesh = h->mesh;
    if (bx_charge_is_hollow()) return;
    if (is_baseline(index, COPY)) {
        double wrong = (double)bx_halo_copied_wrong(h->halo, h->now);
        bx_verification_check(verification, "copy", wrong, 0, "ghosts");
        return;
    }
    if (is_baseline(index, STREAM)) {
        double wrong = (double)treat_stream(h, steps, false);
        bx_verification_check(verification, "stream", wrong, 0, "numbers");
        return;
    }
    uint64_t checksum = bx_verify_checksum(h->halo, h->now);
    bx_verification_check(verification, "fields", checksum != h->plain.checksum, 0, "hashes");
    if (mesh->kind->recompute)
        bx_verification_check(verification, "recomputed", h->recomputed,
                              rounded(recomputed_steps(h)), "amplitudes");
    if (mesh->has_solution) { /* the same bits have the same error */
        double error = h->plain.error;
        if (checksum != h->plain.checksum) error = bx_verify_error(h->halo, h->now, steps, false);
        bx_verification_check(verification, "solution", error, rounded(steps), "amplitudes");
    }
    if (!mesh->kind->changed) return;
    double changed = mesh->kind->changed(mesh, h->halo->fields[0]) +
                     mesh->kind->changed(mesh, h->halo->fields[1]);
    bx_verification_check(verification, "land", changed, 0, "numbers");
}

static void inspect(void *state, size_t index, size_t point, bx_verification *verification)
{
    halo_state *h = state;
    bx_comm_buffers_fetch();
    if (is_method(index) && is_exchange_only()) compute_behind_clock(h);
    if (is_method(index) && !bx_charge_is_hollow())
        bx_verification_check(verification, "ghosts", bx_verify_unequal(h->halo, 1 - h->now), 0,
                              "neighbours");
}

/* What an exchange sends, or gets: messages, those between nodes, and the bytes of both. */
static void plan_traffic(const halo_state *h, const bx_halo_method *method, bool gets,
                         double traffic[4])
{
    const bx_halo *halo = h->halo;
    int count = gets ? halo->receive_count : halo->send_count;
    memset(traffic, 0, 4 * sizeof *traffic);
    for (int i = 0; i < count; i++) {
        const bx_peer *peer = gets ? &halo->receives[i] : &halo->sends[i];
        double bytes = (double)(peer->count * h->mesh->width * h->mesh->fields) * sizeof(double);
        bool off_node = !bx_halo_on_node(halo, peer->rank);
        double messages = method->aggregated ? 1 : h->mesh->fields;
        if (method->between_nodes && !off_node) continue;
        traffic[0] += messages;
        traffic[1] += off_node ? messages : 0;
        traffic[2] += bytes;
        traffic[3] += off_node ? bytes : 0;
    }
}

/* What a step sends; its messages are under way at once, or cells are computed behind them. */
static void promise(void *state, size_t index, size_t point, const bx_shown *shown,
                    bx_verification *verification)
{
    const halo_state *h = state;
    const bx_halo_method *method = bx_halo_methods[index];
    double sent[4], planned[4], coming[4];
    plan_traffic(h, method, false, planned);
    plan_traffic(h, method, true, coming);
    bx_shown_sent(shown, sent);
    bx_verification_sent(verification, sent, planned);
    double messages = planned[0] + coming[0], behind = method->overlaps && messages > 0;
    if (method->at_once)
        bx_verification_count(verification, "messages under way at once", bx_shown_requests(shown),
                              messages, messages);
    bx_verification_count(verification, "stencils behind an exchange",
                          bx_shown_laps(shown, PHASE_STENCIL), behind, behind);
}

/* Every byte of every ghost, both copies; then a block of steps. */
static void verify(void *state, size_t index, size_t point, bx_verification *verification)
{
    halo_state *h = state;
    if (is_method(index)) {
        const bx_halo_method *method = bx_halo_methods[index];
        double wrong = 0;
        for (int copy = 0; copy < 2; copy++) {
            bx_verify_mark(h->halo, copy);
            bx_comm_buffers_bring();
            MPI_Barrier(h->halo->comm);
            if (method->start) method->start(h->selves[index], copy);
            bx_halo_copy_own(h->halo, copy);
            method->finish(h->selves[index], copy);
            bx_comm_buffers_fetch();
            wrong += bx_verify_wrong_bytes(h->halo, copy);
            MPI_Barrier(h->halo->comm); /* neighbours may read my fields */
        }
        bx_verification_check_always(verification, "exchange", wrong, 0, "bytes");
        if (!bx_verification_passed(h->run, verification)) return;
    }
    begin(h, index, point);
    int64_t steps = bx_run_block_steps(h->run);
    for (int64_t i = 0; i < steps; i++) {
        prepare(h, index, point);
        step(h, index, point);
        inspect(h, index, point, verification);
    }
    end(h, index, point, steps, verification);
}

/* ---- setup ---- */

static bool applicable(void *state, size_t index, char *why, size_t why_size)
{
    const halo_state *h = state;
    if (is_method(index) ? h->selves[index] != NULL : !is_exchange_only()) return true;
    snprintf(why, why_size, "%s", is_method(index) ? h->why[index] : "a step is an exchange");
    return false;
}

static void create_method(halo_state *h, int m)
{
    const bx_halo_method *method = bx_halo_methods[m];
    if (method->applicable && !method->applicable(h->halo, h->why[m], sizeof h->why[m])) return;
    const char *why_not = bx_comm_buffers_are_copied() ? method->host_only : NULL;
    if (!why_not && bx_comm_buffers_are_staged()) why_not = method->not_staged;
    if (method->overlaps && is_exchange_only()) why_not = "there is no stencil to overlap";
    if (why_not) {
        snprintf(h->why[m], sizeof h->why[m], "%s", why_not);
        return;
    }
    bx_halo_messages *messages =
        bx_halo_messages_create(h->halo, method->aggregated, method->between_nodes);
    h->selves[m] = method->create(messages);
    if (h->selves[m]) {
        h->messages[m] = messages;
    } else {
        snprintf(h->why[m], sizeof h->why[m], "%s", bx_window_why());
        bx_halo_messages_free(messages);
    }
}

static const halo_case *chosen_case(bx_run *run, int64_t extent[3])
{
    const halo_case *chosen = &CASES[bx_run_case_index(run)];
    memcpy(extent, options.grid[0] ? options.grid : chosen->extent, sizeof chosen->extent);
    return chosen;
}

static int claim(bx_run *run, const halo_case *chosen, const int64_t extent[3])
{
    static const double STEP = 4e-9, FILL = 60e-9, SLACK = 1.3; /* s per number; ghosts, messages */
    int methods = 0;
    for (int m = 0; m < bx_halo_method_count; m++)
        methods += bx_run_is_selected(run, bx_halo_methods[m]->about.name);
    double points = (double)extent[0] * (double)extent[1] * (double)extent[2] / bx_run_ranks(run);
    char sized_by[96];
    snprintf(sized_by, sizeof sized_by, "--grid %" PRId64 ",%" PRId64 ",%" PRId64, extent[0],
             extent[1], extent[2]);
    if (points > INT_MAX)
        bx_run_refuse(run, BX_RESOURCES, "%s: more than 2^31 - 1 points per rank", sized_by);
    if (bx_run_agree(run) != BX_OK) return bx_run_agree(run);
    double bytes = SLACK * points * chosen->kind->point_bytes;
    int code = bx_comm_buffers_open_moved(run, bytes, 0, sized_by);
    double numbers = points * chosen->kind->point_bytes / 16;
    /* all fields go to a device, and come back, in about the time of a step */
    int times = bx_comm_buffers_are_copied() ? 2 : 1;
    double block = (double)bx_run_block_steps(run) * times * STEP + FILL;
    if (code == BX_OK)
        code = bx_resources_claim_time(run, (methods + 2) * numbers * block,
                                       (methods + 1) * numbers * STEP, sized_by);
    return code;
}

/* Steps with the plain exchange.  The two before them write each page of the fields first by the
 * thread that computes there, which is where systems with several memories put it. */
static void run_plainly(halo_state *h)
{
    int64_t steps = bx_run_block_steps(h->run);
    if (bx_charge_is_hollow()) return;
    compute(h, BX_ALL);
    h->now = 1 - h->now;
    compute(h, BX_ALL);
    fill(h);
    for (int64_t i = 0; i < steps; i++) {
        bx_halo_exchange_plainly(h->halo, h->now);
        compute(h, BX_ALL);
        h->now = 1 - h->now;
        if (i + 1 == recomputed_steps(h) && h->mesh->kind->recompute)
            h->recomputed = h->mesh->kind->recompute(h->mesh, h->halo->fields[h->now], i + 1);
    }
    h->plain = take_reference(h, steps);
}

static int setup(bx_run *run, void **state)
{
    int64_t extent[3];
    const halo_case *chosen = chosen_case(run, extent);
    bx_run_one_of(run, "order", options.order, "ordered, shuffled");
    bx_run_one_of(run, "land", options.land, "islands, none");
    if (bx_run_agree(run) != BX_OK) return bx_run_agree(run);
    int code = claim(run, chosen, extent);
    if (code != BX_OK) return code;
    if (options.grid[0]) bx_run_set_case(run, "grid");
    halo_state *h = bx_memory_alloc(1, sizeof *h);
    *state = h;
    h->run = run;
    h->mesh = bx_mesh_create(run, chosen->kind, &options, extent);
    if (bx_comm_buffers_are_copied() && h->mesh->fields * h->mesh->stride > INT_MAX)
        bx_run_refuse(run, BX_RESOURCES, "--buffers: a rank has more than 2^31 - 1 numbers");
    if (bx_run_agree(run) != BX_OK) return bx_run_agree(run);
    h->halo = bx_halo_create(h->mesh);
    h->ghosts = (size_t)(h->mesh->ghosts * h->mesh->width * h->mesh->fields);
    if (h->ghosts > INT_MAX)
        bx_run_refuse(run, BX_RESOURCES, "the halo of a rank has more than 2^31 - 1 numbers");
    if (bx_run_agree(run) != BX_OK) return bx_run_agree(run);
    h->points = (double)h->mesh->own * h->mesh->width;
    MPI_Allreduce(MPI_IN_PLACE, &h->points, 1, MPI_DOUBLE, MPI_SUM, h->halo->comm);
    BX_ALLOC((size_t)bx_halo_method_count, h->messages, h->selves, h->why);
    for (int m = 0; m < bx_halo_method_count; m++)
        if (bx_run_is_selected(run, bx_halo_methods[m]->about.name)) create_method(h, m);
    run_plainly(h);
    return BX_OK;
}

static void teardown(void *state)
{
    halo_state *h = state;
    for (int m = 0; m < bx_halo_method_count; m++) {
        if (!h->messages[m]) continue;
        bx_halo_methods[m]->destroy(h->selves[m]);
        bx_halo_messages_free(h->messages[m]);
    }
    BX_FREE(h->messages, h->selves, h->why);
    bx_halo_free(h->halo);
    bx_mesh_free(h->mesh);
    free(h);
}

/* ---- what is reported ---- */

static void add_over_ranks(const halo_state *h, bx_json *json, const char *name, double value)
{
    bx_spread spread = {0};
    bx_spread_reduce(h->halo->comm, 1, &value, &spread);
    bx_spread_add(json, name, &spread);
}

static void report(void *state, bx_run *run, bx_json *details)
{
    const halo_state *h = state;
    const bx_mesh *mesh = h->mesh;
    bx_json *json = bx_json_object(details, "halo");
    double all =
        (double)mesh->extent[0] * (double)mesh->extent[1] * (double)mesh->extent[2] * mesh->width;
    add_over_ranks(h, json, "points", (double)mesh->own * mesh->width);
    add_over_ranks(h, json, "neighbours", h->halo->send_count);
    double received = 0;
    for (int i = 0; i < h->halo->receive_count; i++)
        received += (double)h->halo->receives[i].region.numbers * mesh->fields * sizeof(double);
    add_over_ranks(h, json, "received", received);
    add_over_ranks(h, json, "ghosts", (double)h->ghosts * sizeof(double));
    char text[32];
    snprintf(text, sizeof text, "%016" PRIx64, h->plain.checksum);
    bx_json_text(json, "checksum", text);
    BX_NUMBERS(json, {"error_exact", mesh->has_solution ? h->plain.exact : NAN},
               {"computed_share", h->points / all});
    bx_run_note(run,
                "%d fields; %.0f points computed of %.0f; fields after %" PRId64
                " steps have the hash %s",
                mesh->fields, h->points, all, bx_run_block_steps(run), text);
}

/* The exchange beside the stencil alone and beside a copy; the stencil beside memory's limit. */
static void metrics(void *state, size_t index, size_t point, bx_metrics *metrics)
{
    const halo_state *h = state;
    if (!is_method(index) || is_exchange_only()) return;
    bx_metrics_add(metrics, "points", h->points / bx_metrics_value(metrics, "time"), "points/s",
                   "higher");
    bx_metrics_add_ratio(metrics, "halo_over_stencil", "lower", NULL, PHASE_EXCHANGE, "stencil");
    if (h->halo->ranks > 1)
        bx_metrics_add_ratio(metrics, "halo_over_copy", "lower", NULL, PHASE_EXCHANGE, "copy");
    bx_metrics_add_ratio(metrics, "stencil_of_stream", "higher", "stream", -1, "stencil");
}

const bx_kernel *bx_kernel_get(void)
{
    static const char *const phases[] = {"exchange", "stencil"};
    static const char *const ratios[] = {"isend", "stencil", "copy", "stream"};
    static bx_kernel kernel = {
        .name = "halo",
        .summary = "codes that exchange a halo with their neighbours, by every method",
        .options = BX_COUNTED(OPTIONS),
        .phases = BX_COUNTED(phases),
        .ratios = BX_COUNTED(ratios),
        .baselines = "stencil,copy,stream",
        .setup = setup,
        .applicable = applicable,
        .verify = verify,
        .begin = begin,
        .prepare = prepare,
        .end = end,
        .promise = promise,
        .step = step,
        .report = report,
        .teardown = teardown,
        .metrics = metrics,
        .inspect = inspect,
    };
    for (size_t i = 0; i < CASE_COUNT; i++) bx_kernel_add_case(&kernel, &CASES[i].about);
    for (int m = 0; m < bx_halo_method_count; m++)
        bx_kernel_add_method(&kernel, &bx_halo_methods[m]->about);
    for (int b = 0; b < BASELINE_COUNT; b++) bx_kernel_add_method(&kernel, &BASELINES[b]);
    return &kernel;
}
