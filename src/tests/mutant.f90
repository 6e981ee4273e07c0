!> For sources that mutants.py wrote.
module mutant
  use, intrinsic :: iso_c_binding, only: c_bool, c_char, c_null_char
  implicit none (type, external)
  private
  public :: is_mutant

  interface
    pure function bx_is_mutant(name) bind(C) result(chosen)
      import :: c_bool, c_char
      implicit none (type, external)
      character(kind=c_char), intent(in) :: name(*)
      logical(c_bool) :: chosen
    end function bx_is_mutant
  end interface

contains

  !> True if the environment variable BX_MUTANT has this name, which does not change.
  pure function is_mutant(name) result(chosen)
    character(*), intent(in) :: name
    logical :: chosen
    chosen = bx_is_mutant(name // c_null_char)
  end function is_mutant
end module mutant
