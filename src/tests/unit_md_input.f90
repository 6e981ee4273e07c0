! Extended XYZ files: what is read, and what is refused with the line and the column where it is
! wrong.  Fortran's own list-directed reading takes many of these for numbers, or for none.
program unit_md_input
  use, intrinsic :: iso_c_binding, only: dp => c_double, lf => c_new_line
  use mpi_f08, only: MPI_COMM_WORLD, MPI_Finalize, MPI_Init
  use md_xyz, only: configuration_t, open_configuration, read_atoms
  use unit_check, only: check, end_checks
  implicit none (type, external)

  character(*), parameter :: path = "unit_md_input.xyz", tab = achar(9), return = achar(13)
  character(*), parameter :: cube = 'Lattice="12 0 0 0 12 0 0 0 12" ', &
    plain = "Properties=species:S:1:pos:R:3", two = "2"//lf//cube//plain//lf, &
    iron = two//"Fe 1 2 3"//lf//"Fe 3.5 -1 1e1", &
    with_ids = "2"//lf//cube//plain//":id:I:1"//lf//"Fe 1 1 1 2"//lf, &
    with_velocities = "1"//lf//cube//plain//":velo:R:3"//lf

  call MPI_Init()
  call test_accepted()
  call test_counts()
  call test_headers()
  call test_atoms()
  call test_long_lines()
  call MPI_Finalize()
  call end_checks("unit_md_input", first=.true.)

