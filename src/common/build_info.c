/* The sources, compiler and libraries of the kernel. */
#include "result.h"

#include "build_info.h"
#include "processor.h"
#include "sources.h" /* written at each build */

#include <stdlib.h>
#include <string.h>

/* Found in the executable by bisection.kernels.sources, without running it. */
static const char marker[] __attribute__((used)) = "bisection-sources:" BX_SOURCES;

static struct library {
    char name[32], version[64];
} *libraries;
static int library_count;

void bx_build_add_library(const char *name, const char *version)
{
    libraries = bx_memory_grow(libraries, (size_t)library_count + 1, sizeof *libraries);
    struct library *library = &libraries[library_count++];
    snprintf(library->name, sizeof library->name, "%s", name);
    snprintf(library->version, sizeof library->version, "%s", version);
}

cJSON *bx_build_json(void)
{
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(mpi, &length);
    mpi[strcspn(mpi, ",\n")] = '\0';
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "version", BX_VERSION);
    cJSON_AddStringToObject(json, "commit", BX_COMMIT);
    cJSON_AddStringToObject(json, "sources", strchr(marker, ':') + 1);
    cJSON_AddStringToObject(json, "compiler", BX_COMPILER);
    cJSON_AddStringToObject(json, "flags", BX_FLAGS);
    cJSON_AddStringToObject(json, "build_type", BX_BUILD_TYPE);
    cJSON_AddStringToObject(json, "march", BX_MARCH);
    cJSON *instructions = cJSON_AddArrayToObject(json, "instructions");
    for (size_t i = 0; bx_processor_assumed[i]; i++)
        cJSON_AddItemToArray(instructions, cJSON_CreateString(bx_processor_assumed[i]));
    cJSON_AddStringToObject(json, "mpi", mpi);
    cJSON *list = cJSON_AddObjectToObject(json, "libraries");
    cJSON_AddStringToObject(list, "fftw", BX_FFTW_VERSION);
    cJSON_AddStringToObject(list, "cjson", cJSON_Version());
    for (int i = 0; i < library_count; i++)
        cJSON_AddStringToObject(list, libraries[i].name, libraries[i].version);
    return json;
}
