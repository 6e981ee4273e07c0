/* The memory that libraries take while a solver is open. */
#pragma once

/* Begins to watch the memory of this process.  Local. */
void bx_resident_watch(void);
/* Returns the bytes by which the process was larger, at most, since bx_resident_watch; 0 where the
 * system does not tell.  Local. */
double bx_resident_peak(void);
