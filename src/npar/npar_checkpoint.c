#include "npar_checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const SCHEMA = "bisection-npar-checkpoint-1";

static const struct {
    const char *name;
    size_t at;
    bool real;
} FIELDS[] = {
    {"bands", offsetof(npar_checkpoint, bands), false},
    {"occupied", offsetof(npar_checkpoint, occupied), false},
    {"atoms", offsetof(npar_checkpoint, atoms), false},
    {"plane waves", offsetof(npar_checkpoint, plane_waves), false},
    {"grid points along x", offsetof(npar_checkpoint, grid[0]), false},
    {"grid points along y", offsetof(npar_checkpoint, grid[1]), false},
    {"grid points along z", offsetof(npar_checkpoint, grid[2]), false},
    {"ranks", offsetof(npar_checkpoint, ranks), false},
    {"seed", offsetof(npar_checkpoint, seed), false},
    {"box along x", offsetof(npar_checkpoint, box[0]), true},
    {"box along y", offsetof(npar_checkpoint, box[1]), true},
    {"box along z", offsetof(npar_checkpoint, box[2]), true},
    {"cutoff", offsetof(npar_checkpoint, cutoff), true},
    {"noise", offsetof(npar_checkpoint, noise), true},
};
enum { FIELD_COUNT = sizeof FIELDS / sizeof *FIELDS };

static double field(const npar_checkpoint *about, int i)
{
    const char *at = (const char *)about + FIELDS[i].at;
    return FIELDS[i].real ? *(const double *)(const void *)at : *(const int *)(const void *)at;
}

/* Of a band's bits: any change is seen. */
static uint64_t checksum(const double *values, size_t count)
{
    uint64_t sum = UINT64_C(14695981039346656037), bits; /* Fowler, Noll and Vo, 64 bits */
    for (size_t i = 0; i < count; i++) {
        memcpy(&bits, &values[i], sizeof bits);
        sum = (sum ^ bits) * UINT64_C(1099511628211);
    }
    return sum;
}

/* Any rank's failure is everyone's; the lowest such rank's reason is told. */
static int agree(MPI_Comm comm, bool good, char *why, int why_size)
{
    int rank, worst, mine;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &mine);
    int first = good ? mine : rank;
    MPI_Allreduce(&first, &worst, 1, MPI_INT, MPI_MIN, comm);
    if (worst == mine) return 0;
    MPI_Bcast(why, why_size, MPI_CHAR, worst, comm);
    return 1;
}

static hid_t open_parallel(const char *path, MPI_Comm comm, bool create)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access, comm, MPI_INFO_NULL);
    hid_t file = create ? H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access)
                        : H5Fopen(path, H5F_ACC_RDONLY, access);
    H5Pclose(access);
    return file;
}

/* Rows rank, rank + ranks, ... of a dataset [rows][columns], to or from memory, collectively. */
static bool transfer_rows(hid_t file, const char *name, hid_t type, MPI_Comm comm, hsize_t rows,
                          hsize_t columns, hsize_t mine, void *memory, bool write)
{
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    hsize_t all[2] = {rows, columns}, own[2] = {mine, columns};
    hsize_t start[2] = {(hsize_t)rank, 0}, stride[2] = {(hsize_t)ranks, 1},
            count[2] = {mine, columns};
    hid_t space = H5Screate_simple(2, all, NULL), local = H5Screate_simple(2, own, NULL);
    hid_t set = write ? H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)
                      : H5Dopen2(file, name, H5P_DEFAULT);
    hid_t how = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(how, H5FD_MPIO_COLLECTIVE);
    if (mine > 0) {
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL);
    } else {
        H5Sselect_none(space);
        H5Sselect_none(local);
    }
    bool good = set >= 0 && (write ? H5Dwrite(set, type, local, space, how, memory)
                                   : H5Dread(set, type, local, space, how, memory)) >= 0;
    H5Pclose(how);
    if (set >= 0) H5Dclose(set);
    H5Sclose(local);
    H5Sclose(space);
    return good;
}

static bool write_attribute(hid_t file, const char *name, double value)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t attribute = H5Acreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT);
    bool good = attribute >= 0 && H5Awrite(attribute, H5T_NATIVE_DOUBLE, &value) >= 0;
    if (attribute >= 0) H5Aclose(attribute);
    H5Sclose(space);
    return good;
}

static bool write_all(hid_t file, MPI_Comm comm, const npar_checkpoint *about, int mine,
                      const double *waves, const double *energies)
{
    size_t row = 2 * (size_t)about->plane_waves;
    uint64_t *sums = calloc((size_t)mine + 1, sizeof *sums);
    double *own = calloc((size_t)mine + 1, sizeof *own);
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    for (int i = 0; i < mine; i++) {
        sums[i] = checksum(waves + (size_t)i * row, row);
        own[i] = energies[rank + i * ranks];
    }
    hsize_t bands = (hsize_t)about->bands;
    bool good = write_attribute(file, SCHEMA, 1);
    for (int i = 0; i < FIELD_COUNT; i++)
        good = write_attribute(file, FIELDS[i].name, field(about, i)) && good;
    good = transfer_rows(file, "waves", H5T_NATIVE_DOUBLE, comm, bands, row, (hsize_t)mine,
                         (void *)(uintptr_t)waves, true) &&
           good;
    good = transfer_rows(file, "energies", H5T_NATIVE_DOUBLE, comm, bands, 1, (hsize_t)mine, own,
                         true) &&
           good;
    good = transfer_rows(file, "checksums", H5T_NATIVE_UINT64, comm, bands, 1, (hsize_t)mine, sums,
                         true) &&
           good;
    free(sums);
    free(own);
    return good;
}

