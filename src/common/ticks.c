#include "ticks.h"

#include "charge.h"

#include <string.h>

enum { READINGS = 5 }; /* of both clocks: the closest two have no interruption in between */

bool bx_ticks_counted;
double bx_ticks_second = 1, bx_ticks_reading;

/* Both clocks at one moment. */
typedef struct {
    double ticks, seconds;
} moment;

static moment start;

static moment read_clocks(void)
{
    moment closest = {0};
    double least = INFINITY;
    for (int i = 0; i < READINGS; i++) {
        double before = bx_ticks_now(), seconds = PMPI_Wtime(), after = bx_ticks_now();
        if (after - before >= least) continue;
        least = after - before;
        closest = (moment){(before + after) / 2, seconds};
    }
    return closest;
}

/* Linux takes the counter as its clock only where it runs evenly, and alike on all cores. */
static bool is_trusted(void)
{
    char name[32] = "";
    FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r");
    if (!file) return false;
    if (!fgets(name, sizeof name, file)) *name = '\0';
    fclose(file);
    name[strcspn(name, "\n")] = '\0';
    return strcmp(name, "tsc") == 0 || strcmp(name, "arch_sys_counter") == 0;
}

void bx_ticks_start(void)
{
    if (BX_IS_SIMULATED) return; /* whose clock stands still between two readings */
    bx_ticks_counted = is_trusted();
    start = read_clocks();
    while (bx_ticks_counted && PMPI_Wtime() < start.seconds + 1e-3) {
    }
    bx_ticks_reading = INFINITY;
    for (int i = 0; i < 100; i++) {
        double before = bx_ticks_now();
        bx_ticks_reading = fmin(bx_ticks_reading, bx_ticks_now() - before);
    }
    bx_ticks_adjust();
}

void bx_ticks_adjust(void)
{
    if (!bx_ticks_counted) return;
    moment now = read_clocks();
    bx_ticks_second = (now.seconds - start.seconds) / (now.ticks - start.ticks);
}
