/* One file by MPI-IO: the array in its own order, each rank's box by a view of the file. */
#include "method.h"

enum { WORD = sizeof(uint64_t) };
enum { PART = 1 << 27 }; /* words: what a call reads; MPI counts in int */

static MPI_File file = MPI_FILE_NULL;

static void note(bx_io *io, const char *doing, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (code == MPI_SUCCESS) return;
    MPI_Error_string(code, text, &length);
    bx_io_fail(io, io->folder, doing, text);
}

/* Opens the file; returns whether all ranks could.  If not, those that could do not close it, which
 * is collective. */
static bool open_file(bx_io *io, int mode, const char *doing)
{
    char path[PATH_MAX];
    bx_io_name_common(io, path);
    int code = MPI_File_open(io->comm, path, mode, MPI_INFO_NULL, &file);
    note(io, doing, code);
    int good = code == MPI_SUCCESS;
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, io->comm);
    if (!good) file = MPI_FILE_NULL;
    return good;
}

static void open_array(bx_io *io)
{
    if (!open_file(io, MPI_MODE_CREATE | MPI_MODE_WRONLY, "created")) return;
    const bx_array *a = &io->array;
    const bx_array_box *box = &io->box;
    MPI_Aint plane = a->size[1] * a->size[2] * WORD;
    MPI_Datatype row, planes, view;
    MPI_Type_contiguous((int)box->count[2], MPI_UINT64_T, &row);
    MPI_Type_create_hvector((int)box->count[1], 1, a->size[2] * WORD, row, &planes);
    MPI_Type_create_hvector((int)box->count[0], 1, box->stride * plane, planes, &view);
    MPI_Type_commit(&view);
    MPI_Offset begin = io->words > 0 ? bx_array_row(a, box, 0) * WORD : 0;
    note(io, "written",
         MPI_File_set_view(file, begin, MPI_UINT64_T, io->words > 0 ? view : MPI_UINT64_T, "native",
                           MPI_INFO_NULL));
    MPI_Type_free(&row);
    MPI_Type_free(&planes);
    MPI_Type_free(&view);
}

/* By rows, as the words of a box may be more than an int. */
static void write_array(bx_io *io,
                        int (*write)(MPI_File, const void *, int, MPI_Datatype, MPI_Status *))
{
    if (file == MPI_FILE_NULL) return;
    MPI_Datatype row;
    MPI_Status status;
    MPI_Type_contiguous((int)io->box.count[2], MPI_UINT64_T, &row);
    MPI_Type_commit(&row);
    int rows = (int)bx_array_box_rows(&io->box), written = 0, code;
    code = write(file, io->mine, rows, row, &status);
    if (code == MPI_SUCCESS) MPI_Get_count(&status, row, &written);
    if (code == MPI_SUCCESS && rows > 0 && written != rows) code = MPI_ERR_NO_SPACE;
    note(io, "written", code);
    MPI_Type_free(&row);
}

static void write_collective(bx_io *io) { write_array(io, MPI_File_write_all); }
static void write_independent(bx_io *io) { write_array(io, MPI_File_write); }

static void sync_array(bx_io *io)
{
    if (file != MPI_FILE_NULL) note(io, "synced", MPI_File_sync(file));
}

static void close_array(bx_io *io)
{
    if (file != MPI_FILE_NULL) note(io, "closed", MPI_File_close(&file));
    file = MPI_FILE_NULL;
}

static void read_array(bx_io *io, bool together)
{
    if (!open_file(io, MPI_MODE_RDONLY, "read")) return;
    bx_io_piece none = {0}, piece = io->piece_count ? io->pieces[0] : none;
    int64_t share = (bx_array_words(&io->array) + io->ranks - 1) / io->ranks,
            most = share * ((io->ranks + io->readers - 1) / io->readers);
    for (int64_t done = 0; done < most; done += PART) {
        int64_t left = piece.words > done ? piece.words - done : 0;
        int count = (int)(left < PART ? left : PART);
        MPI_Offset at = (piece.first + (count ? done : 0)) * WORD;
        uint64_t *to = io->read + (count ? done : 0);
        note(io, "read",
             together ? MPI_File_read_at_all(file, at, to, count, MPI_UINT64_T, MPI_STATUS_IGNORE)
                      : MPI_File_read_at(file, at, to, count, MPI_UINT64_T, MPI_STATUS_IGNORE));
    }
    close_array(io);
}

static void read_collective(bx_io *io) { read_array(io, true); }
static void read_independent(bx_io *io) { read_array(io, false); }

/* MPI counts the rows of a rank in int. */
static bool countable(const bx_io *io, char *why, size_t size)
{
    const bx_array *a = &io->array;
    int64_t rows = 1; /* of the rank that has most */
    for (int d = 0; d < 2; d++) rows *= (a->size[d] + a->ranks[d] - 1) / a->ranks[d];
    if (rows > INT_MAX)
        snprintf(why, size, "%lld rows of a rank are over MPI's limit of 2^31 - 1",
                 (long long)rows);
    return rows <= INT_MAX;
}

#define BY_MPI(NAME, WAY, ALONE, SUMMARY, WINS)                                                    \
    const bx_io_method bx_io_##NAME = {.about = {.name = #NAME, .summary = SUMMARY, .wins = WINS}, \
                                       .alone = ALONE,                                             \
                                       .usable = countable,                                        \
                                       .open = open_array,                                         \
                                       .write = write_##WAY,                                       \
                                       .sync = sync_array,                                         \
                                       .close = close_array,                                       \
                                       .drop = bx_io_drop_common,                                  \
                                       .read = read_##WAY,                                         \
                                       .remove = bx_io_remove_common}
BY_MPI(mpi_io_collective, collective, false, "one file, by MPI_File_write_all",
       "scattered data: MPI makes large writes of small parts");
BY_MPI(mpi_io_independent, independent, true, "one file, by MPI_File_write of each rank",
       "large contiguous parts; small ones wait for locks");
