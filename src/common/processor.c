/* Refuses a processor that lacks instructions which the kernel was compiled with: one line in place
   of SIGILL.  Compiled for the oldest processor of the architecture, and run before main(). */
#define _GNU_SOURCE /* program_invocation_short_name */
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

#define LOOK_UP(feature, known, answer)                                                            \
    if (strcmp(feature, known) == 0) return answer

static bool is_supported(const char *feature)
{
#ifdef X86_CAN_BE_ASKED
#define LOOK_UP_X86(known) LOOK_UP(feature, known, __builtin_cpu_supports(known) != 0)
    LOOK_UP_X86("sse3");
    LOOK_UP_X86("ssse3");
    LOOK_UP_X86("sse4.1");
    LOOK_UP_X86("sse4.2");
    LOOK_UP_X86("sse4a");
    LOOK_UP_X86("popcnt");
    LOOK_UP_X86("bmi");
    LOOK_UP_X86("bmi2");
    LOOK_UP_X86("avx");
    LOOK_UP_X86("xop");
    LOOK_UP_X86("fma4");
    LOOK_UP_X86("fma");
    LOOK_UP_X86("avx2");
    LOOK_UP_X86("avx512f");
    LOOK_UP_X86("avx512cd");
    LOOK_UP_X86("avx512bw");
    LOOK_UP_X86("avx512dq");
    LOOK_UP_X86("avx512vl");
    LOOK_UP_X86("avx512vbmi");
    LOOK_UP_X86("avx512vnni");
#elif defined(__aarch64__) && defined(__linux__)
    /* Bits of Linux's <asm/hwcap.h>, which older systems do not name. */
    LOOK_UP(feature, "atomics", (getauxval(AT_HWCAP) >> 8 & 1) != 0);
    LOOK_UP(feature, "asimddp", (getauxval(AT_HWCAP) >> 20 & 1) != 0);
    LOOK_UP(feature, "sve", (getauxval(AT_HWCAP) >> 22 & 1) != 0);
    LOOK_UP(feature, "sve2", (getauxval(AT_HWCAP2) >> 1 & 1) != 0);
#else
    LOOK_UP(feature, feature, true); /* cannot be asked */
#endif
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
    for (size_t i = 0; bx_processor_assumed[i]; i++) {
        size_t used = strlen(missing);
        if (!is_supported(bx_processor_assumed[i]))
            snprintf(missing + used, sizeof missing - used, "%s%s", used ? ", " : "",
                     bx_processor_assumed[i]);
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
