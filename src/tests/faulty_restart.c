/* bisection-restart on a file system that fails, by BX_FAULT: after a file is on disk, `flip`
 * changes one bit of it, `lost` forgets a part of it, `short` cuts it, `stays` holds it in memory;
 * `full` lets no file grow beyond 64 KiB; `nothing` writes no byte of an array, without an error;
 * `keep` copies each file to the folder BX_KEEP. */
#include "../restart/folder.h"
#include "../restart/io.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is(const char *fault)
{
    const char *given = getenv("BX_FAULT");
    return given && strcmp(given, fault) == 0;
}

static void spoil(off_t size, int file)
{
    char page[512] = "", byte;
    off_t middle = size / 2;
    if (is("short")) (void)!ftruncate(file, size - 8);
    if (is("lost")) (void)!pwrite(file, page, sizeof page, middle);
    if (!is("flip") || pread(file, &byte, 1, middle) != 1) return;
    byte ^= 1;
    (void)!pwrite(file, &byte, 1, middle);
}

/* Pages stay in memory while a process maps them, as this one does to its end. Those that are only
 * not written yet would go as soon as the kernel has written them. */
static void hold(off_t size, int file)
{
    (void)!mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
}

void __real_bx_io_forget(bx_io *io, const char *path);
void __wrap_bx_io_forget(bx_io *io, const char *path);
void __wrap_bx_io_forget(bx_io *io, const char *path)
{
    struct stat about;
    int file = open(path, O_RDWR);
    if (file >= 0) flock(file, LOCK_EX);
    /* Each rank that reads a file forgets it, and two flips are none: the first one marks it. */
    if (file >= 0 && fstat(file, &about) == 0 && about.st_size > 0 && !(about.st_mode & S_IXUSR)) {
        spoil(about.st_size, file);
        fchmod(file, about.st_mode | S_IXUSR);
    }
    if (is("stays") && file >= 0) hold(about.st_size, file);
    if (file >= 0) flock(file, LOCK_UN); /* what maps a file keeps its lock */
    if (file >= 0) close(file);
    if (is("keep")) {
        char command[2 * PATH_MAX];
        snprintf(command, sizeof command, "cp '%s' '%s'", path, getenv("BX_KEEP"));
        (void)!system(command);
    }
    __real_bx_io_forget(io, path);
}

ssize_t __real_write(int file, const void *from, size_t bytes);
ssize_t __wrap_write(int file, const void *from, size_t bytes);
ssize_t __wrap_write(int file, const void *from, size_t bytes)
{
    return is("nothing") && bytes > 4096 ? 0 : __real_write(file, from, bytes);
}

int __real_bx_folder_create(bx_run *run, const bx_folder_place *place, double bytes, char *path,
                            size_t size);
int __wrap_bx_folder_create(bx_run *run, const bx_folder_place *place, double bytes, char *path,
                            size_t size);
int __wrap_bx_folder_create(bx_run *run, const bx_folder_place *place, double bytes, char *path,
                            size_t size)
{
    int code = __real_bx_folder_create(run, place, bytes, path, size);
    if (is("full")) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){65536, 65536});
    }
    return code;
}
