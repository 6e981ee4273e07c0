/* bisection-eigen: all eigenvalues and vectors of dense matrices, by every parallel solver.
 *
 * After M. Ashworth et al., HPCxTR0417 (2004), sections 3.1 (AIMPRO), 3.4 (CRYSTAL), 5.2. */
#include "charge.h"
#include "integrals.h"
#include "products.h"
#include "verify.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

/* ---- cases ---- */

typedef struct {
    bx_choice about;
    int size;
    const char *spectrum;
    int kpoints;
    const char *work;
} eigen_case;

static const eigen_case CASES[] = {
#define CASE(id, text, size, spectrum, kpoints, work)                                              \
    {{.name = #id, .summary = text}, size, #spectrum, kpoints, #work},
    BX_CASES(CASE)};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES, DIAGONALISATIONS = 3 };

static struct {
    int64_t size, block, grid_rows, kpoints, team_ranks;
    const char *spectrum;
    bool is_complex, row_by_row;
    double guess_error;
} options = {.guess_error = -1};

enum { LARGEST_SIZE = 32000, LARGEST_BLOCK = 64 }; /* larger: LAPACK's sizes leave 32 bits */

static const bx_option OPTIONS[] = {
    {"size", "N", "rows of the matrix (default: the case's)", BX_INTEGER, 1, LARGEST_SIZE,
     &options.size},
    {"spectrum", "NAME", "eigenvalues: uniform, clustered, graded or fock (default: the case's)",
     BX_TEXT, 0, 0, &options.spectrum},
    {"complex", NULL, "complex Hermitian matrices (default: real symmetric)", BX_FLAG, 0, 0,
     &options.is_complex},
    {"block-size", "B",
     "rows and columns of ScaLAPACK's blocks (default: 64, fewer for small matrices)", BX_INTEGER,
     1, 1024, &options.block},
    {"grid-rows", "R", "rows of the grid of a team's ranks (default: up to the root)", BX_INTEGER,
     1, 1e6, &options.grid_rows},
    {"row-major", NULL, "ranks fill the grid row by row (default: column by column)", BX_FLAG, 0, 0,
     &options.row_by_row},
    {"kpoints", "K", "matrices in one step (default: the case's, or one per team)", BX_INTEGER, 1,
     4096, &options.kpoints},
    {"team-ranks", "R", "ranks that solve one matrix (default: as many teams as divide K)",
     BX_INTEGER, 1, 1e6, &options.team_ranks},
    {"guess-error", "X", "method jacobi starts from eigenvectors that are wrong by X", BX_REAL, 0,
     1, &options.guess_error},
};

/* ---- setup ---- */

/* A team that solves matrices: this rank's, or rank 0 alone for the baseline.  Each diagonalisation
 * of each k-point has its own matrix, and its own solution, which is inspected after the step. */
typedef struct {
    int count;                         /* of its matrices; 0: this rank is in no such team */
    int first;                         /* the number of its first matrix among those of all teams */
    bx_matrix **matrices;              /* [count] */
    bx_problem *problems;              /* [count] */
    bx_products **products;            /* [count], NULL but for AIMPRO's last matrix of a k-point */
    bx_matrix **densities, **energies; /* [count] what the products must be; NULL like them */
    double **integrals;                /* [count][size] of CRYSTAL */
    bx_distribution *blocks, *panels;  /* panels of the solver that has been opened last */
} team;

/* What a method takes. */
typedef struct {
    double workspace_requested, workspace_resident,
        matrix_bytes;       /* bytes of the rank that has most */
    double messages, bytes; /* in one step, of all ranks */
    double sweeps;
} usage;

typedef struct {
    bx_run *run;
    int rank, ranks;
    int size, parts, kpoints, teams;
    bool aimpro, crystal; /* the work that surrounds the solver */
    int solves;           /* diagonalisations of a k-point */
    MPI_Comm comm;
    team teams_of[2]; /* this rank's team; rank 0 alone */
    void *self;       /* of the solver that is open */
    double bytes;     /* counted by bx_solver_workspace */
    int info;
    usage *usage; /* [bx_solver_count] */
} eigen_state;

static const bx_solver *solver_of(size_t method) { return bx_solvers[method]; }

static team *team_of(eigen_state *s, size_t method)
{
    return &s->teams_of[solver_of(method)->alone];
}

static const eigen_case *settle_case(eigen_state *s, bx_spectrum *spectrum)
{
    const eigen_case *chosen = &CASES[bx_run_case_index(s->run)];
    s->aimpro = strcmp(chosen->work, "aimpro") == 0;
    s->crystal = strcmp(chosen->work, "crystal") == 0;
    s->solves = s->aimpro ? DIAGONALISATIONS : 1;
    s->size = options.size > 0 ? (int)options.size : chosen->size;
    s->parts = options.is_complex ? 2 : 1;
    const char *name = options.spectrum ? options.spectrum : chosen->spectrum;
    int i = bx_run_one_of(s->run, "spectrum", name, "uniform, clustered, graded, fock");
    *spectrum = (bx_spectrum)i;
    if (s->size != chosen->size || strcmp(name, chosen->spectrum) != 0 || options.is_complex)
        bx_run_set_case(s->run, "custom");
    return chosen;
}

/* Teams of equal numbers of ranks, each with as many matrices. */
static int settle_teams(eigen_state *s, const eigen_case *chosen)
{
    int team_ranks = (int)options.team_ranks;
    if (team_ranks > 0 && s->ranks % team_ranks != 0)
        return bx_run_refuse(s->run, BX_USAGE, "--team-ranks %d: must divide the %d ranks",
                             team_ranks, s->ranks);
    s->kpoints = options.kpoints > 0 ? (int)options.kpoints
                 : team_ranks > 0    ? s->ranks / team_ranks
                                     : chosen->kpoints;
    s->teams = team_ranks > 0 ? s->ranks / team_ranks : bx_common_divisor(s->kpoints, s->ranks);
    if (s->kpoints % s->teams != 0)
        return bx_run_refuse(s->run, BX_USAGE,
                             "--kpoints %d: must be a multiple of the %d teams that --team-ranks "
                             "%d makes of %d ranks",
                             s->kpoints, s->teams, team_ranks, s->ranks);
    int of_team = s->ranks / s->teams;
    if (options.grid_rows > 0 && of_team % options.grid_rows != 0)
        return bx_run_refuse(s->run, BX_USAGE, "--grid-rows %d: must divide the %d ranks of a team",
                             (int)options.grid_rows, of_team);
    return BX_OK;
}

static double solve_seconds(const eigen_state *s, size_t method, int ranks)
{
    static const double RATE = 5e9; /* n^3 of LAPACK's solver per second of a core */
    double cube = pow(s->size, 3) * (s->parts == 2 ? 4 : 1);
    double products = s->aimpro ? BX_PRODUCT_STEPS * BX_PRODUCTS_PER_STEP * 0.3 : 0;
    double integrals = s->crystal ? 2e-7 * s->size * s->size : 0;
    return (cube / RATE * (s->solves * solver_of(method)->cost + products) + integrals) / ranks;
}

static int claim_time(eigen_state *s, const char *sized_by)
{
    int of_team = s->ranks / s->teams, mine = s->kpoints / s->teams;
    double round = 0, verification = 0;
    for (size_t m = 0; m < (size_t)bx_solver_count; m++) {
        if (!bx_run_is_selected(s->run, solver_of(m)->about.name)) continue;
        int ranks = solver_of(m)->alone ? 1 : of_team, problems = solver_of(m)->alone ? 1 : mine;
        double seconds = problems * solve_seconds(s, m, ranks);
        round += seconds;
        verification += seconds + problems * pow(s->size, 3) * s->parts * s->parts * 4e-10 / ranks;
    }
    return bx_resources_claim_time(s->run, verification, round, sized_by);
}

static void create_team(eigen_state *s, team *t, MPI_Comm comm, int first, int count, int grid_rows)
{
    int ranks, block = (int)options.block;
    MPI_Comm_size(comm, &ranks);
    if (grid_rows == 0) grid_rows = bx_distribution_grid_rows(ranks);
    int columns = ranks / grid_rows, places = columns > grid_rows ? columns : grid_rows;
    if (block == 0) block = bx_distribution_block(s->size, places, LARGEST_BLOCK);
    t->first = first;
    t->count = count;
    t->blocks = bx_distribution_create_blocks(comm, s->size, block, grid_rows, options.row_by_row);
    size_t number = (size_t)count;
    BX_ALLOC(number, t->matrices, t->densities, t->energies, t->problems, t->products,
             t->integrals);
    for (int k = 0; k < count && s->crystal; k++) BX_ALLOC((size_t)s->size, t->integrals[k]);
}

/* Whether a matrix is the last of its k-point. */
static bool is_last(const eigen_state *s, int matrix) { return (matrix + 1) % s->solves == 0; }

static void create_matrices(eigen_state *s, team *t, bx_spectrum spectrum)
{
    for (int k = 0; k < t->count; k++) {
        double gap, sums[2],
            levels[2] = {bx_products_level(0, &sums[0]), bx_products_level(1, &sums[1])};
        t->matrices[k] = bx_matrix_create(s->size, spectrum, s->parts == 2, t->first + k);
        bx_matrix_publish_spectrum(t->matrices[k], t->blocks->team);
        if (!s->aimpro || !is_last(s, k)) continue;
        int occupied = bx_matrix_occupied(t->matrices[k], &gap);
        t->densities[k] = bx_matrix_create_density(t->matrices[k], occupied, levels, false);
        t->energies[k] = bx_matrix_create_density(t->matrices[k], occupied, sums, true);
    }
}

static void free_team(team *t)
{
    for (int k = 0; k < t->count; k++) {
        bx_matrix_free(t->matrices[k]);
        bx_matrix_free(t->densities[k]);
        bx_matrix_free(t->energies[k]);
        free(t->integrals[k]);
    }
    bx_distribution_free(t->blocks);
    BX_FREE(t->matrices, t->densities, t->energies, t->problems, t->products, t->integrals);
}

static void teardown(void *address)
{
    eigen_state *s = address;
    for (int i = 0; i < 2; i++) free_team(&s->teams_of[i]);
    if (s->comm != MPI_COMM_NULL) MPI_Comm_free(&s->comm);
    BX_FREE(s->usage, s);
}

/* ---- a method at work ---- */

/* Whether eigenvalues are equal; not known before there is a matrix. */
static bool repeated(const bx_matrix *m) { return m && m->repeated; }

static bool applicable(void *address, size_t method, char *why, size_t why_size)
{
    eigen_state *s = address;
    const bx_solver *solver = solver_of(method);
    if (solver->first_column && s->aimpro) {
        snprintf(why, why_size, "it has whole columns; the products of AIMPRO are of blocks");
        return false;
    }
    bx_problem p = {.run = s->run,
                    .distribution = s->teams_of[0].blocks,
                    .parts = s->parts,
                    .repeated = repeated(s->teams_of[0].matrices[0])};
    return !solver->applicable || solver->applicable(&p, why, why_size);
}

/* Bytes of this rank for a method: the matrix and the vectors, workspace (NaN where a library does
 * not tell), and all, with the other matrices of AIMPRO and workspace that is not told. */
typedef struct {
    double matrices, workspace, all;
} footprint;

/* Allocates what a method needs, or counts it. */
static footprint open_solver(eigen_state *s, size_t method, bx_workspace workspace)
{
    const bx_solver *solver = solver_of(method);
    team *t = team_of(s, method);
    footprint bytes = {0};
    s->bytes = 0;
    s->self = NULL;
    if (t->count == 0) return bytes;
    t->panels = NULL;
    if (solver->first_column)
        t->panels = bx_distribution_create_panels(t->blocks->team, s->size, solver->first_column);
    for (int k = 0; k < t->count; k++) {
        bx_problem *p = &t->problems[k];
        *p = (bx_problem){.run = s->run,
                          .matrix = t->matrices[k],
                          .distribution = t->panels ? t->panels : t->blocks,
                          .parts = s->parts,
                          .repeated = repeated(t->matrices[k]),
                          .guess_error = solver->first_column ? options.guess_error : -1,
                          .workspace = workspace == BX_COUNTED ? BX_COUNTED : BX_TOUCHED,
                          .bytes = &s->bytes};
        const bx_distribution *d = p->distribution;
        p->capacity = (size_t)d->columns * (size_t)(d->rows * s->parts);
        if (solver->capacity) p->capacity = solver->capacity(p);
        p->a = bx_solver_workspace(p, p->capacity);
        p->v = bx_solver_workspace(p, p->capacity);
        BX_ALLOC((size_t)s->size, p->w);
        p->number = bx_memory_alloc((size_t)d->columns + 1, sizeof *p->number);
        t->products[k] = s->aimpro && is_last(s, k) ? bx_products_create(p) : NULL;
        p->workspace = workspace;
    }
    bx_resident_watch();
    double part = sizeof(double) * (double)t->problems[0].capacity, before = s->bytes;
    s->self = solver->create(&t->problems[0]);
    bytes.matrices = 2 * part * t->count;
    bytes.workspace = solver->hidden > 0 ? NAN : s->bytes - before;
    bytes.all = s->bytes + solver->hidden * part;
    return bytes;
}

static void close_solver(eigen_state *s, size_t method)
{
    team *t = team_of(s, method);
    if (t->count == 0) return;
    solver_of(method)->destroy(s->self);
    for (int k = 0; k < t->count; k++) {
        BX_FREE(t->problems[k].a, t->problems[k].v, t->problems[k].w, t->problems[k].number);
        bx_products_free(t->products[k]);
    }
    bx_distribution_free(t->panels);
    t->panels = NULL;
}

/* The method that needs most memory must fit: matrices, workspace, what verification gathers. */
static int claim_memory(eigen_state *s, const char *sized_by)
{
    char why[160];
    double most = 0;
    for (size_t m = 0; m < (size_t)bx_solver_count; m++) {
        if (!bx_run_is_selected(s->run, solver_of(m)->about.name)) continue;
        if (!applicable(s, m, why, sizeof why)) continue;
        team *t = team_of(s, m);
        footprint bytes = open_solver(s, m, BX_COUNTED);
        if (t->count > 0)
            most = fmax(most, bytes.all + sizeof(double) * bx_verify_memory(&t->problems[0]));
        close_solver(s, m);
    }
    return bx_resources_claim_memory(s->run, most, sized_by);
}

static int setup(bx_run *run, void **address)
{
    eigen_state *s = bx_memory_alloc(1, sizeof *s);
    bx_spectrum spectrum;
    char sized_by[96];
    *address = s;
    s->run = run;
    s->comm = MPI_COMM_NULL;
    s->rank = bx_run_rank(run);
    s->ranks = bx_run_ranks(run);
    const eigen_case *chosen = settle_case(s, &spectrum);
    settle_teams(s, chosen);
    if (bx_run_agree(run) != BX_OK) return BX_USAGE;
    snprintf(sized_by, sizeof sized_by, "--size %d --kpoints %d", s->size, s->kpoints);
    if (claim_time(s, sized_by) != BX_OK) return BX_RESOURCES;
    bx_blas_set_threads(bx_run_threads(run));
    bx_blas_name_library();
    bx_elpa_name_library();
    int of_team = s->ranks / s->teams, mine = s->kpoints / s->teams, number = s->rank / of_team;
    MPI_Comm_split(bx_run_comm(run), number, s->rank, &s->comm);
    mine *= s->solves;
    create_team(s, &s->teams_of[0], s->comm, number * mine, mine, (int)options.grid_rows);
    if (s->rank == 0) create_team(s, &s->teams_of[1], MPI_COMM_SELF, 0, s->solves, 1);
    BX_ALLOC((size_t)bx_solver_count, s->usage);
    if (claim_memory(s, sized_by) != BX_OK) return BX_RESOURCES;
    create_matrices(s, &s->teams_of[0], spectrum);
    create_matrices(s, &s->teams_of[1], spectrum);
    return BX_OK;
}

/* Makes the matrices, and guesses or NaNs in the place of all that a step computes. */
static void fill(eigen_state *s, size_t method)
{
    team *t = team_of(s, method);
    for (int k = 0; k < t->count; k++) {
        bx_problem *p = &t->problems[k];
        const bx_distribution *d = p->distribution;
        size_t length = (size_t)(d->rows * s->parts);
        for (int j = 0; j < d->columns; j++) {
            p->number[j] = d->column[j];
            bx_matrix_fill(p->matrix, d->rows, d->row, d->column[j], p->a + (size_t)j * length);
        }
        for (size_t i = 0; i < p->capacity; i++) p->v[i] = NAN;
        for (int i = 0; i < s->size; i++) p->w[i] = NAN;
        for (int i = 0; i < s->size && s->crystal; i++) t->integrals[k][i] = NAN;
        if (t->products[k]) bx_products_clear(t->products[k], p);
        for (int j = 0; p->guess_error >= 0 && j < d->columns; j++)
            bx_matrix_vector(p->matrix, d->column[j], p->guess_error, p->v + (size_t)j * length);
    }
}

static void solve_all(eigen_state *s, size_t method)
{
    const bx_solver *solver = solver_of(method);
    team *t = team_of(s, method);
    s->info = 0;
    for (int k = 0; k < t->count; k++) {
        bx_problem *p = &t->problems[k];
        const bx_distribution *d = t->blocks;
        if (s->crystal) {
            bx_integrals_run(s->size, t->first + k, d->rank, d->ranks, t->integrals[k]);
            bx_run_lap(s->run, BX_INTEGRALS);
        }
        if (t->products[k]) bx_products_keep(t->products[k], p);
        if (solver->library) bx_profile_enter_region(solver->library);
        int info = solver->solve(s->self, p);
        bx_profile_leave_region();
        if (info != 0) s->info = info;
        bx_run_lap(s->run, BX_SOLVE);
        if (!t->products[k]) continue;
        double gap;
        bx_profile_enter_region(BX_SCALAPACK);
        bx_products_run(t->products[k], p, bx_matrix_occupied(p->matrix, &gap));
        bx_profile_leave_region();
        bx_run_lap(s->run, BX_PRODUCTS);
    }
}

static const double LARGEST_ERROR = 10; /* in LAPACK's tests 30 */
/* A guess is wrong by 0.76 to 1.5 times --guess-error, the last with two rows; a smaller error than
 * the least of these drowns in rounding. */
static const double GUESS = 0.6, LEAST_GUESS = 1e-12;

static void check_guesses(eigen_state *s, size_t method, bx_verification *verification)
{
    team *t = team_of(s, method);
    double error = 0;
    if (!solver_of(method)->first_column || options.guess_error < LEAST_GUESS || s->size < 2)
        return;
    for (int k = 0; k < t->count; k++)
        error = bx_verification_worse(
            error, fabs(bx_verify_guess(&t->problems[k]) / options.guess_error - 1));
    bx_verification_check(verification, "guess", error, GUESS, "of --guess-error");
}

/* Checks that cost little, after every step. */
static void inspect(void *address, size_t method, size_t point, bx_verification *verification)
{
    eigen_state *s = address;
    team *t = team_of(s, method);
    double orthogonality = solver_of(method)->orthogonality;
    double error = 0, complete = 0, eigenvalues = 0, products = 0, integrals = 0;
    for (int k = 0; k < t->count; k++) {
        bx_problem *p = &t->problems[k];
        double mine;
        eigenvalues = bx_verification_worse(eigenvalues, bx_verify_eigenvalues(p));
        if (bx_charge_is_hollow()) continue;
        error = bx_verification_worse(error, bx_verify_probe(p, &mine));
        complete = bx_verification_worse(complete, mine);
        if (t->products[k]) {
            double gap, most = fabs(p->matrix->sorted[0]), last = p->matrix->sorted[s->size - 1];
            bx_matrix_occupied(p->matrix, &gap);
            double wrong = bx_products_error(t->products[k], p, t->densities[k], t->energies[k]);
            /* a residual turns occupied vectors into others by its ratio to the gap; of vectors
             * that are not orthogonal, 1.4 times the error is in the sum of A D */
            double turned = LARGEST_ERROR * fmax(most, fabs(last)) / fmax(gap, DBL_MIN);
            products = bx_verification_worse(products, wrong / (turned + 2 * orthogonality));
        }
        if (s->crystal)
            integrals = bx_verification_worse(
                integrals, bx_integrals_error(s->size, t->first + k, t->blocks->rank,
                                              t->blocks->ranks, t->integrals[k]));
    }
    bx_verification_check_always(verification, "info", abs(s->info), 0, "INFO");
    bx_verification_check(verification, "probe", error, LARGEST_ERROR, "n |A| eps");
    bx_verification_check(verification, "completeness", complete, orthogonality, "n eps");
    /* a hollow run computes eigenvalues of ScaLAPACK alone, which decide on its messages */
    if (solver_of(method)->first_column)
        bx_verification_check(verification, "eigenvalues", eigenvalues, LARGEST_ERROR, "n |A| eps");
    else
        bx_verification_check_always(verification, "eigenvalues", eigenvalues, LARGEST_ERROR,
                                     "n |A| eps");
    if (s->aimpro) bx_verification_check(verification, "products", products, 1, "error bounds");
    if (s->crystal) bx_verification_check(verification, "integrals", integrals, 1, "error bounds");
}

/* Where a library has the name, it calls MPI; nobody else does. */
static void promise(void *address, size_t method, size_t point, const bx_shown *shown,
                    bx_verification *verification)
{
    const eigen_state *s = address;
    const bx_solver *solver = solver_of(method);
    double calls = bx_shown_calls(shown, NULL, solver->library);
    if (solver->library)
        bx_verification_count(verification, "calls of the library", calls,
                              s->teams_of[0].blocks->ranks > 1, INFINITY);
}

static void verify(void *address, size_t method, size_t point, bx_verification *verification)
{
    eigen_state *s = address;
    team *t = team_of(s, method);
    bx_errors worst = {0};
    double wrong = 0, before[4], after[4];
    if (bx_charge_is_hollow()) return;
    footprint bytes = open_solver(s, method, BX_ALLOCATED);
    fill(s, method);
    for (int k = 0; k < t->count; k++) wrong += bx_verify_count_not_finite(&t->problems[k]);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_DOUBLE, MPI_SUM, bx_run_comm(s->run));
    if (wrong > 0) {
        bx_run_refuse(s->run, BX_WRONG,
                      "%.0f numbers of the matrix are not finite; %s is not called", wrong,
                      solver_of(method)->about.name);
        close_solver(s, method);
        return;
    }
    check_guesses(s, method, verification);
    bx_profile_read_sum(before);
    solve_all(s, method);
    bx_profile_read_sum(after);
    double used = bx_resident_peak(), traffic[2] = {after[0] - before[0], after[2] - before[2]};
    for (int k = 0; k < t->count; k++) {
        if (!is_last(s, k)) continue; /* others, whose matrices differ little, are probed */
        bx_errors e = bx_verify_solution(&t->problems[k]);
        worst.residual = bx_verification_worse(worst.residual, e.residual);
        worst.orthogonality = bx_verification_worse(worst.orthogonality, e.orthogonality);
        worst.lapack = bx_verification_worse(worst.lapack, e.lapack);
    }
    bx_verification_check(verification, "residual", worst.residual, LARGEST_ERROR, "n |A| eps");
    bx_verification_check(verification, "orthogonality", worst.orthogonality,
                          solver_of(method)->orthogonality, "n eps");
    bx_verification_check(verification, "beside LAPACK", worst.lapack, LARGEST_ERROR, "n |A| eps");
    inspect(s, method, point, verification);
    double most[] = {bytes.workspace, used, bytes.matrices,
                     t->count > 0 ? t->problems[0].sweeps : 0};
    MPI_Allreduce(MPI_IN_PLACE, most, 4, MPI_DOUBLE, MPI_MAX, bx_run_comm(s->run));
    MPI_Allreduce(MPI_IN_PLACE, traffic, 2, MPI_DOUBLE, MPI_SUM, bx_run_comm(s->run));
    s->usage[method] = (usage){most[0], most[1], most[2], traffic[0], traffic[1], most[3]};
    close_solver(s, method);
}

