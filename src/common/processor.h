#ifndef BX_PROCESSOR_H
#define BX_PROCESSOR_H

/* Names of the instruction sets that the compiler may have used in the kernel, NULL behind the
   last. Before main(), a kernel whose processor lacks one ends with BX_RESOURCES and one line per
   node. */
extern const char *const bx_processor_assumed[];

#endif
