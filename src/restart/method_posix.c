/* Files by POSIX calls: each has the boxes of a group of ranks, one after the other, written by the
 * first rank of the group, which gathers them in parts. */
#include "method.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PART = 1 << 19 }; /* words, 4 MiB: of a message, and of a call of write or read */

/* Ranks that share a file, once they are known. */
typedef struct {
    MPI_Comm comm;
    int *leader;     /* [ranks] that writes a rank's box */
    int64_t *offset; /* [ranks] words before it in the file */
} file_group;
static file_group each_rank, each_node, all_ranks, *group;
static int file = -1;  /* of the first rank of a group */
static uint64_t *part; /* [PART] */

/* Before any step is timed, as each method is verified first. */
static void form_group(bx_io *io, file_group *g, MPI_Comm members)
{
    int64_t before = 0;
    int first = io->rank, member;
    g->comm = members;
    MPI_Comm_rank(members, &member);
    MPI_Exscan(&io->words, &before, 1, MPI_INT64_T, MPI_SUM, members);
    if (member == 0) before = 0;
    MPI_Bcast(&first, 1, MPI_INT, 0, members);
    BX_ALLOC((size_t)io->ranks, g->leader, g->offset);
    MPI_Allgather(&first, 1, MPI_INT, g->leader, 1, MPI_INT, io->comm);
    MPI_Allgather(&before, 1, MPI_INT64_T, g->offset, 1, MPI_INT64_T, io->comm);
}

static void open_group(bx_io *io, file_group *g, MPI_Comm members)
{
    char path[PATH_MAX];
    group = g;
    if (!g->leader) form_group(io, g, members);
    if (g->leader[io->rank] != io->rank) return;
    bx_io_name(io, path, "part", io->rank);
    part = bx_memory_alloc(PART, sizeof *part);
    file = io->error == BX_OK ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    if (file < 0) bx_io_fail(io, path, "created", strerror(errno));
}

static void open_per_rank(bx_io *io) { open_group(io, &each_rank, MPI_COMM_SELF); }
static void open_per_node(bx_io *io) { open_group(io, &each_node, io->node); }
static void open_root(bx_io *io) { open_group(io, &all_ranks, io->comm); }

static void put(bx_io *io, const uint64_t *words, int64_t count)
{
    const char *from = (const char *)words;
    size_t left = (size_t)count * sizeof *words;
    while (left > 0 && io->error == BX_OK) {
        errno = ENOSPC; /* where nothing is written, and that is no error */
        ssize_t written = write(file, from, left < 8 * (size_t)PART ? left : 8 * (size_t)PART);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return bx_io_fail(io, io->folder, "written", strerror(errno));
        from += written;
        left -= (size_t)written;
    }
}

static void write_group(bx_io *io)
{
    int member, members;
    MPI_Comm_rank(group->comm, &member);
    MPI_Comm_size(group->comm, &members);
    if (member == 0) put(io, io->mine, io->words);
    for (int m = 1; m < members; m++) {
        if (member != 0 && member != m) continue;
        int64_t words = io->words;
        if (member == 0) MPI_Recv(&words, 1, MPI_INT64_T, m, 0, group->comm, MPI_STATUS_IGNORE);
        if (member == m) MPI_Send(&words, 1, MPI_INT64_T, 0, 0, group->comm);
        for (int64_t done = 0; done < words; done += PART) {
            int count = (int)(words - done < PART ? words - done : PART);
            if (member == m) MPI_Send(io->mine + done, count, MPI_UINT64_T, 0, 0, group->comm);
            if (member == m) continue;
            MPI_Recv(part, count, MPI_UINT64_T, m, 0, group->comm, MPI_STATUS_IGNORE);
            put(io, part, count);
        }
    }
}

static void sync_file(bx_io *io)
{
    int code = file >= 0 ? bx_file_sync(file) : 0;
    if (code != 0) bx_io_fail(io, io->folder, "synced", strerror(code));
}

static void close_file(bx_io *io)
{
    if (file >= 0 && close(file) != 0) bx_io_fail(io, io->folder, "closed", strerror(errno));
    file = -1;
    free(part);
    part = NULL;
}

static void drop_parts(bx_io *io)
{
    char path[PATH_MAX];
    int before = -1;
    for (size_t i = 0; i < io->piece_count; i++) {
        int first = group->leader[io->pieces[i].rank];
        bx_io_name(io, path, "part", first);
        if (first != before) bx_io_forget(io, path);
        before = first;
    }
}

static void get(bx_io *io, const char *path, int64_t at, uint64_t *words, int64_t count)
{
    int source = open(path, O_RDONLY);
    if (source < 0) bx_io_fail(io, path, "read", strerror(errno));
    char *to = (char *)words;
    int64_t left = 8 * count;
    while (left > 0 && source >= 0) {
        size_t wanted = left < 8 * (int64_t)PART ? (size_t)left : 8 * (size_t)PART;
        ssize_t got = pread(source, to, wanted, 8 * at + (8 * count - left));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) bx_io_fail(io, path, "read", strerror(errno));
        if (got <= 0) break; /* a short file: what is missing is not verified */
        to += got;
        left -= got;
    }
    if (source >= 0) close(source);
}

static void read_parts(bx_io *io)
{
    char path[PATH_MAX];
    uint64_t *to = io->read;
    for (size_t i = 0; i < io->piece_count && io->error == BX_OK; i++) {
        const bx_io_piece *piece = &io->pieces[i];
        bx_io_name(io, path, "part", group->leader[piece->rank]);
        get(io, path, group->offset[piece->rank], to, piece->words);
        to += piece->words;
    }
}

static void remove_part(bx_io *io)
{
    char path[PATH_MAX];
    bx_io_name(io, path, "part", io->rank);
    if (group->leader[io->rank] == io->rank && unlink(path) != 0 && errno != ENOENT)
        bx_io_fail(io, path, "removed", strerror(errno));
}

#define GROUPED(NAME, OPEN, SYNCED_BY, ALONE, SUMMARY, WINS)                                       \
    const bx_io_method bx_io_##NAME = {.about = {.name = #NAME, .summary = SUMMARY, .wins = WINS}, \
                                       .whole_boxes = true,                                        \
                                       .alone = ALONE,                                             \
                                       .synced_by = SYNCED_BY,                                     \
                                       .open = OPEN,                                               \
                                       .write = write_group,                                       \
                                       .sync = sync_file,                                          \
                                       .close = close_file,                                        \
                                       .drop = drop_parts,                                         \
                                       .read = read_parts,                                         \
                                       .remove = remove_part}
GROUPED(file_per_rank, open_per_rank, BX_IO_SYNC_BY_ALL, true, "a file of each rank, by write()",
        "few ranks; many files load the metadata server");
GROUPED(file_per_node, open_per_node, BX_IO_SYNC_BY_NODE, false,
        "a file of each node, by write() of a rank that gathers",
        "many ranks per node: few files, large writes");
GROUPED(root, open_root, BX_IO_SYNC_BY_FIRST, false,
        "one file, by write() of rank 0, which gathers", "small files; limited by one node's link");
