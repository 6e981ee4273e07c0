/* A kernel is a shared object here, which SimGrid's launcher loads. As a program it has no main: it
 * prints how it is started. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "bx.h"

/* This section makes the loader prepare a shared object that is started, as that of the C library
 * does. */
#if defined(__x86_64__)
#define LOADER "/lib64/ld-linux-x86-64.so.2"
#define ENTRY __attribute__((force_align_arg_pointer)) /* nobody has called it */
#elif defined(__aarch64__)
#define LOADER "/lib/ld-linux-aarch64.so.1"
#define ENTRY
#endif

void bx_alone(void);

#ifdef LOADER
static const char loader[] __attribute__((section(".interp"), used)) = LOADER;

ENTRY void bx_alone(void)
{
    dprintf(STDERR_FILENO,
            "%s: built for simulated machines: start it by checks/workshop/smpi/launch.py\n",
            program_invocation_short_name);
    _exit(BX_USAGE);
}
#else
void bx_alone(void) {}
#endif
