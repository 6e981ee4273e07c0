#define _GNU_SOURCE /* fallocate */
#include "bx_restart.h"

#include "bx.h"

#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* MPI libraries count in int: what a rank reads or writes in one call, in bytes. */
#ifndef BX_RESTART_PIECE
#define BX_RESTART_PIECE (INT64_C(1) << 30)
#endif

void bx_restart_name_library(void)
{
    char version[64];
    unsigned major, minor, release;
    H5get_libversion(&major, &minor, &release);
    snprintf(version, sizeof version, "%u.%u.%u", major, minor, release);
    bx_build_add_library("hdf5", version);
}

/* A checksum of a rank's rows, which any changed bit changes. */
static uint64_t checksum(const bx_restart_set *set)
{
    uint64_t sum = UINT64_C(14695981039346656037), bits; /* Fowler, Noll and Vo, by words */
    const char *at = set->rows;
    for (int64_t i = 0; i < set->mine * set->columns; i++, at += sizeof bits) {
        memcpy(&bits, at, sizeof bits);
        sum = (sum ^ bits) * UINT64_C(1099511628211);
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

/* The cause of HDF5's first failure, often MPI's: HDF5's own messages are for developers. */
static char cause[256];

static herr_t note_innermost(unsigned depth, const H5E_error2_t *error, void *unused)
{
    (void)unused;
    if (depth == 0 && error->desc) snprintf(cause, sizeof cause, ": %s", error->desc);
    return 0;
}

static herr_t note_first(hid_t stack, void *unused)
{
    return *cause ? 0 : H5Ewalk2(stack, H5E_WALK_UPWARD, note_innermost, unused);
}

static void note_causes(void)
{
    *cause = '\0';
    H5Eset_auto2(H5E_DEFAULT, note_first, NULL);
}

static hid_t open_parallel(const char *path, MPI_Comm comm, bool create)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, comm, MPI_INFO_NULL);
    /* since 1.8, what HDF5 itself keeps has checksums too: without, it crashes on damage */
    H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST);
    hid_t file = create ? H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access)
                        : H5Fopen(path, H5F_ACC_RDONLY, access);
    H5Pclose(access);
    return file;
}

/* Rows first .. first + mine - 1 of a dataset [rows][columns], to or from memory. */
static bool transfer(hid_t file, MPI_Comm comm, const char *name, hid_t type, int64_t rows,
                     int64_t columns, int64_t first, int64_t mine, void *memory, bool write)
{
    hsize_t all[2] = {(hsize_t)rows, (hsize_t)columns};
    hid_t space = H5Screate_simple(2, all, NULL);
    hid_t set = write ? H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)
                      : H5Dopen2(file, name, H5P_DEFAULT);
    hid_t how = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(how, H5FD_MPIO_COLLECTIVE);

    const int64_t row_size = 8 * columns;
    const int64_t most =
        row_size < BX_RESTART_PIECE && columns > 0 ? BX_RESTART_PIECE / row_size : 1;
    /* as many calls on every rank; none if all is empty, which HDF5 1.10 cannot write together */
    int64_t calls[2] = {columns > 0 ? (mine + most - 1) / most : 0, set < 0};
    MPI_Allreduce(MPI_IN_PLACE, calls, 2, MPI_INT64_T, MPI_MAX, comm);
    bool good = calls[1] == 0;
    for (int64_t call = 0; calls[1] == 0 && call < calls[0]; call++) {
        int64_t done = call * most < mine ? call * most : mine;
        int64_t now = mine - done < most ? mine - done : most;
        hsize_t start[2] = {(hsize_t)(first + done), 0}, own[2] = {(hsize_t)now, (hsize_t)columns};
        hid_t local = H5Screate_simple(2, own, NULL);
        if (now > 0) {
            H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, own, NULL);
        } else {
            H5Sselect_none(space);
            H5Sselect_none(local);
        }
        void *at = now > 0 ? (char *)memory + done * row_size : memory;
        good = (write ? H5Dwrite(set, type, local, space, how, at)
                      : H5Dread(set, type, local, space, how, at)) >= 0 &&
               good;
        H5Sclose(local);
    }
    H5Pclose(how);
    if (set >= 0) H5Dclose(set);
    H5Sclose(space);
    return good;
}

