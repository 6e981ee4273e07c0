#include "verification.h"

#include "charge.h"
#include "run.h"

#include <limits.h>
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

static double excess(const bx_outcome *o)
{
    return o->tolerance > 0 ? o->error / o->tolerance : o->error;
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
    /* where arithmetic was skipped, messages were not */
    bool sent = strstr(unit, "messages") || strstr(unit, "bytes");
    if (bx_charge_is_hollow() && !sent) return;
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

/* Takes a count from the first rank that has the largest error. */
static void take_worst(bx_outcome *outcome, double largest, MPI_Comm comm)
{
    int rank, ranks, alike;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &ranks);
    int worst = outcome->error == largest, mine = worst ? rank : INT_MAX, first;
    PMPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, comm);
    PMPI_Allreduce(&worst, &alike, 1, MPI_INT, MPI_SUM, comm);
    if (outcome->rank == UNKNOWN) outcome->rank = alike == ranks ? EVERY_RANK : rank;
    double numbers[4] = {outcome->shown, outcome->least, outcome->most, outcome->rank};
    PMPI_Bcast(numbers, 4, MPI_DOUBLE, first, comm);
    outcome->shown = numbers[0];
    outcome->least = numbers[1];
    outcome->most = numbers[2];
    outcome->rank = (int)numbers[3];
}

bool bx_verification_settle(bx_verification *verification, MPI_Comm comm)
{
    double errors[BX_MAX_CHECKS];
    bool within = true;
    if (verification->count == 0 && !bx_charge_is_hollow())
        bx_verification_check(verification, "outcomes", 1, 0, "missing: verify must add one");
    for (int i = 0; i < verification->count; i++) errors[i] = verification->outcomes[i].error;
    PMPI_Allreduce(MPI_IN_PLACE, errors, verification->count, MPI_DOUBLE, MPI_MAX, comm);
    for (int i = 0; i < verification->count; i++) {
        bx_outcome *outcome = &verification->outcomes[i];
        bool right = errors[i] <= outcome->tolerance;
        if (!right && bx_outcome_is_count(outcome)) take_worst(outcome, errors[i], comm);
        outcome->error = errors[i];
        within = within && right;
    }
    return within;
}
