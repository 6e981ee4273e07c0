# Baselines of bisection-transpose that `bench transpose` measures: FFTW's own transposes and SpFFT,
# where they are built for the kernels' MPI library.  cmake -S src -DBX_PEERS=this folder
target_sources(bx_transpose_kernel PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/baseline_fftw_mpi.c ${CMAKE_CURRENT_LIST_DIR}/baseline_spfft.c)
target_compile_definitions(bx_transpose_kernel PRIVATE BX_PEERS)

# fftw3.pc names no MPI library, which lies beside it.
find_library(FFTW_MPI_LIBRARY fftw3_mpi HINTS ${FFTW_LIBRARY_DIRS})
if(NOT FFTW_MPI_LIBRARY)
  set(FFTW_MPI_LIBRARY "")
endif()
bx_optional_mpi_library(FFTW_MPI BX_PEERS ${FFTW_MPI_LIBRARY})
if(FFTW_MPI_USABLE)
  target_compile_definitions(bx_transpose_kernel PRIVATE BX_HAVE_FFTW_MPI)
  target_link_libraries(bx_transpose_kernel PUBLIC ${FFTW_MPI_LIBRARY})
endif()

find_package(SpFFT CONFIG QUIET)
set(spfft_library "")
if(SpFFT_FOUND)
  get_target_property(spfft_library SpFFT::spfft LOCATION)
endif()
bx_optional_mpi_library(SPFFT BX_PEERS ${spfft_library})
if(SPFFT_USABLE)
  target_compile_definitions(bx_transpose_kernel PRIVATE BX_HAVE_SPFFT)
  target_link_libraries(bx_transpose_kernel PUBLIC SpFFT::spfft)
endif()
