/* bisection-patches: message-driven molecular dynamics, with every way to take messages. */
#include "charge.h"
#include "method.h"
#include "verify.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    bx_choice about;
    bx_lattice lattice;
} patches_case;

static const patches_case CASES[] = {
#define CASE(id, text, number, nx, ny, nz, px, py, pz, radius)                                     \
    {{.name = #id, .summary = text},                                                               \
     {.atoms = number, .cells = {nx, ny, nz}, .patches = {px, py, pz}, .cutoff = radius}},
    BX_CASES(CASE)};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

static struct {
    int64_t cells[3], patches[3], atoms, steps;
    double cutoff;
} given = {.steps = 10}; /* 0: the case's */

static const bx_option OPTIONS[] = {
    {"cells", "NX,NY,NZ", "cells of four sites (default: the case's)", BX_GRID, 1, 400,
     given.cells},
    {"patches", "NX,NY,NZ", "patches (default: the case's)", BX_GRID, 3, 64, given.patches},
    {"atoms", "N", "occupied sites (default: the case's; with --cells, all)", BX_INTEGER, 1, 2.56e8,
     &given.atoms},
    {"cutoff", "R", "of the potential, in sigma (default: the case's)", BX_REAL, 1.2, 20,
     &given.cutoff},
    {"steps", "N", "time steps of a sample", BX_INTEGER, 1, 1000, &given.steps},
};

/* Traffic of one step: messages, those between nodes, and bytes of both. */
typedef struct {
    double rank[4], all[4];
} patches_traffic;

typedef struct {
    bx_lattice lattice;
    bx_objects objects;
    bx_messages **messages;   /* [methods]; NULL: not selected */
    patches_traffic *planned; /* [methods] */
    bx_reference reference;
    bx_energy *energies; /* [steps of a block] */
    double copies;       /* of all patches, per patch */
} patches_state;

static const bx_choice FORCES = {
    .name = "forces", .summary = "all pairs of a step, without messages", .baseline = true};

static bool is_method(size_t index) { return index < (size_t)bx_patches_method_count; }

/* ---- set-up ---- */

static bool set(int64_t to[3], const int64_t value[3])
{
    if (value[0] == 0) return false;
    memcpy(to, value, 3 * sizeof *to);
    return true;
}

static bx_lattice settle_lattice(bx_run *run)
{
    bx_lattice lattice = CASES[bx_run_case_index(run)].lattice;
    lattice.seed = bx_run_seed(run);
    bool changed = set(lattice.patches, given.patches);
    if (set(lattice.cells, given.cells)) {
        lattice.atoms = 4 * given.cells[0] * given.cells[1] * given.cells[2];
        changed = true;
    }
    if (given.atoms) lattice.atoms = given.atoms;
    if (given.cutoff > 0) lattice.cutoff = given.cutoff;
    if (changed || given.atoms || given.cutoff > 0) bx_run_set_case(run, "custom");
    bx_lattice_settle(&lattice, run);
    return lattice;
}

/* A message is known by its tag: a patch has two, for positions and for forces. */
static void require_tags(bx_run *run, const bx_lattice *lattice)
{
    int *most, is_set;
    MPI_Comm_get_attr(bx_run_comm(run), MPI_TAG_UB, &most, &is_set);
    double patches = bx_lattice_patches(lattice), room = is_set ? (*most + 1.0) / 2 : 16384;
    if (patches > room)
        bx_run_refuse(run, BX_USAGE,
                      "--patches: %.0f in all; this MPI library has tags for %.0f at most", patches,
                      floor(room));
}

/* Pairs of atoms in all lists. */
static double all_pairs(const bx_lattice *lattice)
{
    double volume = lattice->box[0] * lattice->box[1] * lattice->box[2];
    double density = (double)lattice->atoms / volume, reach = lattice->reach;
    return (double)lattice->atoms * density * reach * reach * reach * (4 * 3.1416 / 3) / 2;
}

static int claim(bx_run *run, const bx_lattice *lattice)
{
    static const double PAIR = 3e-9, LOOK = 1.5e-9; /* s per pair; to find whether two are near */
    static const double LISTS = 3;                  /* own, and both sides' of the reference */
    static const double ATOM_BYTES = 24;            /* of three numbers */
    static const double POTENTIAL = 1e-7;           /* s per pair, by complex numbers */
    int methods = 0, ranks = bx_run_ranks(run);
    char sized_by[96];
    for (int m = 0; m < bx_patches_method_count; m++)
        methods += bx_run_is_selected(run, bx_patches_methods[m]->about.name);
    double pairs = all_pairs(lattice), patches = bx_lattice_patches(lattice);
    double atoms = (double)lattice->atoms, here = ceil(patches / ranks) + 26 + 13 * patches / ranks;
    if (here > patches) here = patches;
    snprintf(sized_by, sizeof sized_by, "--atoms %" PRId64 " --steps %" PRId64, lattice->atoms,
             given.steps);
    double bytes = LISTS * pairs * sizeof(uint16_t) / ranks +
                   ATOM_BYTES * (atoms + here * atoms / patches * (10 + methods));
    int code = bx_resources_claim_memory(run, bytes, sized_by);
    double step = pairs * PAIR / ranks, block = (double)(bx_run_block_steps(run) * given.steps);
    double find = LISTS * atoms * 13.5 * atoms / patches * LOOK / ranks;
    double nearby = atoms * fmin(1, 64 / patches); /* in the first and last step of the reference */
    find += 2 * (atoms * nearby * LOOK + 2 * pairs * POTENTIAL) / ranks;
    if (bx_charge_is_hollow()) step = find = 0;
    if (code == BX_OK)
        code = bx_resources_claim_time(run, find + (methods + 2) * block * step,
                                       (methods + 1) * (double)given.steps * step, sized_by);
    return code;
}

/* What a rank sends in one step: positions of its patches, and forces on those of others.  It gets
 * as many messages.  `joined`: all of a direction between two ranks in one. */
static void plan_sent(const bx_objects *o, bool joined, double sent[4])
{
    const int *node_of = bx_run_node_of(o->run);
    memset(sent, 0, 4 * sizeof *sent);
    for (int own = 0; own < 2; own++) {
        bool *known = bx_memory_alloc((size_t)o->ranks, sizeof *known);
        for (int p = 0; p < o->patch_count; p++) {
            const bx_patch *patch = &o->patches[p];
            int copies = patch->owner == o->rank ? patch->copy_count : 1;
            if ((patch->owner == o->rank) != own) continue;
            for (int n = 0; n < copies; n++) {
                int rank = own ? patch->copies[n] : patch->owner;
                bool far = node_of[rank] != node_of[o->rank], adds = !joined || !known[rank];
                double bytes = (double)(BX_HEADER + 3 * patch->atoms) * sizeof(uint64_t);
                known[rank] = true;
                sent[0] += adds;
                sent[1] += adds && far;
                sent[2] += bytes;
                sent[3] += far ? bytes : 0;
            }
        }
        free(known);
    }
}

static void make_messages(patches_state *s, bx_run *run)
{
    BX_ALLOC((size_t)bx_patches_method_count, s->messages, s->planned);
    for (int m = 0; m < bx_patches_method_count; m++) {
        if (!bx_run_is_selected(run, bx_patches_methods[m]->about.name)) continue;
        s->messages[m] = bx_messages_create(&s->objects, bx_patches_methods[m]->joined);
        s->messages[m]->holds = bx_patches_methods[m]->holds;
        plan_sent(&s->objects, bx_patches_methods[m]->joined, s->planned[m].rank);
        MPI_Allreduce(s->planned[m].rank, s->planned[m].all, 4, MPI_DOUBLE, MPI_SUM,
                      bx_run_comm(run));
    }
}

/* Where physics is right, and atoms move too far for their lists, the block is too long. */
static int refuse_long_block(bx_run *run, const patches_state *s)
{
    const bx_reference *r = &s->reference;
    if (r->steps == s->objects.steps || !bx_verification_passed(run, &r->verification))
        return BX_OK;
    return bx_run_refuse(run, BX_USAGE,
                         "--steps %" PRId64 ": lists of pairs hold for %" PRId64 " of the %" PRId64
                         " steps of a block, until an atom has moved by %.2g sigma: take fewer "
                         "--steps, --block or --warmup",
                         given.steps, r->steps, s->objects.steps, bx_lattice_slack(&s->lattice));
}

static int setup(bx_run *run, void **address)
{
    patches_state *s = bx_memory_alloc(1, sizeof *s);
    *address = s;
    s->lattice = settle_lattice(run);
    require_tags(run, &s->lattice);
    if (bx_run_agree(run) != BX_OK) return bx_run_agree(run);
    int code = claim(run, &s->lattice);
    if (code != BX_OK) return code;
    int64_t steps = bx_run_block_steps(run) * given.steps;
    bx_objects_create(&s->objects, run, &s->lattice, steps);
    make_messages(s, run);
    BX_ALLOC((size_t)steps, s->energies);
    for (int p = 0; p < s->objects.patch_count; p++) s->copies += s->objects.patches[p].copy_count;
    MPI_Allreduce(MPI_IN_PLACE, &s->copies, 1, MPI_DOUBLE, MPI_SUM, bx_run_comm(run));
    s->copies /= bx_lattice_patches(&s->lattice);
    if (bx_charge_is_hollow()) return BX_OK;
    bx_verify_reference(&s->objects, &s->reference);
    return refuse_long_block(run, s);
}

static void teardown(void *address)
{
    patches_state *s = address;
    for (int m = 0; s->messages && m < bx_patches_method_count; m++)
        if (s->messages[m]) bx_messages_free(s->messages[m]);
    if (s->messages) bx_objects_free(&s->objects);
    BX_FREE(s->messages, s->planned, s->reference.energies, s->energies, s);
}

/* ---- steps ---- */

static void begin(void *address, size_t index, size_t point)
{
    patches_state *s = address;
    bx_objects_begin(&s->objects, !is_method(index));
    if (is_method(index)) bx_messages_begin(s->messages[index]);
}

static void step(void *address, size_t index, size_t point)
{
    patches_state *s = address;
    bx_objects *o = &s->objects;
    if (!is_method(index)) {
        for (int64_t i = 0; i < given.steps; i++) bx_objects_compute(o);
        return;
    }
    bx_objects_start(o, given.steps);
    bx_patches_run(bx_patches_methods[index], s->messages[index]);
    bx_messages_settle_all(s->messages[index]);
    bx_run_lap(o->run, BX_PHASE_MESSAGES);
}

static double items(void *address, size_t index, size_t point) { return (double)given.steps; }

/* ---- verification ---- */

static void inspect(void *address, size_t index, size_t point, bx_verification *verification)
{
    const bx_objects *o = &((patches_state *)address)->objects;
    if (is_method(index))
        bx_verification_check_always(verification, "messages", o->wrong_messages, 0,
                                     "wrong messages");
    bx_verification_check(verification, "range", o->wrong_forces, 0, "pairs");
}

/* The atoms after a block, and the energies of all its steps: the same bits as those of the
 * reference.  The forces alone leave the first step's energy, once for each time. */
static void end(void *address, size_t index, size_t point, int64_t steps,
                bx_verification *verification)
{
    patches_state *s = address;
    const bx_objects *o = &s->objects;
    const bx_energy *expected = s->reference.energies;
    if (is_method(index)) {
        double lost = (double)(s->lattice.atoms - bx_verify_atoms(o));
        bx_verification_check(verification, "atoms", fabs(lost), 0, "atoms");
    }
    if (bx_charge_is_hollow()) return;
    bx_verify_energies(o, s->energies);
    if (!is_method(index)) {
        uint64_t times = (uint64_t)(steps * given.steps), once = (uint64_t)expected->potential;
        bool wrong = (uint64_t)s->energies->potential != times * once;
        bx_verification_check(verification, "energies", wrong, 0, "steps");
        return;
    }
    bool unequal = memcmp(s->energies, expected, (size_t)o->steps * sizeof *expected) != 0;
    bx_verification_check(verification, "state", bx_verify_state(o) != s->reference.state, 0,
                          "hashes");
    bx_verification_check(verification, "energies", unequal, 0, "steps");
}

/* The messages of all time steps; while pairs can run, messages are looked for behind any that
 * takes long enough, and those that no other rank waits for come last. */
static void promise(void *address, size_t index, size_t point, const bx_shown *shown,
                    bx_verification *verification)
{
    const patches_state *s = address;
    const bx_objects *o = &s->objects;
    const bx_patches_method *method = bx_patches_methods[index];
    double sent[4], planned[4], steps = (double)given.steps, long_pairs = 0;
    for (int i = 0; i < 4; i++) planned[i] = steps * s->planned[index].rank[i];
    bx_shown_sent(shown, sent);
    bx_verification_sent(verification, sent, planned);
    bx_verification_count(verification, "own pairs before those that others wait for", o->delayed,
                          0, 0);
    if (!method->looks) return;
    for (int i = 0; i < o->pair_count; i++)
        long_pairs += o->share.pairs_of[o->pairs[i].kind] >= BX_LOOK_AFTER;
    /* less the last look, and those that wait: each ends with a message at least */
    double at_a_time = o->threads > 1 ? BX_PER_THREAD * o->threads : 1;
    double least = floor(steps * long_pairs / at_a_time) - 1 - planned[0];
    /* Behind each message that was probed for, the next is. */
    double looks = bx_shown_calls(shown, method->looks, NULL) - bx_shown_calls(shown, "Recv", NULL);
    bx_verification_count(verification, "looks for messages", looks, fmax(least, 0), INFINITY);
}

/* What physics says of the reference, which every method must equal. */
static void check_physics(const patches_state *s, bx_verification *verification)
{
    const bx_reference *r = &s->reference;
    for (int i = 0; i < r->verification.count; i++) {
        const bx_outcome *of = &r->verification.outcomes[i];
        bx_verification_check(verification, of->name, of->error, of->tolerance, of->unit);
    }
    bx_verification_check(verification, "displacement", r->displacement,
                          bx_lattice_slack(&s->lattice), "sigma");
}

static void verify(void *address, size_t index, size_t point, bx_verification *verification)
{
    patches_state *s = address;
    bx_run *run = s->objects.run;
    begin(address, index, point);
    int64_t steps = is_method(index) ? bx_run_block_steps(run) : 1;
    for (int64_t i = 0; i < steps; i++) {
        MPI_Barrier(bx_run_comm(run));
        step(address, index, point);
        inspect(address, index, point, verification);
    }
    end(address, index, point, steps, verification);
    if (is_method(index) && !bx_charge_is_hollow()) check_physics(s, verification);
}

/* ---- what is reported ---- */

static void metrics(void *address, size_t index, size_t point, bx_metrics *list)
{
    const patches_state *s = address;
    if (!is_method(index)) return;
    const double *sent = s->planned[index].all;
    double nodes = bx_run_node_count(s->objects.run), time = bx_metrics_value(list, "time");
    bx_metrics_add(list, "messages_per_patch", sent[0] / bx_lattice_patches(&s->lattice),
                   "messages", "lower");
    if (!(sent[0] > 0)) return;
    bx_metrics_add(list, "message_rate", sent[0] / nodes / time, "messages/s", "higher");
    bx_metrics_add(list, "message_size", sent[2] / sent[0], "B", "higher");
}

static void report(void *address, bx_run *run, bx_json *details)
{
    const patches_state *s = address;
    const bx_lattice *lattice = &s->lattice;
    double patches = bx_lattice_patches(lattice), objects = patches * (1 + BX_OWN_PAIRS);
    bx_run_note(run,
                "%" PRId64 " atoms in %.0f patches of %.2f x %.2f x %.2f sigma; %.1f objects per "
                "rank; %.1f copies per patch",
                lattice->atoms, patches, lattice->box[0] / (double)lattice->patches[0],
                lattice->box[1] / (double)lattice->patches[1],
                lattice->box[2] / (double)lattice->patches[2], objects / s->objects.ranks,
                s->copies);
    if (!details) return;
    BX_NUMBERS(details, {"atoms", lattice->atoms}, {"patches", patches},
               {"objects_per_rank", objects / s->objects.ranks}, {"copies_per_patch", s->copies});
    if (bx_charge_is_hollow()) return;
    char text[32];
    snprintf(text, sizeof text, "%016" PRIx64, s->reference.state);
    bx_json_text(details, "state", text);
    bx_json *energies = bx_json_array(details, "energies"); /* epsilon, first and last step */
    for (int64_t at = 0, last = s->objects.steps - 1;; at = last) {
        const bx_energy *e = &s->reference.energies[at];
        double both[2] = {(double)e->potential * BX_ENERGY_UNIT,
                          (double)e->kinetic * BX_ENERGY_UNIT};
        bx_json_list(energies, NULL, 2, both);
        if (at == last) break;
    }
    bx_run_note(run,
                "energies of a block differ by %.1e of the kinetic one; atoms move by %.2f "
                "sigma at most",
                s->reference.drift, s->reference.displacement);
}

const bx_kernel *bx_kernel_get(void)
{
    static const char *const phases[BX_PHASES] = {"forces", "messages", "integration"};
    static const char *const ratios[] = {"static", "forces"};
    static bx_kernel kernel = {
        .name = "patches",
        .summary = "message-driven molecular dynamics: patches and pairs of them",
        .options = BX_COUNTED(OPTIONS),
        .phases = BX_COUNTED(phases),
        .ratios = BX_COUNTED(ratios),
        .baselines = "forces",
        .setup = setup,
        .verify = verify,
        .begin = begin,
        .end = end,
        .promise = promise,
        .step = step,
        .items = items,
        .inspect = inspect,
        .metrics = metrics,
        .report = report,
        .teardown = teardown,
    };
    for (size_t i = 0; i < CASE_COUNT; i++) bx_kernel_add_case(&kernel, &CASES[i].about);
    for (int m = 0; m < bx_patches_method_count; m++)
        bx_kernel_add_method(&kernel, &bx_patches_methods[m]->about);
    bx_kernel_add_method(&kernel, &FORCES);
    return &kernel;
}
