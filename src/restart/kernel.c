/* bisection-restart: restart files, written in several ways and read back by other ranks. */
#include "charge.h"
#include "folder.h"
#include "method.h"
#include "run.h"

#include <string.h>
#include <unistd.h>

typedef struct {
    bx_choice about;
    int64_t planes, rows, columns;
    int words;
    bx_array_way way;
} restart_case;

static const restart_case CASES[] = {
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

/* Of all pages, so many do not stay in memory where files are synced: other programs may read some.
 */
static const double UNSYNCED = 0.5;

static bx_folder_place place = BX_FOLDER_PLACE;
static int64_t bytes_per_rank, readers;

static const bx_option OPTIONS[] = {
    {"bytes-per-rank", "N", "bytes of each rank, by more or fewer planes (default: the case's)",
     BX_INTEGER, 8, 1e12, &bytes_per_rank},
    {"readers", "N", "ranks that read (default: all)", BX_INTEGER, 1, 1e9, &readers},
    BX_FOLDER_OPTIONS(place),
};

typedef struct {
    bx_io io;
    uint64_t step; /* how many; each has words of its own */
    struct {
        bx_series write, read; /* s of the job; on rank 0 */
        bx_rank_series busy;   /* s of each rank */
        double pages, cached;
    } *measured; /* [METHOD_COUNT] */
} restart_state;

/* ---- set-up ---- */

static bx_array settle_array(bx_run *run)
{
    const restart_case *c = &CASES[bx_run_case_index(run)];
    int64_t planes = c->planes, plane = c->rows * c->columns * c->words * 8;
    if (bytes_per_rank) planes = (bytes_per_rank * bx_run_ranks(run) + plane - 1) / plane;
    if (planes != c->planes) bx_run_set_case(run, "custom");
    return bx_array_create(planes, c->rows, c->columns, c->words, c->way, bx_run_ranks(run));
}

/* The first of the ranks whose shares a reader has. */
static int first_of_reader(const bx_io *io, int reader)
{
    return (int)bx_array_begin(io->ranks, reader, io->readers);
}

/* Returns the rank that is a reader: half the ranks away from those whose shares it has. */
static int rank_of_reader(const bx_io *io, int reader)
{
    int first = first_of_reader(io, reader), away = first_of_reader(io, reader + 1) - first;
    if (away < bx_io_apart(io)) away = bx_io_apart(io);
    return (first + away) % io->ranks;
}

/* The pieces of a reader, which has the shares of several ranks: their boxes, or as many equal
 * parts of the array. */
static void deal_pieces(bx_io *io, bool whole_boxes)
{
    int64_t words = bx_array_words(&io->array);
    io->piece_count = 0;
    if (io->reader < 0) return;
    int first = first_of_reader(io, io->reader), end = first_of_reader(io, io->reader + 1);
    if (!whole_boxes) {
        int64_t begin = bx_array_begin(words, first, io->ranks);
        io->pieces[io->piece_count++] =
            (bx_io_piece){-1, begin, bx_array_begin(words, end, io->ranks) - begin};
    }
    for (int rank = first; whole_boxes && rank < end; rank++) {
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
    if (readers) io->readers = (int)readers;
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
    if (!bx_charge_has_disks())
        return bx_run_refuse(run, BX_USAGE, "a simulated machine has no disks to write to");
    if (readers > bx_run_ranks(run))
        return bx_run_refuse(run, BX_USAGE, "--readers %lld: there are %d ranks",
                             (long long)readers, bx_run_ranks(run));
    restart_state *s = bx_memory_alloc(1, sizeof *s);
    *address = s;
    bx_io *io = &s->io;
    bx_io_begin(io, run);
    io->array = settle_array(run);
    io->box = bx_array_box_of(&io->array, io->rank);
    io->words = bx_array_box_words(&io->box);
    settle_readers(io);
    double bytes = 8 * (double)bx_array_words(&io->array);
    int code = bx_resources_claim_memory(run, 8 * (double)(io->words + io->room) + (4 << 20),
                                         "--case or --bytes-per-rank");
    if (code != BX_OK) return code;
    code = bx_folder_create(run, &place, bytes, io->folder, sizeof io->folder);
    if (code != BX_OK) return code;
    char path[PATH_MAX];
    bx_io_name(io, path, "probe", 0);
    if (io->rank == 0) io->shows_unsynced = bx_io_shows_unsynced(path);
    MPI_Bcast(&io->shows_unsynced, 1, MPI_C_BOOL, 0, io->comm);
    io->mine = bx_memory_alloc((size_t)io->words, sizeof *io->mine);
    io->read = bx_memory_alloc((size_t)io->room, sizeof *io->read);
    BX_ALLOC(METHOD_COUNT, s->measured);
    return BX_OK;
}

static bool applicable(void *address, size_t method, char *why, size_t why_size)
{
    const restart_state *s = address;
    return !METHODS[method]->usable || METHODS[method]->usable(&s->io, why, why_size);
}

static void teardown(void *address)
{
    restart_state *s = address;
    if (s->io.rank == 0) bx_folder_remove(s->io.folder);
    for (size_t m = 0; m < METHOD_COUNT; m++) {
        BX_FREE(s->measured[m].write.values, s->measured[m].read.values);
        bx_rank_series_free(&s->measured[m].busy);
    }
    bx_io_end(&s->io);
    BX_FREE(s->io.mine, s->io.read, s->io.pieces, s->measured, s);
}

/* ---- words ---- */

static uint64_t word_at(const restart_state *s, int64_t index)
{
    return bx_random_hash(bx_run_seed(s->io.run) + s->step, (uint64_t)index);
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
    restart_state *s = address;
    bx_io *io = &s->io;
    s->step++;
    for (int64_t row = 0, at = 0; row < bx_array_box_rows(&io->box); row++) {
        int64_t index = bx_array_row(&io->array, &io->box, row);
        for (int64_t i = 0; i < io->box.count[2]; i++) io->mine[at++] = word_at(s, index + i);
    }
    deal_pieces(io, METHODS[method]->whole_boxes);
    memset(io->read, 0xff, (size_t)io->room * sizeof *io->read);
    io->syncs = bx_file_syncs();
}

/* ---- a step ---- */

static int files_of(const bx_io *io, const bx_io_method *m)
{
    return m->files == BX_IO_BY_RANK   ? io->ranks
           : m->files == BX_IO_BY_NODE ? bx_run_node_count(io->run)
                                       : 1;
}

/* Looks at the files, which are there beside a file with the folder's owner. */
static void look(bx_io *io, const bx_io_method *m)
{
    if (io->error != BX_OK) return;
    io->files = bx_folder_count(io->folder, 1 + files_of(io, m)) - 1;
    io->chunk = 0;
    if (m->look) m->look(io);
}

static void step(void *address, size_t method, size_t point)
{
    restart_state *s = address;
    const bx_io_method *m = METHODS[method];
    void (*const phases[BX_IO_PHASES])(bx_io *) = {m->open, m->write, m->sync,  m->close,
                                                   m->drop, m->read,  m->remove};
    double start = MPI_Wtime(), busy = 0, seconds[BX_IO_PHASES];
    if (m == &COPY) {
        m->write(&s->io);
        bx_run_lap(s->io.run, BX_IO_WRITE);
        return;
    }
    for (int phase = 0; phase < BX_IO_PHASES; phase++) {
        if (m->library) bx_profile_enter_region(m->library);
        phases[phase](&s->io);
        bx_profile_leave_region();
        seconds[phase] = bx_io_end_phase(&s->io, phase, &start);
        if (phase == BX_IO_CLOSE) busy = s->io.busy;
        if (phase == BX_IO_CLOSE && s->io.rank == 0 && !bx_run_is_sampling(s->io.run))
            look(&s->io, m);
    }
    s->io.busy = busy;
    if (s->io.rank != 0 || !bx_run_is_sampling(s->io.run)) return;
    bx_series_add(&s->measured[method].write, seconds[BX_IO_OPEN] + seconds[BX_IO_WRITE] +
                                                  seconds[BX_IO_SYNC] + seconds[BX_IO_CLOSE]);
    bx_series_add(&s->measured[method].read, seconds[BX_IO_READ]);
}

static const char *name_of(const restart_state *s, size_t method)
{
    return s->io.run->kernel->methods[method].name;
}

/* Prints the first wrong word: which rank wrote it, which one read it. */
static void print_wrong(const restart_state *s, size_t method, const bx_io_piece *piece,
                        int64_t word, uint64_t read)
{
    int64_t index = index_of(&s->io, piece, word);
    char writer[40] = "";
    if (piece->rank >= 0) snprintf(writer, sizeof writer, " of rank %d", s->io.number[piece->rank]);
    fprintf(stderr,
            "bisection-restart: %s: word %lld%s: rank %d read %016llx, written was %016llx\n",
            name_of(s, method), (long long)index, writer, bx_run_rank(s->io.run),
            (unsigned long long)read, (unsigned long long)word_at(s, index));
}

/* The words that ranks have read and compared: how many, their sum modulo 2^64, the wrong ones. */
typedef struct {
    uint64_t count, sum, wrong;
} comparison;

static comparison compare_words(const restart_state *s, size_t method)
{
    const bx_io *io = &s->io;
    comparison c = {0};
    int64_t at = 0;
    for (size_t i = 0; i < io->piece_count; i++)
        for (int64_t word = 0; word < io->pieces[i].words; word++, at++) {
            uint64_t expected = word_at(s, index_of(io, &io->pieces[i], word));
            c.count++;
            c.sum += expected;
            if (io->read[at] == expected) continue;
            if (c.wrong++ == 0) print_wrong(s, method, &io->pieces[i], word, io->read[at]);
        }
    return c;
}

/* Returns how many words of the array were compared too often, or not at all: none, where their
 * number and sum are those of the array, whoever has read them. */
static double count_unread(const restart_state *s, const comparison *c)
{
    const bx_io *io = &s->io;
    int64_t words = bx_array_words(&io->array);
    uint64_t sums[2] = {c->count, c->sum};
    for (int64_t index = bx_array_begin(words, io->rank, io->ranks),
                 end = bx_array_begin(words, io->rank + 1, io->ranks);
         index < end; index++)
        sums[1] -= word_at(s, index);
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_UINT64_T, MPI_SUM, io->comm);
    double unread = fabs((double)sums[0] - (double)words);
    return sums[1] == 0 ? unread : fmax(unread, 1);
}

/* Whether a piece has words of the box, or of the part of the array, of a rank that is near. */
static bool is_near(const bx_io *io, const bx_io_piece *piece)
{
    int64_t words = bx_array_words(&io->array);
    if (piece->rank >= 0) return piece->words > 0 && bx_io_is_near(io, piece->rank);
    for (int rank = 0; rank < io->ranks; rank++) {
        int64_t begin = bx_array_begin(words, rank, io->ranks),
                end = bx_array_begin(words, rank + 1, io->ranks);
        bool has_words = begin < end && begin < piece->first + piece->words && end > piece->first;
        if (has_words && bx_io_is_near(io, rank)) return true;
    }
    return false;
}

static bool reads_near(const bx_io *io)
{
    for (size_t i = 0; i < io->piece_count; i++)
        if (is_near(io, &io->pieces[i])) return true;
    return false;
}

/* Whether this rank did not bring to disk the file that it has written. */
static bool lacks_sync(const bx_io *io, size_t method)
{
    const bx_io_method *m = METHODS[method];
    int of_node;
    MPI_Comm_rank(io->node, &of_node);
    if (m->files == BX_IO_BY_NODE && of_node > 0) return false;
    if (m->files == BX_IO_BY_FIRST && io->rank > 0) return false;
    return bx_file_syncs() == io->syncs;
}

/* As many files as the name promises, and chunks, in a step that is not timed. */
static void check_files(const bx_io *io, const bx_io_method *m, bx_verification *verification)
{
    double files = files_of(io, m), largest = 0; /* box */
    for (int rank = 0; m->chunked && rank < io->ranks; rank++) {
        bx_array_box box = bx_array_box_of(&io->array, rank);
        largest = fmax(largest, (double)bx_array_box_words(&box));
    }
    bool looks = io->rank == 0;
    bx_verification_count(verification, "files", looks ? io->files : files, files, files);
    bx_verification_count(verification, "words of a chunk", looks ? io->chunk : largest, m->chunked,
                          largest);
}

static void inspect(void *address, size_t method, size_t point, bx_verification *verification)
{
    restart_state *s = address;
    bx_io *io = &s->io;
    comparison words = {0};
    bool failed = bx_io_failed(io);
    if (METHODS[method] == &COPY)
        words.wrong = memcmp(io->read, io->mine, (size_t)io->words * 8) != 0;
    else if (!failed)
        words = compare_words(s, method);
    bx_verification_check(verification, "words", (double)words.wrong, 0, "words");
    if (METHODS[method] == &COPY || failed) return;
    double pages[2] = {io->pages, io->cached};
    MPI_Allreduce(MPI_IN_PLACE, pages, 2, MPI_DOUBLE, MPI_SUM, io->comm);
    io->pages = io->cached = 0;
    bx_verification_check(verification, "read once", count_unread(s, &words), 0, "words");
    bx_verification_check(verification, "read where it was written",
                          bx_io_count_near(io, reads_near(io)), 0, "ranks");
    bx_verification_check(verification, "not synced", lacks_sync(io, method), 0, "ranks");
    if (io->shows_unsynced && !METHODS[method]->closing_writes)
        bx_verification_check(verification, "not on disk", pages[0] > 0 ? pages[1] / pages[0] : 0,
                              UNSYNCED, "of the pages");
    if (!bx_run_is_sampling(io->run)) {
        check_files(io, METHODS[method], verification);
        io->busy = 0;
        return;
    }
    bx_rank_series_add(&s->measured[method].busy, bx_run_comm(io->run), io->busy);
    io->busy = 0;
    if (io->rank != 0) return;
    s->measured[method].pages += pages[0];
    s->measured[method].cached += pages[1];
}

static void promise(void *address, size_t method, size_t point, const bx_shown *shown,
                    bx_verification *verification)
{
    const bx_io *io = &((restart_state *)address)->io;
    if (METHODS[method]->promise) METHODS[method]->promise(io, shown, verification);
}

static void verify(void *address, size_t method, size_t point, bx_verification *verification)
{
    prepare(address, method, point);
    step(address, method, point);
    inspect(address, method, point, verification);
}

/* ---- the result ---- */

static void metrics(void *address, size_t method, size_t point, bx_metrics *list)
{
    restart_state *s = address;
    double bytes = 8 * (double)bx_array_words(&s->io.array);
    if (METHODS[method] == &COPY) return;
    bx_metrics_add(list, "bandwidth_write",
                   bytes / bx_series_quantile(&s->measured[method].write, 0.5), "B/s", "higher");
    bx_metrics_add(list, "bandwidth_read",
                   bytes / bx_series_quantile(&s->measured[method].read, 0.5), "B/s", "higher");
    const bx_rank_series *busy = &s->measured[method].busy;
    bx_metrics_add(list, "time_write_p99", bx_series_quantile(&busy->most, 0.99), "s", "lower");
    bx_metrics_add(list, "cached_share", s->measured[method].cached / s->measured[method].pages,
                   "share", "lower");
    if (!METHODS[method]->alone) return;
    double others = busy->sums.mean * s->io.ranks - busy->sums.max;
    bx_metrics_add_series(list, "imbalance",
                          s->io.ranks > 1 ? busy->sums.max * (s->io.ranks - 1) / others : 1,
                          "ratio", "lower", busy);
}

static void report(void *address, bx_run *run, bx_json *details)
{
    restart_state *s = address;
    double bytes = 8 * (double)bx_array_words(&s->io.array);
    bx_run_note(run, "%.4g MB per step in %s, read back by %d ranks", bytes / 1e6, s->io.folder,
                s->io.readers);
    BX_NUMBERS(details, {"bytes", bytes}, {"readers", s->io.readers});
    bx_json_bool(details, "shows_unsynced", s->io.shows_unsynced);
    BX_TEXTS(details, {"folder", s->io.folder});
}

const bx_kernel *bx_kernel_get(void)
{
    static const char *const phases[BX_IO_PHASES] = {"open", "write", "sync",  "close",
                                                     "drop", "read",  "remove"};
    static const char *const ratios[] = {"file_per_node=file-per-node",
                                         "mpi_io_independent=mpi-io-independent", "copy"};
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
        .promise = promise,
        .step = step,
        .metrics = metrics,
        .report = report,
        .teardown = teardown,
    };
    for (size_t i = 0; i < CASE_COUNT; i++) bx_kernel_add_case(&kernel, &CASES[i].about);
    for (size_t m = 0; m < METHOD_COUNT; m++) bx_kernel_add_method(&kernel, &METHODS[m]->about);
    return &kernel;
}
