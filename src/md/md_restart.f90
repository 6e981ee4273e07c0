! Restart files, from which a run with the same ranks and threads continues to the last bit.  They
! hold atoms in the order of the lists, with their positions when the lists were made: these give
! the same lists again.
module md_restart
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_f_pointer, c_int, c_int64_t, &
    c_loc, c_null_char, c_ptr, dp => c_double
  use bx_harness, only: bx_string_at
  use md_atoms, only: atoms_t, reserve
  use md_system, only: system_t
  implicit none (type, external)
  private
  public :: read_restart, write_restart

  integer, parameter :: must_agree = 17, reals = 9, integers = 5, longest_reason = 500

  interface
    function md_restart_write(path, comm, identity, step, mine, real_rows, integer_rows, why, &
                              why_size) result(failed) bind(C)
      import :: c_char, c_double, c_int, c_int64_t
      implicit none (type, external)
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: comm, mine, why_size
      real(c_double), value :: step
      real(c_double), intent(in) :: identity(*), real_rows(*)
      integer(c_int64_t), intent(in) :: integer_rows(*)
      character(kind=c_char), intent(inout) :: why(*)
      integer(c_int) :: failed
    end function md_restart_write

    function md_restart_read(path, comm, identity, step, mine, real_rows, integer_rows, why, &
                             why_size) result(failed) bind(C)
      import :: c_char, c_double, c_int, c_ptr
      implicit none (type, external)
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: comm, why_size
      real(c_double), intent(in) :: identity(*)
      real(c_double), intent(out) :: step
      integer(c_int), intent(out) :: mine
      type(c_ptr), intent(out) :: real_rows, integer_rows
      character(kind=c_char), intent(inout) :: why(*)
      integer(c_int) :: failed
    end function md_restart_read

    subroutine c_free(memory) bind(C, name="free")
      import :: c_ptr
      implicit none (type, external)
      type(c_ptr), value :: memory
    end subroutine c_free
  end interface

contains

  !> The numbers that must be those of the file, in the order of md_restart.c.
  function identity(system) result(numbers)
    type(system_t), intent(in) :: system
    real(dp) :: numbers(must_agree)
    numbers = [real([system%total, int([system%domain%ranks, size(system%list%work), &
      system%potential%kind*100 + iachar(system%potential%name(1)(1:1))], c_int64_t)], dp), &
      system%potential%cutoff, system%skin, system%timestep, &
      merge(1.0_dp, 0.0_dp, system%style%dlpoly3), reshape(system%box%edge, [9])]
  end function identity

  !> Writes a restart file, whole or not at all; `why` is "" or the error.  Collective.
  subroutine write_restart(path, system, why)
    character(*), intent(in) :: path
    type(system_t), intent(in) :: system
    character(*), intent(out) :: why
    character(kind=c_char), target :: reason(longest_reason)
    real(dp), allocatable :: rows(:, :)
    integer(c_int64_t), allocatable :: names(:, :)
    integer :: k
    allocate (rows(reals, system%atoms%own), names(integers, system%atoms%own))
    do k = 1, system%atoms%own
      rows(:, k) = [system%atoms%listed(:, k), system%atoms%x(1:3, k), system%atoms%v(:, k)]
      names(:, k) = [system%atoms%id(k), int([system%atoms%species(k), &
                                              system%atoms%image(:, k)], c_int64_t)]
    end do
    reason = c_null_char
    why = ""
    if (md_restart_write(path//c_null_char, system%domain%comm%MPI_VAL, identity(system), &
                         real(system%step, dp), int(system%atoms%own, c_int), rows, names, reason, &
                         size(reason, kind=c_int)) /= 0) why = bx_string_at(c_loc(reason))
  end subroutine write_restart

  !> Reads a restart file of the same system: atoms at the positions of their lists.  `why` is "" or
  !> the error.  Collective.
  subroutine read_restart(path, system, atoms, moved, step, why)
    character(*), intent(in) :: path
    type(system_t), intent(in) :: system
    type(atoms_t), intent(inout) :: atoms
    real(dp), allocatable, intent(out) :: moved(:, :) !< (3, own): A; positions at `step`
    integer(c_int64_t), intent(out) :: step
    character(*), intent(out) :: why
    character(kind=c_char), target :: reason(longest_reason)
    type(c_ptr) :: real_rows, integer_rows
    real(dp), pointer :: rows(:, :)
    integer(c_int64_t), pointer :: names(:, :)
    real(dp) :: at
    integer(c_int) :: mine
    integer :: k
    reason = c_null_char
    why = ""
    step = 0
    if (md_restart_read(path//c_null_char, system%domain%comm%MPI_VAL, identity(system), at, mine, &
                        real_rows, integer_rows, reason, size(reason, kind=c_int)) /= 0) then
      why = bx_string_at(c_loc(reason))
      return
    end if
    call c_f_pointer(real_rows, rows, [reals, int(mine)])
    call c_f_pointer(integer_rows, names, [integers, int(mine)])
    step = nint(at, c_int64_t)
    allocate (moved(3, mine))
    call reserve(atoms, int(mine))
    atoms%own = int(mine)
    atoms%all = atoms%own
    do k = 1, atoms%own
      atoms%x(:, k) = [rows(1:3, k), 0.0_dp]
      moved(:, k) = rows(4:6, k)
      atoms%v(:, k) = rows(7:9, k)
      atoms%id(k) = names(1, k)
      atoms%species(k) = int(names(2, k))
      atoms%image(:, k) = int(names(3:5, k))
    end do
    call c_free(real_rows)
    call c_free(integer_rows)
  end subroutine read_restart

end module md_restart
