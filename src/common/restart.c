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

/* Any rank's failure is everyone's; `why` becomes the reason of the lowest such rank. */
static int agree(MPI_Comm comm, bool good, char *why, size_t why_size)
{
    int rank, lowest, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    int mine = good ? ranks : rank;
    MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, comm);
    if (lowest == ranks) return 0;
    MPI_Bcast(why, (int)why_size, MPI_CHAR, lowest, comm);
    return 1;
}

/* As agree, of an MPI error: "PATH: PROBLEM: the error's text". */
static int agree_mpi(MPI_Comm comm, int code, const char *path, const char *problem, char *why,
                     size_t why_size)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (code != MPI_SUCCESS) MPI_Error_string(code, text, &length);
    snprintf(why, why_size, "%s: %s: %s", path, problem, text);
    return agree(comm, code == MPI_SUCCESS, why, why_size);
}

/* Reads or writes `bytes` of this rank from `at`, in pieces.  Returns an MPI error. */
static int transfer(MPI_File file, MPI_Comm comm, MPI_Offset at, void *memory, int64_t bytes,
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
        int code = (write ? MPI_File_write_at_all(file, at + done, piece, now, MPI_BYTE, &status)
                          : MPI_File_read_at_all(file, at + done, piece, now, MPI_BYTE, &status));
        if (code == MPI_SUCCESS) MPI_Get_count(&status, MPI_BYTE, &moved);
        if (code == MPI_SUCCESS && moved != now) code = MPI_ERR_IO;
        if (first == MPI_SUCCESS) first = code;
        done += now;
    }
    return first;
}

