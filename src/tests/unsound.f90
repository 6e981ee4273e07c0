! The faults of unsound.c that are Fortran's.
module unsound
  use, intrinsic :: iso_c_binding, only: c_double, c_int
  implicit none (type, external)
  private
  public :: bounds, unset

contains

  !> Writes element `at` of three.
  real(c_double) function bounds(at) bind(C, name="bx_unsound_bounds")
    integer(c_int), value :: at
    real(c_double) :: numbers(3)
    numbers = 0
    numbers(at) = 1
    bounds = sum(numbers)
  end function bounds

  !> Returns element `at` of two that are never set.
  real(c_double) function unset(at) bind(C, name="bx_unsound_unset")
    integer(c_int), value :: at
    real(c_double) :: numbers(2)
    if (at > 2) numbers = 0
    unset = numbers(at)
  end function unset

end module unsound
