/* The ten methods, each broken on purpose as the environment variable BX_FAULT says: `swap` (two
 * elements change places), `byte` (one byte is lost) or `skip` (one rank's part of the exchange never
 * arrives), in the direction of BX_FAULT_WAY, on rank 0 of each team.  Linked in place of methods.c: the
 * verification is what is under test. */
#include "method.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const bx_method *sound;
    void *self;
    bx_plan *plan;
    bx_complex *before; /* the field as it was, for `skip` */
} broken;

static bool fault_is(const char *name)
{
    const char *fault = getenv("BX_FAULT");
    return fault && strcmp(fault, name) == 0;
}

static bool way_is(bx_way way)
{
    const char *name = getenv("BX_FAULT_WAY");
    return name && strcmp(name, way == BX_FORWARD ? "forward" : "inverse") == 0;
}

static void *create(const bx_method *sound, bx_plan *plan, const bx_method_options *options)
{
    broken *b = malloc(sizeof *b);
    *b = (broken){sound, sound->create(plan, options), plan, NULL};
    return b;
}

static bool here(const broken *b, bx_way way) { return b->plan->rank == 0 && way_is(way); }

/* What an exchange of this way writes: planes of the slot, or columns of the band. */
static bx_complex *field(const broken *b, bx_way way, int band, int slot, size_t *count)
{
    const bx_plan *plan = b->plan;
    *count = way == BX_FORWARD ? (size_t)plan->my_planes * plan->plane_size
                               : (size_t)plan->my_columns * (size_t)plan->geometry->nz;
    return way == BX_FORWARD ? bx_planes(plan, slot) : bx_columns(plan, plan->rank, band);
}

static void pack(void *me, bx_way way, int slot, const bx_part *part)
{
    broken *b = me;
    if (here(b, way) && fault_is("skip") && part->first == 0) {
        size_t count;
        const bx_complex *target = field(b, way, part->band, slot, &count);
        b->before = bx_buffer(count);
        memcpy(b->before, target, count * sizeof *b->before);
    }
    if (b->sound->pack) b->sound->pack(b->self, way, slot, part);
}

static void start(void *me, bx_way way, int band, int slot)
{
    broken *b = me;
    b->sound->start(b->self, way, band, slot);
}

static void finish(void *me, bx_way way, int slot)
{
    broken *b = me;
    b->sound->finish(b->self, way, slot);
}

static void unpack(void *me, bx_way way, int slot, const bx_part *part)
{
    broken *b = me;
    const bx_geometry *g = b->plan->geometry;
    bool forward = way == BX_FORWARD;
    size_t count;
    if (b->sound->unpack) b->sound->unpack(b->self, way, slot, part);
    if (!here(b, way) || part->last != (forward ? b->plan->my_planes : b->plan->my_columns)) return;
    bx_complex *target = field(b, way, part->band, slot, &count);
    size_t one = forward ? (size_t)g->column_xy[0] : 0, two = forward ? (size_t)g->column_xy[1] : 1;
    if (fault_is("swap")) {
        bx_complex kept = target[one];
        target[one] = target[two];
        target[two] = kept;
    }
    if (fault_is("byte")) ((unsigned char *)&target[two])[0] ^= 0x5a;
    if (fault_is("skip")) {
        memcpy(target, b->before, count * sizeof *target);
        fftw_free(b->before);
        b->before = NULL;
    }
}

static void destroy(void *me)
{
    broken *b = me;
    b->sound->destroy(b->self);
    free(b);
}

#define BREAK(name)                                                                                \
    static void *create_##name(bx_plan *plan, const bx_method_options *options)                    \
    {                                                                                              \
        return create(&bx_method_##name, plan, options);                                           \
    }                                                                                              \
    static bx_method broken_##name;
#define ENTRY(name) &broken_##name

BREAK(alltoallv)
BREAK(p2p)
BREAK(padded)
BREAK(shm)
BREAK(shm_padded)
BREAK(gather_scatter)
BREAK(direct)
BREAK(alltoallw)
BREAK(leaders)
BREAK(overlap)

const bx_method *const bx_methods[] = {
    ENTRY(alltoallv),      ENTRY(p2p),    ENTRY(padded),    ENTRY(shm),     ENTRY(shm_padded),
    ENTRY(gather_scatter), ENTRY(direct), ENTRY(alltoallw), ENTRY(leaders), ENTRY(overlap),
};
const int bx_method_count = sizeof bx_methods / sizeof *bx_methods;

/* Everything else of a method is as it was. */
#define FILL(name)                                                                                 \
    do {                                                                                           \
        broken_##name = bx_method_##name;                                                          \
        broken_##name.create = create_##name;                                                      \
        broken_##name.pack = pack;                                                                 \
        broken_##name.start = start;                                                               \
        broken_##name.finish = bx_method_##name.finish ? finish : NULL;                            \
        broken_##name.unpack = unpack;                                                             \
        broken_##name.destroy = destroy;                                                           \
    } while (0)

__attribute__((constructor)) static void fill(void)
{
    FILL(alltoallv);
    FILL(p2p);
    FILL(padded);
    FILL(shm);
    FILL(shm_padded);
    FILL(gather_scatter);
    FILL(direct);
    FILL(alltoallw);
    FILL(leaders);
    FILL(overlap);
}
