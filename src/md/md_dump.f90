! All atoms of a system in an extended XYZ file, as ASE and OVITO read them: --dump writes it, and
! --input reads what --dump has written.
!
! Columns: id, species, pos (A, not wrapped), velo (A/ps), forces (eV/A), energies (of the atom,
! eV), with 17 digits and three of the exponent, which Fortran would else write without its E.
module md_dump
  use, intrinsic :: iso_c_binding, only: c_associated, c_int64_t, c_ptr, dp => c_double
  use, intrinsic :: ieee_arithmetic, only: ieee_is_finite
  use mpi_f08, only: MPI_Bcast, MPI_CHARACTER, MPI_Comm, MPI_Comm_rank, MPI_DOUBLE_PRECISION, &
    MPI_Gather, MPI_Gatherv, MPI_INTEGER
  use bx_harness, only: bx_file_close, bx_file_open, bx_file_put
  use md_atoms, only: atoms_t, reserve
  use md_box, only: box_t, make_box
  use md_domain, only: domain_t, home_of
  use md_potential, only: find_potential, potential_t, species_list
  use md_system, only: system_t
  implicit none (type, external)
  private
  public :: dump_t, open_dump, read_dump, write_dump

  integer, parameter :: numbers = 12 !< id, species and ten columns of an atom
  !> What fits one message to rank 0, counted in 32 bits.
  integer(c_int64_t), parameter, public :: most_dumped = 2**27
  integer, parameter :: shortest = 24 !< bytes of an atom's line, at least
  character(*), parameter :: columns = &
    'Properties=id:I:1:species:S:1:pos:R:3:velo:R:3:forces:R:3:energies:R:1 pbc="T T T"'

  !> A file that is read: its header, and the potential of its first atom.
  type :: dump_t
    type(box_t) :: box
    type(potential_t) :: potential
    integer(c_int64_t) :: atoms = 0
    integer :: unit = 0 !< on rank 0, at the first atom's line
  end type dump_t

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
      write (line, "('Lattice=""', 9(es24.16e3, :, ' '), '"" ', a, ' step=', i0)") &
        system%box%edge, columns, system%step
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

  !> Opens a file that --dump has written, on rank 0; on return all ranks have its header.  `why` is
  !> "" or the error.  Collective.
  subroutine open_dump(path, comm, dump, why)
    character(*), intent(in) :: path
    type(MPI_Comm), intent(in) :: comm
    type(dump_t), intent(out) :: dump
    character(*), intent(out) :: why
    character(2) :: species
    real(dp) :: header(10) !< number of atoms, vectors of the box (A)
    integer :: rank
    why = ""
    call MPI_Comm_rank(comm, rank)
    if (rank == 0) call read_header(path, dump%unit, header, species, why)
    call MPI_Bcast(why, len(why), MPI_CHARACTER, 0, comm)
    if (why /= "") return
    call MPI_Bcast(header, size(header), MPI_DOUBLE_PRECISION, 0, comm)
    call MPI_Bcast(species, len(species), MPI_CHARACTER, 0, comm)
    dump%atoms = nint(header(1), c_int64_t)
    dump%box = make_box(reshape(header(2:), [3, 3]))
    dump%potential = find_potential(species)
    if (.not. dump%box%volume > 1e-6_dp*norm2(header(2:))**3) then
      why = "line 2: the vectors of Lattice span no volume"
    else if (dump%potential%kind == 0) then
      why = "line 3 has no potential for "//trim(species)//"; there are "//species_list()
    end if
  end subroutine open_dump

  !> Reads two lines, and the species of the first atom, whose line is the next to be read.
  subroutine read_header(path, unit, header, species, why)
    character(*), intent(in) :: path
    integer, intent(out) :: unit
    real(dp), intent(out) :: header(10)
    character(*), intent(out) :: species
    character(*), intent(inout) :: why
    character(400) :: line
    real(dp) :: values(10)
    integer(c_int64_t) :: bytes
    integer :: status, last
    header = 0
    open (newunit=unit, file=path, status="old", action="read", iostat=status, iomsg=line)
    if (status /= 0) then
      why = "cannot be opened: "//trim(line)
      return
    end if
    inquire (unit=unit, size=bytes)
    read (unit, "(a)", iostat=status) line
    if (status == 0 .and. is_plain(line)) read (line, *, iostat=status) header(1)
    if (status /= 0) header(1) = 0
    if (.not. (header(1) >= 1 .and. header(1) <= min(most_dumped, bytes/shortest))) then
      why = "line 1 is no number of atoms that the file can hold: "//trim(line)
      return
    end if
    read (unit, "(a)", iostat=status) line
    last = index(line, '" '//columns)
    if (status == 0 .and. line(:9) == 'Lattice="' .and. is_plain(line(10:last - 1))) then
      read (line(10:last - 1), *, iostat=status) header(2:)
    else
      status = 1
    end if
    if (status /= 0) then
      why = 'line 2 is not Lattice="nine numbers" '//columns
      return
    end if
    call read_atom(unit, 1, species, values, why)
    backspace (unit)
  end subroutine read_header

  !> Whether a text has none of the characters that Fortran's own reading of numbers skips, repeats
  !> or ends at.
  pure logical function is_plain(text)
    character(*), intent(in) :: text
    is_plain = scan(text, "/*,;'""") == 0
  end function is_plain

  !> Reads the line of atom i: species, and its ten numbers.
  subroutine read_atom(unit, i, species, values, why)
    integer, intent(in) :: unit, i
    character(*), intent(out) :: species
    real(dp), intent(out) :: values(10)
    character(*), intent(inout) :: why
    character(400) :: line
    integer :: status, id
    id = 0
    values = 0
    read (unit, "(a)", iostat=status) line
    if (status == 0 .and. is_plain(line)) read (line, *, iostat=status) id, species, values
    if (status == 0 .and. id == i .and. all(ieee_is_finite(values))) return
    write (why, "('line ', i0, ' is not that of atom ', i0, ', with its species and 10 numbers')") &
      i + 2, i
  end subroutine read_atom

  !> Reads the atoms on rank 0, and gives each rank its own of them; closes the file.  Collective.
  subroutine read_dump(dump, domain, atoms, moving, why)
    type(dump_t), intent(in) :: dump
    type(domain_t), intent(in) :: domain
    type(atoms_t), intent(inout) :: atoms
    logical, intent(out) :: moving      !< an atom has a velocity
    character(*), intent(inout) :: why  !< "" or the error
    integer, parameter :: chunk = 4096  !< atoms
    real(dp), parameter :: furthest = 1000, fastest = 2.99792458e6_dp !< boxes; A/ps, of light
    character(400) :: line
    character(2) :: species
    real(dp) :: part(11, chunk), s(3) !< positions, velocities, forces, energies, species
    integer :: first, n, i, status
    moving = .false.
    atoms%own = 0
    call reserve(atoms, 0)
    do first = 0, int(dump%atoms) - 1, chunk
      n = min(chunk, int(dump%atoms) - first)
      do i = 1, merge(n, 0, domain%rank == 0)
        call read_atom(dump%unit, first + i, species, part(:10, i), why)
        part(11, i) = findloc(dump%potential%name, species, dim=1)
        if (why /= "") exit
        if (nint(part(11, i)) == 0) then
          write (why, "('line ', i0, ' has no potential for ', a, ' with ', a, '; there are ', &
            &a)") first + i + 2, trim(species), trim(dump%potential%name(1)), species_list()
        else if (any(abs(dump%box%fractions(part(1:3, i))) > furthest) .or. &
                 norm2(part(4:6, i)) > fastest) then
          write (why, "('line ', i0, ': the atom is more than 1000 box lengths away, or faster &
            &than light')") first + i + 2
        end if
        if (why /= "") exit
      end do
      if (domain%rank == 0 .and. why == "" .and. first + n == dump%atoms) then
        read (dump%unit, "(a)", iostat=status) line
        if (status == 0) why = "has more lines than line 1 announces"
      end if
      call MPI_Bcast(why, len(why), MPI_CHARACTER, 0, domain%comm)
      if (why /= "") exit
      call MPI_Bcast(part, size(part, 1)*n, MPI_DOUBLE_PRECISION, 0, domain%comm)
      moving = moving .or. any(abs(part(4:6, :n)) > 0)
      do i = 1, n
        s = dump%box%fractions(part(1:3, i))
        if (any(home_of(domain, s - floor(s)) /= domain%at)) cycle
        call reserve(atoms, atoms%own + 1)
        atoms%own = atoms%own + 1
        atoms%x(:, atoms%own) = [part(1:3, i), 0.0_dp]
        atoms%v(:, atoms%own) = part(4:6, i)
        atoms%id(atoms%own) = first + i
        atoms%species(atoms%own) = nint(part(11, i))
        atoms%image(:, atoms%own) = 0
      end do
    end do
    atoms%all = atoms%own
    if (domain%rank == 0) close (dump%unit)
  end subroutine read_dump

end module md_dump
