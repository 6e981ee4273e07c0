#include "io.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void bx_io_forget(bx_io *io, const char *path)
{
    struct stat about;
    int file = io->error == BX_OK ? open(path, O_RDONLY) : -1;
    if (file < 0) return; /* reading it will say why */
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (fstat(file, &about) == 0 && about.st_size > 0) {
        size_t bytes = (size_t)about.st_size, pages = (bytes + page - 1) / page;
        void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
        unsigned char *in_memory = bx_memory_alloc(pages, 1);
        if (map != MAP_FAILED && mincore(map, bytes, in_memory) == 0) {
            io->pages += (double)pages;
            for (size_t i = 0; i < pages; i++) io->cached += in_memory[i] & 1;
        }
        if (map != MAP_FAILED) munmap(map, bytes);
        BX_FREE(in_memory);
    }
    close(file);
}
