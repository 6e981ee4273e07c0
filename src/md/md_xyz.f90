! Configurations in extended XYZ files, as ASE and OVITO write them.
!
! Lengths are in angstrom.  Columns that are read: species, pos and, where a file has them, id, velo
! (A/ps) or momenta (ASE's, sqrt(u eV)).
module md_xyz
  use, intrinsic :: iso_c_binding, only: c_int64_t, dp => c_double
  use, intrinsic :: iso_fortran_env, only: iostat_end, iostat_eor
  use mpi_f08, only: MPI_Bcast, MPI_CHARACTER, MPI_Comm, MPI_Comm_rank, MPI_DOUBLE_PRECISION, &
    MPI_INTEGER8, MPI_LOGICAL
  use md_atoms, only: atoms_t, reserve
  use md_box, only: box_t, make_box
  use md_domain, only: domain_t, home_of
  use md_potential, only: find_potential, potential_t, species_list
  use md_units, only: mass_to_energy
  use md_words, only: most_columns, real_of, split, text_of, whole_of, words_t
  implicit none (type, external)
  private
  public :: configuration_t, open_configuration, read_atoms, distribute

  integer, parameter :: longest_line = 4096 !< characters
  integer, parameter :: chunk = 65536 !< atoms
  real(dp), parameter :: furthest = 1000 !< box lengths that an atom may be outside
  real(dp), parameter :: longest_edge = 1e6_dp !< A
  real(dp), parameter :: speed_of_light = 2.99792458e6_dp !< A/ps

  !> First columns of an atom's properties, from 1; 0: the file has none.
  type :: columns_t
    integer :: species = 0, position = 0, id = 0, velocity = 0, all = 0
    logical :: momenta = .false. !< velocities are momenta
  end type columns_t

  !> A file's contents; the atoms are on rank 0 alone.
  type :: configuration_t
    type(box_t) :: box
    type(potential_t) :: potential
    integer(c_int64_t) :: atoms = 0
    logical :: moving = .false. !< has velocities
    real(dp), allocatable :: x(:, :), v(:, :) !< (3, atoms): A, A/ps
    integer, allocatable :: species(:)
    integer(c_int64_t), allocatable :: id(:)
    character(:), allocatable :: path
    integer :: unit = 0 !< on rank 0, between its header and its atoms
    type(columns_t) :: columns
  end type configuration_t

contains

  !> Opens a file on rank 0 and reads its header: on return all ranks have its box and number of
  !> atoms.  `why` is "" or the error, with file and line.  Collective.
  subroutine open_configuration(path, comm, configuration, why)
    character(*), intent(in) :: path
    type(MPI_Comm), intent(in) :: comm
    type(configuration_t), intent(out) :: configuration
    character(*), intent(out) :: why
    real(dp) :: edge(3, 3)
    integer :: rank
    call MPI_Comm_rank(comm, rank)
    configuration%path = path
    why = ""
    if (rank == 0) call read_header(configuration, why)
    call MPI_Bcast(why, len(why), MPI_CHARACTER, 0, comm)
    if (why /= "") return
    edge = configuration%box%edge
    call MPI_Bcast(edge, 9, MPI_DOUBLE_PRECISION, 0, comm)
    call MPI_Bcast(configuration%atoms, 1, MPI_INTEGER8, 0, comm)
    configuration%box = make_box(edge)
  end subroutine open_configuration

  !> Reads the atoms on rank 0 and closes the file; on return all ranks have the potential.  `why`
  !> is "" or the error, with file and line.  Collective.
  subroutine read_atoms(comm, configuration, why)
    type(MPI_Comm), intent(in) :: comm
    type(configuration_t), intent(inout) :: configuration
    character(*), intent(out) :: why
    character(2) :: species
    integer :: rank
    call MPI_Comm_rank(comm, rank)
    why = ""
    if (rank == 0) then
      call read_lines(configuration, why)
      close (configuration%unit)
    end if
    call MPI_Bcast(why, len(why), MPI_CHARACTER, 0, comm)
    if (why /= "") return
    species = configuration%potential%name(1)
    call MPI_Bcast(species, 2, MPI_CHARACTER, 0, comm)
    call MPI_Bcast(configuration%moving, 1, MPI_LOGICAL, 0, comm)
    configuration%potential = find_potential(trim(species))
  end subroutine read_atoms

  ! ---- lines and numbers ----

  !> Reads the next line; `why` becomes the error, with the line's number, if there is one.
  subroutine next_line(configuration, number, line, why)
    type(configuration_t), intent(in) :: configuration
    integer(c_int64_t), intent(in) :: number
    character(*), intent(out) :: line
    character(*), intent(inout) :: why
    integer :: status
    read (configuration%unit, "(a)", advance="no", iostat=status) line
    if (status == iostat_end) then
      why = place(configuration, number)//"is missing: the file ends before it"
    else if (status /= iostat_eor) then ! there is more of it
      why = place(configuration, number)//"is longer than "//text_of(int(longest_line, c_int64_t)) &
            //" characters"
    end if
  end subroutine next_line

  !> The beginning of a message: file and line, and column where it is given.
  pure function place(configuration, line, column) result(text)
    type(configuration_t), intent(in) :: configuration
    integer(c_int64_t), intent(in) :: line
    integer, intent(in), optional :: column
    character(:), allocatable :: text
    text = configuration%path//": line "//text_of(line)
    if (present(column)) text = text//", column "//text_of(int(column, c_int64_t))//":"
    text = text//" "
  end function place

  ! ---- the header ----

  !> Opens the file and reads its first two lines.
  subroutine read_header(configuration, why)
    type(configuration_t), intent(inout) :: configuration
    character(*), intent(inout) :: why
    character(longest_line + 1) :: line
    integer(c_int64_t) :: bytes
    integer :: status
    open (newunit=configuration%unit, file=configuration%path, status="old", action="read", &
          iostat=status, iomsg=line)
    if (status /= 0) then
      why = configuration%path//": cannot be opened: "//trim(line)
      return
    end if
    call next_line(configuration, 1_c_int64_t, line, why)
    if (why == "") then
      if (.not. whole_of(trim(adjustl(line)), configuration%atoms)) then
        why = place(configuration, 1_c_int64_t)//"is no number of atoms: "//trim(line)
      else if (configuration%atoms < 1 .or. configuration%atoms > huge(0)) then
        why = place(configuration, 1_c_int64_t)//"has "//text_of(configuration%atoms)// &
              " atoms; from 1 to "//text_of(int(huge(0), c_int64_t))//" are allowed"
      end if
    end if
    if (why == "") call next_line(configuration, 2_c_int64_t, line, why)
    if (why == "") call read_lattice(configuration, line, why)
    if (why == "") call read_periodicity(configuration, line, why)
    if (why == "") call read_properties(configuration, line, why)
    if (why == "") then
      inquire (unit=configuration%unit, size=bytes)
      if (configuration%atoms*2*configuration%columns%all > bytes + 1) then
        why = place(configuration, 1_c_int64_t)//"has "//text_of(configuration%atoms)// &
              " atoms, more than a file of "//text_of(bytes)//" bytes can hold"
      end if
    end if
    if (why /= "") close (configuration%unit)
  end subroutine read_header

  !> Finds the value of key=value or key="value" on line 2: line(from:to); from > to without it.
  subroutine find_value(configuration, line, key, from, to, why)
    type(configuration_t), intent(in) :: configuration
    character(*), intent(in) :: line, key
    integer, intent(out) :: from, to
    character(*), intent(inout) :: why
    integer :: at, start, first, length
    logical :: seen
    from = 1
    to = 0
    seen = .false.
    length = len_trim(line)
    at = 1
    do
      at = at + verify(line(at:length)//"x", " "//achar(9)) - 1
      if (at > length) exit
      start = at
      at = at + scan(line(at:length)//" ", "= "//achar(9)) - 1
      associate (name => line(start:at - 1))
        if (at >= length) exit
        if (line(at:at) /= "=") cycle
        if (line(at + 1:at + 1) == '"') then
          first = at + 2
          at = end_of_quotation(line(:length), first)
          if (at > length) then
            why = place(configuration, 2_c_int64_t, first - 1)//"a quotation mark is not closed"
            return
          end if
        else
          first = at + 1
          at = first + scan(line(first:length)//" ", " "//achar(9)) - 1
        end if
        if (name /= key) then
          at = at + 1
          cycle
        end if
      end associate
      if (seen) why = place(configuration, 2_c_int64_t, start)//key//" occurs twice"
      seen = .true.
      from = first
      to = at - 1
      at = at + 1
    end do
  end subroutine find_value

  !> Place of the next quotation mark without a backslash before it; behind the line if none is.
  pure integer function end_of_quotation(line, from) result(at)
    character(*), intent(in) :: line
    integer, intent(in) :: from
    at = from
    do while (at <= len(line))
      if (line(at:at) == '"') return
      if (line(at:at) == "\") at = at + 1
      at = at + 1
    end do
  end function end_of_quotation

  !> Lattice="...": nine numbers (A), which must span a volume.
  subroutine read_lattice(configuration, line, why)
    type(configuration_t), intent(inout) :: configuration
    character(*), intent(in) :: line
    character(*), intent(inout) :: why
    real(dp) :: edges(9)
    type(words_t) :: words
    integer :: from, to, k
    call find_value(configuration, line, "Lattice", from, to, why)
    if (why /= "") return
    words = split(line, from, to)
    if (words%count /= 9) then
      why = place(configuration, 2_c_int64_t)//'must have Lattice="..." with nine numbers'
      return
    end if
    do k = 1, 9
      associate (word => line(words%first(k):words%last(k)))
        if (.not. real_of(word, edges(k))) then
          why = place(configuration, 2_c_int64_t, words%first(k))//word//" is not a finite number"
          return
        else if (abs(edges(k)) > longest_edge) then
          why = place(configuration, 2_c_int64_t, words%first(k))//word//" A: at most 1000000 A &
                &are allowed"
          return
        end if
      end associate
    end do
    configuration%box = make_box(reshape(edges, [3, 3]))
    if (.not. configuration%box%volume > 1e-6_dp*norm2(edges)**3) then
      why = place(configuration, 2_c_int64_t, from)//"the vectors of Lattice span no volume"
    end if
  end subroutine read_lattice

  !> pbc="...": all directions must be periodic.
  subroutine read_periodicity(configuration, line, why)
    type(configuration_t), intent(in) :: configuration
    character(*), intent(in) :: line
    character(*), intent(inout) :: why
    character(*), parameter :: yes(*) = [character(4) :: "T", "t", "True", "TRUE", "true"]
    type(words_t) :: words
    integer :: from, to, k
    call find_value(configuration, line, "pbc", from, to, why)
    if (why /= "" .or. from > to) return
    words = split(line, from, to)
    if (words%count == 3) then
      do k = 1, 3
        if (all(yes /= line(words%first(k):words%last(k)))) exit
      end do
      if (k > 3) return
    end if
    why = place(configuration, 2_c_int64_t, from)//"pbc="//line(from:to)// &
          ': all directions must be periodic, "T T T"'
  end subroutine read_periodicity

  !> Properties=name:type:columns, repeated: the columns of each property.
  subroutine read_properties(configuration, line, why)
    type(configuration_t), intent(inout) :: configuration
    character(*), intent(in) :: line
    character(*), intent(inout) :: why
    integer(c_int64_t) :: width
    integer :: from, to, ends(3), k
    logical :: good
    call find_value(configuration, line, "Properties", from, to, why)
    if (why /= "") return
    associate (columns => configuration%columns)
      do while (from <= to)
        ends(1) = from + scan(line(from:to)//":", ":") - 1
        do k = 2, 3
          ends(k) = min(ends(k - 1) + scan(line(ends(k - 1) + 1:to)//":", ":"), to + 1)
        end do
        good = whole_of(line(ends(2) + 1:ends(3) - 1), width)
        if (good) good = width >= 1 .and. columns%all + width <= most_columns
        if (.not. good) then
          why = place(configuration, 2_c_int64_t, from)//line(from:to)//" is not name:type:columns"
          return
        end if
        select case (line(from:ends(3) - 1))
        case ("species:S:1")
          call put(columns%species)
        case ("pos:R:3")
          call put(columns%position)
        case ("id:I:1")
          call put(columns%id)
        case ("velo:R:3", "momenta:R:3")
          call put(columns%velocity)
          columns%momenta = line(from:from) == "m"
        case default
          continue
        end select
        if (why /= "") return
        columns%all = columns%all + int(width)
        from = ends(3) + 1
      end do
      if (columns%species == 0 .or. columns%position == 0) then
        why = place(configuration, 2_c_int64_t)//"must have Properties with species:S:1 and pos:R:3"
      end if
    end associate

  contains

    !> Notes the first column of a property, which may occur once.
    subroutine put(first)
      integer, intent(inout) :: first
      if (first > 0) why = place(configuration, 2_c_int64_t, from)//"Properties has "// &
                           line(from:ends(3) - 1)//" beside another column of the kind"
      first = configuration%columns%all + 1
    end subroutine put

  end subroutine read_properties

  ! ---- the atoms ----

  !> Reads the atoms' lines, and rejects further lines and repeated ids.
  subroutine read_lines(configuration, why)
    type(configuration_t), intent(inout) :: configuration
    character(*), intent(inout) :: why
    character(longest_line + 1) :: line
    integer :: n, i, status
    n = int(configuration%atoms)
    allocate (configuration%x(3, n), configuration%species(n), configuration%id(n))
    allocate (configuration%v(3, n), source=0.0_dp)
    configuration%moving = configuration%columns%velocity > 0
    do i = 1, n
      call next_line(configuration, i + 2_c_int64_t, line, why)
      if (why == "") call read_atom(configuration, i, line, why)
      if (why /= "") return
    end do
    do
      read (configuration%unit, "(a)", iostat=status) line
      if (status /= 0) exit
      if (len_trim(line) == 0) cycle
      why = configuration%path//": has more lines than line 1 announces; &
            &one configuration is allowed"
      return
    end do
    if (configuration%columns%momenta) then
      do i = 1, n ! ASE's unit of time is A sqrt(u/eV)
        configuration%v(:, i) = configuration%v(:, i)/(sqrt(mass_to_energy) &
                                *configuration%potential%mass(configuration%species(i)))
      end do
    end if
    do i = 1, n
      if (norm2(configuration%v(:, i)) < speed_of_light) cycle
      why = place(configuration, i + 2_c_int64_t)//"has an atom faster than light"
      return
    end do
    call check_ids(configuration, why)
  end subroutine read_lines

  !> Reads atom i from its line.
  subroutine read_atom(configuration, i, line, why)
    type(configuration_t), intent(inout) :: configuration
    integer, intent(in) :: i
    character(*), intent(in) :: line
    character(*), intent(inout) :: why
    type(words_t) :: words
    integer(c_int64_t) :: number
    integer :: k
    number = i + 2_c_int64_t
    words = split(line, 1, len_trim(line))
    associate (columns => configuration%columns)
      if (words%count /= columns%all) then
        why = place(configuration, number)//"has "//text_of(int(words%count, c_int64_t))// &
              " values, Properties lists "//text_of(int(columns%all, c_int64_t))
        return
      end if
      configuration%id(i) = i
      call read_reals(columns%position, configuration%x(:, i))
      if (columns%velocity > 0) call read_reals(columns%velocity, configuration%v(:, i))
      if (why /= "") return
      if (columns%id > 0) then
        k = columns%id
        associate (word => line(words%first(k):words%last(k)))
          if (.not. whole_of(word, configuration%id(i))) then
            why = place(configuration, number, words%first(k))//word//" is not a whole number"
            return
          end if
        end associate
      end if
      if (any(abs(configuration%box%fractions(configuration%x(:, i))) > furthest)) then
        why = place(configuration, number, words%first(columns%position))// &
              "the atom is more than 1000 box lengths away"
        return
      end if
      k = columns%species
      call read_species(configuration, i, line(words%first(k):words%last(k)), why)
    end associate

  contains

    !> Reads three finite numbers, of columns from `from` on.
    subroutine read_reals(from, values)
      integer, intent(in) :: from
      real(dp), intent(out) :: values(3)
      integer :: c
      values = 0
      do c = 1, 3
        if (why /= "") return
        associate (first => words%first(from + c - 1), last => words%last(from + c - 1))
          if (.not. real_of(line(first:last), values(c))) then
            why = place(configuration, number, first)//line(first:last)//" is not a finite number"
          end if
        end associate
      end do
    end subroutine read_reals

  end subroutine read_atom

  !> Sets the species of atom i; the first atom's decides on the potential.
  subroutine read_species(configuration, i, species, why)
    type(configuration_t), intent(inout) :: configuration
    integer, intent(in) :: i
    character(*), intent(in) :: species
    character(*), intent(inout) :: why
    integer :: k
    if (i == 1) configuration%potential = find_potential(species)
    do k = 1, configuration%potential%species
      if (configuration%potential%name(k) /= species) cycle
      configuration%species(i) = k
      return
    end do
    why = place(configuration, i + 2_c_int64_t)//"has no potential for "//species
    if (configuration%potential%kind > 0) why = trim(why)//" with "//configuration%potential%name(1)
    why = trim(why)//"; there are "//species_list()
  end subroutine read_species

  !> Ids must be 1 to the number of atoms, each once.
  subroutine check_ids(configuration, why)
    type(configuration_t), intent(in) :: configuration
    character(*), intent(inout) :: why
    logical, allocatable :: seen(:)
    integer :: i
    allocate (seen(configuration%atoms), source=.false.)
    do i = 1, size(seen)
      associate (id => configuration%id(i))
        if (id < 1 .or. id > size(seen)) then
          why = place(configuration, i + 2_c_int64_t)//"has id "//text_of(id)// &
                ", not from 1 to "//text_of(configuration%atoms)
          return
        else if (seen(id)) then
          why = place(configuration, i + 2_c_int64_t)//"has id "//text_of(id)//" again"
          return
        end if
        seen(id) = .true.
      end associate
    end do
  end subroutine check_ids

  !> Sends each rank its own atoms of those that rank 0 has read.  Collective.
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

end module md_xyz
