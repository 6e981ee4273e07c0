/* bisection-restart: restart files, written in several ways and read back by other ranks. */
#include "charge.h"
#include "folder.h"
#include "method.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    bx_choice about;
    int64_t planes, rows, columns;
    int words;
    bx_array_way way;
} case_size;

static const case_size CASES[] = {
#define CASE(id, text, planes, rows, columns, words, way)                                          \
    {{.name = #id, .summary = text}, planes, rows, columns, words, BX_ARRAY_##way},
    BX_CASES(CASE)};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

/* The yardstick: the words of a rank, copied in memory. */
static void copy_words(bx_io *io) { memcpy(io->read, io->mine, (size_t)io->words * 8); }
static const bx_io_method COPY = {.about = {.name = "copy",
                                            .summary = "the words of each rank, copied in memory",
                                            .wins = "no file is written",
                                            .baseline = true},
                                  .write = copy_words};

static const bx_io_method *const METHODS[] = {
#define METHOD(id) &bx_io_##id,
    BX_METHODS(METHOD) & COPY};
enum { METHOD_COUNT = sizeof METHODS / sizeof *METHODS };

static const char *directory = ".";
static int64_t bytes_per_rank, readers;
static double share = 1, most = 8e9;

static const bx_option OPTIONS[] = {
    {"directory", "DIR", "folder, seen by all nodes, for the launch's own folder (default: .)",
     BX_TEXT, 0, 0, &directory},
    {"bytes-per-rank", "N", "bytes of each rank, by more or fewer planes (default: the case's)",
     BX_INTEGER, 8, 1e12, &bytes_per_rank},
    {"readers", "N", "ranks that read (default: all)", BX_INTEGER, 1, 1e9, &readers},
    {"share", "PERCENT", "of the free space, that may be written (default: 1)", BX_REAL, 1e-6, 100,
     &share},
    {"most", "BYTES", "that may be written (default: 8e9)", BX_REAL, 1, 1e18, &most},
};

typedef struct {
    bx_run *run;
    bx_io io;
    uint64_t step;  /* how many; each has words of its own */
    double written; /* s: of this rank's write, before it waits */
    struct {
        bx_series write, read, slowest, imbalance; /* s, s, s, ratio; on rank 0 */
        double pages, cached;
    } *measured; /* [METHOD_COUNT] */
} state;

/* ---- set-up ---- */

static bx_array settle_array(bx_run *run)
{
    const case_size *c = &CASES[bx_run_case_index(run)];
    int64_t planes = c->planes, plane = c->rows * c->columns * c->words * 8;
    if (bytes_per_rank) planes = (bytes_per_rank * bx_run_ranks(run) + plane - 1) / plane;
    if (planes != c->planes) bx_run_set_case(run, "custom");
    return bx_array_create(planes, c->rows, c->columns, c->words, c->way, bx_run_ranks(run));
}

/* Returns the rank that is a reader: half the ranks away from those that wrote most of its part. */
static int rank_of_reader(const bx_io *io, int reader)
{
    int apart = io->ranks > 2 ? io->ranks / 2 : io->ranks - 1;
    return (int)(((int64_t)reader * io->ranks / io->readers + apart) % io->ranks);
}

/* The pieces of a reader: boxes of ranks, or an equal part of the array. */
static void deal_pieces(bx_io *io, bool whole_boxes)
{
    int64_t words = bx_array_words(&io->array);
    io->piece_count = 0;
    if (io->reader < 0) return;
    int64_t first = words * io->reader / io->readers;
    if (!whole_boxes) {
        int64_t end = words * (io->reader + 1) / io->readers;
        io->pieces[io->piece_count++] = (bx_io_piece){-1, first, end - first};
    }
    for (int rank = io->reader; whole_boxes && rank < io->ranks; rank += io->readers) {
        bx_array_box box = bx_array_box_of(&io->array, rank);
        io->pieces[io->piece_count++] = (bx_io_piece){rank, 0, bx_array_box_words(&box)};
    }
}

static int64_t words_of_pieces(const bx_io *io)
{
    int64_t words = 0;
    for (size_t i = 0; i < io->piece_count; i++) words += io->pieces[i].words;
    return words;
}

static void settle_readers(bx_io *io)
{
    io->reader = -1;
    io->readers = readers ? (int)readers : io->ranks;
    for (int i = 0; i < io->readers; i++)
        if (rank_of_reader(io, i) == io->rank) io->reader = i;
    io->pieces = bx_memory_alloc((size_t)(io->ranks / io->readers + 1), sizeof *io->pieces);
    io->room = io->words; /* of the yardstick's copy */
    for (int whole = 0; whole < 2; whole++) {
        deal_pieces(io, whole);
        if (words_of_pieces(io) > io->room) io->room = words_of_pieces(io);
    }
}

static int setup(bx_run *run, void **address)
{
    if (BX_IS_SIMULATED)
        return bx_run_refuse(run, BX_USAGE, "a simulated machine has no disks to write to");
    if (readers > bx_run_ranks(run))
        return bx_run_refuse(run, BX_USAGE, "--readers %lld: there are %d ranks",
                             (long long)readers, bx_run_ranks(run));
    state *s = bx_memory_alloc(1, sizeof *s);
    *address = s;
    s->run = run;
    bx_io *io = &s->io;
    io->comm = bx_run_comm(run);
    io->node = bx_run_node_comm(run);
    io->rank = bx_run_rank(run);
    io->ranks = bx_run_ranks(run);
    io->array = settle_array(run);
    io->box = bx_array_box_of(&io->array, io->rank);
    io->words = bx_array_box_words(&io->box);
    settle_readers(io);
    double bytes = 8 * (double)bx_array_words(&io->array);
    int code = bx_resources_claim_memory(run, 8 * (double)(io->words + io->room) + (4 << 20),
                                         "--case or --bytes-per-rank");
    if (code != BX_OK) return code;
    code = bx_folder_create(run, directory, bytes, share, most, io->folder, sizeof io->folder);
    if (code != BX_OK) return code;
    io->mine = bx_memory_alloc((size_t)io->words, sizeof *io->mine);
    io->read = bx_memory_alloc((size_t)io->room, sizeof *io->read);
    BX_ALLOC(METHOD_COUNT, s->measured);
    return BX_OK;
}

static bool applicable(void *address, size_t method, char *why, size_t why_size)
{
    return !METHODS[method]->usable || METHODS[method]->usable(why, why_size);
}

static void teardown(void *address)
{
    state *s = address;
    if (s->io.rank == 0) bx_folder_remove(s->io.folder);
    for (size_t m = 0; m < METHOD_COUNT; m++)
        BX_FREE(s->measured[m].write.values, s->measured[m].read.values,
                s->measured[m].slowest.values, s->measured[m].imbalance.values);
    BX_FREE(s->io.mine, s->io.read, s->io.pieces, s->measured, s);
}

/* ---- words ---- */

static uint64_t word_at(const state *s, int64_t index)
{
    return bx_random_hash(bx_run_seed(s->run) + s->step, (uint64_t)index);
}

/* Returns where a word of a piece is in the array. */
static int64_t index_of(const bx_io *io, const bx_io_piece *piece, int64_t word)
{
    if (piece->rank < 0) return piece->first + word;
    bx_array_box box = bx_array_box_of(&io->array, piece->rank);
    return bx_array_row(&io->array, &box, word / box.count[2]) + word % box.count[2];
}

/* New words for each step, and none of them, but for one chance in 2^64 each, where words will be
 * read. */
static void prepare(void *address, size_t method, size_t point)
{
    state *s = address;
    bx_io *io = &s->io;
    s->step++;
    for (int64_t row = 0, at = 0; row < bx_array_box_rows(&io->box); row++) {
        int64_t index = bx_array_row(&io->array, &io->box, row);
        for (int64_t i = 0; i < io->box.count[2]; i++) io->mine[at++] = word_at(s, index + i);
    }
    deal_pieces(io, METHODS[method]->whole_boxes);
    memset(io->read, 0xff, (size_t)io->room * sizeof *io->read);
}

/* ---- a step ---- */

static void finish_phase(state *s, int phase)
{
    MPI_Barrier(s->io.comm);
    bx_run_lap(s->run, (size_t)phase);
    bx_run_progress(s->run, phase + 1);
}

static void step(void *address, size_t method, size_t point)
{
    state *s = address;
    const bx_io_method *m = METHODS[method];
    void (*const phases[BX_IO_PHASES])(bx_io *) = {m->open, m->write, m->sync,  m->close,
                                                   m->drop, m->read,  m->remove};
    double ends[BX_IO_PHASES + 1] = {MPI_Wtime()};
    if (m == &COPY) {
        m->write(&s->io);
        bx_run_lap(s->run, BX_IO_WRITE);
        return;
    }
    for (int phase = 0; phase < BX_IO_PHASES; phase++) {
        phases[phase](&s->io);
        if (phase == BX_IO_CLOSE) s->written = MPI_Wtime() - ends[0];
        finish_phase(s, phase);
        ends[phase + 1] = MPI_Wtime();
    }
    if (s->io.rank != 0) return;
    bx_series_add(&s->measured[method].write, ends[BX_IO_CLOSE + 1] - ends[0]);
    bx_series_add(&s->measured[method].read, ends[BX_IO_READ + 1] - ends[BX_IO_READ]);
}

/* Prints the first wrong word: which rank wrote it, which one read it. */
static void print_wrong(const state *s, size_t method, const bx_io_piece *piece, int64_t word,
                        uint64_t read)
{
    int64_t index = index_of(&s->io, piece, word);
    char writer[40] = "", name[40];
    snprintf(name, sizeof name, "%s", METHODS[method]->about.name);
    for (char *c = name; *c; c++)
        if (*c == '_') *c = '-';
    if (piece->rank >= 0) snprintf(writer, sizeof writer, " of rank %d", piece->rank);
    fprintf(stderr,
            "bisection-restart: %s: word %lld%s: rank %d read %016llx, written was %016llx\n", name,
            (long long)index, writer, s->io.rank, (unsigned long long)read,
            (unsigned long long)word_at(s, index));
}

static double count_wrong(state *s, size_t method)
{
    const bx_io *io = &s->io;
    double wrong = 0;
    if (METHODS[method] == &COPY) return memcmp(io->read, io->mine, (size_t)io->words * 8) != 0;
    int64_t at = 0;
    for (size_t i = 0; i < io->piece_count; i++)
        for (int64_t word = 0; word < io->pieces[i].words; word++, at++) {
            if (io->read[at] == word_at(s, index_of(io, &io->pieces[i], word))) continue;
            if (wrong == 0) print_wrong(s, method, &io->pieces[i], word, io->read[at]);
            wrong++;
        }
    return wrong;
}

static void inspect(void *address, size_t method, size_t point, bx_verification *verification)
{
    state *s = address;
    bx_io *io = &s->io;
    if (io->error != BX_OK) bx_run_refuse(s->run, io->error, "%s", io->why);
    bool failed = false;
    MPI_Allreduce(&(bool){io->error != BX_OK}, &failed, 1, MPI_C_BOOL, MPI_LOR, io->comm);
    /* What could not be written is no wrong answer: the launch ends with the reason. */
    bx_verification_check(verification, "words", failed ? 0 : count_wrong(s, method), 0, "words");
    if (METHODS[method] == &COPY || failed) return;
    double slowest, sums[3] = {s->written, io->pages, io->cached}, all[3];
    MPI_Reduce(&s->written, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, io->comm);
    MPI_Reduce(sums, all, 3, MPI_DOUBLE, MPI_SUM, 0, io->comm);
    io->pages = io->cached = 0;
    if (io->rank != 0) return;
    bx_series_add(&s->measured[method].slowest, slowest);
    bx_series_add(&s->measured[method].imbalance, slowest * io->ranks / all[0]);
    s->measured[method].pages += all[1];
    s->measured[method].cached += all[2];
}

static void verify(void *address, size_t method, size_t point, bx_verification *verification)
{
    state *s = address;
    prepare(address, method, point);
    step(address, method, point);
    inspect(address, method, point, verification);
    s->measured[method].write.count = s->measured[method].read.count = 0;
    s->measured[method].slowest.count = s->measured[method].imbalance.count = 0;
}

/* ---- the result ---- */

static void metrics(void *address, size_t method, size_t point, bx_metrics *list)
{
    state *s = address;
    double bytes = 8 * (double)bx_array_words(&s->io.array);
    if (METHODS[method] == &COPY) return;
    bx_metrics_add(list, "bandwidth_write",
                   bytes / bx_series_quantile(&s->measured[method].write, 0.5), "B/s", "higher");
    bx_metrics_add(list, "bandwidth_read",
                   bytes / bx_series_quantile(&s->measured[method].read, 0.5), "B/s", "higher");
    bx_metrics_add(list, "time_write_p99", bx_series_quantile(&s->measured[method].slowest, 0.99),
                   "s", "lower");
    bx_metrics_add(list, "imbalance", bx_series_quantile(&s->measured[method].imbalance, 0.5),
                   "ratio", "lower");
    bx_metrics_add(list, "cached_share", s->measured[method].cached / s->measured[method].pages,
                   "share", "lower");
}

static void report(void *address, bx_run *run, bx_json *details)
{
    const state *s = address;
    double bytes = 8 * (double)bx_array_words(&s->io.array);
    bx_run_note(run, "%.4g MB per step in %s, read back by %d ranks", bytes / 1e6, s->io.folder,
                s->io.readers);
    BX_NUMBERS(details, {"bytes", bytes}, {"readers", s->io.readers});
    BX_TEXTS(details, {"folder", s->io.folder});
}

const bx_kernel *bx_kernel_get(void)
{
    static const char *const phases[BX_IO_PHASES] = {"open", "write", "sync",  "close",
                                                     "drop", "read",  "remove"};
    static const char *const ratios[] = {"per_node=file-per-node"};
    static const int64_t sampling[3] = {5, 1, 1};
    static bx_kernel kernel = {
        .name = "restart",
        .summary = "restart files, read back by other ranks",
        .options = BX_COUNTED(OPTIONS),
        .phases = phases,
        .phase_count = BX_IO_PHASES,
        .ratios = BX_COUNTED(ratios),
        .baselines = "copy",
        .sampling = sampling,
        .setup = setup,
        .applicable = applicable,
        .verify = verify,
        .prepare = prepare,
        .inspect = inspect,
        .step = step,
        .metrics = metrics,
        .report = report,
        .teardown = teardown,
    };
    for (size_t i = 0; i < CASE_COUNT; i++) bx_kernel_add_case(&kernel, &CASES[i].about);
    for (size_t m = 0; m < METHOD_COUNT; m++) bx_kernel_add_method(&kernel, &METHODS[m]->about);
    return &kernel;
}
