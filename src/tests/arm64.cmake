# A cross build for ARM64 with Debian's packages in CMAKE_SYSROOT, whose programs run under QEMU.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER ${CMAKE_SYSROOT}/usr/bin/aarch64-linux-gnu-gcc)
set(CMAKE_Fortran_COMPILER ${CMAKE_SYSROOT}/usr/bin/aarch64-linux-gnu-gfortran)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})

# What packages link when they are installed, not when they are unpacked: BLAS and LAPACK, names of MPI's libraries.
set(lib /usr/lib/aarch64-linux-gnu)
set(CMAKE_LIBRARY_PATH ${lib}/openblas-openmp)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,=${lib}/openblas-openmp")
set(CMAKE_CROSSCOMPILING_EMULATOR ${CMAKE_SYSROOT}/usr/bin/qemu-aarch64-static
  -L ${CMAKE_SYSROOT} -E LD_LIBRARY_PATH=${lib}/openblas-openmp)
set(MPI_C_LIB_NAMES mpi CACHE STRING "")
set(MPI_Fortran_LIB_NAMES mpi_usempif08 mpi_usempi_ignore_tkr mpi_mpifh mpi CACHE STRING "")
set(MPI_C_COMPILER_INCLUDE_DIRS ${CMAKE_SYSROOT}${lib}/openmpi/include CACHE STRING "")
set(MPI_Fortran_COMPILER_INCLUDE_DIRS ${CMAKE_SYSROOT}${lib}/openmpi/include
  ${CMAKE_SYSROOT}${lib}/fortran/gfortran-mod-15/openmpi CACHE STRING "")
foreach(name IN LISTS MPI_Fortran_LIB_NAMES)
  set(MPI_${name}_LIBRARY ${CMAKE_SYSROOT}${lib}/openmpi/lib/lib${name}.so CACHE FILEPATH "")
endforeach()
