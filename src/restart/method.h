/* The table of methods (restart.def). */
#pragma once

#include "io.h"
#include "restart.def"

#define DECLARE(id) extern const bx_io_method bx_io_##id;
BX_METHODS(DECLARE)
#undef DECLARE
