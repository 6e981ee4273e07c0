#include "cholesky.h"

#include "libraries.h"

int bx_cholesky_factor(bx_problem *p)
{
    const bx_distribution *d = p->distribution;
    int one = 1, info = 0;
    if (d->context < 0 && p->parts == 2)
        zpotrf_("U", &d->n, p->a, &d->n, &info, 1);
    else if (d->context < 0)
        dpotrf_("U", &d->n, p->a, &d->n, &info, 1);
    else if (p->parts == 2)
        pzpotrf_("U", &d->n, p->a, &one, &one, d->descriptor, &info, 1);
    else
        pdpotrf_("U", &d->n, p->a, &one, &one, d->descriptor, &info, 1);
    return info;
}
