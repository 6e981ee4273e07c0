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
    BX_TEXTS(json, {"version", BX_VERSION}, {"commit", BX_COMMIT},
             {"sources", strchr(marker, ':') + 1}, {"compiler", BX_COMPILER}, {"flags", BX_FLAGS},
             {"build_type", BX_BUILD_TYPE}, {"march", BX_MARCH});
    cJSON *instructions = cJSON_AddArrayToObject(json, "instructions");
    for (const bx_instructions *set = bx_processor_assumed; set->name; set++)
        if (bx_processor_assumes(set))
            cJSON_AddItemToArray(instructions, cJSON_CreateString(set->name));
    cJSON_AddStringToObject(json, "mpi", mpi);
    cJSON *list = cJSON_AddObjectToObject(json, "libraries");
    BX_TEXTS(list, {"fftw", BX_FFTW_VERSION}, {"cjson", cJSON_Version()});
    for (int i = 0; i < library_count; i++)
        cJSON_AddStringToObject(list, libraries[i].name, libraries[i].version);
    return json;
}

extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern void MKL_Set_Num_Threads(int threads) __attribute__((weak));
extern void bli_thread_set_num_threads(long threads) __attribute__((weak));
extern char *openblas_get_config(void) __attribute__((weak));

void bx_blas_set_threads(int threads)
{
    if (openblas_set_num_threads) openblas_set_num_threads(threads);
    if (MKL_Set_Num_Threads) MKL_Set_Num_Threads(threads);
    if (bli_thread_set_num_threads) bli_thread_set_num_threads(threads);
}

void bx_blas_name_library(void)
{
    char version[64];
    if (!openblas_get_config) return;
    snprintf(version, sizeof version, "%s", openblas_get_config()); /* "OpenBLAS 0.3.21 ..." */
    char *space = strchr(version, ' '), *end = space ? strchr(space + 1, ' ') : NULL;
    if (end) *end = '\0';
    bx_build_add_library("openblas", space ? space + 1 : version);
}
