! Configurations in extended XYZ files, as ASE and OVITO read and write them.
!
! Lengths are in angstrom.  Read: species, pos and, where they are there, id, velo (A/ps) or momenta
! (ASE's, sqrt(u eV)).  Written: id, species, pos (not wrapped), velo (A/ps), forces (eV/A),
! energies (of the atom, eV), with 17 digits.
module md_xyz
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int64_t, c_null_char, dp => c_double
  use, intrinsic :: ieee_arithmetic, only: ieee_is_finite
  use mpi_f08, only: MPI_Bcast, MPI_CHARACTER, MPI_Comm, MPI_Comm_rank, MPI_Comm_size, &
    MPI_DOUBLE_PRECISION, MPI_Gather, MPI_Gatherv, MPI_INTEGER, MPI_INTEGER8, MPI_LOGICAL
  use md_atoms, only: atoms_t, reserve
  use md_box, only: box_t, make_box
  use md_domain, only: domain_t, home_of
  use md_potential, only: find_potential, potential_t, species_list
  use md_units, only: mass_to_energy
  implicit none (type, external)
  private
  public :: configuration_t, read_configuration, distribute, write_configuration

  !> What a file holds; on rank 0 the atoms too.
  type :: configuration_t
    type(box_t) :: box
    type(potential_t) :: potential
    integer(c_int64_t) :: atoms = 0
    logical :: moving = .false. !< has velocities
    real(dp), allocatable :: x(:, :), v(:, :)
    integer, allocatable :: species(:)
    integer(c_int64_t), allocatable :: id(:)
  end type configuration_t

  integer, parameter :: longest_line = 4096
  integer, parameter :: chunk = 65536 !< atoms

  interface
    function c_rename(from, to) result(failed) bind(C, name="rename")
      import :: c_char, c_int
      implicit none (type, external)
      character(kind=c_char), intent(in) :: from(*), to(*)
      integer(c_int) :: failed
    end function c_rename
  end interface

contains

  !> Reads a file on rank 0 and tells all ranks what it is of; `why` is "" or what is wrong with it.
  !> Collective.
  subroutine read_configuration(path, comm, configuration, why)
    character(*), intent(in) :: path
    type(MPI_Comm), intent(in) :: comm
    type(configuration_t), intent(out) :: configuration
    character(*), intent(out) :: why
    character(2) :: species
    real(dp) :: edge(3, 3)
    integer :: rank
    call MPI_Comm_rank(comm, rank)
    why = ""
    if (rank == 0) call read_file(path, configuration, why)
    call MPI_Bcast(why, len(why), MPI_CHARACTER, 0, comm)
    if (why /= "") return
    species = configuration%potential%name(1)
    edge = configuration%box%edge
    call MPI_Bcast(species, 2, MPI_CHARACTER, 0, comm)
    call MPI_Bcast(edge, 9, MPI_DOUBLE_PRECISION, 0, comm)
    call MPI_Bcast(configuration%atoms, 1, MPI_INTEGER8, 0, comm)
    call MPI_Bcast(configuration%moving, 1, MPI_LOGICAL, 0, comm)
    configuration%box = make_box(edge)
    configuration%potential = find_potential(trim(species))
  end subroutine read_configuration

  subroutine read_file(path, configuration, why)
    character(*), intent(in) :: path
    type(configuration_t), intent(inout) :: configuration
    character(*), intent(out) :: why
    character(longest_line) :: line
    integer :: unit, status, n, i
    integer :: column_of(4), columns !< first columns of species, pos, id, velocities
    logical :: momenta
    why = ""
    open (newunit=unit, file=path, status="old", action="read", iostat=status, iomsg=line)
    if (status /= 0) then
      why = path//": cannot be opened: "//trim(line)
      return
    end if
    read (unit, "(a)", iostat=status) line
    if (status == 0) read (line, *, iostat=status) n
    if (status /= 0 .or. verify(trim(adjustl(line)), "0123456789") /= 0) then
      why = path//": line 1 is no number of atoms: "//trim(line)
    else if (n < 1) then
      why = path//": line 1: there must be at least one atom"
    end if
    if (why == "") then
      read (unit, "(a)", iostat=status) line
      if (status /= 0) line = ""
      call read_header(path, line, configuration, column_of, columns, momenta, why)
    end if
    if (why == "") then
      configuration%atoms = n
      allocate (configuration%x(3, n), configuration%species(n), configuration%id(n))
      allocate (configuration%v(3, n), source=0.0_dp)
      do i = 1, n
        call read_atom(path, unit, i, column_of, columns, configuration, why)
        if (why /= "") exit
      end do
    end if
    if (why == "" .and. momenta) then
      do i = 1, n ! ASE's unit of time is A sqrt(u/eV)
        configuration%v(:, i) = configuration%v(:, i)/(sqrt(mass_to_energy) &
                                *configuration%potential%mass(configuration%species(i)))
      end do
    end if
    close (unit)
    if (why == "") call check_ids(path, configuration, why)
  end subroutine read_file

  subroutine read_header(path, line, configuration, column_of, columns, momenta, why)
    character(*), intent(in) :: path, line
    type(configuration_t), intent(inout) :: configuration
    integer, intent(out) :: column_of(4), columns
    logical, intent(out) :: momenta
    character(*), intent(out) :: why
    character(longest_line) :: lattice
    real(dp) :: edge(3, 3)
    integer :: status
    why = ""
    momenta = .false.
    columns = 0
    column_of = 0
    lattice = value_of(line, "Lattice")
    read (lattice, *, iostat=status) edge
    if (status /= 0) then
      why = path//': line 2: Lattice="..." must have nine numbers'
      return
    end if
    configuration%box = make_box(edge)
    if (.not. configuration%box%volume > 1e-6_dp*norm2(edge)**3 .or. &
        .not. all(ieee_is_finite(edge))) then
      why = path//": line 2: the vectors of Lattice span no volume"
      return
    end if
    if (index(value_of(line, "pbc"), "F") > 0) then
      why = path//": line 2: pbc="//value_of(line, "pbc")//": all directions must be periodic"
      return
    end if
    call read_properties(path, value_of(line, "Properties"), column_of, columns, momenta, why)
  end subroutine read_header

  !> The value of key=value or key="value" on a line; "" if it is not there.
  pure function value_of(line, key) result(value)
    character(*), intent(in) :: line, key
    character(:), allocatable :: value
    integer :: from, to
    value = ""
    from = index(" "//line, " "//key//"=")
    if (from == 0) return
    from = from + len(key) + 1
    if (line(from:from) == '"') then
      to = index(line(from + 1:), '"')
      if (to > 0) value = line(from + 1:from + to - 1)
    else
      to = index(line(from:)//" ", " ")
      value = line(from:from + to - 2)
    end if
  end function value_of

  !> name:type:columns triplets.
  subroutine read_properties(path, text, column_of, columns, momenta, why)
    character(*), intent(in) :: path, text
    integer, intent(out) :: column_of(4), columns
    logical, intent(out) :: momenta
    character(*), intent(inout) :: why
    character(40) :: name, form
    character(:), allocatable :: rest
    integer :: width, status
    rest = text
    column_of = 0
    columns = 0
    momenta = .false.
    do while (rest /= "")
      call take(rest, name)
      call take(rest, form)
      read (rest(:index(rest//":", ":") - 1), *, iostat=status) width
      if (status /= 0) then
        why = path//": line 2: Properties="//text//" is not name:type:columns..."
        return
      end if
      rest = rest(index(rest//":", ":") + 1:)
      select case (trim(name)//":"//trim(form))
      case ("species:S")
        column_of(1) = columns + 1
      case ("pos:R")
        column_of(2) = columns + 1
      case ("id:I")
        column_of(3) = columns + 1
      case ("velo:R", "momenta:R")
        column_of(4) = columns + 1
        momenta = name == "momenta"
      case default
        continue
      end select
      columns = columns + width
    end do
    if (any(column_of(:2) == 0)) then
      why = path//": line 2: Properties must have species:S:1 and pos:R:3"
    end if
  end subroutine read_properties

  subroutine take(rest, word)
    character(:), allocatable, intent(inout) :: rest
    character(*), intent(out) :: word
    integer :: colon
    colon = index(rest//":", ":")
    word = rest(:colon - 1)
    rest = rest(min(colon + 1, len(rest) + 1):)
  end subroutine take

  subroutine read_atom(path, unit, i, column_of, columns, configuration, why)
    character(*), intent(in) :: path
    integer, intent(in) :: unit, i, column_of(4), columns
    type(configuration_t), intent(inout) :: configuration
    character(*), intent(inout) :: why
    character(longest_line) :: line
    character(40) :: words(columns)
    character(12) :: number
    integer :: status, k
    write (number, "(i0)") i + 2
    read (unit, "(a)", iostat=status) line
    if (status /= 0) then
      why = path//": ends before line "//trim(number)
      return
    end if
    read (line, *, iostat=status) words
    if (status == 0) read (words(column_of(2):column_of(2) + 2), *, iostat=status) &
      configuration%x(:, i)
    configuration%id(i) = i
    if (status == 0 .and. column_of(3) > 0) read (words(column_of(3)), *, iostat=status) &
      configuration%id(i)
    configuration%moving = column_of(4) > 0
    if (status == 0 .and. column_of(4) > 0) read (words(column_of(4):column_of(4) + 2), *, &
                                                  iostat=status) configuration%v(:, i)
    if (status /= 0) then
      why = path//": line "//trim(number)//" is not as Properties says: "//trim(line)
    else if (.not. all(ieee_is_finite([configuration%x(:, i), configuration%v(:, i)]))) then
      why = path//": line "//trim(number)//" has a number that is not finite: "//trim(line)
    else
      associate (species => words(column_of(1)))
        if (i == 1) configuration%potential = find_potential(trim(species))
        configuration%species(i) = 0
        do k = 1, configuration%potential%species
          if (configuration%potential%name(k) == species) configuration%species(i) = k
        end do
        if (configuration%species(i) > 0) return
        why = path//": line "//trim(number)//": no potential for "//trim(species)
        if (configuration%potential%kind > 0) why = trim(why)//" with "// &
          configuration%potential%name(1)
        why = trim(why)//"; there are "//species_list()
      end associate
    end if
  end subroutine read_atom

  subroutine check_ids(path, configuration, why)
    character(*), intent(in) :: path
    type(configuration_t), intent(in) :: configuration
    character(*), intent(inout) :: why
    logical, allocatable :: seen(:)
    character(24) :: number
    integer :: i
    allocate (seen(configuration%atoms), source=.false.)
    do i = 1, size(seen)
      write (number, "(i0)") configuration%id(i)
      if (configuration%id(i) < 1 .or. configuration%id(i) > size(seen)) then
        why = path//": id "//trim(number)//" is not from 1 to the number of atoms"
        return
      else if (seen(configuration%id(i))) then
        why = path//": id "//trim(number)//" is there twice"
        return
      end if
      seen(configuration%id(i)) = .true.
    end do
  end subroutine check_ids

  !> Gives each rank its own atoms of what rank 0 has read.  Collective.
  subroutine distribute(configuration, domain, atoms)
    type(configuration_t), intent(inout) :: configuration
    type(domain_t), intent(in) :: domain
    type(atoms_t), intent(inout) :: atoms
    real(dp) :: part(8, chunk), s(3)
    integer(c_int64_t) :: first
    integer :: n, i
    atoms%own = 0
    call reserve(atoms, 0)
    do first = 0, configuration%atoms - 1, chunk
      n = int(min(int(chunk, c_int64_t), configuration%atoms - first))
      if (domain%rank == 0) then
        do i = 1, n
          part(:, i) = [configuration%x(:, first + i), configuration%v(:, first + i), &
            real(configuration%id(first + i), dp), real(configuration%species(first + i), dp)]
        end do
      end if
      call MPI_Bcast(part, 8*n, MPI_DOUBLE_PRECISION, 0, domain%comm)
      do i = 1, n
        s = configuration%box%fractions(part(1:3, i))
        if (any(home_of(domain, s - floor(s)) /= domain%at)) cycle
        call reserve(atoms, atoms%own + 1)
        atoms%own = atoms%own + 1
        atoms%x(:, atoms%own) = [part(1:3, i), 0.0_dp]
        atoms%v(:, atoms%own) = part(4:6, i)
        atoms%id(atoms%own) = nint(part(7, i), c_int64_t)
        atoms%species(atoms%own) = nint(part(8, i))
        atoms%image(:, atoms%own) = 0
      end do
    end do
    atoms%all = atoms%own
  end subroutine distribute

  !> Writes all atoms in the order of their ids; the file takes its place when it is whole.  `why`
  !> is "" or what is wrong.  Collective.
  subroutine write_configuration(path, box, potential, domain, atoms, energies, step, total, why)
    character(*), intent(in) :: path
    type(box_t), intent(in) :: box
    type(potential_t), intent(in) :: potential
    type(domain_t), intent(in) :: domain
    type(atoms_t), intent(in) :: atoms
    real(dp), intent(in) :: energies(:) !< of own atoms: eV
    integer(c_int64_t), intent(in) :: step, total
    character(*), intent(out) :: why
    real(dp), allocatable :: mine(:, :), all(:, :)
    integer, allocatable :: order(:)
    integer :: counts(domain%ranks), offsets(domain%ranks), k
    integer, parameter :: words = 12
    allocate (mine(words, atoms%own))
    do k = 1, atoms%own
      mine(:, k) = [real(atoms%id(k), dp), real(atoms%species(k), dp), &
                    atoms%x(1:3, k) + matmul(box%edge, real(atoms%image(:, k), dp)), &
                    atoms%v(:, k), atoms%f(1:3, k), energies(k)]
    end do
    call MPI_Gather(words*atoms%own, 1, MPI_INTEGER, counts, 1, MPI_INTEGER, 0, domain%comm)
    if (domain%rank == 0) offsets = [(sum(counts(:k - 1)), k=1, domain%ranks)]
    allocate (all(words, merge(total, 0_c_int64_t, domain%rank == 0)))
    call MPI_Gatherv(mine, words*atoms%own, MPI_DOUBLE_PRECISION, all, counts, offsets, &
                     MPI_DOUBLE_PRECISION, 0, domain%comm)
    why = ""
    if (domain%rank == 0) then
      allocate (order(total))
      do k = 1, int(total)
        order(nint(all(1, k))) = k
      end do
      call write_file(path, box, potential, all(:, order), step, why)
    end if
    call MPI_Bcast(why, len(why), MPI_CHARACTER, 0, domain%comm)
  end subroutine write_configuration

  subroutine write_file(path, box, potential, atoms, step, why)
    character(*), intent(in) :: path
    type(box_t), intent(in) :: box
    type(potential_t), intent(in) :: potential
    real(dp), intent(in) :: atoms(:, :)
    integer(c_int64_t), intent(in) :: step
    character(*), intent(inout) :: why
    character(200) :: message
    integer :: unit, status, k
    open (newunit=unit, file=path//".partial", status="replace", action="write", iostat=status, &
          iomsg=message)
    if (status == 0) then
      write (unit, "(i0)", iostat=status, iomsg=message) size(atoms, 2)
      if (status == 0) write (unit, "('Lattice=""', 9(es24.16, :, ' '), '"" Properties=id:I:1:&
        &species:S:1:pos:R:3:velo:R:3:forces:R:3:energies:R:1 pbc=""T T T"" step=', i0)", &
        iostat=status, iomsg=message) box%edge, step
      do k = 1, size(atoms, 2)
        if (status /= 0) exit
        write (unit, "(i0, ' ', a, 10(' ', es24.16))", iostat=status, iomsg=message) &
          nint(atoms(1, k), c_int64_t), trim(potential%name(nint(atoms(2, k)))), atoms(3:, k)
      end do
      if (status == 0) then
        close (unit, iostat=status, iomsg=message)
      else
        close (unit, status="delete")
      end if
    end if
    if (status == 0) then
      status = c_rename(path//".partial"//c_null_char, path//c_null_char)
      message = "cannot be renamed from "//path//".partial"
    end if
    if (status /= 0) why = path//": "//trim(message)
  end subroutine write_file

end module md_xyz
