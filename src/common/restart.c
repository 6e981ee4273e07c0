#include "bx_restart.h"

#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of a rank's rows: any changed bit is seen. */
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

/* Any rank's failure is everyone's; the lowest such rank's reason is told. */
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

/* HDF5 reports by its return values; its own printing is for developers. */
static void be_quiet(void) { H5Eset_auto2(H5E_DEFAULT, NULL, NULL); }

static hid_t open_parallel(const char *path, MPI_Comm comm, bool create)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, comm, MPI_INFO_NULL);
    hid_t file = create ? H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access)
                        : H5Fopen(path, H5F_ACC_RDONLY, access);
    H5Pclose(access);
    return file;
}

/* Rows first .. first + mine - 1 of a dataset [rows][columns], to or from memory. */
static bool transfer(hid_t file, const char *name, hid_t type, hsize_t rows, hsize_t columns,
                     hsize_t first, hsize_t mine, void *memory, bool write)
{
    hsize_t all[2] = {rows, columns}, own[2] = {mine, columns}, start[2] = {first, 0};
    hid_t space = H5Screate_simple(2, all, NULL), local = H5Screate_simple(2, own, NULL);
    hid_t set = write ? H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)
                      : H5Dopen2(file, name, H5P_DEFAULT);
    hid_t how = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(how, H5FD_MPIO_COLLECTIVE);
    if (mine > 0) {
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, own, NULL);
    } else {
        H5Sselect_none(space);
        H5Sselect_none(local);
    }
    bool good = set >= 0;
    if (good && rows > 0) /* HDF5 1.10 cannot write nothing together */
        good = (write ? H5Dwrite(set, type, local, space, how, memory)
                      : H5Dread(set, type, local, space, how, memory)) >= 0;
    H5Pclose(how);
    if (set >= 0) H5Dclose(set);
    H5Sclose(local);
    H5Sclose(space);
    return good;
}

static hid_t type_of(const bx_restart_set *set)
{
    return set->integers ? H5T_NATIVE_INT64 : H5T_NATIVE_DOUBLE;
}

/* The set's rows of all ranks, and of those below. */
static void place(MPI_Comm comm, int64_t mine, int64_t *all, int64_t *below)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
    MPI_Allreduce(&mine, all, 1, MPI_INT64_T, MPI_SUM, comm);
    MPI_Exscan(&mine, below, 1, MPI_INT64_T, MPI_SUM, comm);
    if (rank == 0) *below = 0; /* MPI leaves it undefined */
}

/* One number of each rank, under "SET WHAT". */
static bool transfer_mark(hid_t file, MPI_Comm comm, const char *set, const char *what,
                          uint64_t *mark, bool write)
{
    char name[128];
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    snprintf(name, sizeof name, "%s %s", set, what);
    return transfer(file, name, H5T_NATIVE_UINT64, (hsize_t)ranks, 1, (hsize_t)rank, 1, mark,
                    write);
}

static bool write_set(hid_t file, MPI_Comm comm, const bx_restart_set *set)
{
    int64_t all, below;
    place(comm, set->mine, &all, &below);
    uint64_t sum = checksum(set), count = (uint64_t)set->mine;
    bool good = transfer(file, set->name, type_of(set), (hsize_t)all, (hsize_t)set->columns,
                         (hsize_t)below, (hsize_t)set->mine, set->rows, true);
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

/* What is in memory for the file goes to the disk, and so does its name. */
static bool put_in_place(const char *partial, const char *path)
{
    char folder[4096];
    int descriptor = open(partial, O_RDWR);
    bool good = descriptor >= 0 && fsync(descriptor) == 0;
    if (descriptor >= 0) close(descriptor);
    if (!good || rename(partial, path) != 0) return false;
    snprintf(folder, sizeof folder, "%s", path);
    descriptor = open(dirname(folder), O_RDONLY | O_DIRECTORY);
    if (descriptor >= 0) {
        fsync(descriptor); /* some file systems cannot; the rename is done */
        close(descriptor);
    }
    return true;
}

int bx_restart_write(const char *path, MPI_Comm comm, const char *schema,
                     const bx_restart_number *numbers, size_t number_count,
                     const bx_restart_set *sets, size_t set_count, char *why, size_t why_size)
{
    char partial[4096];
    int rank;
    MPI_Comm_rank(comm, &rank);
    be_quiet();
    snprintf(partial, sizeof partial, "%s.partial", path);
    hid_t file = open_parallel(partial, comm, true);
    bool good = file >= 0;
    if (good) {
        good = write_number(file, schema, 1);
        for (size_t i = 0; i < number_count; i++)
            good = write_number(file, numbers[i].name, numbers[i].value) && good;
        for (size_t i = 0; i < set_count; i++) good = write_set(file, comm, &sets[i]) && good;
        good = H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0 && good;
        good = H5Fclose(file) >= 0 && good;
    }
    snprintf(why, why_size, "%s: cannot be written", partial);
    if (agree(comm, good, why, why_size)) return 1;
    if (rank == 0) {
        good = put_in_place(partial, path);
        if (!good) snprintf(why, why_size, "%s: %s", path, strerror(errno));
    }
    return agree(comm, good, why, why_size);
}

static bool read_number(hid_t file, const char *name, double *value)
{
    hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
    bool good = attribute >= 0 && H5Aread(attribute, H5T_NATIVE_DOUBLE, value) >= 0;
    if (attribute >= 0) H5Aclose(attribute);
    return good;
}

/* Whether the file is of this schema and agrees; by one rank, without MPI. */
static bool examine(const char *path, const char *schema, bx_restart_number *numbers,
                    size_t number_count, char *why, size_t size)
{
    if (access(path, R_OK) != 0) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
        return false;
    }
    hid_t file = H5Fis_hdf5(path) > 0 ? H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT) : -1;
    if (file < 0) {
        snprintf(why, size, "%s: not an HDF5 file, or truncated", path);
        return false;
    }
    bool good = H5Aexists(file, schema) > 0;
    if (!good) snprintf(why, size, "%s: is no %s", path, schema);
    for (size_t i = 0; good && i < number_count; i++) {
        double there = 0, here = numbers[i].value;
        good = read_number(file, numbers[i].name, &there);
        if (!good) {
            snprintf(why, size, "%s: says nothing of its %s", path, numbers[i].name);
        } else if (numbers[i].carried) {
            numbers[i].value = there;
        } else if (there < here || there > here) {
            snprintf(why, size, "%s: is of another calculation: its %s is %.10g, here it is %.10g",
                     path, numbers[i].name, there, here);
            good = false;
        }
    }
    H5Fclose(file);
    return good;
}

