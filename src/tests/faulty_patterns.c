/* The patterns with exchanges broken on purpose, from exchange BX_FAULT_FROM of each method on
 * (BX_FAULT_ONCE: in that one alone), as BX_FAULT says:
 *
 *   sent    a byte of what each rank sends is another
 *   byte    the last rank gets one byte wrong
 *   swap    two words of the last rank's block change places
 *   blocks  the last rank's first two blocks do, or those of two exchanges
 *   skip    no rank takes part: nothing arrives
 *
 * The verification is under test.  With "apart" exchanges are sound, and each rank is on a host of
 * its own. */
#include "../network/pattern.h"
#include "faulty.h"

enum {
#define NUMBER(name, ...) METHOD_##name,
    BX_METHODS(NUMBER)
};

/* MPI's clock may have begun at any time: that of Open MPI 4 begins with the launch. */
double MPI_Wtime(void) { return PMPI_Wtime() + 1e6; }

static void swap(uint64_t *a, uint64_t *b)
{
    uint64_t kept = *a;
    *a = *b;
    *b = kept;
}

static void spoil(const bx_patterns *s, int number)
{
    size_t words = (size_t)s->words, count = words * (size_t)s->received_blocks;
    uint64_t *received = bx_pattern_received(s, number);
    if (s->rank != s->size - 1 || count == 0) return;
    if (faulty("byte")) received[count - 1] ^= 0x5a00;
    if (faulty("swap") && words > 1) swap(&received[0], &received[words / 2]);
    if (faulty("blocks") && s->received_blocks > 1) swap(&received[0], &received[words]);
    if (faulty("blocks") && s->received_blocks == 1 && number > 0)
        swap(&received[0], bx_pattern_received(s, number - 1));
}

static void broken(const bx_pattern *sound, int *calls, const bx_patterns *s, int number)
{
    bool now = faulty_call((*calls)++);
    if (now && faulty("skip")) return;
    uint64_t *sent = bx_pattern_sent(s, number);
    bool other = now && faulty("sent") && s->sent_blocks > 0 && s->words > 0;
    if (other) sent[0] ^= 0x5a00;
    sound->exchange(s, number);
    if (other) sent[0] ^= 0x5a00;
    if (now) spoil(s, number);
}

#define EXCHANGE(name, ...)                                                                        \
    static void exchange_##name(const bx_patterns *s, int number)                                  \
    {                                                                                              \
        static int calls;                                                                          \
        broken(&bx_pattern_##name, &calls, s, number);                                             \
    }
BX_METHODS(EXCHANGE)

static const bx_pattern *const sound[] = {
#define SOUND(name, ...) &bx_pattern_##name,
    BX_METHODS(SOUND)};

static void (*const exchange[])(const bx_patterns *s, int number) = {
#define BROKEN(name, ...) exchange_##name,
    BX_METHODS(BROKEN)};

static bx_pattern copies[sizeof sound / sizeof *sound];

const bx_pattern_entry bx_pattern_table[] = {
#define ENTRY(name, smallest, largest, factor)                                                     \
    {#name, &copies[METHOD_##name], smallest, largest, factor},
    BX_METHODS(ENTRY)};

const size_t bx_pattern_count = sizeof sound / sizeof *sound;

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *part)
{
    if (faulty("apart")) return PMPI_Comm_dup(MPI_COMM_SELF, part);
    return PMPI_Comm_split_type(comm, type, key, info, part);
}

/* Before main: the kernel reads the table as soon as it starts. */
__attribute__((constructor)) static void copy_patterns(void)
{
    for (size_t m = 0; m < bx_pattern_count; m++) {
        copies[m] = *sound[m];
        copies[m].exchange = exchange[m];
    }
}
