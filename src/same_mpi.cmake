# One MPI library per build: handles of another are garbage, and a machine may have several. Which
# it is, a program says that runs, as file names do not: linker scripts and compiler wrappers hide
# them.

include(CheckCSourceCompiles)

# bx_ask(RESULT PROBE LIBRARIES ARGUMENTS...): what a program of probes/ prints, "Open MPI v4.1.4" of
# "Open MPI v4.1.4, package: ..."; "" where it cannot be built or run.
function(bx_ask result probe libraries)
  set(${result} "" PARENT_SCOPE)
  if(BX_SIMULATED) # whose programs end by a signal without their launcher
    return()
  endif()
  set(text "")
  set(program ${CMAKE_BINARY_DIR}/CMakeFiles/bx_${probe})
  try_compile(built ${CMAKE_BINARY_DIR}/CMakeFiles/probes ${PROJECT_SOURCE_DIR}/probes/${probe}
    LINK_LIBRARIES ${libraries} COPY_FILE ${program} COPY_FILE_ERROR failure)
  if(built AND (NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR))
    execute_process(COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} ${program} ${ARGN} TIMEOUT 60 OUTPUT_VARIABLE text ERROR_QUIET)
  endif()
  string(REGEX REPLACE "[,\n].*" "" text "${text}")
  string(REGEX REPLACE "[ \t]+" " " text "${text}")
  string(STRIP "${text}" text)
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

bx_ask(BX_MPI mpi_version.c MPI::MPI_C)
set(fortran_mpi "")
if(MPI_Fortran_FOUND)
  bx_ask(fortran_mpi mpi_version.f90 MPI::MPI_Fortran)
endif()
set(own_f08 ON) # unless Fortran's MPI is C's, and has the module for this compiler
if(MPI_Fortran_FOUND AND BX_MPI STREQUAL fortran_mpi)
  if(BX_MPI)
    message(STATUS "MPI: ${BX_MPI}, in C and in Fortran")
  else()
    message(STATUS "MPI: not asked whether C, Fortran and libraries have the same, as its programs do not run here")
  endif()
  if(MPI_Fortran_HAVE_F08_MODULE)
    set(own_f08 OFF)
  else()
    message(STATUS "MPI: no mpi_f08 for ${CMAKE_Fortran_COMPILER}: Fortran calls C's routines")
  endif()
elseif(NOT BX_SIMULATED) # it may be half of another: FindMPI takes the first libmpi for both
  set(fortran "none")
  if(fortran_mpi)
    set(fortran "${fortran_mpi} (${MPI_Fortran_COMPILER})")
  endif()
  message(STATUS "MPI: C has ${BX_MPI} (${MPI_C_COMPILER}), Fortran ${fortran}: Fortran calls C's routines")
  if(NOT TARGET MPI::MPI_Fortran)
    add_library(MPI::MPI_Fortran INTERFACE IMPORTED)
  endif()
  foreach(property INCLUDE_DIRECTORIES COMPILE_OPTIONS COMPILE_DEFINITIONS LINK_OPTIONS)
    set_property(TARGET MPI::MPI_Fortran PROPERTY INTERFACE_${property} "")
  endforeach()
  set_property(TARGET MPI::MPI_Fortran PROPERTY INTERFACE_LINK_LIBRARIES MPI::MPI_C)
endif()
option(BX_OWN_F08 "Fortran's module mpi_f08 by C's routines, not the MPI library's" ${own_f08})

# bx_same_mpi(RESULT LIBRARY...): "" if none of the shared libraries brings another MPI library than
# the kernels', else the name of that one. Static libraries tell nothing.
function(bx_same_mpi result)
  set(other "")
  foreach(library IN LISTS ARGN)
    bx_ask(name mpi_of.c "${CMAKE_DL_LIBS}" ${library})
    if(BX_MPI AND name AND NOT name STREQUAL BX_MPI)
      set(other ${name})
    endif()
  endforeach()
  set(${result} "${other}" PARENT_SCOPE)
endfunction()

# bx_optional_mpi_library(NAME SWITCH LIBRARY...): sets NAME_USABLE, and says why it is not.
function(bx_optional_mpi_library name switch)
  set(${name}_USABLE FALSE PARENT_SCOPE)
  bx_same_mpi(other ${ARGN})
  set(CMAKE_REQUIRED_QUIET ON)
  set(CMAKE_REQUIRED_LIBRARIES ${ARGN} MPI::MPI_C)
  string(MAKE_C_IDENTIFIER "BX_LINKS_${ARGN}" links)
  check_c_source_compiles("int main(void) { return 0; }" ${links})
  if(NOT ARGN)
    message(STATUS "${name}: left out, not there")
  elseif(NOT ${switch})
    message(STATUS "${name}: left out by ${switch}")
  elseif(NOT ${links}) # a cross build finds the host's
    message(STATUS "${name}: left out, cannot be linked: ${ARGN}")
  elseif(other)
    message(STATUS "${name}: left out, built for ${other}, the kernels for ${BX_MPI}")
  else()
    set(${name}_USABLE TRUE PARENT_SCOPE)
  endif()
endfunction()

# For `workshop met`. MPI, compilers and processor of this build.
set(emulated "")
if(CMAKE_CROSSCOMPILING_EMULATOR)
  set(emulated ", emulated")
endif()
file(WRITE ${CMAKE_BINARY_DIR}/built-with.json "{\"mpi\": \"${BX_MPI}\", \
\"compilers\": \"${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}, ${CMAKE_Fortran_COMPILER_ID} ${CMAKE_Fortran_COMPILER_VERSION}\", \
\"processor\": \"${CMAKE_SYSTEM_PROCESSOR}${emulated}\"}\n")
