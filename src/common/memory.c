/* Memory that is there, or the launch ends; texts. */
#include "run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *checked(void *memory, size_t count, size_t size)
{
    if (memory) return memory;
    fprintf(stderr, "out of memory for %zu times %zu bytes\n", count, size);
    MPI_Abort(MPI_COMM_WORLD, BX_RESOURCES);
    abort(); /* MPI_Abort need not end this rank */
}

void *bx_memory_alloc(size_t count, size_t size)
{
    if (count == 0) count = 1;
    return checked(calloc(count, size), count, size);
}

void *bx_memory_grow(void *memory, size_t count, size_t size)
{
    return checked(count < SIZE_MAX / size ? realloc(memory, count * size) : NULL, count, size);
}

size_t bx_memory_whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

void *bx_memory_alloc_pages(size_t bytes)
{
    return aligned_alloc(bx_memory_whole_pages(1), bx_memory_whole_pages(bytes));
}

char *bx_memory_copy_text(const char *text) { return checked(strdup(text), strlen(text) + 1, 1); }

void bx_memory_free(size_t count, void *const *pointers)
{
    for (size_t i = 0; i < count; i++) free(pointers[i]);
}

int bx_text_index(const char *word, const char *list, const char *separators)
{
    size_t length = strlen(word), next;
    for (int i = 0; *list; i++) {
        next = strcspn(list, separators);
        if (next == length && strncmp(list, word, length) == 0) return i;
        list += next + strspn(list + next, separators);
    }
    return -1;
}
