/* No watchdog: ranks of a simulation wait in simulated time, and SimGrid itself reports a deadlock.
 */
#include "watchdog.h"

void bx_watchdog_start(const bx_run *run) {}
void bx_watchdog_tick(const char *stage, const char *method, int64_t round) {}
void bx_watchdog_part(int64_t part) {}
void bx_watchdog_await(int rank, const char *host) {}
void bx_watchdog_round(const bx_run *run, double seconds) {}
void bx_watchdog_stop(void) {}
