/* The sources, compiler and libraries of the kernel. */
#include "result.h"

#include "build_info.h"
#include "processor.h"
#include "sources.h" /* written at each build */

#include <string.h>

/* Found in the executable by bisection.kernels.digests, without running it. */
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

void bx_build_add(bx_json *json)
{
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(mpi, &length);
    mpi[strcspn(mpi, ",\n")] = '\0';
    BX_TEXTS(json, {"version", BX_VERSION}, {"commit", BX_COMMIT},
             {"sources", strchr(marker, ':') + 1}, {"compiler", BX_COMPILER}, {"flags", BX_FLAGS},
             {"build_type", BX_BUILD_TYPE}, {"march", BX_MARCH});
    bx_json *instructions = bx_json_array(json, "instructions");
    for (const bx_instructions *set = bx_processor_assumed; set->name; set++)
        if (bx_processor_assumes(set)) bx_json_text(instructions, NULL, set->name);
    bx_json_text(json, "mpi", mpi);
    bx_json *list = bx_json_object(json, "libraries");
    bx_json_text(list, "fftw", BX_FFTW_VERSION);
    for (int i = 0; i < library_count; i++)
        bx_json_text(list, libraries[i].name, libraries[i].version);
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
