/* The MPI library of C, which may be asked before MPI_Init. */
#include <mpi.h>
#include <stdio.h>

int main(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length;
    MPI_Get_library_version(text, &length);
    puts(text);
    return 0;
}
