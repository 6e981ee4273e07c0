#include "verification.h"

#include "charge.h"
#include "run.h"

#include <string.h>

/* Of two outcomes the worse has more of this: the error in units of its tolerance. */
static double excess(double error, double tolerance)
{
    if (tolerance > 0) return error / tolerance;
    return error <= tolerance ? 0 : 2 + error; /* as it fails, more than what does not */
}

void bx_verification_check(bx_verification *verification, const char *name, double error,
                           double tolerance, const char *unit)
{
    /* where arithmetic was skipped, messages were not */
    bool counts = strstr(unit, "messages") || strstr(unit, "bytes");
    if (bx_charge_is_hollow() && !counts) return;
    if (!isfinite(error)) error = INFINITY; /* NaN would win or lose a maximum by chance */
    for (int i = 0; i < verification->count; i++) {
        bx_outcome *seen = &verification->outcomes[i];
        if (strcmp(seen->name, name) != 0) continue;
        /* the same check again (another block): keep the worst */
        if (excess(error, tolerance) > excess(seen->error, seen->tolerance)) {
            seen->error = error;
            seen->tolerance = tolerance;
        }
        return;
    }
    bx_outcome outcome = {.error = error, .tolerance = tolerance};
    bool fits = strlen(name) < sizeof outcome.name && strlen(unit) < sizeof outcome.unit;
    if (verification->count == BX_MAX_CHECKS || !fits) {
        fprintf(stderr, "bx_verification_check: '%s' in '%s': %s\n", name, unit,
                fits ? "too many checks in one method" : "the name or the unit is too long");
        MPI_Abort(MPI_COMM_WORLD, 70);
    }
    strcpy(outcome.name, name);
    strcpy(outcome.unit, unit);
    verification->outcomes[verification->count++] = outcome;
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
    double pairs[2 * BX_MAX_CHECKS] = {0}; /* error, tolerance of the rank with the worst outcome */
    bool within = true;
    int rank, count;
    PMPI_Comm_rank(comm, &rank);
    if (verification->count == 0 && !bx_charge_is_hollow())
        bx_verification_check(verification, "outcomes", 1, 0, "missing: verify must add one");
    count = verification->count;
    for (int i = 0; i < count; i++) {
        const bx_outcome *mine = &verification->outcomes[i];
        worst[i].excess = excess(mine->error, mine->tolerance);
        worst[i].rank = rank;
    }
    PMPI_Allreduce(MPI_IN_PLACE, worst, count, MPI_DOUBLE_INT, MPI_MAXLOC, comm);
    for (int i = 0; i < count; i++) {
        if (worst[i].rank != rank) continue;
        pairs[2 * i] = verification->outcomes[i].error;
        pairs[2 * i + 1] = verification->outcomes[i].tolerance;
    }
    PMPI_Allreduce(MPI_IN_PLACE, pairs, 2 * count, MPI_DOUBLE, MPI_SUM, comm);
    for (int i = 0; i < count; i++) {
        verification->outcomes[i].error = pairs[2 * i];
        verification->outcomes[i].tolerance = pairs[2 * i + 1];
        within = within && pairs[2 * i] <= pairs[2 * i + 1];
    }
    return within;
}
