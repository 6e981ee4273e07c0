! Restart files, from which a run with the same ranks and threads continues to the last bit.  They
! hold atoms in the order of the lists, with their positions when the lists were made: these give
! the same lists again.
module md_restart
  use, intrinsic :: iso_c_binding, only: c_associated, c_bool, c_f_pointer, c_int64_t, c_loc, &
    c_null_ptr, c_ptr, dp => c_double
  use bx_harness, only: bx_text
  use bx_restart, only: bx_restart_access, bx_restart_number_t, bx_restart_set_t
  use md_atoms, only: atoms_t, reserve
  use md_system, only: system_t
  implicit none (type, external)
  private
  public :: read_restart, write_restart

  !> The numbers of a file: all but the step must be those of the system.
  character(*), parameter :: names(*) = [character(20) :: "number of atoms", "number of ranks", &
    "number of threads", "potential", "cutoff", "skin", "timestep in ps", "communication style", &
    "box vector a, x", "box vector a, y", "box vector a, z", "box vector b, x", &
    "box vector b, y", "box vector b, z", "box vector c, x", "box vector c, y", &
    "box vector c, z", "step"]
  integer, parameter :: reals = 9, integers = 5 !< of an atom
  type(bx_restart_number_t) :: numbers(size(names))
  type(bx_restart_set_t) :: sets(2)

  interface
    subroutine c_free(memory) bind(C, name="free")
      import :: c_ptr
      implicit none (type, external)
      type(c_ptr), value :: memory
    end subroutine c_free
  end interface

contains

  !> Sets the numbers of a system, and the sets of this rank's atoms, without rows.
  subroutine describe(system)
    type(system_t), intent(in) :: system
    integer :: i
    if (.not. c_associated(sets(1)%name)) then
      numbers%name = [(bx_text(names(i)), i=1, size(names))]
      numbers(size(names))%carried = .true._c_bool
      sets = [bx_restart_set_t(bx_text("atoms"), reals), &
              bx_restart_set_t(bx_text("names"), integers)]
    end if
    sets%mine = system%atoms%own
    numbers%value = [real([system%total, int([system%domain%ranks, size(system%list%work), &
      system%potential%kind*100 + iachar(system%potential%name(1)(1:1))], c_int64_t)], dp), &
      system%potential%cutoff, system%skin, system%timestep, &
      merge(1.0_dp, 0.0_dp, system%style%dlpoly3), reshape(system%box%edge, [9]), &
      real(system%step, dp)]
  end subroutine describe

  !> Reads or writes a file of the described system.
  subroutine access_file(reads, path, system, why)
    logical, intent(in) :: reads
    character(*), intent(in) :: path
    type(system_t), intent(in) :: system
    character(*), intent(out) :: why
    call bx_restart_access(reads, path, system%domain%comm, "bisection-md-restart-1", numbers, &
                           sets, why)
  end subroutine access_file

  !> Writes a restart file, whole or not at all; `why` is "" or the error.  Collective.
  subroutine write_restart(path, system, why)
    character(*), intent(in) :: path
    type(system_t), intent(in) :: system
    character(*), intent(out) :: why
    real(dp), allocatable, target :: rows(:, :)
    integer(c_int64_t), allocatable, target :: whole(:, :)
    call describe(system)
    associate (atoms => system%atoms, n => system%atoms%own)
      allocate (rows(reals, max(1, n)), whole(integers, max(1, n)))
      rows(1:3, :n) = atoms%listed(:, :n)
      rows(4:6, :n) = atoms%x(1:3, :n)
      rows(7:9, :n) = atoms%v(:, :n)
      whole(1, :n) = atoms%id(:n)
      whole(2, :n) = atoms%species(:n)
      whole(3:5, :n) = atoms%image(:, :n)
    end associate
    sets%rows = [c_loc(rows), c_loc(whole)]
    call access_file(.false., path, system, why)
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
    real(dp), pointer :: rows(:, :)
    integer(c_int64_t), pointer :: whole(:, :)
    integer :: mine
    call describe(system)
    sets%mine = -1 ! as many as the file has
    sets%rows = c_null_ptr
    call access_file(.true., path, system, why)
    step = nint(numbers(size(names))%value, c_int64_t)
    if (why /= "") then
      call c_free(sets(1)%rows)
      call c_free(sets(2)%rows)
      return
    end if
    mine = int(sets(1)%mine)
    call c_f_pointer(sets(1)%rows, rows, [reals, mine])
    call c_f_pointer(sets(2)%rows, whole, [integers, mine])
    call reserve(atoms, mine)
    atoms%own = mine
    atoms%all = mine
    moved = rows(4:6, :mine)
    atoms%x(1:3, :mine) = rows(1:3, :mine)
    atoms%x(4, :mine) = 0
    atoms%v(:, :mine) = rows(7:9, :mine)
    atoms%id(:mine) = whole(1, :mine)
    atoms%species(:mine) = int(whole(2, :mine))
    atoms%image(:, :mine) = int(whole(3:5, :mine))
    call c_free(sets(1)%rows)
    call c_free(sets(2)%rows)
  end subroutine read_restart

end module md_restart
