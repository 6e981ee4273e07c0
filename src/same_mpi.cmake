# Libraries that speak MPI must be built for the MPI library of the kernels: handles of another are
# garbage, and a machine may have several.

# SONAMEs of MPI libraries among what the shared library `file` is (SONAME) or needs (NEEDED).
function(bx_mpi_names result tag file)
  set(names "")
  if(CMAKE_READELF AND EXISTS "${file}")
    execute_process(COMMAND ${CMAKE_READELF} -d ${file} OUTPUT_VARIABLE entries ERROR_QUIET)
    string(REGEX MATCHALL "\\(${tag}\\)[^\n]*\\[lib(mpi|mpich|mpi_cray|mpi_gtl|msmpi)\\.so[^]]*\\]"
           lines "${entries}")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE ".*\\[(.*)\\]" "\\1" name "${line}")
      list(APPEND names ${name})
    endforeach()
  endif()
  set(${result} "${names}" PARENT_SCOPE)
endfunction()

set(BX_MPI_NAMES "")
foreach(library IN LISTS MPI_C_LIBRARIES)
  bx_mpi_names(names SONAME "${library}")
  list(APPEND BX_MPI_NAMES ${names})
endforeach()

# bx_same_mpi(RESULT LIBRARY...): "" if none of the shared libraries needs another MPI library than
# the kernels', else the name of that one.  Static libraries tell nothing.
function(bx_same_mpi result)
  set(other "")
  foreach(library IN LISTS ARGN)
    bx_mpi_names(names NEEDED "${library}")
    foreach(name IN LISTS names)
      if(BX_MPI_NAMES AND NOT name IN_LIST BX_MPI_NAMES)
        set(other ${name})
      endif()
    endforeach()
  endforeach()
  set(${result} "${other}" PARENT_SCOPE)
endfunction()

# bx_optional_mpi_library(NAME SWITCH LIBRARY...): sets NAME_USABLE, and says why it is not.
function(bx_optional_mpi_library name switch)
  set(usable FALSE)
  bx_same_mpi(other ${ARGN})
  if(NOT ARGN)
    message(STATUS "${name}: not found, left out")
  elseif(NOT ${switch})
    message(STATUS "${name}: left out by ${switch}")
  elseif(other)
    message(STATUS "${name}: left out, built for ${other}, the kernels for ${BX_MPI_NAMES}")
  else()
    set(usable TRUE)
  endif()
  set(${name}_USABLE ${usable} PARENT_SCOPE)
endfunction()
