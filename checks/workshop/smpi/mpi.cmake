# SimGrid's MPI.  smpiff is not used: it writes beside the sources, to rename Fortran's main programs.
find_package(PkgConfig REQUIRED)
pkg_check_modules(SIMGRID REQUIRED IMPORTED_TARGET GLOBAL simgrid>=3.32)
find_package(MPI 3.0 REQUIRED COMPONENTS C)
add_library(MPI::MPI_Fortran INTERFACE IMPORTED GLOBAL)
target_link_libraries(MPI::MPI_Fortran INTERFACE PkgConfig::SIMGRID)
# Executables are shared objects, of which every rank has a copy.
set(CMAKE_Fortran_COMPILE_OPTIONS_PIE -fPIC)
set(CMAKE_Fortran_LINK_EXECUTABLE "${CMAKE_Fortran_LINK_EXECUTABLE} -shared -Wl,-z,defs")