static void begin(void *address, size_t method, size_t point)
{
    open_solver(address, method, BX_TOUCHED);
}

static void prepare(void *address, size_t method, size_t point) { fill(address, method); }

static void step(void *address, size_t method, size_t point) { solve_all(address, method); }

static void end(void *address, size_t method, size_t point, int64_t steps,
                bx_verification *verification)
{
    close_solver(address, method);
}

/* Matrices in one step. */
static double items(void *address, size_t method, size_t point)
{
    const eigen_state *s = address;
    return solver_of(method)->alone ? 1 : s->kpoints;
}

static void metrics(void *address, size_t method, size_t point, bx_metrics *list)
{
    /* of the reduction to a tridiagonal matrix and the vectors back from it */
    static const double OPERATIONS = 10.0 / 3;
    const eigen_state *s = address;
    const usage *used = &s->usage[method];
    double time = bx_metrics_value(list, "time"), ratio = bx_metrics_value(list, "ratio_dsyevd");
    double cube = pow(s->size, 3) * (s->parts == 2 ? 4 : 1);
    if (!s->aimpro && !s->crystal)
        bx_metrics_add(list, "gflops", OPERATIONS * cube / time / 1e9, "Gflop/s", "higher");
    if (bx_charge_is_hollow()) return;
    if (isfinite(used->workspace_requested))
        bx_metrics_add(list, "workspace_asked", used->workspace_requested, "B", "lower");
    if (used->workspace_resident > 0)
        bx_metrics_add(list, "workspace_used", used->workspace_resident / 1e6, "MB", "lower");
    bx_metrics_add(list, "matrices", used->matrix_bytes, "B", "lower");
    if (solver_of(method)->alone) return;
    if (isfinite(ratio))
        bx_metrics_add(list, "efficiency", 1 / (ratio * s->ranks), "ratio", "higher");
    bx_metrics_add(list, "messages", used->messages, "messages", "lower");
    bx_metrics_add(list, "bytes", used->bytes, "B", "lower");
    if (used->sweeps > 0) bx_metrics_add(list, "sweeps", used->sweeps, "sweeps", "lower");
}

