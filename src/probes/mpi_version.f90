! The MPI library of Fortran, without its module, which not every compiler can read.
! allow(C003, C091)
program probe
  implicit none
  external :: MPI_Get_library_version
  character(len=16384) :: text ! longer than any library's
  integer :: length, code
  call MPI_Get_library_version(text, length, code)
  print "(a)", text(:length)
end program probe
