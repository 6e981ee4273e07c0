#include "io.h"

#include "run.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void bx_io_begin(bx_io *io, bx_run *run)
{
    int number = bx_run_rank(run);
    io->run = run;
    io->node = bx_run_node_comm(run);
    io->ranks = io->readers = bx_run_ranks(run);
    MPI_Comm_split(bx_run_comm(run), 0, bx_run_node_of(run)[number], &io->comm);
    MPI_Comm_rank(io->comm, &io->rank);
    BX_ALLOC((size_t)io->ranks, io->number);
    MPI_Allgather(&number, 1, MPI_INT, io->number, 1, MPI_INT, io->comm);
}

void bx_io_end(bx_io *io)
{
    MPI_Comm_free(&io->comm);
    BX_FREE(io->number);
}

int bx_io_apart(const bx_io *io) { return io->ranks > 2 ? io->ranks / 2 : io->ranks - 1; }

static bool differ_by_node(const bx_io *io)
{
    return bx_run_node_count(io->run) > 1 && io->readers == io->ranks;
}

bool bx_io_is_near(const bx_io *io, int writer)
{
    const int *node_of = bx_run_node_of(io->run);
    if (!differ_by_node(io)) return writer == io->rank;
    return node_of[io->number[writer]] == node_of[io->number[io->rank]];
}

double bx_io_count_near(const bx_io *io, bool reads_near)
{
    int most = 1, near = reads_near;
    if (differ_by_node(io)) MPI_Comm_size(io->node, &most);
    MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_INT, MPI_MAX, io->comm);
    MPI_Allreduce(MPI_IN_PLACE, &near, 1, MPI_INT, MPI_SUM, io->comm);
    int cannot = io->readers > 1 ? 2 * most - io->ranks : 1;
    return near - fmax(cannot, 0);
}

double bx_io_end_phase(bx_io *io, int phase, double *start)
{
    double began = *start;
    io->busy += MPI_Wtime() - began;
    MPI_Barrier(io->comm);
    bx_run_lap(io->run, (size_t)phase);
    bx_run_progress(io->run, phase + 1);
    *start = MPI_Wtime();
    return *start - began;
}

bool bx_io_failed(bx_io *io)
{
    bool failed = false;
    if (io->error != BX_OK) bx_run_refuse(io->run, io->error, "%s", io->why);
    MPI_Allreduce(&(bool){io->error != BX_OK}, &failed, 1, MPI_C_BOOL, MPI_LOR, io->comm);
    return failed;
}

void bx_io_fail(bx_io *io, const char *path, const char *doing, const char *reason)
{
    /* What was written and cannot be read is a wrong answer: its words stay wrong. */
    if (strcmp(doing, "read") == 0)
        fprintf(stderr, "bisection-%s: %s: cannot be read: %s\n", io->run->kernel->name, path,
                reason);
    else if (io->error == BX_OK)
        snprintf(io->why, sizeof io->why, "%.250s: cannot be %s: %.200s", path, doing, reason);
    if (strcmp(doing, "read") != 0) io->error = BX_RESOURCES;
}

void bx_io_name(const bx_io *io, char path[PATH_MAX], const char *name, int number)
{
    snprintf(path, PATH_MAX, "%s/%s-%d", io->folder, name, number);
}

void bx_io_name_common(const bx_io *io, char path[PATH_MAX]) { bx_io_name(io, path, "array", 0); }

void bx_io_drop_common(bx_io *io)
{
    char path[PATH_MAX];
    int of_node;
    bx_io_name_common(io, path);
    MPI_Comm_rank(io->node, &of_node);
    if (of_node == 0) bx_io_forget(io, path);
}

void bx_io_remove_common(bx_io *io)
{
    char path[PATH_MAX];
    bx_io_name_common(io, path);
    if (io->rank == 0 && unlink(path) != 0 && errno != ENOENT)
        bx_io_fail(io, path, "removed", strerror(errno));
}
