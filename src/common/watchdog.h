/* Ends a launch in which nothing is finished for --progress-timeout. */
#ifndef BX_WATCHDOG_H
#define BX_WATCHDOG_H

#include "run.h"

void bx_watchdog_start(const bx_run *run); /* collective */
/* Something is finished; what comes next.  `method` may be NULL, a round below 1 is none; names
 * live as long as the program (local). */
void bx_watchdog_tick(const char *stage, const char *method, int64_t round);
void bx_watchdog_stop(void); /* collective */

#endif
