! What Fortran's unit tests have in common: conditions, and how they end.
module unit_check
  use, intrinsic :: iso_c_binding, only: dp => c_double
  implicit none (type, external)
  private
  public :: check, end_checks

  integer :: failures = 0

contains

  !> Counts and prints a condition that does not hold, with a value and a text that it is about.
  subroutine check(condition, name, value, text)
    logical, intent(in) :: condition
    character(*), intent(in) :: name
    real(dp), intent(in), optional :: value
    character(*), intent(in), optional :: text
    if (condition) return
    failures = failures + 1
    if (present(value)) then
      print "(2a, es10.2)", "failed: ", name, value
    else
      print "(2a)", "failed: ", name
    end if
    if (present(text)) print "(a)", trim(text)
  end subroutine check

  !> Ends the program with an error if a condition did not hold on this rank; else the `first` rank
  !> prints that it passed.
  subroutine end_checks(program, first)
    character(*), intent(in) :: program
    logical, intent(in) :: first
    if (failures > 0) then
      print "(2a)", program, ": failed"
      error stop
    end if
    if (first) print "(2a)", program, ": passed"
  end subroutine end_checks

end module unit_check