/* Returns the header of a file that is to be written, on every rank; the caller frees it. */
static head *create_header(MPI_Comm comm, const char *schema, const bx_restart_number *numbers,
                           size_t number_count, const bx_restart_set *sets, size_t set_count)
{
    int ranks;
    MPI_Comm_size(comm, &ranks);
    size_t bytes = sizeof(head) + number_count * sizeof(double) +
                   set_count * (sizeof(int64_t) + (size_t)ranks * sizeof(part));
    head *h = bx_memory_alloc(1, bytes);
    *h = (head){.header_bytes = bytes, .numbers = number_count, .sets = set_count};
    h->ranks = (uint64_t)ranks;
    snprintf(h->schema, sizeof h->schema, "%s", schema);
    for (size_t i = 0; i < number_count; i++) values_of(h)[i] = numbers[i].value;
    for (size_t i = 0; i < set_count; i++) {
        columns_of(h)[i] = sets[i].columns;
        part mine = {sets[i].mine, checksum(sets[i].rows, 8 * sets[i].mine * sets[i].columns)};
        MPI_Allgather(&mine, sizeof mine, MPI_BYTE, part_of(h, i, 0), sizeof mine, MPI_BYTE, comm);
    }
    h->file_bytes = (uint64_t)place_of(h, set_count, 0);
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

/* Writes header and rows to the file that `reserve` has created.  Returns an MPI error. */
static int write_all(const char *partial, MPI_Comm comm, head *h, const bx_restart_set *sets)
{
    MPI_File file;
    int rank, code = MPI_File_open(comm, partial, MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    int opened = code == MPI_SUCCESS;
    MPI_Allreduce(MPI_IN_PLACE, &opened, 1, MPI_INT, MPI_MIN, comm);
    if (!opened) return code; /* on all ranks: a folder may be seen by some alone */
    MPI_Comm_rank(comm, &rank);
    int first = transfer(file, comm, 0, h, rank == 0 ? (int64_t)h->header_bytes : 0, true);
    for (size_t i = 0; i < h->sets; i++) {
        code = transfer(file, comm, place_of(h, i, (uint64_t)rank), sets[i].rows,
                        8 * sets[i].mine * sets[i].columns, true);
        if (first == MPI_SUCCESS) first = code;
    }
    code = MPI_File_close(&file);
    return first == MPI_SUCCESS ? code : first;
}

/* SimGrid's MPI has no real disks. */
static int refuse_simulated(const char *path, char *why, size_t why_size)
{
    snprintf(why, why_size, "%s: a simulated launch has no restart files", path);
    return 1;
}

int bx_restart_write(const char *path, MPI_Comm comm, const char *schema,
                     const bx_restart_number *numbers, size_t number_count,
                     const bx_restart_set *sets, size_t set_count, char *why, size_t why_size)
{
    char partial[PATH_MAX];
    int rank;
    MPI_Comm_rank(comm, &rank);
    if (BX_IS_SIMULATED) return refuse_simulated(path, why, why_size);
    if (!bx_file_partial(partial, sizeof partial, path)) {
        snprintf(why, why_size, "%s: %s", path, strerror(ENAMETOOLONG));
        return 1;
    }
    head *h = create_header(comm, schema, numbers, number_count, sets, set_count);
    int code = rank == 0 ? reserve(partial, h->file_bytes) : 0;
    snprintf(why, why_size, "%s: cannot be written: %s", partial, strerror(code));
    int failed = agree(comm, code == 0, why, why_size) ||
                 agree_mpi(comm, write_all(partial, comm, h, sets), partial, "cannot be written",
                           why, why_size);
    if (!failed) {
        code = rank == 0 ? bx_file_replace(partial, path) : 0;
        snprintf(why, why_size, "%s: %s", path, strerror(code));
        failed = agree(comm, code == 0, why, why_size);
    }
    if (failed && rank == 0) unlink(partial); /* a full disk would stay full */
    free(h);
    return failed;
}

/* Returns the header of a file of `schema`, NULL with the reason in `why`; the caller frees it.
 * Local. */
static head *read_header(const char *path, const char *schema, char *why, size_t size)
{
    FILE *file = fopen(path, "rb");
    struct stat status;
    head start, *h = NULL;
    if (!file || fstat(fileno(file), &status) != 0) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
    } else if (fread(&start, sizeof start, 1, file) != 1) {
        snprintf(why, size, "%s: is no %s, or truncated", path, schema);
    } else if (strncmp(start.schema, schema, sizeof start.schema) != 0) {
        snprintf(why, size, "%s: is no %s", path, schema);
    } else if (start.file_bytes != (uint64_t)status.st_size ||
               start.header_bytes > start.file_bytes || start.header_bytes < sizeof start) {
        snprintf(why, size, "%s: is truncated or damaged: has %lld bytes, its header says %llu",
                 path, (long long)status.st_size, (unsigned long long)start.file_bytes);
    } else {
        h = bx_memory_alloc(1, start.header_bytes);
        rewind(file);
        bool whole = fread(h, 1, start.header_bytes, file) == start.header_bytes;
        h->checksum = 0;
        if (!whole || checksum(h, (int64_t)start.header_bytes) != start.checksum) {
            snprintf(why, size, "%s: is damaged: its header does not match its checksum", path);
            free(h);
            h = NULL;
        }
    }
    if (file) fclose(file);
    return h;
}

/* Compares a file with what the caller expects; sets the carried numbers.  Local. */
static bool examine(head *h, int ranks, const char *path, bx_restart_number *numbers, size_t count,
                    const bx_restart_set *sets, size_t set_count, char *why, size_t size)
{
    if (h->numbers != count || h->sets != set_count) {
        snprintf(why, size, "%s: has %llu numbers and %llu sets of rows, expected %zu and %zu",
                 path, (unsigned long long)h->numbers, (unsigned long long)h->sets, count,
                 set_count);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        double there = values_of(h)[i], here = numbers[i].value;
        if (numbers[i].carried) numbers[i].value = there;
        if (numbers[i].carried || (there <= here && there >= here)) continue; /* not of a NaN */
        int digits = fabs(there - here) < 1e-9 * fabs(here) ? 17 : 10;
        snprintf(why, size, "%s: is of another calculation: its %s is %.*g, here it is %.*g", path,
                 numbers[i].name, digits, there, digits, here);
        return false;
    }
    for (size_t i = 0; i < set_count; i++) {
        if (columns_of(h)[i] == sets[i].columns) continue;
        snprintf(why, size, "%s: its %s have %lld columns, expected %lld", path, sets[i].name,
                 (long long)columns_of(h)[i], (long long)sets[i].columns);
        return false;
    }
    snprintf(why, size, "%s: is of %llu ranks, here are %d", path, (unsigned long long)h->ranks,
             ranks);
    return h->ranks == (uint64_t)ranks;
}

/* Returns the header on every rank after it was examined; NULL, with the reason in `why`. */
static head *open_header(const char *path, MPI_Comm comm, const char *schema,
                         bx_restart_number *numbers, size_t number_count,
                         const bx_restart_set *sets, size_t set_count, char *why, size_t size)
{
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    head *h = rank == 0 ? read_header(path, schema, why, size) : NULL;
    uint64_t bytes = h ? h->header_bytes : 0;
    bool good = rank != 0 || h;
    if (!agree(comm, good, why, size)) {
        MPI_Bcast(&bytes, 1, MPI_UINT64_T, 0, comm);
        if (!h) h = bx_memory_alloc(1, bytes);
        MPI_Bcast(h, (int)bytes, MPI_BYTE, 0, comm);
        good = examine(h, ranks, path, numbers, number_count, sets, set_count, why, size);
        if (!agree(comm, good, why, size)) return h;
    }
    free(h);
    return NULL;
}

static bool read_set(MPI_File file, MPI_Comm comm, const char *path, head *h, size_t index,
                     bx_restart_set *set, char *why, size_t size)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
    const part *mine = part_of(h, index, (uint64_t)rank);
    int64_t bytes = 8 * mine->rows * set->columns;
    snprintf(why, size, "%s: has %lld rows of %s on a rank, expected %lld", path,
             (long long)mine->rows, set->name, (long long)set->mine);
    if (agree(comm, set->mine < 0 || set->mine == mine->rows, why, size)) return false;
    if (set->mine < 0) set->rows = bx_memory_alloc((size_t)bytes + 1, 1);
    set->mine = mine->rows;
    int code = transfer(file, comm, place_of(h, index, (uint64_t)rank), set->rows, bytes, false);
    if (agree_mpi(comm, code, path, "cannot be read", why, size)) return false;
    snprintf(why, size, "%s: is damaged: its %s do not match their checksums", path, set->name);
    return !agree(comm, mine->checksum == checksum(set->rows, bytes), why, size);
}

int bx_restart_read(const char *path, MPI_Comm comm, const char *schema, bx_restart_number *numbers,
                    size_t number_count, bx_restart_set *sets, size_t set_count, char *why,
                    size_t why_size)
{
    MPI_File file;
    if (BX_IS_SIMULATED) return refuse_simulated(path, why, why_size);
    head *h =
        open_header(path, comm, schema, numbers, number_count, sets, set_count, why, why_size);
    if (!h) return 1;
    int code = MPI_File_open(comm, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    bool good = !agree_mpi(comm, code, path, "cannot be read by all ranks", why, why_size);
    for (size_t i = 0; i < set_count && good; i++)
        good = read_set(file, comm, path, h, i, &sets[i], why, why_size);
    if (code == MPI_SUCCESS) MPI_File_close(&file);
    free(h);
    return !good;
}
