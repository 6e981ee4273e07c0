#include "bx_restart.h"

#include "charge.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* MPI counts in int: what a rank reads or writes in one call, in bytes. */
#ifndef BX_RESTART_PIECE
#define BX_RESTART_PIECE (INT64_C(1) << 30)
#endif

/* A file is a header and the rows: set by set, in the order of the ranks.  The header is a `head`,
 * then the values of the numbers, the columns of the sets, and [sets][ranks] parts. */
typedef struct {
    char schema[48];
    uint64_t checksum; /* of the header, with 0 here */
    uint64_t header_bytes, file_bytes, numbers, sets, ranks;
} head;

/* The rows of one rank. */
typedef struct {
    int64_t rows;
    uint64_t checksum;
} part;

static double *values_of(head *h) { return (double *)(h + 1); }
static int64_t *columns_of(head *h) { return (int64_t *)(values_of(h) + h->numbers); }
static part *part_of(head *h, uint64_t set, uint64_t rank)
{
    return (part *)(columns_of(h) + h->sets) + set * h->ranks + rank;
}

/* Returns where the rows of a rank begin in the file. */
static MPI_Offset place_of(head *h, uint64_t set, uint64_t rank)
{
    MPI_Offset at = (MPI_Offset)h->header_bytes;
    for (uint64_t s = 0; s <= set; s++)
        for (uint64_t r = 0; r < (s < set ? h->ranks : rank); r++)
            at += 8 * columns_of(h)[s] * part_of(h, s, r)->rows;
    return at;
}

/* Returns a sum of 8-byte words, which any changed bit changes (Fowler, Noll and Vo). */
static uint64_t checksum(const void *words, int64_t bytes)
{
    uint64_t sum = UINT64_C(14695981039346656037), word;
    const char *at = words;
    for (int64_t i = 0; i < bytes; i += 8, at += 8) {
        memcpy(&word, at, sizeof word);
        sum = (sum ^ word) * UINT64_C(1099511628211);
    }
    return sum;
}

typedef bx_restart_file file;

/* Writes the reason of a failure. */
#define SAY(f, ...) snprintf((f)->why, (f)->why_size, __VA_ARGS__)

/* Any rank's failure is everyone's; `why` becomes the reason of the lowest such rank. */
static int agree(const file *f, bool good)
{
    int rank, lowest, ranks;
    MPI_Comm_rank(f->comm, &rank);
    MPI_Comm_size(f->comm, &ranks);
    int mine = good ? ranks : rank;
    MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, f->comm);
    if (lowest == ranks) return 0;
    MPI_Bcast(f->why, (int)f->why_size, MPI_CHAR, lowest, f->comm);
    return 1;
}

/* As agree, of an MPI error: "PATH: PROBLEM: the error's text". */
static int agree_mpi(const file *f, int code, const char *path, const char *problem)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (code != MPI_SUCCESS) MPI_Error_string(code, text, &length);
    SAY(f, "%s: %s: %s", path, problem, text);
    return agree(f, code == MPI_SUCCESS);
}

/* Opens a file on every rank, or on none, with the reason.  Where one rank cannot open it, Open MPI
 * waits for ever: so every rank looks first. */
static bool open_by_all(const file *f, const char *path, bool writes, MPI_File *handle)
{
    int rank;
    bool seen = writes ? bx_file_appears(path) : access(path, R_OK) == 0;
    const char *error = strerror(errno);
    MPI_Comm_rank(f->comm, &rank);
    SAY(f,
        "%s: rank %d does not see the file of rank 0: %s; take a file system that all nodes share",
        path, rank, error);
    if (agree(f, seen)) return false;
    int code = MPI_File_open(f->comm, path, writes ? MPI_MODE_WRONLY : MPI_MODE_RDONLY,
                             MPI_INFO_NULL, handle);
    return !agree_mpi(f, code, path, "cannot be opened by all ranks");
}

/* Reads or writes `bytes` of this rank from `at`, in pieces.  Returns an MPI error. */
static int transfer(MPI_File handle, MPI_Comm comm, MPI_Offset at, void *memory, int64_t bytes,
                    bool write)
{
    int64_t calls = (bytes + BX_RESTART_PIECE - 1) / BX_RESTART_PIECE, done = 0;
    int first = MPI_SUCCESS;
    MPI_Allreduce(MPI_IN_PLACE, &calls, 1, MPI_INT64_T, MPI_MAX, comm);
    for (; calls > 0; calls--) {
        int64_t left = bytes - done;
        int now = (int)(left < BX_RESTART_PIECE ? left : BX_RESTART_PIECE), moved = 0;
        void *piece = now > 0 ? (char *)memory + done : NULL;
        MPI_Status status;
        int code = (write ? MPI_File_write_at_all(handle, at + done, piece, now, MPI_BYTE, &status)
                          : MPI_File_read_at_all(handle, at + done, piece, now, MPI_BYTE, &status));
        if (code == MPI_SUCCESS) MPI_Get_count(&status, MPI_BYTE, &moved);
        if (code == MPI_SUCCESS && moved != now) code = MPI_ERR_IO;
        if (first == MPI_SUCCESS) first = code;
        done += now;
    }
    return first;
}