/* HDF5 reports by its return values; its own printing is for developers. */
static void be_quiet(void) { H5Eset_auto2(H5E_DEFAULT, NULL, NULL); }

int npar_checkpoint_write(const char *path, MPI_Fint fortran_comm, const npar_checkpoint *about,
                          int mine, const double *waves, const double *energies, char *why,
                          int why_size)
{
    MPI_Comm comm = MPI_Comm_f2c(fortran_comm);
    char partial[4096];
    int rank;
    MPI_Comm_rank(comm, &rank);
    be_quiet();
    snprintf(partial, sizeof partial, "%s.partial", path);
    hid_t file = open_parallel(partial, comm, true);
    bool good = file >= 0;
    if (good) {
        good = write_all(file, comm, about, mine, waves, energies);
        good = H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0 && good;
        good = H5Fclose(file) >= 0 && good;
    }
    snprintf(why, (size_t)why_size, "%s: cannot be written", partial);
    if (agree(comm, good, why, why_size)) return 1;
    if (rank == 0) { /* on disk before it takes the other's place */
        int descriptor = open(partial, O_RDWR);
        good = descriptor >= 0 && fsync(descriptor) == 0;
        if (descriptor >= 0) close(descriptor);
        good = good && rename(partial, path) == 0;
        if (!good) snprintf(why, (size_t)why_size, "%s: %s", path, strerror(errno));
    }
    return agree(comm, good, why, why_size);
}

/* Whether the file is one of ours and of this calculation; by one rank, without MPI. */
static bool examine(const char *path, const npar_checkpoint *about, char *why, size_t size)
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
    bool good = H5Aexists(file, SCHEMA) > 0;
    if (!good) snprintf(why, size, "%s: not a checkpoint of bisection-npar", path);
    for (int i = 0; good && i < FIELD_COUNT; i++) {
        double there = 0, here = field(about, i);
        hid_t attribute = H5Aopen(file, FIELDS[i].name, H5P_DEFAULT);
        good = attribute >= 0 && H5Aread(attribute, H5T_NATIVE_DOUBLE, &there) >= 0;
        if (attribute >= 0) H5Aclose(attribute);
        if (!good)
            snprintf(why, size, "%s: says nothing of its %s", path, FIELDS[i].name);
        else if (there < here || there > here) {
            snprintf(why, size, "%s: is of another calculation: its %s is %.10g, here it is %.10g",
                     path, FIELDS[i].name, there, here);
            good = false;
        }
    }
    H5Fclose(file);
    return good;
}

static bool read_all(hid_t file, MPI_Comm comm, const npar_checkpoint *about, int mine,
                     double *waves, double *energies)
{
    size_t row = 2 * (size_t)about->plane_waves;
    uint64_t *sums = calloc((size_t)mine + 1, sizeof *sums);
    double *own = calloc((size_t)mine + 1, sizeof *own);
    hsize_t bands = (hsize_t)about->bands;
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    bool good = transfer_rows(file, "waves", H5T_NATIVE_DOUBLE, comm, bands, row, (hsize_t)mine,
                              waves, false);
    good = transfer_rows(file, "energies", H5T_NATIVE_DOUBLE, comm, bands, 1, (hsize_t)mine, own,
                         false) &&
           good;
    good = transfer_rows(file, "checksums", H5T_NATIVE_UINT64, comm, bands, 1, (hsize_t)mine, sums,
                         false) &&
           good;
    memset(energies, 0, (size_t)about->bands * sizeof *energies);
    for (int i = 0; i < mine; i++) {
        good = good && sums[i] == checksum(waves + (size_t)i * row, row);
        energies[rank + i * ranks] = own[i];
    }
    MPI_Allreduce(MPI_IN_PLACE, energies, about->bands, MPI_DOUBLE, MPI_SUM, comm);
    free(sums);
    free(own);
    return good;
}

int npar_checkpoint_read(const char *path, MPI_Fint fortran_comm, const npar_checkpoint *about,
                         int mine, double *waves, double *energies, char *why, int why_size)
{
    MPI_Comm comm = MPI_Comm_f2c(fortran_comm);
    int rank;
    MPI_Comm_rank(comm, &rank);
    be_quiet();
    bool good = rank != 0 || examine(path, about, why, (size_t)why_size);
    if (agree(comm, good, why, why_size)) return 1;
    hid_t file = open_parallel(path, comm, false);
    good = file >= 0 && read_all(file, comm, about, mine, waves, energies);
    if (file >= 0) H5Fclose(file);
    snprintf(why, (size_t)why_size, "%s: is damaged: what it holds does not match its checksums",
             path);
    return agree(comm, good, why, why_size);
}
