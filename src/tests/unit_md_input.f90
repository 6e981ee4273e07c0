! Files that --dump wrote, and others: what is read, and what is refused with its line.
program unit_md_input
  use, intrinsic :: iso_c_binding, only: dp => c_double, lf => c_new_line
  use mpi_f08, only: MPI_COMM_WORLD, MPI_Finalize, MPI_Init
  use md_atoms, only: atoms_t
  use md_domain, only: domain_t, make_domain
  use md_files, only: dump_t, open_dump, read_dump
  use unit_check, only: check, end_checks
  implicit none (type, external)

  character(*), parameter :: path = "unit_md_input.xyz"
  character(*), parameter :: cube = 'Lattice="12 0 0 0 12 0 0 0 12" ', &
    plain = 'Properties=id:I:1:species:S:1:pos:R:3:velo:R:3:forces:R:3:energies:R:1 pbc="T T T"', &
    still = " 0 0 0 0 0 0 0", two = "2"//lf//cube//plain//" step=0"//lf, &
    first = "1 Fe 1 2 3"//still//lf, iron = two//first//"2 Fe 3.5 -1 1e1"//still//lf

  call MPI_Init()
  call test_accepted()
  call test_counts()
  call test_headers()
  call test_atoms()
  call MPI_Finalize()
  call end_checks("unit_md_input", first=.true.)

contains

  subroutine read_text(text, dump, atoms, moving, why)
    character(*), intent(in) :: text
    type(dump_t), intent(out) :: dump
    type(atoms_t), intent(out) :: atoms
    logical, intent(out) :: moving
    character(*), intent(out) :: why
    type(domain_t) :: domain
    integer :: unit
    open (newunit=unit, file=path, status="replace", action="write", access="stream")
    write (unit) text
    close (unit)
    call open_dump(path, MPI_COMM_WORLD, dump, why)
    if (why == "") then
      call make_domain(MPI_COMM_WORLD, dump%box, 3.0_dp, domain)
      call read_dump(dump, domain, atoms, moving, why)
    end if
    open (newunit=unit, file=path)
    close (unit, status="delete")
  end subroutine read_text

  !> The text is refused with this reason.
  subroutine refused(text, reason)
    character(*), intent(in) :: text, reason
    type(dump_t) :: dump
    type(atoms_t) :: atoms
    character(500) :: why
    logical :: moving
    call read_text(text, dump, atoms, moving, why)
    call check(index(why, reason) == 1, text//" -> "//reason, text=why)
  end subroutine refused

  !> The text has the positions of `iron`, and velocities or none.
  subroutine accepted(text, has_velocities)
    character(*), intent(in) :: text
    logical, intent(in) :: has_velocities
    type(dump_t) :: dump
    type(atoms_t) :: atoms
    character(500) :: why
    real(dp), parameter :: x(3, 2) = reshape([1.0_dp, 2.0_dp, 3.0_dp, 3.5_dp, -1.0_dp, 10.0_dp], &
                                             [3, 2])
    logical :: moving
    call read_text(text, dump, atoms, moving, why)
    call check(why == "", text, text=why)
    if (why /= "") return
    call check(atoms%own == 2 .and. all(abs(atoms%x(1:3, :2) - x) <= 0) .and. &
               all(atoms%species(:2) == 1) .and. all(atoms%id(:2) == [1, 2]) .and. &
               dump%potential%name(1) == "Fe" .and. abs(dump%box%volume - 1728) < 1e-9_dp .and. &
               (moving .eqv. has_velocities), text, text="read as something else")
  end subroutine accepted

  subroutine test_accepted()
    call accepted(iron, .false.)
    call accepted(iron(:len(iron) - 1), .false.)
    call accepted(two//first//"2 Fe  +035.0E-1 -.1E+01 0.1e002"//still, .false.)
    call accepted(two//first//"2 Fe 3.5 -1 10 0 1E-121 0 0 0 0 0", .true.)
  end subroutine test_accepted

  subroutine test_counts()
    call refused("", "line 1 is no number of atoms")
    call refused("x"//lf, "line 1 is no number of atoms that the file can hold: x")
    call refused("2/"//lf//iron, "line 1 is no number of atoms that the file can hold: 2/")
    call refused("0"//lf//iron, "line 1 is no number of atoms that the file can hold: 0")
    call refused("-1"//lf//iron, "line 1 is no number of atoms that the file can hold: -1")
    call refused("nan"//lf//iron, "line 1 is no number of atoms that the file can hold: nan")
    call refused("100"//lf//cube//plain//lf//first, "line 1 is no number of atoms that the file")
    call refused("1"//lf//"x"//repeat(" ", 40), "line 2 is not Lattice")
    call refused(two//first, "line 4 is not that of atom 2")
    call refused(iron//"3 Fe 9 9 9"//still//lf, "has more lines than line 1 announces")
  end subroutine test_counts

  subroutine test_headers()
    call header(plain, "line 2 is not Lattice")
    call header(cube//"Properties=species:S:1:pos:R:3", "line 2 is not Lattice")
    call header('Lattice="9 0 0 0 9 0 0 0" '//plain, "line 2 is not Lattice")
    call header('Lattice="9 0 0 0 9 0 0 0 9/" '//plain, "line 2 is not Lattice")
    call header('Lattice="9 0 0 0 9 0 0 2*9" '//plain, "line 2 is not Lattice")
    call header('Lattice="9 0 0 9 0 0 0 0 9" '//plain, "line 2: the vectors of Lattice")
    call header('Lattice="0 0 0 0 0 0 0 0 0" '//plain, "line 2: the vectors of Lattice")
    call header('Lattice="nan 0 0 0 9 0 0 0 9" '//plain, "line 2: the vectors of Lattice")
    call header(cube//plain(:len(plain) - 6)//'T T F"', "line 2 is not Lattice")
  end subroutine test_headers

  subroutine header(line, reason)
    character(*), intent(in) :: line, reason
    call refused("1"//lf//line//lf//first, reason)
  end subroutine header

  subroutine test_atoms()
    character(*), parameter :: no_numbers(*) = [character(8) :: "1/2", "/", "2*1.0", "*", "'1'", &
      '"1"', "1;2", "1,", "nan", "Infinity", "1e999", "1e", ".", "1..2", "0x1p3", "1_8"]
    integer :: i
    do i = 1, size(no_numbers)
      call refused(two//first//"2 Fe "//trim(no_numbers(i))//" 1 1"//still, "line 4 is not that of")
    end do
    call refused(two//first//"1 Fe 3 3 3"//still, "line 4 is not that of atom 2")
    call refused(two//first//"2 Fe 3 3"//still, "line 4 is not that of atom 2")
    call refused(two//"Fe 1 1 1"//still//lf//first, "line 3 is not that of atom 1")
    call refused(two//"1 Xx 1 1 1"//still//lf//first, "line 3 has no potential for Xx; there are")
    call refused(two//first//"2 Cu 3 3 3"//still, "line 4 has no potential for Cu with Fe; there")
    call refused(two//first//"2 Fe 1 1 -13000"//still, "line 4: the atom is more than 1000 box")
    call refused(two//first//"2 Fe 3 3 3 0 4e6 0 0 0 0 0", "line 4: the atom is more than 1000 box")
  end subroutine test_atoms

end program unit_md_input