static hid_t type_of(const bx_restart_set *set)
{
    return set->integers ? H5T_NATIVE_INT64 : H5T_NATIVE_DOUBLE;
}

/* Numbers of rows of all ranks, and of the lower ranks. */
static void place(MPI_Comm comm, int64_t mine, int64_t *all, int64_t *below)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
    MPI_Allreduce(&mine, all, 1, MPI_INT64_T, MPI_SUM, comm);
    MPI_Exscan(&mine, below, 1, MPI_INT64_T, MPI_SUM, comm);
    if (rank == 0) *below = 0; /* MPI leaves it undefined */
}

/* Reads or writes one number per rank, the dataset "SET KIND". */
static bool transfer_mark(hid_t file, MPI_Comm comm, const char *set, const char *kind,
                          uint64_t *mark, bool write)
{
    char name[128];
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    snprintf(name, sizeof name, "%s %s", set, kind);
    return transfer(file, comm, name, H5T_NATIVE_UINT64, ranks, 1, rank, 1, mark, write);
}

static bool write_set(hid_t file, MPI_Comm comm, const bx_restart_set *set)
{
    int64_t all, below;
    place(comm, set->mine, &all, &below);
    uint64_t sum = checksum(set), count = (uint64_t)set->mine;
    bool good = transfer(file, comm, set->name, type_of(set), all, set->columns, below, set->mine,
                         set->rows, true);
    good = transfer_mark(file, comm, set->name, "rows", &count, true) && good;
    return transfer_mark(file, comm, set->name, "checksums", &sum, true) && good;
}

static bool write_number(hid_t file, const char *name, double value)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t attribute = H5Acreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT);
    bool good = attribute >= 0 && H5Awrite(attribute, H5T_NATIVE_DOUBLE, &value) >= 0;
    if (attribute >= 0) H5Aclose(attribute);
    H5Sclose(space);
    return good;
}

static bool write_numbers(hid_t file, const char *schema, const bx_restart_number *numbers,
                          size_t count)
{
    bool good = write_number(file, schema, 1);
    for (size_t i = 0; i < count; i++)
        good = write_number(file, numbers[i].name, numbers[i].value) && good;
    return good;
}

/* Takes disk space for `partial`, as much as it needs at most.  Returns an errno.  A write that
 * fails leaves ranks waiting in HDF5 1.10, and crashes it at MPI_Finalize: it is not to begin. HDF5
 * empties the file that it creates, so that space is taken before, and again when it is `created`.
 */
static int reserve(const char *partial, int64_t bytes, bool created)
{
    struct statvfs disk;
    int descriptor = open(partial, O_RDWR | O_CREAT | (created ? 0 : O_TRUNC), 0666), code = 0;
    if (descriptor < 0) return errno;
    while (
        (code = fallocate(descriptor, created ? FALLOC_FL_KEEP_SIZE : 0, 0, bytes) ? errno : 0) ==
        EINTR);
    if (code == EOPNOTSUPP || code == ENOSYS) {
        bool small = fstatvfs(descriptor, &disk) == 0 &&
                     (double)disk.f_bavail * (double)disk.f_frsize < (double)bytes;
        code = small && !created ? ENOSPC : 0;
    }
    close(descriptor);
    return code;
}

/* Bytes of the file at most, with HDF5's own data. */
static int64_t bytes_of(MPI_Comm comm, size_t number_count, const bx_restart_set *sets,
                        size_t set_count)
{
    int64_t bytes = 65536 + 1024 * (int64_t)(number_count + 3 * set_count), mine = 0, all;
    for (size_t i = 0; i < set_count; i++) mine += 8 * (sets[i].mine * sets[i].columns + 2);
    MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, comm);
    return bytes + all;
}

static bool write_all(hid_t file, MPI_Comm comm, const char *schema,
                      const bx_restart_number *numbers, size_t number_count,
                      const bx_restart_set *sets, size_t set_count)
{
    bool good = write_numbers(file, schema, numbers, number_count);
    for (size_t i = 0; i < set_count; i++) good = write_set(file, comm, &sets[i]) && good;
    good = H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0 && good;
    return H5Fclose(file) >= 0 && good;
}

