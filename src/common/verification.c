#include "verification.h"

#include "charge.h"
#include "run.h"

#include <string.h>

static const char COUNTED[] = "counted"; /* the unit of counts */

enum { EVERY_RANK = -1, UNKNOWN = -2 }; /* in the place of a rank */

bool bx_outcome_is_count(const bx_outcome *outcome) { return strcmp(outcome->unit, COUNTED) == 0; }

void bx_outcome_tell(const bx_outcome *o, char *text, size_t size)
{
    char rank[32] = "", promised[80];
    bool bounded = isfinite(o->most);
    if (o->rank >= 0) snprintf(rank, sizeof rank, " on rank %d", o->rank);
    if (o->least < o->most && o->least > 0 && bounded)
        snprintf(promised, sizeof promised, "%.10g to %.10g", o->least, o->most);
    else
        snprintf(promised, sizeof promised, "%s%.10g",
                 o->least == o->most ? ""
                 : bounded           ? "at most "
                                     : "at least ",
                 bounded ? o->most : o->least);
    snprintf(text, size, "%.10g%s, the name promises %s", o->shown, rank, promised);
}

/* Of two outcomes the worse has more of this: the error in units of its tolerance. */
static double excess(const bx_outcome *o)
{
    if (o->tolerance > 0) return o->error / o->tolerance;
    return o->error <= o->tolerance ? 0 : 2 + o->error; /* as it fails, more than what does not */
}

/* Adds an outcome whose name and unit are still to be written. */
static void add(bx_verification *verification, bx_outcome outcome, const char *name,
                const char *unit)
{
    if (!isfinite(outcome.error)) outcome.error = INFINITY; /* a NaN would win or lose by chance */
    bool fits = strlen(name) < sizeof outcome.name && strlen(unit) < sizeof outcome.unit;
    int at = 0;
    while (at < verification->count && strcmp(verification->outcomes[at].name, name) != 0) at++;
    if (at == BX_MAX_CHECKS || !fits) {
        fprintf(stderr, "bx_verification_check: '%s' in '%s': %s\n", name, unit,
                fits ? "too many checks in one method" : "the name or the unit is too long");
        MPI_Abort(MPI_COMM_WORLD, 70);
    }
    strcpy(outcome.name, name);
    strcpy(outcome.unit, unit);
    /* of the same check again (another block) the worst is kept, in units of its tolerance */
    bx_outcome *kept = &verification->outcomes[at];
    if (at == verification->count || excess(&outcome) > excess(kept)) *kept = outcome;
    verification->count += at == verification->count;
}

void bx_verification_check(bx_verification *verification, const char *name, double error,
                           double tolerance, const char *unit)
{
    if (!bx_charge_is_hollow())
        bx_verification_check_always(verification, name, error, tolerance, unit);
}

void bx_verification_check_always(bx_verification *verification, const char *name, double error,
                                  double tolerance, const char *unit)
{
    add(verification, (bx_outcome){.error = error, .tolerance = tolerance}, name, unit);
}

void bx_verification_count(bx_verification *verification, const char *name, double shown,
                           double least, double most)
{
    double error = shown < least ? least - shown : shown <= most ? 0 : shown - most;
    bx_outcome count = {
        .error = error, .shown = shown, .least = least, .most = most, .rank = UNKNOWN};
    add(verification, count, name, COUNTED);
}

void bx_verification_sent(bx_verification *verification, const double sent[4],
                          const double promised[4])
{
    static const char *const names[4] = {"messages sent", "messages between nodes", "bytes sent",
                                         "bytes between nodes"};
    for (int i = 0; i < 4; i++)
        bx_verification_count(verification, names[i], sent[i], promised[i], promised[i]);
}

bool bx_verification_passed(const bx_run *run, const bx_verification *verification)
{
    int wrong = 0, any;
    for (int i = 0; i < verification->count; i++)
        wrong |= !(verification->outcomes[i].error <= verification->outcomes[i].tolerance);
    PMPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_MAX, run->world);
    return !any;
}

bool bx_verification_settle(bx_verification *verification, MPI_Comm comm)
{
    struct {
        double excess;
        int rank;
    } worst[BX_MAX_CHECKS];
    struct numbers {
        double error, tolerance, shown, least, most, rank; /* of the rank with the worst outcome */
        double alike;                                      /* ranks that have it */
    } sums[BX_MAX_CHECKS] = {{0}};
    bool within = true;
    int rank, ranks, count;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &ranks);
    if (verification->count == 0 && !bx_charge_is_hollow())
        bx_verification_check(verification, "outcomes", 1, 0, "missing: verify must add one");
    count = verification->count;
    for (int i = 0; i < count; i++) {
        worst[i].excess = excess(&verification->outcomes[i]);
        worst[i].rank = rank;
    }
    PMPI_Allreduce(MPI_IN_PLACE, worst, count, MPI_DOUBLE_INT, MPI_MAXLOC, comm);
    for (int i = 0; i < count; i++) {
        const bx_outcome *mine = &verification->outcomes[i];
        if (worst[i].rank == rank)
            sums[i] = (struct numbers){
                mine->error, mine->tolerance, mine->shown, mine->least, mine->most, mine->rank, 0};
        sums[i].alike = excess(mine) == worst[i].excess;
    }
    PMPI_Allreduce(MPI_IN_PLACE, sums, count * (int)(sizeof *sums / sizeof(double)), MPI_DOUBLE,
                   MPI_SUM, comm);
    for (int i = 0; i < count; i++) {
        bx_outcome *outcome = &verification->outcomes[i];
        outcome->error = sums[i].error;
        outcome->tolerance = sums[i].tolerance;
        outcome->shown = sums[i].shown;
        outcome->least = sums[i].least;
        outcome->most = sums[i].most;
        outcome->rank = (int)sums[i].rank;
        if (outcome->rank == UNKNOWN)
            outcome->rank = sums[i].alike < ranks ? worst[i].rank : EVERY_RANK;
        within = within && outcome->error <= outcome->tolerance;
    }
    return within;
}
