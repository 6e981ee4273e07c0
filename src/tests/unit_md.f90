! The potentials against what is known of their crystals: lattice constants, cohesive energies and
! elastic constants; and that what is wrong is found.
!
! Expected values were computed with LAMMPS from the same parameters, static, with internal strain
! relaxed.  Those of iron tell the erratum's parameters from the first ones, which give the same
! lattice and cohesive energy.
program unit_md
  use, intrinsic :: iso_c_binding, only: c_int64_t, dp => c_double
  use mpi_f08, only: MPI_COMM_WORLD, MPI_Finalize, MPI_Init
  use md_box, only: box_t, make_box
  use md_domain, only: make_domain
  use md_lattice, only: crystal_box, crystal_t, crystals, fill_crystal, find_crystal, warm_up
  use md_potential, only: find_potential, potential_t, set_tersoff_pairs
  use md_reference, only: reference_errors
  use md_system, only: advance, failure_of_all, find_forces, make_lists, observation_t, observe, &
    system_t
  use md_units, only: gpa => gigapascal
  implicit none (type, external)

  type :: expected_t
    character(8) :: crystal
    real(dp) :: edge, energy, c11, c12, c44 !< A, eV/atom, GPa
  end type expected_t
  type(expected_t), parameter :: table(*) = [ &
    expected_t("sic", 4.32106_dp, -6.16467_dp, 436.6_dp, 117.9_dp, 256.6_dp), &
    expected_t("si", 5.43201_dp, -4.62960_dp, 142.54_dp, 75.38_dp, 69.03_dp), &
    expected_t("cu", 3.61468_dp, -3.54363_dp, 176.35_dp, 124.67_dp, 82.26_dp), &
    expected_t("cu3au", 3.74422_dp, -3.64283_dp, 196.44_dp, 138.12_dp, 81.10_dp), &
    expected_t("fe", 2.86650_dp, -4.28000_dp, 243.12_dp, 138.11_dp, 121.91_dp), &
    expected_t("w", 3.16000_dp, -8.91644_dp, 530.85_dp, 205.89_dp, 162.64_dp)]

  integer :: failures = 0, i

  call MPI_Init()
  do i = 1, size(table)
    call check(agrees(table(i), find_potential(trim(potential_of(table(i)%crystal)))), &
               trim(table(i)%crystal)//" has its lattice, energy and elastic constants")
  end do
  call test_gold()
  call test_first_iron()
  call test_chi_of_species()
  call test_reference_sees()
  call test_lost()
  call MPI_Finalize()
  if (failures > 0) error stop "unit_md: failed"
  print "(a)", "unit_md: passed"

contains

  subroutine check(condition, what)
    logical, intent(in) :: condition
    character(*), intent(in) :: what
    if (condition) return
    failures = failures + 1
    print "(2a)", "failed: ", what
  end subroutine check

  pure function crystal_named(name) result(crystal)
    character(*), intent(in) :: name
    type(crystal_t) :: crystal
    crystal = crystals(find_crystal(name))
  end function crystal_named

  pure function potential_of(name) result(species)
    character(*), intent(in) :: name
    character(2) :: species
    type(crystal_t) :: crystal
    crystal = crystal_named(name)
    species = crystal%species
  end function potential_of

  !> A crystal of 3 cells an edge, its cell of `edge` (A) deformed; `shift` (A) moves the second
  !> sublattice of zincblende along z.
  subroutine make(name, potential, edge, strain, shift, system)
    character(*), intent(in) :: name
    type(potential_t), intent(in) :: potential
    real(dp), intent(in) :: edge, strain(3, 3), shift
    type(system_t), intent(out) :: system
    type(crystal_t) :: crystal
    integer :: k
    crystal = crystal_named(name)
    crystal%edge = edge
    system%potential = potential
    system%box = crystal_box(crystal, 3)
    system%box = make_box(system%box%edge + matmul(strain, system%box%edge))
    system%skin = 0.3_dp
    call make_domain(MPI_COMM_WORLD, system%box, potential%cutoff + system%skin, system%domain)
    allocate (system%list%work(1))
    call fill_crystal(crystal, 3, system%box, system%domain, system%atoms)
    system%total = system%atoms%own
    do k = 1, system%atoms%own
      system%atoms%v(:, k) = 0
      if (mod(system%atoms%id(k) - 1, 8_c_int64_t) >= 4) then
        system%atoms%x(3, k) = system%atoms%x(3, k) + shift
      end if
    end do
  end subroutine make

  !> Energy of an atom (eV) and stress (eV/A^3; compression is positive).
  subroutine static(name, potential, edge, strain, energy, stress)
    character(*), intent(in) :: name
    type(potential_t), intent(in) :: potential
    real(dp), intent(in) :: edge, strain(3, 3)
    real(dp), intent(out) :: energy, stress(3, 3)
    type(system_t) :: system
    type(observation_t) :: seen
    type(crystal_t) :: crystal
    real(dp) :: shift, slope
    integer :: k
    crystal = crystal_named(name)
    shift = 0
    if (crystal%sites == 8) then ! its force is linear in the shift: two points give the answer
      slope = (sublattice_force(name, potential, edge, strain, 1e-4_dp) &
               - sublattice_force(name, potential, edge, strain, -1e-4_dp))/2e-4_dp
      do k = 1, 3
        shift = shift - sublattice_force(name, potential, edge, strain, shift)/slope
      end do
    end if
    call make(name, potential, edge, strain, shift, system)
    call make_lists(system)
    seen = observe(system)
    energy = seen%potential/real(system%total, dp)
    stress = seen%stress
  end subroutine static

  !> Along z on zincblende's second sublattice, moved by `by` (A): eV/A.
  real(dp) function sublattice_force(name, potential, edge, strain, by) result(force)
    character(*), intent(in) :: name
    type(potential_t), intent(in) :: potential
    real(dp), intent(in) :: edge, strain(3, 3), by
    type(system_t) :: system
    integer :: n
    call make(name, potential, edge, strain, by, system)
    call make_lists(system)
    call find_forces(system)
    force = 0
    do n = 1, system%atoms%own
      if (mod(system%atoms%id(n) - 1, 8_c_int64_t) >= 4) force = force + system%atoms%f(3, n)
    end do
  end function sublattice_force

  !> The edge (A) at which there is no pressure, by the secant method from `guess`.
  real(dp) function relaxed_edge(name, potential, guess)
    character(*), intent(in) :: name
    type(potential_t), intent(in) :: potential
    real(dp), intent(in) :: guess
    real(dp) :: a, b, pa, pb
    integer :: k
    a = guess*0.999_dp
    b = guess*1.001_dp
    pa = pressure(name, potential, a)
    do k = 1, 12
      pb = pressure(name, potential, b)
      if (abs(pb) < 1e-12_dp .or. .not. abs(pb - pa) > 0) exit
      relaxed_edge = b - pb*(b - a)/(pb - pa)
      a = b
      pa = pb
      b = relaxed_edge
    end do
    relaxed_edge = b
  end function relaxed_edge

  real(dp) function pressure(name, potential, edge)
    character(*), intent(in) :: name
    type(potential_t), intent(in) :: potential
    real(dp), intent(in) :: edge
    real(dp) :: energy, stress(3, 3), none(3, 3)
    none = 0
    call static(name, potential, edge, none, energy, stress)
    pressure = (stress(1, 1) + stress(2, 2) + stress(3, 3))/3
  end function pressure

  !> Edge, energy, C11, C12 and C44 (GPa), by central differences of the stress.
  function properties(name, potential, guess) result(found)
    character(*), intent(in) :: name
    type(potential_t), intent(in) :: potential
    real(dp), intent(in) :: guess
    type(expected_t) :: found
    real(dp) :: strain(3, 3), up(3, 3), down(3, 3), none(3, 3)
    real(dp), parameter :: small = 1e-4_dp
    found%crystal = name
    found%edge = relaxed_edge(name, potential, guess)
    none = 0
    call static(name, potential, found%edge, none, found%energy, up)
    strain = 0
    strain(1, 1) = small
    call static(name, potential, found%edge, strain, none(1, 1), up)
    call static(name, potential, found%edge, -strain, none(1, 1), down)
    found%c11 = -(up(1, 1) - down(1, 1))/(2*small)*gpa
    found%c12 = -(up(2, 2) - down(2, 2))/(2*small)*gpa
    strain = 0
    strain(1, 2) = small
    call static(name, potential, found%edge, strain, none(1, 1), up)
    call static(name, potential, found%edge, -strain, none(1, 1), down)
    found%c44 = -(up(1, 2) - down(1, 2))/(2*small)*gpa
  end function properties

  logical function agrees(expected, potential)
    type(expected_t), intent(in) :: expected
    type(potential_t), intent(in) :: potential
    type(expected_t) :: found
    found = properties(trim(expected%crystal), potential, expected%edge)
    print "(a, f9.5, f10.5, 3f9.2)", expected%crystal, found%edge, found%energy, found%c11, &
      found%c12, found%c44
    agrees = abs(found%edge - expected%edge) < 2e-5_dp &
      .and. abs(found%energy - expected%energy) < 1e-5_dp &
      .and. abs(found%c11/expected%c11 - 1) < 1e-3_dp &
      .and. abs(found%c12/expected%c12 - 1) < 1e-3_dp &
      .and. abs(found%c44/expected%c44 - 1) < 1e-3_dp
  end function agrees

  subroutine test_gold()
    type(expected_t) :: found
    found = properties("au", find_potential("Au"), 4.0786_dp)
    print "(a, f9.5, f10.5)", "au      ", found%edge, found%energy
    call check(abs(found%edge - 4.0786_dp) < 1e-4_dp, "gold has its lattice")
    call check(abs(found%energy + 3.779_dp) < 5e-4_dp, "gold has its energy")
    call check(abs((found%c11 + 2*found%c12)/3 - 165) < 1, "gold has its bulk modulus")
  end subroutine test_gold

  !> The parameters of 1984, before the erratum.
  subroutine test_first_iron()
    type(potential_t) :: first
    type(expected_t) :: iron, found
    first = find_potential("Fe")
    first%scale = 1.889846_dp
    first%d = 3.699579_dp
    first%c = 3.40_dp
    first%coefficient(0:2) = [1.2110601_dp, -0.7510840_dp, 0.1380773_dp]
    first%cutoff = first%d
    first%reach = first%d
    iron = table(5)
    found = properties("fe", first, iron%edge)
    call check(abs(found%edge - iron%edge) < 2e-5_dp .and. &
               abs(found%energy - iron%energy) < 1e-5_dp, &
               "the first parameters of iron have the lattice and the energy of the second")
    call check(.not. agrees(iron, first), "and are told from them by elastic constants")
  end subroutine test_first_iron

  !> chi belongs to pairs: taken by species it binds SiC too strongly.
  subroutine test_chi_of_species()
    type(potential_t) :: wrong
    real(dp) :: energy, stress(3, 3), none(3, 3)
    wrong = find_potential("Si")
    call set_tersoff_pairs(wrong, reshape([1.0_dp, 0.9776_dp, 1.0_dp, 0.9776_dp], [2, 2]))
    none = 0
    call static("sic", wrong, table(1)%edge, none, energy, stress)
    print "(a, f9.5)", "sic with chi by species: ", energy
    call check(abs(energy - table(1)%energy) > 1e-3_dp, "chi by species is seen in SiC's energy")
    call set_tersoff_pairs(wrong, reshape([1.0_dp, 1.0_dp, 1.0_dp, 1.0_dp], [2, 2]))
    call static("sic", wrong, table(1)%edge, none, energy, stress)
    print "(a, f9.5)", "sic without chi: ", energy
    call check(abs(energy - table(1)%energy) > 1e-3_dp, "and so is none at all")
  end subroutine test_chi_of_species

  !> What the kernel judges itself by: a force wrong in its tenth digit, an energy.
  subroutine test_reference_sees()
    character(2), parameter :: names(3) = ["si", "cu", "fe"]
    type(system_t) :: system
    type(crystal_t) :: crystal
    real(dp), allocatable :: energies(:)
    real(dp) :: none(3, 3), force_error, energy_error
    integer :: n
    none = 0
    do n = 1, size(names)
      crystal = crystal_named(names(n))
      call make(names(n), find_potential(crystal%species), crystal%edge, none, 0.0_dp, system)
      call warm_up(MPI_COMM_WORLD, system%potential, 1_c_int64_t, 900.0_dp, system%total, &
                   system%atoms)
      call advance(system, 20)
      if (allocated(energies)) deallocate (energies)
      allocate (energies(system%atoms%own))
      call find_forces(system, energies)
      call reference_errors(system, energies, 200, 1_c_int64_t, force_error, energy_error)
      call check(force_error < 1e-12_dp .and. energy_error < 1e-12_dp, names(n)//" is right")
      system%atoms%f(2, :) = system%atoms%f(2, :) + 1e-9_dp
      energies = energies*(1 + 1e-9_dp)
      call reference_errors(system, energies, 200, 1_c_int64_t, force_error, energy_error)
      call check(force_error > 1e-11_dp, names(n)//": wrong forces are seen")
      call check(energy_error > 1e-10_dp, names(n)//": wrong energies are seen")
    end do
  end subroutine test_reference_sees

  subroutine test_lost()
    type(system_t) :: system
    real(dp) :: none(3, 3)
    character(240) :: text
    none = 0
    call make("fe", find_potential("Fe"), 2.8665_dp, none, 0.0_dp, system)
    system%total = system%total + 3
    system%step = 7
    call make_lists(system)
    call failure_of_all(system, text)
    call check(text == "step 7: 3 atoms are lost", "lost atoms are told: "//trim(text))
  end subroutine test_lost

end program unit_md