int bx_restart_write(const char *path, MPI_Comm comm, const char *schema,
                     const bx_restart_number *numbers, size_t number_count,
                     const bx_restart_set *sets, size_t set_count, char *why, size_t why_size)
{
    char partial[PATH_MAX];
    int rank;
    MPI_Comm_rank(comm, &rank);
    note_causes();
    if (!bx_file_partial(partial, sizeof partial, path)) {
        snprintf(why, why_size, "%s: %s", path, strerror(ENAMETOOLONG));
        return 1;
    }
    int64_t bytes = bytes_of(comm, number_count, sets, set_count);
    int code = rank == 0 ? reserve(partial, bytes, false) : 0;
    snprintf(why, why_size, "%s: cannot be written: %s", partial, strerror(code));
    int failed = agree(comm, code == 0, why, why_size);
    if (!failed) {
        hid_t file = open_parallel(partial, comm, true);
        snprintf(why, why_size, "%s: cannot be written%s", partial, cause);
        failed = agree(comm, file >= 0, why, why_size);
        if (!failed) {
            if (rank == 0) reserve(partial, bytes, true);
            bool good = write_all(file, comm, schema, numbers, number_count, sets, set_count);
            snprintf(why, why_size, "%s: cannot be written%s", partial, cause);
            failed = agree(comm, good, why, why_size);
        }
    }
    if (!failed) {
        code = rank == 0 ? bx_file_replace(partial, path) : 0;
        snprintf(why, why_size, "%s: %s", path, strerror(code));
        failed = agree(comm, code == 0, why, why_size);
    }
    if (failed && rank == 0) unlink(partial); /* a full disk would stay full */
    return failed;
}

static bool read_number(hid_t file, const char *name, double *value)
{
    hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
    if (attribute < 0) return false;
    hid_t space = H5Aget_space(attribute);
    bool good = H5Sget_simple_extent_npoints(space) == 1 &&
                H5Aread(attribute, H5T_NATIVE_DOUBLE, value) >= 0;
    H5Sclose(space);
    H5Aclose(attribute);
    return good;
}

static bool read_numbers(hid_t file, const char *path, bx_restart_number *numbers, size_t count,
                         char *why, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = numbers[i].name;
        double there = 0, here = numbers[i].value;
        if (!read_number(file, name, &there)) {
            snprintf(why, size, "%s: says nothing of its %s", path, name);
            return false;
        }
        if (numbers[i].carried) {
            numbers[i].value = there;
        } else if (!(there <= here && there >= here)) { /* also if one is not a number */
            int digits = fabs(there - here) < 1e-9 * fabs(here) ? 17 : 10;
            snprintf(why, size, "%s: is of another calculation: its %s is %.*g, here it is %.*g",
                     path, name, digits, there, digits, here);
            return false;
        }
    }
    return true;
}

/* Whether the file has this schema and the same numbers; on one rank. */
static bool examine(const char *path, const char *schema, bx_restart_number *numbers,
                    size_t number_count, char *why, size_t size)
{
    if (access(path, R_OK) != 0) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
        return false;
    }
    hid_t file = open_parallel(path, MPI_COMM_SELF, false); /* serially, HDF5 would lock it */
    if (file < 0) {
        snprintf(why, size, "%s: not an HDF5 file, or truncated%s", path, cause);
        return false;
    }
    htri_t exists = H5Aexists(file, schema);
    bool good = exists > 0;
    if (exists == 0) snprintf(why, size, "%s: is no %s", path, schema);
    if (exists < 0) snprintf(why, size, "%s: is no %s, or is damaged%s", path, schema, cause);
    good = good && read_numbers(file, path, numbers, number_count, why, size);
    H5Fclose(file);
    return good;
}

/* Rows and columns of a dataset; 0 and 0 if it is missing or has other dimensions.  Local. */
static void shape_of(hid_t file, const char *set, const char *suffix, hsize_t extent[2])
{
    char name[128];
    extent[0] = extent[1] = 0;
    snprintf(name, sizeof name, "%s%s", set, suffix);
    hid_t data = H5Dopen2(file, name, H5P_DEFAULT);
    if (data < 0) return;
    hid_t space = H5Dget_space(data);
    if (H5Sget_simple_extent_ndims(space) == 2) H5Sget_simple_extent_dims(space, extent, NULL);
    H5Sclose(space);
    H5Dclose(data);
}