/* Returns the header of a file that is to be written, on every rank; the caller frees it. */
static head *create_header(const file *f)
{
    int ranks;
    MPI_Comm_size(f->comm, &ranks);
    size_t bytes = sizeof(head) + f->number_count * sizeof(double) +
                   f->set_count * (sizeof(int64_t) + (size_t)ranks * sizeof(part));
    head *h = bx_memory_alloc(1, bytes);
    *h = (head){.header_bytes = bytes, .numbers = f->number_count, .sets = f->set_count};
    h->ranks = (uint64_t)ranks;
    snprintf(h->schema, sizeof h->schema, "%s", f->schema);
    for (size_t i = 0; i < f->number_count; i++) values_of(h)[i] = f->numbers[i].value;
    for (size_t i = 0; i < f->set_count; i++) {
        const bx_restart_set *set = &f->sets[i];
        columns_of(h)[i] = set->columns;
        part mine = {set->mine, checksum(set->rows, 8 * set->mine * set->columns)};
        MPI_Allgather(&mine, sizeof mine, MPI_BYTE, part_of(h, i, 0), sizeof mine, MPI_BYTE,
                      f->comm);
    }
    h->file_bytes = (uint64_t)place_of(h, f->set_count, 0);
    h->checksum = checksum(h, (int64_t)bytes);
    return h;
}

