#include "io.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A page stays while another rank of the node drops or looks at it. */
enum { TRIES = 5 };

/* Returns how many pages of an open file are in memory; sets *pages to all of them, 0 where it is
 * not known. */
static double count_cached(int file, double *pages)
{
    struct stat about;
    double cached = 0;
    *pages = 0;
    if (fstat(file, &about) != 0 || about.st_size == 0) return 0;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)about.st_size,
           count = (bytes + page - 1) / page;
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    unsigned char *in_memory = bx_memory_alloc(count, 1);
    if (map != MAP_FAILED && mincore(map, bytes, in_memory) == 0) {
        *pages = (double)count;
        for (size_t i = 0; i < count; i++) cached += in_memory[i] & 1;
    }
    if (map != MAP_FAILED) munmap(map, bytes);
    BX_FREE(in_memory);
    return cached;
}

/* Drops an open file; returns as count_cached. */
static double drop(int file, double *pages)
{
    double cached = 1;
    for (int i = 0; i < TRIES && cached > 0; i++) {
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        cached = count_cached(file, pages);
    }
    return cached;
}

void bx_io_forget(bx_io *io, const char *path)
{
    int file = io->error == BX_OK ? open(path, O_RDONLY) : -1;
    if (file < 0) return; /* reading it will say why */
    double pages;
    io->cached += drop(file, &pages);
    io->pages += pages;
    close(file);
}

bool bx_io_shows_unsynced(const char *path)
{
    enum { BYTES = 1 << 18 };
    static const char bytes[BYTES];
    double pages = 0, unsynced = 0, synced = 1;
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (file < 0) return false;
    if (write(file, bytes, BYTES) == BYTES) unsynced = drop(file, &pages);
    if (fsync(file) == 0) synced = drop(file, &pages);
    close(file);
    unlink(path);
    return pages > 0 && unsynced == pages && synced == 0;
}
