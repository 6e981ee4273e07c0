/* One file by the writer of npar's checkpoints and md's restart files: it has checksums, takes the
 * place of an earlier file when it is whole and on disk, and is read by as many ranks as wrote it.
 */
#include "bx_restart.h"
#include "method.h"

static const char SCHEMA[] = "bisection-restart-1";

static bool same_ranks(const bx_io *io, char *why, size_t size)
{
    snprintf(why, size, "is read by as many ranks as wrote it, not by %d", io->readers);
    return io->readers == io->ranks;
}

/* Reads or writes the rows of this rank of `comm`. */
static void access_file(bx_io *io, MPI_Comm comm, bool reads, uint64_t *words, int64_t count)
{
    char path[PATH_MAX], why[400] = "";
    bx_restart_set set = {"words", 1, count, words};
    const bx_restart_file file = {path, SCHEMA, comm, NULL, 0, &set, 1, why, sizeof why};
    bx_io_name_common(io, path);
    if ((reads ? bx_restart_read : bx_restart_write)(&file) != 0)
        bx_io_fail(io, path, reads ? "read" : "written", why);
}

static void write_file(bx_io *io) { access_file(io, io->comm, false, io->mine, io->words); }

/* As the rank whose box it reads. */
static void read_file(bx_io *io)
{
    MPI_Comm turned;
    MPI_Comm_split(io->comm, 0, io->reader, &turned);
    access_file(io, turned, true, io->read, io->pieces[0].words);
    MPI_Comm_free(&turned);
}

static void rest(bx_io *io) { (void)io; } /* the writer opens, syncs and closes */

const bx_io_method bx_io_checkpoint = {
    .about = {.name = "checkpoint",
              .summary = "one file by the writer of npar and md, with checksums",
              .wins = "safe: an earlier file stays until the new one is whole",
              .calls =
                  BX_IO_CALLS " File_open File_close File_sync File_write_at_all File_read_at_all "
                              "Allgather Allreduce Bcast"},
    .whole_boxes = true,
    .usable = same_ranks,
    .open = rest,
    .write = write_file,
    .sync = rest,
    .close = rest,
    .drop = bx_io_drop_common,
    .read = read_file,
    .remove = bx_io_remove_common,
};
