! The MPI library of Fortran.
program probe
  use mpi, only: MPI_Get_library_version, MPI_MAX_LIBRARY_VERSION_STRING
  implicit none (type, external)
  character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: text
  integer :: length, code
  call MPI_Get_library_version(text, length, code)
  print "(a)", text(:length)
end program probe
