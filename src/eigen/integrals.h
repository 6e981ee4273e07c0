/* CRYSTAL's integral phase: work that needs no messages, whose cost differs from task to task. */
#pragma once

/* Computes the integrals of this rank for a matrix, tasks rank, rank + ranks, ... of n, to
 * values[n]: Boys' function F0 of four-centre integrals, by the midpoint rule.  Arguments differ
 * between matrices, costs do not.  Local. */
void bx_integrals_run(int n, int matrix, int rank, int ranks, double *values);
/* Returns the largest error of this rank's values beside the closed form, in the bound of the
 * midpoint rule: right values have at most 1.  Local. */
double bx_integrals_error(int n, int matrix, int rank, int ranks, const double *values);
/* Returns the work of the busiest rank over the mean, from the tasks' known costs.  Local. */
double bx_integrals_imbalance(int n, int ranks);
