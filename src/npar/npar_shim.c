/* What Fortran lacks: memory set by memset. */
#include <string.h>

void npar_wipe(void *memory, size_t bytes);

/* A call of its own, so that no compiler finds out that what it writes is never read. */
void npar_wipe(void *memory, size_t bytes) { memset(memory, 0, bytes); }