/* Sets the number of this rank's rows of a set, if it has the expected shape; else sets `why` on
 * every rank. */
static bool measure(hid_t file, MPI_Comm comm, const char *path, bx_restart_set *set, char *why,
                    size_t size)
{
    uint64_t count = 0;
    hsize_t rows[2], marks[2];
    int64_t all, below;
    int ranks;
    MPI_Comm_size(comm, &ranks);
    set->mine = 0;
    shape_of(file, set->name, "", rows);
    shape_of(file, set->name, " rows", marks);
    if (marks[1] != 1 || rows[1] != (hsize_t)set->columns) {
        snprintf(why, size, "%s: has no %s of %lld columns", path, set->name,
                 (long long)set->columns);
    } else if (marks[0] != (hsize_t)ranks) {
        snprintf(why, size, "%s: its %s are of %llu ranks, here are %d", path, set->name,
                 (unsigned long long)marks[0], ranks);
    } else {
        bool good = transfer_mark(file, comm, set->name, "rows", &count, false);
        set->mine = good && count <= rows[0] ? (int64_t)count : 0;
        place(comm, set->mine, &all, &below);
        snprintf(why, size, "%s: is damaged: its %s are not as many as its ranks have", path,
                 set->name);
        return !agree(comm, good && count <= rows[0] && (hsize_t)all == rows[0], why, size);
    }
    agree(comm, false, why, size);
    return false;
}

/* The open file; negative, with the reason in `why`, if it cannot be used. */
static hid_t open_again(const char *path, MPI_Comm comm, char *why, size_t why_size)
{
    hid_t file = open_parallel(path, comm, false);
    snprintf(why, why_size, "%s: cannot be read by all ranks%s", path, cause);
    return agree(comm, file >= 0, why, why_size) ? H5I_INVALID_HID : file;
}

int bx_restart_open(const char *path, MPI_Comm comm, const char *schema, bx_restart_number *numbers,
                    size_t number_count, bx_restart_set *sets, size_t set_count, char *why,
                    size_t why_size)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
    note_causes();
    bool good = rank != 0 || examine(path, schema, numbers, number_count, why, why_size);
    if (agree(comm, good, why, why_size)) return 1;
    for (size_t i = 0; i < number_count; i++) MPI_Bcast(&numbers[i].value, 1, MPI_DOUBLE, 0, comm);
    hid_t file = open_again(path, comm, why, why_size);
    if (file < 0) return 1;
    for (size_t i = 0; i < set_count && good; i++)
        good = measure(file, comm, path, &sets[i], why, why_size);
    H5Fclose(file);
    return !good;
}

static bool read_set(hid_t file, MPI_Comm comm, const char *path, const bx_restart_set *set,
                     char *why, size_t size)
{
    int64_t all, below;
    uint64_t sum = 0;
    bx_restart_set there = *set;
    if (!measure(file, comm, path, &there, why, size)) return false;
    snprintf(why, size, "%s: has %lld rows of %s on a rank, where %lld are asked for", path,
             (long long)there.mine, set->name, (long long)set->mine);
    if (agree(comm, there.mine == set->mine, why, size)) return false;
    place(comm, set->mine, &all, &below);
    bool good = transfer(file, comm, set->name, type_of(set), all, set->columns, below, set->mine,
                         set->rows, false);
    good = transfer_mark(file, comm, set->name, "checksums", &sum, false) && good;
    snprintf(why, size, "%s: its %s cannot be read%s", path, set->name, cause);
    if (agree(comm, good, why, size)) return false;
    snprintf(why, size, "%s: is damaged: what it holds does not match its checksums", path);
    return !agree(comm, sum == checksum(set), why, size);
}

int bx_restart_read(const char *path, MPI_Comm comm, const bx_restart_set *sets, size_t set_count,
                    char *why, size_t why_size)
{
    note_causes();
    hid_t file = open_again(path, comm, why, why_size);
    if (file < 0) return 1;
    bool good = true;
    for (size_t i = 0; i < set_count && good; i++)
        good = read_set(file, comm, path, &sets[i], why, why_size);
    H5Fclose(file);
    return !good;
}