static void report(void *address, bx_run *run, bx_json *details)
{
    const eigen_state *s = address;
    const bx_distribution *d = s->teams_of[0].blocks;
    bx_run_note(run, "%d %s of %d rows, %d %s of %d ranks in a grid of %dx%d, blocks of %d",
                s->kpoints, s->kpoints == 1 ? "matrix" : "matrices", s->size, s->teams,
                s->teams == 1 ? "team" : "teams", d->ranks, d->grid_rows, d->grid_columns,
                d->block);
    BX_NUMBERS(details, {"size", s->size}, {"kpoints", s->kpoints}, {"teams", s->teams},
               {"grid_rows", d->grid_rows}, {"grid_columns", d->grid_columns}, {"block", d->block});
    if (s->crystal)
        bx_json_number(details, "integrals_imbalance", bx_integrals_imbalance(s->size, d->ranks));
}

const bx_kernel *bx_kernel_get(void)
{
    static const char *const phases[BX_PHASE_COUNT] = {"integrals", "solve", "ring", "products"};
    static const char *const groups[BX_PHASE_COUNT] = {"user", "library", "user", "library"};
    static const char *const ratios[] = {"dsyevd", "pdsyevd"};
    static const int64_t sampling[] = {5, 1, 0}; /* verification has warmed up */
    static bx_kernel kernel = {
        .name = "eigen",
        .summary = "all eigenvalues and vectors of dense matrices, by every parallel solver",
        .options = BX_COUNTED(OPTIONS),
        .phases = phases,
        .phase_count = BX_PHASE_COUNT,
        .phase_groups = groups,
        .ratios = BX_COUNTED(ratios),
        .baselines = "dsyevd",
        .sampling = sampling,
        .setup = setup,
        .applicable = applicable,
        .verify = verify,
        .begin = begin,
        .prepare = prepare,
        .inspect = inspect,
        .end = end,
        .promise = promise,
        .step = step,
        .items = items,
        .metrics = metrics,
        .report = report,
        .teardown = teardown,
    };
    for (size_t i = 0; i < CASE_COUNT; i++) bx_kernel_add_case(&kernel, &CASES[i].about);
    for (int m = 0; m < bx_solver_count; m++) bx_kernel_add_method(&kernel, &bx_solvers[m]->about);
    return &kernel;
}
