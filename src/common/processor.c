/* Refuses a processor that lacks instructions which the kernel was compiled with: one line in place
   of SIGILL.  Compiled for the oldest processor of the architecture, and run before main(). */
#include "processor.h"
#include "bx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#if defined(__x86_64__) && defined(__has_builtin)
#if __has_builtin(__builtin_cpu_supports)
#define X86_CAN_BE_ASKED
#endif
#endif

#if defined(X86_CAN_BE_ASKED)
#define IS_SUPPORTED(name, ...) (__builtin_cpu_supports(name) != 0)
#elif defined(__aarch64__) && defined(__linux__)
#define IS_SUPPORTED(name, word, bit) ((getauxval(word) >> (bit) & 1) != 0)
#else
#define IS_SUPPORTED(...) true /* cannot be asked */
#endif

static bool is_supported(const char *name)
{
#define INSTRUCTIONS(known, macro, ...)                                                            \
    if (strcmp(name, known) == 0) return IS_SUPPORTED(known, ##__VA_ARGS__);
#include "processor.def"
    return false;
}

/* Whether this process speaks for its node: the launcher names it first there, or not at all. */
static bool is_first_of_node(void)
{
    const char *variables[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *number = getenv(variables[i]);
        if (number) return strcmp(number, "0") == 0;
    }
    return true;
}

__attribute__((constructor(101))) static void refuse_other_processor(void)
{
#ifdef X86_CAN_BE_ASKED
    __builtin_cpu_init();
#endif
    char missing[512] = "", host[256] = "this host";
    for (const bx_instructions *set = bx_processor_assumed; set->name; set++) {
        if (!bx_processor_assumes(set)) continue;
        size_t used = strlen(missing);
        if (!is_supported(set->name))
            snprintf(missing + used, sizeof missing - used, "%s%s", used ? ", " : "", set->name);
    }
    if (!*missing) return;
    gethostname(host, sizeof host - 1);
    if (is_first_of_node())
        fprintf(stderr,
                "%s: compiled for another processor: that of %s lacks %s; build there, or name its "
                "processor by -DBX_MARCH\n",
                program_invocation_short_name, host, missing);
    fflush(stderr);
    _exit(BX_RESOURCES);
}