/* Takes the disk space of a file, so that no write fails later.  Returns an errno.  Local. */
static int reserve(const char *partial, uint64_t bytes)
{
    int descriptor = open(partial, O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (descriptor < 0) return errno;
    int code = posix_fallocate(descriptor, 0, (off_t)bytes);
    close(descriptor);
    return code;
}

/* Writes header and rows, and closes the file.  Returns an MPI error. */
static int write_all(const file *f, MPI_File handle, head *h)
{
    int rank, code;
    MPI_Comm_rank(f->comm, &rank);
    int first = transfer(handle, f->comm, 0, h, rank == 0 ? (int64_t)h->header_bytes : 0, true);
    for (size_t i = 0; i < h->sets; i++) {
        code = transfer(handle, f->comm, place_of(h, i, (uint64_t)rank), f->sets[i].rows,
                        8 * f->sets[i].mine * f->sets[i].columns, true);
        if (first == MPI_SUCCESS) first = code;
    }
    int written = first == MPI_SUCCESS;
    MPI_Allreduce(MPI_IN_PLACE, &written, 1, MPI_INT, MPI_MIN, f->comm);
    if (written) first = MPI_File_sync(handle); /* what other nodes than rank 0's have written */
    code = MPI_File_close(&handle);
    return first == MPI_SUCCESS ? code : first;
}

/* SimGrid's MPI has no real disks. */
static int refuse_simulated(const file *f)
{
    SAY(f, "%s: a simulated launch has no restart files", f->path);
    return 1;
}

int bx_restart_write(const file *f)
{
    char partial[PATH_MAX];
    MPI_File handle;
    int rank;
    MPI_Comm_rank(f->comm, &rank);
    if (BX_IS_SIMULATED) return refuse_simulated(f);
    if (!bx_file_partial(partial, sizeof partial, f->path)) {
        SAY(f, "%s: %s", f->path, strerror(ENAMETOOLONG));
        return 1;
    }
    head *h = create_header(f);
    int code = rank == 0 ? reserve(partial, h->file_bytes) : 0;
    SAY(f, "%s: cannot be written: %s", partial, strerror(code));
    int failed = agree(f, code == 0) || !open_by_all(f, partial, true, &handle) ||
                 agree_mpi(f, write_all(f, handle, h), partial, "cannot be written");
    if (!failed) {
        code = rank == 0 ? bx_file_replace(partial, f->path) : 0;
        SAY(f, "%s: %s", f->path, strerror(code));
        failed = agree(f, code == 0);
    }
    if (failed && rank == 0) unlink(partial); /* a full disk would stay full */
    free(h);
    return failed;
}

/* Returns the header of the file, NULL with the reason; the caller frees it.  Local. */
static head *read_header(const file *f)
{
    FILE *stream = fopen(f->path, "rb");
    struct stat status;
    head start, *h = NULL;
    if (!stream || fstat(fileno(stream), &status) != 0) {
        SAY(f, "%s: %s", f->path, strerror(errno));
    } else if (fread(&start, sizeof start, 1, stream) != 1) {
        SAY(f, "%s: is no %s, or truncated", f->path, f->schema);
    } else if (strncmp(start.schema, f->schema, sizeof start.schema) != 0) {
        SAY(f, "%s: is no %s", f->path, f->schema);
    } else if (start.file_bytes != (uint64_t)status.st_size ||
               start.header_bytes > start.file_bytes || start.header_bytes < sizeof start) {
        SAY(f, "%s: is truncated or damaged: has %lld bytes, its header says %llu", f->path,
            (long long)status.st_size, (unsigned long long)start.file_bytes);
    } else {
        h = bx_memory_alloc(start.header_bytes / 8 + 1, 8); /* whole words, of a damaged one too */
        rewind(stream);
        bool whole = fread(h, 1, start.header_bytes, stream) == start.header_bytes;
        h->checksum = 0;
        if (!whole || checksum(h, (int64_t)start.header_bytes) != start.checksum) {
            SAY(f, "%s: is damaged: its header does not match its checksum", f->path);
            free(h);
            h = NULL;
        }
    }
    if (stream) fclose(stream);
    return h;
}

/* Compares a file with what the caller expects; sets the carried numbers.  Local. */
static bool examine(const file *f, head *h, int ranks)
{
    if (h->numbers != f->number_count || h->sets != f->set_count) {
        SAY(f, "%s: has %llu numbers and %llu sets of rows, expected %zu and %zu", f->path,
            (unsigned long long)h->numbers, (unsigned long long)h->sets, f->number_count,
            f->set_count);
        return false;
    }
    for (size_t i = 0; i < f->number_count; i++) {
        bx_restart_number *number = &f->numbers[i];
        double there = values_of(h)[i], here = number->value;
        if (number->carried) number->value = there;
        if (number->carried || (there <= here && there >= here)) continue; /* not of a NaN */
        int digits = fabs(there - here) < 1e-9 * fabs(here) ? 17 : 10;
        SAY(f, "%s: is of another calculation: its %s is %.*g, here it is %.*g", f->path,
            number->name, digits, there, digits, here);
        return false;
    }
    for (size_t i = 0; i < f->set_count; i++) {
        if (columns_of(h)[i] == f->sets[i].columns) continue;
        SAY(f, "%s: its %s have %lld columns, expected %lld", f->path, f->sets[i].name,
            (long long)columns_of(h)[i], (long long)f->sets[i].columns);
        return false;
    }
    SAY(f, "%s: is of %llu ranks, here are %d", f->path, (unsigned long long)h->ranks, ranks);
    return h->ranks == (uint64_t)ranks;
}

/* Returns the header on every rank after it was examined; NULL with the reason. */
static head *open_header(const file *f)
{
    int rank, ranks;
    MPI_Comm_rank(f->comm, &rank);
    MPI_Comm_size(f->comm, &ranks);
    head *h = rank == 0 ? read_header(f) : NULL;
    uint64_t bytes = h ? h->header_bytes : 0;
    if (!agree(f, rank != 0 || h)) {
        MPI_Bcast(&bytes, 1, MPI_UINT64_T, 0, f->comm);
        if (!h) h = bx_memory_alloc(1, bytes);
        MPI_Bcast(h, (int)bytes, MPI_BYTE, 0, f->comm);
        if (!agree(f, examine(f, h, ranks))) return h;
    }
    free(h);
    return NULL;
}

static bool read_set(const file *f, MPI_File handle, head *h, size_t index)
{
    int rank;
    bx_restart_set *set = &f->sets[index];
    MPI_Comm_rank(f->comm, &rank);
    const part *mine = part_of(h, index, (uint64_t)rank);
    int64_t bytes = 8 * mine->rows * set->columns;
    SAY(f, "%s: has %lld rows of %s on a rank, expected %lld", f->path, (long long)mine->rows,
        set->name, (long long)set->mine);
    if (agree(f, set->mine < 0 || set->mine == mine->rows)) return false;
    if (set->mine < 0) set->rows = bx_memory_alloc((size_t)bytes + 1, 1);
    set->mine = mine->rows;
    int code =
        transfer(handle, f->comm, place_of(h, index, (uint64_t)rank), set->rows, bytes, false);
    if (agree_mpi(f, code, f->path, "cannot be read")) return false;
    SAY(f, "%s: is damaged: its %s do not match their checksums", f->path, set->name);
    return !agree(f, mine->checksum == checksum(set->rows, bytes));
}

int bx_restart_read(const file *f)
{
    MPI_File handle;
    if (BX_IS_SIMULATED) return refuse_simulated(f);
    head *h = open_header(f);
    if (!h) return 1;
    bool opened = open_by_all(f, f->path, false, &handle), good = opened;
    for (size_t i = 0; i < f->set_count && good; i++) good = read_set(f, handle, h, i);
    if (opened) MPI_File_close(&handle);
    free(h);
    return !good;
}

/* Both as Fortran can call them, with its communicator (bx_restart.f90). */
int bx_restart_f(bool reads, const char *path, MPI_Fint comm, const char *schema,
                 bx_restart_number *numbers, size_t number_count, bx_restart_set *sets,
                 size_t set_count, char *why, size_t why_size)
{
    const file f = {path, schema,  MPI_Comm_f2c(comm), numbers, number_count, sets, set_count,
                    why,  why_size};
    return reads ? bx_restart_read(&f) : bx_restart_write(&f);
}