/* Whether a set has the shape that is said of it; `mine` is set. */
static bool measure(hid_t file, MPI_Comm comm, bx_restart_set *set)
{
    uint64_t count = 0;
    hsize_t extent[2] = {0, 0};
    int64_t all, below;
    int ranks;
    MPI_Comm_size(comm, &ranks);
    char name[128];
    snprintf(name, sizeof name, "%s rows", set->name);
    hid_t marks = H5Dopen2(file, name, H5P_DEFAULT), rows = H5Dopen2(file, set->name, H5P_DEFAULT);
    bool good = marks >= 0 && rows >= 0;
    if (good) {
        hid_t space = H5Dget_space(marks), own = H5Dget_space(rows);
        good = H5Sget_simple_extent_ndims(space) == 2 && H5Sget_simple_extent_ndims(own) == 2;
        if (good) {
            H5Sget_simple_extent_dims(space, extent, NULL);
            good = extent[0] == (hsize_t)ranks && extent[1] == 1;
            H5Sget_simple_extent_dims(own, extent, NULL);
            good = good && extent[1] == (hsize_t)set->columns;
        }
        H5Sclose(space);
        H5Sclose(own);
    }
    if (marks >= 0) H5Dclose(marks);
    if (rows >= 0) H5Dclose(rows);
    good = good && transfer_mark(file, comm, set->name, "rows", &count, false);
    good = good && count <= extent[0];
    set->mine = good ? (int64_t)count : 0;
    place(comm, set->mine, &all, &below);
    return good && (hsize_t)all == extent[0];
}

int bx_restart_open(const char *path, MPI_Comm comm, const char *schema, bx_restart_number *numbers,
                    size_t number_count, bx_restart_set *sets, size_t set_count, char *why,
                    size_t why_size)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
    be_quiet();
    bool good = rank != 0 || examine(path, schema, numbers, number_count, why, why_size);
    if (agree(comm, good, why, why_size)) return 1;
    for (size_t i = 0; i < number_count; i++) MPI_Bcast(&numbers[i].value, 1, MPI_DOUBLE, 0, comm);
    hid_t file = open_parallel(path, comm, false);
    good = file >= 0;
    for (size_t i = 0; i < set_count && file >= 0; i++)
        good = measure(file, comm, &sets[i]) && good;
    if (file >= 0) H5Fclose(file);
    snprintf(why, why_size, "%s: is damaged: its parts do not fit together", path);
    return agree(comm, good, why, why_size);
}

static bool read_set(hid_t file, MPI_Comm comm, const bx_restart_set *set)
{
    int64_t all, below;
    uint64_t sum = 0;
    place(comm, set->mine, &all, &below);
    bool good = transfer(file, set->name, type_of(set), (hsize_t)all, (hsize_t)set->columns,
                         (hsize_t)below, (hsize_t)set->mine, set->rows, false);
    good = transfer_mark(file, comm, set->name, "checksums", &sum, false) && good;
    return good && sum == checksum(set);
}

int bx_restart_read(const char *path, MPI_Comm comm, const bx_restart_set *sets, size_t set_count,
                    char *why, size_t why_size)
{
    be_quiet();
    hid_t file = open_parallel(path, comm, false);
    bool good = file >= 0;
    for (size_t i = 0; i < set_count && file >= 0; i++)
        good = read_set(file, comm, &sets[i]) && good;
    if (file >= 0) H5Fclose(file);
    snprintf(why, why_size, "%s: is damaged: what it holds does not match its checksums", path);
    return agree(comm, good, why, why_size);
}