contains

  subroutine read_text(text, configuration, why)
    character(*), intent(in) :: text
    type(configuration_t), intent(out) :: configuration
    character(*), intent(out) :: why
    integer :: unit
    open (newunit=unit, file=path, status="replace", action="write", access="stream")
    write (unit) text
    close (unit)
    call open_configuration(path, MPI_COMM_WORLD, configuration, why)
    if (why == "") call read_atoms(MPI_COMM_WORLD, configuration, why)
    open (newunit=unit, file=path)
    close (unit, status="delete")
  end subroutine read_text

  !> The text is refused with this reason.
  subroutine refused(text, reason)
    character(*), intent(in) :: text, reason
    type(configuration_t) :: configuration
    character(500) :: why
    call read_text(text, configuration, why)
    call check(index(why, path//": "//reason) == 1, text//" -> "//reason, text=why)
  end subroutine refused

  !> The text is the configuration of `iron`.
  subroutine accepted(text)
    character(*), intent(in) :: text
    type(configuration_t) :: configuration
    character(500) :: why
    real(dp), parameter :: x(3, 2) = reshape([1.0_dp, 2.0_dp, 3.0_dp, 3.5_dp, -1.0_dp, 10.0_dp], &
                                             [3, 2])
    call read_text(text, configuration, why)
    call check(why == "", text, text=why)
    if (why /= "") return
    call check(all(abs(configuration%x - x) <= 0) .and. all(configuration%species == 1) .and. &
               configuration%potential%name(1) == "Fe" .and. &
               abs(configuration%box%volume - 1728) < 1e-9_dp, text, text="read as something else")
  end subroutine accepted

  subroutine test_accepted()
    call accepted(iron)
    call accepted(iron//lf)
    call accepted(iron//lf//lf//"  "//lf)
    call accepted(" 2 "//return//lf//cube//plain//return//lf//"Fe 1 2 3"//return//lf// &
                  "Fe 3.5 -1 10"//return//lf)
    call accepted(two//tab//"Fe"//tab//" 1 2"//tab//"3 "//lf//"Fe 3.5 -1 10")
    call accepted(two//"Fe 1. 2.e0 +3"//lf//"Fe 035.0D-1 -.1E+01 0.1d002")
    call accepted("2"//lf//'pbc="True t TRUE" '//cube//plain//lf//"Fe 1 2 3"//lf//"Fe 3.5 -1 10")
    call accepted("2"//lf//'info="a \"Lattice=1\" pbc=F" step=7 '//cube//plain//' x="" y= z'//lf// &
                  "Fe 1 2 3"//lf//"Fe 3.5 -1 10")
    call accepted("2"//lf//cube//"Properties=x:R:2:pos:R:3:note:S:1:species:S:1"//lf// &
                  "a * 1 2 3 ' Fe"//lf//"1/2 , 3.5 -1 10 ; Fe")
  end subroutine test_accepted

  subroutine test_counts()
    call refused("x"//lf, "line 1 is no number of atoms: x")
    call refused(""//lf, "line 1 is no number of atoms:")
    call refused("2.0"//lf, "line 1 is no number of atoms: 2.0")
    call refused("2 3"//lf, "line 1 is no number of atoms: 2 3")
    call refused("2/"//lf, "line 1 is no number of atoms: 2/")
    call refused("2,"//lf, "line 1 is no number of atoms: 2,")
    call refused("0"//lf, "line 1 has 0 atoms; from 1 to 2147483647 are allowed")
    call refused("-1"//lf, "line 1 has -1 atoms; from 1")
    call refused("3000000000"//lf, "line 1 has 3000000000 atoms; from 1")
    call refused("99999999999999999999"//lf, "line 1 is no number of atoms")
    call refused("2000000000"//lf//cube//plain//lf//"Fe 1 1 1", &
                 "line 1 has 2000000000 atoms, more than a file of")
    call refused("2147483647"//lf//cube//plain//":x:R:2000"//lf//"Fe 1 1 1", &
                 "line 1 has 2147483647 atoms, more than a file of")
    call refused("", "line 1 is missing")
    call refused("1", "line 2 is missing")
    call refused(two//"Fe 1 1 1", "line 4 is missing: the file ends before it")
    call refused(iron//lf//"Fe 9 9 9", "has more lines than line 1 announces")
    call refused(iron//lf//lf//iron, "has more lines than line 1 announces")
  end subroutine test_counts

  subroutine test_headers()
    call header(plain, 'line 2 must have Lattice="..." with nine numbers')
    call header('Lattice="9 0 0 0 9 0 0 0" ', 'line 2 must have Lattice="..." with nine numbers')
    call header('Lattice="9 0 0 0 9 0 0 0 9 1"', 'line 2 must have Lattice="..." with nine numbers')
    call header('Lattice="9 0 0 0 9 0 0 0 9/"', "line 2, column 26: 9/ is not a finite number")
    call header('Lattice="9 0 0 0 9 0 0 0 2*9"', "line 2, column 26: 2*9 is not a finite number")
    call header('Lattice="1e300 0 0 0 9 0 0 0 9"', "line 2, column 10: 1e300 A: at most 1000000 A")
    call header('Lattice="9 0 0 9 0 0 0 0 9" '//plain, "line 2, column 10: the vectors of Lattice")
    call header('Lattice="0 0 0 0 0 0 0 0 0" '//plain, "line 2, column 10: the vectors of Lattice")
    call header('Lattice="9 0 0 0 9 0 0 0 9', "line 2, column 9: a quotation mark is not closed")
    call header(cube//cube, "line 2, column 32: Lattice occurs twice")
    call header(cube//'pbc="T T F" '//plain, "line 2, column 37: pbc=T T F: all directions must")
    call header(cube//'pbc="f f f" '//plain, "line 2, column 37: pbc=f f f: all directions must")
    call header(cube//'pbc="T T" '//plain, "line 2, column 37: pbc=T T: all directions must")
    call header(cube//"pbc=T "//plain, "line 2, column 36: pbc=T: all directions must")
    call header(cube, "line 2 must have Properties with species:S:1 and pos:R:3")
    call header(cube//"Properties=pos:R:3", "line 2 must have Properties with species:S:1")
    call header(cube//"Properties=species:S:1:pos:R:2", "line 2 must have Properties with")
    call header(cube//'info="'//plain//'"', "line 2 must have Properties with")
    call header(cube//"note"//plain, "line 2 must have Properties with")
    call header(cube//"Properties=species:S", "line 2, column 43: species:S is not name:type:col")
    call header(cube//plain//":x:R:y", "line 2, column 63: x:R:y is not name:type:columns")
    call header(cube//plain//":x:R:-1", "line 2, column 63: x:R:-1 is not name:type:columns")
    call header(cube//plain//":x:R:99999999999", "line 2, column 63: x:R:99999999999 is not")
    call header(cube//plain//":pos:R:3", "line 2, column 63: Properties has pos:R:3 beside")
    call header(cube//plain//":velo:R:3:momenta:R:3", "line 2, column 72: Properties has momenta")
  end subroutine test_headers

  subroutine header(line, reason)
    character(*), intent(in) :: line, reason
    call refused("1"//lf//line//lf//"Fe 1 1 1", reason)
  end subroutine header

  subroutine test_atoms()
    call number("1/2")
    call number("/")
    call number("2*1.0")
    call number("*")
    call number("'1'")
    call number('"1"')
    call number("1;2")
    call number("1,")
    call number("nan")
    call number("Infinity")
    call number("1e999")
    call number("1.0-100")
    call number("1.0+100")
    call number("1e")
    call number("1e+")
    call number(".")
    call number("+")
    call number("1..2")
    call number("0x1p3")
    call number("1_8")
    call refused(two//"Fe 1 1 1"//lf//"Fe 1 1/2 1", "line 4, column 6: 1/2 is not a finite number")
    call refused(two//"Fe 2*1.0 1"//lf, "line 3 has 3 values, Properties lists 4")
    call refused(two//"Fe 1 1 1 1"//lf, "line 3 has 5 values, Properties lists 4")
    call refused(two//lf, "line 3 has 0 values, Properties lists 4")
    call refused(two//"Fe 1e300 1 1"//lf, "line 3, column 4: the atom is more than 1000 box leng")
    call refused(two//"Fe 1 1 -13000"//lf, "line 3, column 4: the atom is more than 1000 box leng")
    call refused(two//"Xx 1 1 1"//lf, "line 3 has no potential for Xx; there are Si,C; Cu,Au; Fe")
    call refused(two//"fe 1 1 1"//lf, "line 3 has no potential for fe; there are Si,C; Cu,Au")
    call refused(two//"Fe 1 1 1"//lf//"Cu 3 3 3", "line 4 has no potential for Cu with Fe; there")
    call refused(with_ids//"Fe 3 3 3 1e0", "line 4, column 10: 1e0 is not a whole number")
    call refused(with_ids//"Fe 3 3 3 1.0", "line 4, column 10: 1.0 is not a whole number")
    call refused(with_ids//"Fe 3 3 3 7", "line 4 has id 7, not from 1 to 2")
    call refused(with_ids//"Fe 3 3 3 0", "line 4 has id 0, not from 1 to 2")
    call refused(with_ids//"Fe 3 3 3 2", "line 4 has id 2 again")
    call refused(with_velocities//"Fe 3 3 3 0 4e6 0", "line 3 has an atom faster than light")
    call refused(with_velocities//"Fe 3 3 3 0 1/ 0", "line 3, column 12: 1/ is not a finite number")
  end subroutine test_atoms

  !> What is no number.
  subroutine number(word)
    character(*), intent(in) :: word
    call refused(two//"Fe "//word//" 1 1"//lf, &
                 "line 3, column 4: "//word//" is not a finite number")
  end subroutine number

  subroutine test_long_lines()
    call accepted("2"//lf//cube//plain//repeat(" ", 4096 - len(cube//plain))//lf//"Fe 1 2 3"//lf// &
                  "Fe 3.5 -1 10")
    call refused("2"//lf//cube//plain//repeat(" ", 4097 - len(cube//plain))//lf//"Fe 1 2 3"//lf, &
                 "line 2 is longer than 4096 characters")
    call refused(two//"Fe 1 2 3"//repeat(" ", 5000)//"/"//lf, &
                 "line 3 is longer than 4096 characters")
  end subroutine test_long_lines

end program unit_md_input
