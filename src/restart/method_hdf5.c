/* One file by parallel HDF5: a data set of the array's shape, each rank's box by a hyperslab. Where
 * a flush fails on some ranks, a full disk for example, HDF5 1.10 waits for ever: the launch ends
 * as a hang. */
#include "method.h"

#ifdef BX_HAVE_HDF5
#include <hdf5.h>

static hid_t file = -1, data = -1, access_list = -1, transfer = -1;

/* The text of the innermost error. */
static herr_t keep_text(unsigned depth, const H5E_error2_t *error, void *to)
{
    if (depth == 0) snprintf(to, 128, "%s", error->desc);
    return 0;
}

static void fail(bx_io *io, const char *doing)
{
    char text[128] = "HDF5 gives no reason";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_text, text);
    bx_io_fail(io, io->folder, doing, text);
}

/* Whether something is open on every rank; closes nothing. */
static bool all(bx_io *io, hid_t thing, const char *doing)
{
    int good = thing >= 0;
    if (!good) fail(io, doing);
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, io->comm);
    return good;
}

static void close_data(bx_io *io)
{
    if (data >= 0 && H5Dclose(data) < 0) fail(io, "closed");
    if (file >= 0 && H5Fclose(file) < 0) fail(io, "closed");
    if (access_list >= 0) H5Pclose(access_list);
    if (transfer >= 0) H5Pclose(transfer);
    data = file = access_list = transfer = -1;
}

static void prepare_lists(bx_io *io, bool together)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    access_list = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(access_list, io->comm, MPI_INFO_NULL);
    transfer = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_dxpl_mpio(transfer, together ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
}

static void create(bx_io *io, bool together, bool chunked)
{
    char path[PATH_MAX];
    hsize_t size[3], chunk[3];
    bx_io_name_common(io, path);
    prepare_lists(io, together);
    file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access_list);
    if (!all(io, file, "created")) {
        close_data(io);
        return;
    }
    for (int d = 0; d < 3; d++) {
        const bx_array *a = &io->array;
        size[d] = (hsize_t)a->size[d];
        chunk[d] = (hsize_t)((a->size[d] + a->ranks[d] - 1) / a->ranks[d]);
    }
    if (io->array.cyclic) chunk[0] = 1;
    /* HDF5 has chunks below 4 GiB; of more than 64 MiB its cache keeps none. */
    while (chunk[0] > 1 && chunk[0] * chunk[1] * chunk[2] > (8 << 20))
        chunk[0] = (chunk[0] + 1) / 2;
    hid_t space = H5Screate_simple(3, size, NULL), made_by = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_fill_time(made_by, H5D_FILL_TIME_NEVER);
    if (chunked) H5Pset_chunk(made_by, 3, chunk);
    data = H5Dcreate2(file, "array", H5T_NATIVE_UINT64, space, H5P_DEFAULT, made_by, H5P_DEFAULT);
    bool good = all(io, data, "created");
    H5Pclose(made_by);
    H5Sclose(space);
    if (!good) close_data(io); /* on every rank: a rank that wrote would wait for the others */
}

static void create_collective(bx_io *io) { create(io, true, false); }
static void create_independent(bx_io *io) { create(io, false, false); }
static void create_chunked(bx_io *io) { create(io, true, true); }

static void write_box(bx_io *io)
{
    if (data < 0) return;
    const bx_array_box *box = &io->box;
    hsize_t start[3], count[3], stride[3] = {(hsize_t)box->stride, 1, 1};
    hsize_t words = (hsize_t)io->words;
    for (int d = 0; d < 3; d++) {
        start[d] = (hsize_t)box->start[d];
        count[d] = (hsize_t)box->count[d];
    }
    hid_t there = H5Dget_space(data), here = H5Screate_simple(1, &words, NULL);
    if (words > 0) {
        H5Sselect_hyperslab(there, H5S_SELECT_SET, start, stride, count, NULL);
    } else {
        H5Sselect_none(there);
        H5Sselect_none(here);
    }
    if (H5Dwrite(data, H5T_NATIVE_UINT64, here, there, transfer, io->mine) < 0) fail(io, "written");
    H5Sclose(here);
    H5Sclose(there);
}

