/* Functions of bx.h in a form that Fortran can call: without variable arguments, with Fortran's
 * communicators, not inline. */
#include "bx.h"

#include <errno.h>
#include <string.h>

MPI_Fint bx_run_comm_f(const bx_run *run) { return MPI_Comm_c2f(bx_run_comm(run)); }
int bx_run_refuse_text(bx_run *run, int code, const char *text)
{
    return bx_run_refuse(run, code, "%s", text);
}
void bx_run_note_text(bx_run *run, const char *text) { bx_run_note(run, "%s", text); }
double bx_random_uniform_f(int64_t seed, int64_t index)
{
    return bx_random_uniform((uint64_t)seed, (uint64_t)index);
}
/* Failures show when the file is closed. */
void bx_file_put_text(FILE *file, const char *text, size_t length)
{
    if (file) fwrite(text, 1, length, file);
}
/* A file that could not be opened has left its errno. */
void bx_file_close_text(FILE *file, const char *path, char *why, size_t why_size)
{
    int code = file ? bx_file_close(file, path) : errno;
    snprintf(why, why_size, "%s", code ? strerror(code) : "");
}
double bx_shown_calls_text(const bx_shown *shown, const char *routine, const char *region)
{
    return bx_shown_calls(shown, *routine ? routine : NULL, *region ? region : NULL);
}
#ifndef BX_SIMULATED /* charge.h's are inline */
void bx_charge(int work, double amount, bool by_all_threads) {}
void bx_charge_products(double flop, double bytes, double times) {}
void bx_charge_fork(void) {}
void bx_charge_seconds(double seconds) {}
void bx_charge_synchronise(MPI_Fint team) {}
bool bx_charge_hollow_messages(bool hollow) { return hollow; }
bool bx_charge_is_hollow(void) { return false; }
bool bx_charge_is_sampled(void) { return false; }
#endif
