/* The ten methods, each broken on purpose as the environment variable BX_FAULT says: `swap` (two
 * elements change places), `byte` (one byte is lost) or `skip` (one rank's part of the exchange
 * never arrives), in the direction of BX_FAULT_WAY, on rank 0 of each team.  Linked in place of
 * methods.c: the verification is what is under test. */
#include "faulty.h"
#include "transform.h"

typedef struct {
    const bx_transpose_method *sound;
    void *self;
    bx_plan *plan;
    /* so far, of the faulty way: the fault begins after BX_FAULT_FROM of them, and is in the next
     * one alone where BX_FAULT_ONCE is set */
    int exchanges;
    bx_complex *before; /* the field as it was, for `skip` */
} broken;

static bool way_is(bx_direction way)
{
    const char *name = getenv("BX_FAULT_WAY");
    return name && strcmp(name, way == BX_FORWARD ? "forward" : "inverse") == 0;
}

static void *create(const bx_transpose_method *sound, bx_plan *plan, int leaders)
{
    broken *b = malloc(sizeof *b);
    *b = (broken){sound, sound->create(plan, leaders), plan, 0, NULL};
    return b;
}

/* The exchange that BX_FAULT_EXCHANGE names: `first` or `second` of two; all if it is not set. */
static bool exchange_is(const bx_plan *plan)
{
    const char *name = getenv("BX_FAULT_EXCHANGE");
    return !name || (strcmp(name, "first") == 0) == (plan->inner != NULL);
}

static bool here(const broken *b, bx_direction way)
{
    return b->plan->rank == 0 && exchange_is(b->plan) && way_is(way) && faulty_call(b->exchanges);
}

/* What an exchange writes: the inverse half-transformed field, or the last part of the planes. */
typedef struct {
    bx_complex *elements;
    size_t count, one, two; /* two elements that hold something */
} written;

static written half_of(const broken *b, int slot)
{
    const bx_plan *plan = b->plan;
    size_t count = (size_t)plan->my_columns * (size_t)plan->geometry->length;
    bx_rows half = bx_transform_rows(plan, b->sound, b->self, BX_INVERSE, slot);
    return (written){half.base, count, 0, 1};
}

static written planes_of(const broken *b, const bx_plane_part *part)
{
    const bx_plan *plan = b->plan;
    size_t count = (size_t)(part->last - part->first) * plan->plane_size, places[2] = {0, 1};
    for (int p = 0, n = 0; p < plan->geometry->ranks; p++) {
        bx_columns crossing = bx_plan_crossing(plan, p, part->first);
        for (int s = crossing.first; n < 2 && s < crossing.last; s++)
            places[n++] = (size_t)plan->geometry->column_place[s];
    }
    return (written){part->planes, count, places[0], places[1]};
}

static void before_exchange(broken *b, bx_direction way, written field)
{
    if (!here(b, way) || !faulty("skip")) return;
    b->before = bx_buffer_create(field.count);
    memcpy(b->before, field.elements, field.count * sizeof *b->before);
}

static void after_exchange(broken *b, bx_direction way, written field)
{
    bool now = here(b, way);
    b->exchanges += way_is(way);
    if (!now) return;
    bx_complex *elements = field.elements;
    if (faulty("swap")) {
        bx_complex kept = elements[field.one];
        elements[field.one] = elements[field.two];
        elements[field.two] = kept;
    }
    if (faulty("byte")) ((unsigned char *)&elements[field.two])[0] ^= 0x5a;
    if (faulty("skip")) {
        memcpy(elements, b->before, field.count * sizeof *elements);
        fftw_free(b->before);
    }
}

static void start(void *me, bx_direction way, int slot)
{
    broken *b = me;
    b->sound->start(b->self, way, slot);
}

static void finish(void *me, bx_direction way, int slot)
{
    broken *b = me;
    if (b->sound->finish) b->sound->finish(b->self, way, slot);
    if (way == BX_INVERSE) after_exchange(b, way, half_of(b, slot));
}

static void repack(void *me, const bx_plane_part *part)
{
    broken *b = me;
    bool forward = part->way == BX_FORWARD, last = part->last == b->plan->my_planes;
    if (forward && last) before_exchange(b, BX_FORWARD, planes_of(b, part));
    if (!forward && part->first == 0) before_exchange(b, BX_INVERSE, half_of(b, part->slot));
    b->sound->repack(b->self, part);
    if (forward && last) after_exchange(b, BX_FORWARD, planes_of(b, part));
}

static bx_rows rows(void *me, bx_direction way, int slot)
{
    broken *b = me;
    return bx_transform_rows(b->plan, b->sound, b->self, way, slot);
}

static void destroy(void *me)
{
    broken *b = me;
    b->sound->destroy(b->self);
    free(b);
}

#define BREAK(name)                                                                                \
    static void *create_##name(bx_plan *plan, int leaders)                                         \
    {                                                                                              \
        return create(&bx_transpose_method_##name, plan, leaders);                                 \
    }                                                                                              \
    static bx_transpose_method broken_##name;

#define BROKEN(name) BREAK(name)
BX_METHODS(BROKEN)
const bx_transpose_method *const bx_transpose_methods[] = {
#define LISTED(name) &broken_##name,
    BX_METHODS(LISTED)};
const int bx_transpose_method_count = sizeof bx_transpose_methods / sizeof *bx_transpose_methods;

/* Everything else of a method is as it was. */
#define FILL(name)                                                                                 \
    do {                                                                                           \
        broken_##name = bx_transpose_method_##name;                                                \
        broken_##name.create = create_##name;                                                      \
        broken_##name.start = start;                                                               \
        broken_##name.finish = finish;                                                             \
        broken_##name.repack = repack;                                                             \
        broken_##name.rows = rows;                                                                 \
        broken_##name.destroy = destroy;                                                           \
    } while (0)

__attribute__((constructor)) static void fill(void)
{
#define FILLED(name) FILL(name);
    BX_METHODS(FILLED)
}