static void sync_file(bx_io *io)
{
    if (file >= 0 && H5Fflush(file, H5F_SCOPE_GLOBAL) < 0) fail(io, "synced");
}

/* A reader's part of the array, which may begin and end inside a plane or a row: the planes that it
 * touches, of which it keeps its own words. */
static void read_part(bx_io *io, bool together)
{
    char path[PATH_MAX];
    bx_io_piece none = {0}, piece = io->piece_count ? io->pieces[0] : none;
    hsize_t words = (hsize_t)piece.words, kept[1] = {words};
    bx_io_name_common(io, path);
    prepare_lists(io, together);
    file = H5Fopen(path, H5F_ACC_RDONLY, access_list);
    if (!all(io, file, "read")) {
        close_data(io);
        return;
    }
    data = H5Dopen2(file, "array", H5P_DEFAULT);
    if (!all(io, data, "read")) {
        close_data(io);
        return;
    }
    hid_t there = H5Dget_space(data), here = H5Screate_simple(1, kept, NULL);
    H5Sselect_none(there);
    const int64_t *size = io->array.size;
    /* The part is at most five blocks: the rest of a row, of a plane, planes, rows, words. */
    for (int64_t at = piece.first, end = piece.first + piece.words; at < end;) {
        int64_t column = at % size[2], row = at / size[2] % size[1], plane = at / size[2] / size[1];
        int64_t left = end - at, row_words = size[2], plane_words = size[1] * size[2];
        hsize_t start[3] = {(hsize_t)plane, (hsize_t)row, (hsize_t)column}, count[3] = {1, 1, 1};
        if (column == 0 && row == 0 && left >= plane_words) {
            count[0] = (hsize_t)(left / plane_words);
            count[1] = (hsize_t)size[1];
            count[2] = (hsize_t)size[2];
        } else if (column == 0 && left >= row_words) {
            int64_t rows = left / row_words;
            count[1] = (hsize_t)(rows < size[1] - row ? rows : size[1] - row);
            count[2] = (hsize_t)size[2];
        } else {
            count[2] = (hsize_t)(left < size[2] - column ? left : size[2] - column);
        }
        H5Sselect_hyperslab(there, H5S_SELECT_OR, start, NULL, count, NULL);
        at += (int64_t)(count[0] * count[1] * count[2]);
    }

    if (words == 0) H5Sselect_none(here);
    if (H5Dread(data, H5T_NATIVE_UINT64, here, there, transfer, io->read) < 0) fail(io, "read");
    H5Sclose(here);
    H5Sclose(there);
    close_data(io);
}

static void read_collective(bx_io *io) { read_part(io, true); }
static void read_independent(bx_io *io) { read_part(io, false); }

#define BY_HDF5(NAME, CREATE, WAY, SUMMARY, WINS)                                                  \
    const bx_io_method bx_io_##NAME = {.about = {.name = #NAME, .summary = SUMMARY, .wins = WINS}, \
                                       .closing_writes = true,                                     \
                                       .open = CREATE,                                             \
                                       .write = write_box,                                         \
                                       .sync = sync_file,                                          \
                                       .close = close_data,                                        \
                                       .drop = bx_io_drop_common,                                  \
                                       .read = read_##WAY,                                         \
                                       .remove = bx_io_remove_common}
#else
static bool cannot(const bx_io *io, char *why, size_t size)
{
    (void)io;
    snprintf(why, size, BX_BUILT_WITHOUT "parallel HDF5 of this MPI library");
    return false;
}
#define BY_HDF5(NAME, CREATE, WAY, SUMMARY, WINS)                                                  \
    const bx_io_method bx_io_##NAME = {.about = {.name = #NAME, .summary = SUMMARY, .wins = WINS}, \
                                       .usable = cannot}
#endif
BY_HDF5(hdf5_collective, create_collective, collective, "one file by HDF5, collective transfers",
        "as mpi-io-collective, in a format that other programs read");
BY_HDF5(hdf5_independent, create_independent, independent,
        "one file by HDF5, independent transfers", "large contiguous parts");
BY_HDF5(hdf5_chunked, create_chunked, collective, "one file by HDF5, a chunk per box",
        "boxes of a mesh: each is contiguous in the file");
