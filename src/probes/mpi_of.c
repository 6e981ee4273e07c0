/* The MPI library that a shared library brings along, without one of this program's own. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    static char text[16384];
    int length;
    void *library = argc > 1 ? dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL) : NULL;
    int (*version)(char *, int *) = NULL;
    if (library) *(void **)&version = dlsym(library, "MPI_Get_library_version");
    if (version && version(text, &length) == 0) puts(text);
    return 0;
}
