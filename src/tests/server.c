/* Runs one command line of a kernel after the other without starting MPI for each.
 *
 * Usage: mpiexec -n RANKS server FOLDER
 *
 * Command k = 0, 1, ... is the file FOLDER/k.ask: texts that end with '\0', in this order: number
 * of ranks, file of the kernel (a shared object), number of environment variables, NAME=VALUE of
 * each, arguments with the kernel's name first.  The first ranks run it in a world of their own;
 * what they print is in FOLDER/k.out and FOLDER/k.err, and FOLDER/k.done has the exit code in
 * decimal digits.  "0" in the place of the number of ranks ends the server, as does the removal of
 * FOLDER.
 *
 * The caller copies the kernel for each command: another file has static variables of its own.  A
 * kernel that ends its process ends the server. */
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_TEXTS = 256, MOST_BYTES = 65536 };

typedef struct {
    int count;
    char *texts[MOST_TEXTS + 1]; /* NULL behind the last */
    char bytes[MOST_BYTES];
} command;

static const char *folder;

static const char *path_of(int k, const char *suffix)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%d.%s", folder, k, suffix);
    return path;
}

/* Waits for command k; false if the server is to end. */
static bool next_command(int k, command *c)
{
    int file;
    while ((file = open(path_of(k, "ask"), O_RDONLY)) < 0) {
        if (access(folder, F_OK) != 0) return false;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    ssize_t bytes = read(file, c->bytes, sizeof c->bytes);
    close(file);
    c->count = 0;
    for (char *text = c->bytes; text < c->bytes + bytes; text += strlen(text) + 1)
        if (c->count < MOST_TEXTS) c->texts[c->count++] = text;
    c->texts[c->count] = NULL;
    return c->count > 3;
}

static void redirect(int stream, const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file < 0 || dup2(file, stream) < 0) MPI_Abort(MPI_COMM_WORLD, 1);
    close(file);
}

/* Runs command k on the ranks of `world`; returns the kernel's exit code. */
static int run(int k, const command *c, MPI_Comm world)
{
    int outputs[2] = {dup(1), dup(2)}, variables = atoi(c->texts[2]);
    redirect(1, path_of(k, "out"));
    redirect(2, path_of(k, "err"));
    char **environment = (char **)c->texts + 3, **arguments = environment + variables;
    for (int i = 0; i < variables; i++) putenv(environment[i]);
    void *kernel = dlopen(c->texts[1], RTLD_NOW | RTLD_LOCAL);
    if (!kernel) {
        fprintf(stderr, "%s\n", dlerror());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    int (*entry)(MPI_Comm, int, char **) = NULL;
    *(void **)&entry = dlsym(kernel, "bx_main");
    void (*forget)(void) = NULL;
    *(void **)&forget = dlsym(kernel, "fftw_forget_wisdom");
    if (forget) forget();
    int code = entry(world, (int)(c->texts + c->count - arguments), arguments);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(outputs[i], 1 + i);
        close(outputs[i]);
    }
    for (int i = 0; i < variables; i++) {
        *strchr(environment[i], '=') = '\0';
        unsetenv(environment[i]);
    }
    return code;
}

int main(int argc, char **argv)
{
    int provided, rank;
    MPI_Group all, group;
    MPI_Comm world;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    folder = argv[1];
    static command c; /* in force: the environment points into it */
    for (int k = 0; next_command(k, &c); k++) {
        int ranks = atoi(c.texts[0]);
        if (rank >= ranks) continue;
        MPI_Group_range_incl(all, 1, (int[1][3]){{0, ranks - 1, 1}}, &group);
        MPI_Comm_create_group(MPI_COMM_WORLD, group, k & 1023, &world);
        MPI_Group_free(&group);
        int code = run(k, &c, world);
        MPI_Allreduce(MPI_IN_PLACE, &code, 1, MPI_INT, MPI_MAX, world);
        MPI_Comm_free(&world);
        if (rank > 0) continue;
        char whole[4096];
        snprintf(whole, sizeof whole, "%s", path_of(k, "code"));
        FILE *file = fopen(whole, "w");
        fprintf(file, "%d", code);
        fclose(file);
        rename(whole, path_of(k, "done"));
    }
    MPI_Group_free(&all);
    MPI_Finalize();
    return 0;
}
