#include "cholesky.h"

#include "libraries.h"

int bx_cholesky_factor(bx_problem *p)
{
    const bx_distribution *d = p->distribution;
    int info = 0;
#ifdef BX_HAVE_SCALAPACK
    int one = 1;
    if (d->context >= 0 && p->parts == 2)
        pzpotrf_("U", &d->n, p->a, &one, &one, d->descriptor, &info, 1);
    else if (d->context >= 0)
        pdpotrf_("U", &d->n, p->a, &one, &one, d->descriptor, &info, 1);
    if (d->context >= 0) return info;
#endif
    if (p->parts == 2)
        zpotrf_("U", &d->n, p->a, &d->n, &info, 1);
    else
        dpotrf_("U", &d->n, p->a, &d->n, &info, 1);
    return info;
}
