! Restart files for Fortran kernels: bx_restart.h through bind(C).
module bx_restart
  use, intrinsic :: iso_c_binding, only: c_bool, c_char, c_double, c_int, c_int64_t, c_loc, &
    c_null_char, c_null_ptr, c_ptr, c_size_t
  use mpi_f08, only: MPI_Comm
  use bx_harness, only: bx_string_at
  implicit none (type, external)
  private
  public :: bx_restart_access

  !> A number of the file: bx_restart_number.
  type, bind(C), public :: bx_restart_number_t
    type(c_ptr) :: name = c_null_ptr
    real(c_double) :: value = 0
    logical(c_bool) :: carried = .false._c_bool
  end type bx_restart_number_t

  !> A set of rows: bx_restart_set.
  type, bind(C), public :: bx_restart_set_t
    type(c_ptr) :: name = c_null_ptr
    integer(c_int64_t) :: columns = 0, mine = 0
    type(c_ptr) :: rows = c_null_ptr
  end type bx_restart_set_t

  interface
    function c_restart(reads, path, comm, schema, numbers, number_count, sets, set_count, why, &
                       why_size) result(failed) bind(C, name="bx_restart_f")
      import :: bx_restart_number_t, bx_restart_set_t, c_bool, c_char, c_int, c_size_t
      implicit none (type, external)
      logical(c_bool), value :: reads
      integer(c_int), value :: comm
      character(kind=c_char), intent(in) :: path(*), schema(*)
      type(bx_restart_number_t), intent(inout) :: numbers(*)
      type(bx_restart_set_t), intent(inout) :: sets(*)
      integer(c_size_t), value :: number_count, set_count, why_size
      character(kind=c_char), intent(inout) :: why(*)
      integer(c_int) :: failed
    end function c_restart
  end interface

contains

  !> Reads or writes a file; `why` is "" or the error.  Collective.
  subroutine bx_restart_access(reads, path, comm, schema, numbers, sets, why)
    logical, intent(in) :: reads
    character(*), intent(in) :: path, schema
    type(MPI_Comm), intent(in) :: comm
    type(bx_restart_number_t), intent(inout) :: numbers(:)
    type(bx_restart_set_t), intent(inout) :: sets(:)
    character(*), intent(out) :: why
    character(kind=c_char), target :: reason(len(why))
    why = ""
    reason = c_null_char
    if (c_restart(logical(reads, c_bool), path//c_null_char, int(comm%MPI_VAL, c_int), &
                  schema//c_null_char, numbers, size(numbers, kind=c_size_t), sets, &
                  size(sets, kind=c_size_t), reason, size(reason, kind=c_size_t)) /= 0) then
      why = bx_string_at(c_loc(reason))
    end if
  end subroutine bx_restart_access

end module bx_restart
