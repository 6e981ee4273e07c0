# BLAS, LAPACK and ScaLAPACK; ELPA where it is there: ELPA_USABLE.
find_package(BLAS REQUIRED)
find_package(LAPACK REQUIRED)
if(BX_SIMULATED) # for whose MPI neither is built
  return()
endif()
# Where there are several, the one built for the MPI library found: handles of another are garbage.
if("${MPI_C_LIBRARIES};${MPI_C_INCLUDE_DIRS}" MATCHES "mpich")
  set(scalapack_names scalapack-mpich scalapack-mpi scalapack)
else()
  set(scalapack_names scalapack-openmpi scalapack-mpi scalapack)
endif()
find_library(SCALAPACK_LIBRARY NAMES ${scalapack_names}
  DOC "ScaLAPACK, built for the MPI library found" REQUIRED)
bx_same_mpi(other ${SCALAPACK_LIBRARY})
if(other)
  message(FATAL_ERROR "${SCALAPACK_LIBRARY} is built for ${other}, the kernels for ${BX_MPI_NAMES}: "
                      "name another by SCALAPACK_LIBRARY")
endif()
pkg_search_module(ELPA IMPORTED_TARGET elpa_openmp elpa)
bx_optional_mpi_library(ELPA BX_ELPA ${ELPA_LINK_LIBRARIES})
