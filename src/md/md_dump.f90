! All atoms of a system in an extended XYZ file, as ASE and OVITO read them.
!
! Columns: id, species, pos (A, not wrapped), velo (A/ps), forces (eV/A), energies (of the atom,
! eV), with 17 digits and three of the exponent, which Fortran would else write without its E.
module md_dump
  use, intrinsic :: iso_c_binding, only: c_associated, c_int64_t, c_ptr, dp => c_double
  use mpi_f08, only: MPI_Bcast, MPI_CHARACTER, MPI_DOUBLE_PRECISION, MPI_Gather, MPI_Gatherv, &
    MPI_INTEGER
  use bx_harness, only: bx_file_close, bx_file_open, bx_file_put
  use md_system, only: system_t
  implicit none (type, external)
  private
  public :: write_dump

  integer, parameter :: numbers = 12 !< id, species and ten columns of an atom
  !> What fits one message to rank 0, counted in 32 bits.
  integer(c_int64_t), parameter, public :: most_dumped = 2**27

contains

  !> Writes all atoms in the order of their ids; the file replaces an older one when it is whole.
  !> Collective.
  subroutine write_dump(path, system, energies, why)
    character(*), intent(in) :: path
    type(system_t), intent(in) :: system
    real(dp), intent(in) :: energies(:) !< (own): eV
    character(*), intent(out) :: why    !< "", or the reason of the failure
    real(dp), allocatable :: mine(:, :), all(:, :)
    integer, allocatable :: order(:)
    integer :: counts(system%domain%ranks), offsets(system%domain%ranks), k
    allocate (mine(numbers, system%atoms%own))
    associate (atoms => system%atoms, domain => system%domain, total => system%total)
      do k = 1, atoms%own
        mine(:, k) = [real(atoms%id(k), dp), real(atoms%species(k), dp), &
                      atoms%x(1:3, k) + matmul(system%box%edge, real(atoms%image(:, k), dp)), &
                      atoms%v(:, k), atoms%f(1:3, k), energies(k)]
      end do
      call MPI_Gather(size(mine), 1, MPI_INTEGER, counts, 1, MPI_INTEGER, 0, domain%comm)
      if (domain%rank == 0) offsets = [(sum(counts(:k - 1)), k=1, domain%ranks)]
      allocate (all(numbers, merge(total, 0_c_int64_t, domain%rank == 0)))
      call MPI_Gatherv(mine, size(mine), MPI_DOUBLE_PRECISION, all, counts, offsets, &
                       MPI_DOUBLE_PRECISION, 0, domain%comm)
      why = ""
      if (domain%world_rank == 0) then
        allocate (order(total))
        do k = 1, int(total)
          order(nint(all(1, k))) = k
        end do
        call write_file(path, system, all, order, why)
      end if
      call MPI_Bcast(why, len(why), MPI_CHARACTER, 0, domain%world)
    end associate
  end subroutine write_dump

  !> Writes the rows of all atoms, (numbers, atoms), in an order; on rank 0.
  subroutine write_file(path, system, atoms, order, why)
    character(*), intent(in) :: path
    type(system_t), intent(in) :: system
    real(dp), intent(in) :: atoms(:, :)
    integer, intent(in) :: order(:)
    character(*), intent(inout) :: why
    character(:), allocatable :: reason
    character(400) :: line
    type(c_ptr) :: file
    integer :: i, k
    file = bx_file_open(path)
    if (c_associated(file)) then
      write (line, "(i0)") system%total
      call bx_file_put(file, trim(line))
      write (line, "('Lattice=""', 9(es24.16e3, :, ' '), '"" Properties=id:I:1:species:S:1:&
        &pos:R:3:velo:R:3:forces:R:3:energies:R:1 pbc=""T T T"" step=', i0)") &
        system%box%edge, system%step
      call bx_file_put(file, trim(line))
      do i = 1, size(order)
        k = order(i)
        write (line, "(i0, ' ', a, 10(' ', es24.16e3))") nint(atoms(1, k), c_int64_t), &
          trim(system%potential%name(nint(atoms(2, k)))), atoms(3:, k)
        call bx_file_put(file, trim(line))
      end do
    end if
    call bx_file_close(file, path, reason)
    if (reason /= "") why = path//": "//reason
  end subroutine write_file

end module md_dump
