! The files of a system.
!
! --dump writes an extended XYZ file, as ASE and OVITO read them, and --input reads one.
! Columns: id, species, pos (A, not wrapped), velo (A/ps), forces (eV/A), energies (of the atom,
! eV), with 17 digits and three of the exponent, which Fortran would else write without its E.
!
! From a restart file a run with the same ranks and threads continues to the last bit.  It holds
! atoms in the order of the lists, with their positions when the lists were made: these give the
! same lists again.
module md_files
  use, intrinsic :: iso_c_binding, only: c_associated, c_bool, c_f_pointer, c_int64_t, &
    c_loc, c_null_ptr, c_ptr, dp => c_double
  use, intrinsic :: ieee_arithmetic, only: ieee_is_finite
  use mpi_f08, only: MPI_Bcast, MPI_CHARACTER, MPI_Comm, MPI_Comm_rank, MPI_DOUBLE_PRECISION, &
    MPI_Gather, MPI_Gatherv, MPI_INTEGER
  use bx_file, only: bx_file_close, bx_file_open, bx_file_put
  use bx_harness, only: bx_text
  use bx_restart, only: bx_restart_access, bx_restart_number_t, bx_restart_set_t
  use md_atoms, only: atoms_t, box_t, make_box, reserve
  use md_domain, only: domain_t, home_of, offsets_of
  use md_potential, only: find_potential, potential_t, species_list
  use md_system, only: system_t
  implicit none (type, external)
  private
  public :: dump_t, open_dump, read_dump, read_restart, write_dump, write_restart

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

  !> The numbers of a restart file: all but the step must be those of the system.
  character(*), parameter :: names(*) = [character(20) :: "number of atoms", "number of ranks", &
    "number of threads", "potential", "cutoff", "skin", "timestep in ps", "communication style", &
    "box vector a, x", "box vector a, y", "box vector a, z", "box vector b, x", &
    "box vector b, y", "box vector b, z", "box vector c, x", "box vector c, y", &
    "box vector c, z", "step"]
  integer, parameter :: reals = 9, integers = 5 !< of an atom
  type(bx_restart_number_t) :: agreeing(size(names))
  type(bx_restart_set_t) :: sets(2)

  interface
    subroutine c_free(memory) bind(C, name="free")
      import :: c_ptr
      implicit none (type, external)
      type(c_ptr), value :: memory
    end subroutine c_free
  end interface

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
      if (domain%rank == 0) offsets = offsets_of(counts)
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
    character(400) :: line
    real(dp) :: header(10) !< number of atoms, vectors of the box (A)
    integer :: rank, status
    why = ""
    call MPI_Comm_rank(comm, rank)
    if (rank == 0) then
      open (newunit=dump%unit, file=path, status="old", action="read", iostat=status, iomsg=line)
      if (status /= 0) then
        why = "cannot be opened: "//trim(line)
      else
        call read_header(dump%unit, header, species, why)
        if (why /= "") close (dump%unit)
      end if
    end if
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
    if (rank == 0 .and. why /= "") close (dump%unit)
  end subroutine open_dump

  !> Reads two lines, and the species of the first atom, whose line is the next to be read.
  subroutine read_header(unit, header, species, why)
    integer, intent(in) :: unit
    real(dp), intent(out) :: header(10)
    character(*), intent(out) :: species
    character(*), intent(inout) :: why
    character(400) :: line
    real(dp) :: values(10)
    integer(c_int64_t) :: bytes
    integer :: status, last
    header = 0
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
  !> or ends at, no point alone, no hexadecimal numbers: flang reads both.
  pure logical function is_plain(text)
    character(*), intent(in) :: text
    is_plain = scan(text, "/*,;'""") == 0 .and. index(" "//text//" ", " . ") == 0 &
               .and. index(text, "0x") == 0 .and. index(text, "0X") == 0
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

  !> Sets the numbers of a system, and the sets of this rank's atoms, without rows.
  subroutine describe(system)
    type(system_t), intent(in) :: system
    integer :: i
    if (.not. c_associated(sets(1)%name)) then
      agreeing%name = [(bx_text(names(i)), i=1, size(names))]
      agreeing(size(names))%carried = .true._c_bool
      sets = [bx_restart_set_t(bx_text("atoms"), reals), &
              bx_restart_set_t(bx_text("names"), integers)]
    end if
    sets%mine = system%atoms%own
    agreeing%value = [real([system%total, int([system%domain%ranks, size(system%list%work), &
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
    call bx_restart_access(reads, path, system%domain%comm, "bisection-md-restart-1", agreeing, &
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
    step = nint(agreeing(size(names))%value, c_int64_t)
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

end module md_files
