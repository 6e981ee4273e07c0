/* The methods of bisection-halo, each broken on purpose as the environment variable BX_FAULT says,
 * on rank 0, in the exchanges from number BX_FAULT_FROM on, or in that one alone where
 * BX_FAULT_ONCE is set:
 *   byte     the lowest byte of one ghost is wrong
 *   swap     two ghosts of a neighbour change places
 *   message  the ghosts of one field of one neighbour are as before: its message is lost
 *   skip     all ghosts of one neighbour are as before
 *   double   a message is delivered twice: a number of an own cell that is sent is overwritten
 *   land     a number of the first cell in memory is overwritten
 * Linked in place of methods.c: the verification is what is under test. */
#include "faulty.h"
#include "method.h"

typedef struct {
    const bx_halo_method *sound;
    void *self;
    const bx_halo *halo;
    int exchanges;  /* so far */
    double *before; /* ghosts of the first neighbour before a faulty exchange, or NULL */
} broken;

static bool now(const broken *b)
{
    return b->halo->rank == 0 && b->halo->receive_count > 0 && faulty_call(b->exchanges);
}

static void *create(const bx_halo_method *sound, const bx_halo_messages *messages)
{
    broken *b = malloc(sizeof *b);
    *b = (broken){sound, sound->create(messages), messages->halo, 0, NULL};
    return b;
}

/* The ghosts of the first neighbour, to or from packed numbers of fields first .. last-1. */
static void treat(const broken *b, int copy, int first, double *packed,
                  void (*use)(const bx_region *, double *field, double *packed))
{
    const bx_region *region = &b->halo->receives[0].region;
    const bx_mesh *mesh = b->halo->mesh;
    for (int f = first; f < mesh->fields; f++)
        use(region, &b->halo->fields[copy][f * mesh->stride], &packed[f * region->numbers]);
}

static void save(const bx_region *region, double *field, double *packed)
{
    bx_region_pack(region, field, packed);
}

static void restore(const bx_region *region, double *field, double *packed)
{
    bx_region_unpack(region, field, packed);
}

static void spoil(broken *b, int copy)
{
    const bx_mesh *mesh = b->halo->mesh;
    const bx_region *region = &b->halo->receives[0].region;
    double *fields = b->halo->fields[copy], *last = &fields[(mesh->fields - 1) * mesh->stride];
    if (faulty("skip")) treat(b, copy, 0, b->before, restore);
    if (faulty("message")) treat(b, copy, mesh->fields - 1, b->before, restore);
    double *now_there = b->before; /* of the last field */
    bx_region_pack(region, last, now_there);
    int64_t other = 1;
    while (other < region->numbers - 1 && now_there[other] == now_there[0]) other++;
    if (faulty("byte")) ((unsigned char *)&last[region->pieces[0].first])[0] ^= 0x5a;
    if (faulty("swap")) {
        double kept = now_there[0];
        now_there[0] = now_there[other];
        now_there[other] = kept;
        bx_region_unpack(region, last, now_there);
    }
    if (faulty("double")) last[b->halo->sends[0].region.pieces[0].first] += 1;
    if (faulty("land")) fields[0] = 7;
}

static void start(void *me, int copy)
{
    broken *b = me;
    if (now(b)) {
        size_t numbers = (size_t)(b->halo->receives[0].region.numbers * b->halo->mesh->fields);
        b->before = malloc(numbers * sizeof *b->before);
        treat(b, copy, 0, b->before, save);
    }
    if (b->sound->start) b->sound->start(b->self, copy);
}

static void finish(void *me, int copy)
{
    broken *b = me;
    b->sound->finish(b->self, copy);
    if (b->before) spoil(b, copy);
    free(b->before);
    b->before = NULL;
    b->exchanges++;
}

static void destroy(void *me)
{
    broken *b = me;
    b->sound->destroy(b->self);
    free(b);
}

#define CREATE(name)                                                                               \
    static void *create_##name(const bx_halo_messages *messages)                                   \
    {                                                                                              \
        return create(&bx_halo_method_##name, messages);                                           \
    }                                                                                              \
    static bx_halo_method broken_##name;
BX_METHODS(CREATE)
const bx_halo_method *const bx_halo_methods[] = {
#define LISTED(name) &broken_##name,
    BX_METHODS(LISTED)};
const int bx_halo_method_count = sizeof bx_halo_methods / sizeof *bx_halo_methods;

/* Everything else of a method is as it was. */
static void fill(bx_halo_method *method, const bx_halo_method *sound,
                 void *(*creates)(const bx_halo_messages *messages))
{
    *method = *sound;
    method->create = creates;
    method->start = start;
    method->finish = finish;
    method->destroy = destroy;
}

__attribute__((constructor)) static void fill_all(void)
{
#define FILL(name) fill(&broken_##name, &bx_halo_method_##name, create_##name);
    BX_METHODS(FILL)
}
