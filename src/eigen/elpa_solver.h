/* ELPA's solvers, where the kernels are built with it. */
#pragma once

#include "solver.h"

/* Adds ELPA's version to the result, if the kernel is built with it. */
void bx_elpa_name_library(void);
/* bx_solver.applicable of both solvers, and of the two-stage one, which is wrong for some complex
 * matrices: those of a row more than a multiple of the band's width (README.md). */
bool bx_elpa_applicable(const bx_problem *p, char *why, size_t why_size);
bool bx_elpa_applicable_two_stage(const bx_problem *p, char *why, size_t why_size);
void *bx_elpa_create_one_stage(const bx_problem *p);
void *bx_elpa_create_two_stage(const bx_problem *p);
int bx_elpa_solve(void *self, bx_problem *p);
void bx_elpa_free(void *self);
