# Writes the hash of the kernels' sources into a header, unless it is there:
# cmake -DSOURCES=folder -DHEADER=file -P sources.cmake
# The same as bisection.kernels.digests.digest_of: the SHA-256 of a line "SHA-256  path" per file.
cmake_minimum_required(VERSION 3.20)
file(GLOB_RECURSE files RELATIVE ${SOURCES} ${SOURCES}/*)
list(FILTER files EXCLUDE REGEX "^tests/|[.]md$|(^|/)[.]|~$")
list(SORT files)
if(NOT files)
  message(FATAL_ERROR "no sources in ${SOURCES}")
endif()
set(lines "")
foreach(name IN LISTS files)
  file(SHA256 "${SOURCES}/${name}" hash)
  string(APPEND lines "${hash}  ${name}\n")
endforeach()
string(SHA256 hash "${lines}")
file(CONFIGURE OUTPUT "${HEADER}" CONTENT "#define BX_SOURCES \"${hash}\"\n")
