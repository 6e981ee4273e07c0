/* No watchdog: ranks of a simulation wait in simulated time, and SimGrid itself reports a deadlock.
 */
#include "watchdog.h"

void bx_watchdog_start(const bx_run *run) { (void)run; }
void bx_watchdog_tick(const char *stage, const char *method, int64_t round)
{
    (void)stage, (void)method, (void)round;
}
void bx_watchdog_part(int64_t part) { (void)part; }
void bx_watchdog_await(int rank, const char *host) { (void)rank, (void)host; }
void bx_watchdog_round(const bx_run *run, double seconds) { (void)run, (void)seconds; }
void bx_watchdog_stop(void) {}
