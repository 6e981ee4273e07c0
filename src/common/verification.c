#include "verification.h"

#include "charge.h"
#include "run.h"

#include <string.h>

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
        /* the same check again (another block): keep the worst in units of its tolerance */
        double old_excess = seen->tolerance > 0 ? seen->error / seen->tolerance : seen->error;
        double new_excess = tolerance > 0 ? error / tolerance : error;
        if (new_excess > old_excess) {
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
    double errors[BX_MAX_CHECKS];
    bool within = true;
    if (verification->count == 0 && !bx_charge_is_hollow())
        bx_verification_check(verification, "outcomes", 1, 0, "missing: verify must add one");
    for (int i = 0; i < verification->count; i++) errors[i] = verification->outcomes[i].error;
    PMPI_Allreduce(MPI_IN_PLACE, errors, verification->count, MPI_DOUBLE, MPI_MAX, comm);
    for (int i = 0; i < verification->count; i++) {
        verification->outcomes[i].error = errors[i];
        within = within && errors[i] <= verification->outcomes[i].tolerance;
    }
    return within;
}
