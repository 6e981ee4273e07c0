! The potentials against what is known of their crystals: lattice constants, cohesive energies and
! elastic constants; and that what is wrong is found: in forces, parameters, lists and steps.
!
! Expected values were computed with LAMMPS from the same parameters, static, with internal strain
! relaxed.  Those of iron tell the erratum's parameters from the first ones, which give the same
! lattice and cohesive energy.
program unit_md
  use, intrinsic :: iso_c_binding, only: c_int64_t, dp => c_double
  use, intrinsic :: ieee_arithmetic, only: ieee_quiet_nan, ieee_value
  use mpi_f08, only: MPI_COMM_WORLD, MPI_Finalize, MPI_Init
  use md_atoms, only: atoms_t, box_t, make_box, reserve
  use md_domain, only: make_domain
  use md_forces, only: find_forces
  use md_judge, only: closest_pair, endpoint_t, find_departure, list_errors, remember, step_errors
  use md_lattice, only: crystal_box, md_crystal_t, crystals, fill_crystal, find_crystal, warm_up
  use md_oracle, only: mass_of, parameters_error, site_energies
  use md_potential, only: find_potential, gpa => gigapascal, potential_t, set_tersoff_pairs, &
    tersoff_kind
  use md_reference, only: draw, look, reference_errors, sample_t
  use md_system, only: failure_of_all, style_t, system_t, use_style
  use omp_lib, only: omp_get_max_threads, omp_get_thread_num, omp_set_num_threads
  use md_verlet, only: advance, make_lists, observation_t, observe
  use unit_check, only: check, end_checks
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

  type(potential_t), target :: varied
  integer :: i

  call MPI_Init()
  do i = 1, size(table)
    call check(agrees(table(i), find_potential(trim(potential_of(table(i)%crystal)))), &
               trim(table(i)%crystal)//" has its lattice, energy and elastic constants")
  end do
  call test_gold()
  call test_first_iron()
  call test_chi_of_species()
  call test_reference_sees()
  call test_every_parameter_is_seen()
  call test_masses()
  call test_site_energies()
  call test_wrong_steps_are_seen()
  call test_wrong_lists_are_seen()
  call test_closest_pair()
  call test_departure()
  call test_nan()
  call test_lost()
  call test_lists_have_a_limit()
  call test_threads()
  call test_smaller_team()
  call test_first_touch()
  call MPI_Finalize()
  call end_checks("unit_md", .true.)

contains

  !> DL_POLY's hybrid has threads in its loops over pairs alone, whose regions name their number.
  subroutine test_threads()
    type(system_t) :: system
    integer :: dlpoly3, packed
    allocate (system%list%work(3))
    call use_style(system, style_t(dlpoly3=.true.))
    dlpoly3 = omp_get_max_threads()
    call use_style(system, style_t())
    packed = omp_get_max_threads()
    call check(dlpoly3 == 1 .and. packed == 3, "the threads of a style")
  end subroutine test_threads

  !> Where OpenMP grants one thread of three, as within another region, no part of a list is left
  !> out.
  subroutine test_smaller_team()
    character(2), parameter :: names(3) = ["si", "cu", "fe"]
    type(system_t) :: system
    type(md_crystal_t) :: crystal
    real(dp), allocatable :: whole(:, :)
    real(dp) :: none(3, 3), energy
    integer :: n
    none = 0
    do n = 1, size(names)
      crystal = crystal_named(names(n))
      call make(names(n), find_potential(crystal%species), crystal%edge, none, 0.1_dp, system)
      deallocate (system%list%work)
      allocate (system%list%work(3))
      call use_style(system, style_t())
      call make_lists(system)
      call find_forces(system)
      energy = system%energy
      whole = system%atoms%f(1:3, :system%atoms%own)
      !$omp parallel num_threads(2)
      !$omp master
      call find_forces(system)
      !$omp end master
      !$omp end parallel
      call check(abs(system%energy/energy - 1) < 1e-14_dp .and. &
                 all(abs(system%atoms%f(1:3, :system%atoms%own) - whole) < 1e-12_dp), &
                 names(n)//" by a smaller team of threads")
    end do
  end subroutine test_smaller_team

  !> Each of two threads writes its share of the atoms' pages first.  Where pages are larger, or
  !> faults are not counted, there is nothing to see.
  subroutine test_first_touch()
    type(atoms_t) :: atoms
    integer :: before(0:1), after(0:1), threads
    threads = omp_get_max_threads()
    call omp_set_num_threads(2)
    before = faults()
    call reserve(atoms, 300000)
    after = faults() - before
    call omp_set_num_threads(threads)
    if (sum(after) < 4000) return ! of 10,000 pages of 4 KiB
    call check(minval(after) > 0.35_dp*sum(after), "threads touch their atoms first")
  end subroutine test_first_touch

  !> Page faults of each thread so far: minflt of Linux' stat.
  function faults() result(counts)
    integer :: counts(0:1), unit, status
    character(400) :: line
    character(20) :: words(8)
    counts = 0
    !$omp parallel num_threads(2) private(unit, status, line, words)
    !$omp critical
    open (newunit=unit, file="/proc/thread-self/stat", action="read", iostat=status)
    if (status == 0) then
      read (unit, "(a)") line
      close (unit)
      read (line(index(line, ")", back=.true.) + 1:), *) words
      read (words(8), *) counts(omp_get_thread_num())
    end if
    !$omp end critical
    !$omp end parallel
  end function faults

  pure function crystal_named(name) result(crystal)
    character(*), intent(in) :: name
    type(md_crystal_t) :: crystal
    crystal = crystals(find_crystal(name))
  end function crystal_named

  pure function potential_of(name) result(species)
    character(*), intent(in) :: name
    character(2) :: species
    type(md_crystal_t) :: crystal
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
    type(md_crystal_t) :: crystal
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
    type(md_crystal_t) :: crystal
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
  function properties(name, potential, guess) result(actual)
    character(*), intent(in) :: name
    type(potential_t), intent(in) :: potential
    real(dp), intent(in) :: guess
    type(expected_t) :: actual
    real(dp) :: strain(3, 3), up(3, 3), down(3, 3), none(3, 3)
    real(dp), parameter :: small = 1e-4_dp
    actual%crystal = name
    actual%edge = relaxed_edge(name, potential, guess)
    none = 0
    call static(name, potential, actual%edge, none, actual%energy, up)
    strain = 0
    strain(1, 1) = small
    call static(name, potential, actual%edge, strain, none(1, 1), up)
    call static(name, potential, actual%edge, -strain, none(1, 1), down)
    actual%c11 = -(up(1, 1) - down(1, 1))/(2*small)*gpa
    actual%c12 = -(up(2, 2) - down(2, 2))/(2*small)*gpa
    strain = 0
    strain(1, 2) = small
    call static(name, potential, actual%edge, strain, none(1, 1), up)
    call static(name, potential, actual%edge, -strain, none(1, 1), down)
    actual%c44 = -(up(1, 2) - down(1, 2))/(2*small)*gpa
  end function properties

  logical function agrees(expected, potential)
    type(expected_t), intent(in) :: expected
    type(potential_t), intent(in) :: potential
    type(expected_t) :: actual
    actual = properties(trim(expected%crystal), potential, expected%edge)
    print "(a, f9.5, f10.5, 3f9.2)", expected%crystal, actual%edge, actual%energy, actual%c11, &
      actual%c12, actual%c44
    agrees = abs(actual%edge - expected%edge) < 2e-5_dp &
      .and. abs(actual%energy - expected%energy) < 1e-5_dp &
      .and. abs(actual%c11/expected%c11 - 1) < 1e-3_dp &
      .and. abs(actual%c12/expected%c12 - 1) < 1e-3_dp &
      .and. abs(actual%c44/expected%c44 - 1) < 1e-3_dp
  end function agrees

  subroutine test_gold()
    type(expected_t) :: actual
    actual = properties("au", find_potential("Au"), 4.0786_dp)
    print "(a, f9.5, f10.5)", "au      ", actual%edge, actual%energy
    call check(abs(actual%edge - 4.0786_dp) < 1e-4_dp, "gold has its lattice")
    call check(abs(actual%energy + 3.779_dp) < 5e-4_dp, "gold has its energy")
    call check(abs((actual%c11 + 2*actual%c12)/3 - 165) < 1, "gold has its bulk modulus")
  end subroutine test_gold

  !> The parameters of 1984, before the erratum.
  subroutine test_first_iron()
    type(potential_t) :: first
    type(expected_t) :: iron, actual
    first = find_potential("Fe")
    first%scale = 1.889846_dp
    first%d = 3.699579_dp
    first%c = 3.40_dp
    first%coefficient(0:2) = [1.2110601_dp, -0.7510840_dp, 0.1380773_dp]
    first%cutoff = first%d
    first%reach = first%d
    iron = table(5)
    actual = properties("fe", first, iron%edge)
    call check(abs(actual%edge - iron%edge) < 2e-5_dp .and. &
               abs(actual%energy - iron%energy) < 1e-5_dp, &
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
    type(md_crystal_t) :: crystal
    real(dp), allocatable :: energies(:)
    integer(c_int64_t), allocatable :: ids(:)
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
      ids = draw(1_c_int64_t, system%total, 200)
      call reference_errors(system, look(system, ids, energies), force_error, energy_error)
      call check(force_error < 1e-12_dp .and. energy_error < 1e-12_dp, names(n)//" is right")
      system%atoms%f(2, :) = system%atoms%f(2, :) + 1e-9_dp
      energies = energies*(1 + 1e-9_dp)
      call reference_errors(system, look(system, ids, energies), force_error, energy_error)
      call check(force_error > 1e-11_dp, names(n)//": wrong forces are seen")
      call check(energy_error > 1e-10_dp, names(n)//": wrong energies are seen")
    end do
  end subroutine test_reference_sees

  !> A millionth more of any parameter of a potential is seen in the stored energies.
  subroutine test_every_parameter_is_seen()
    character(2), parameter :: names(4) = ["Si", "Cu", "Fe", "W "]
    integer :: n, i, j
    do n = 1, size(names)
      varied = find_potential(trim(names(n)))
      call check(parameters_error(varied) < 1e-13_dp, trim(names(n))//" has the stored energies")
      if (varied%kind == tersoff_kind) then
        do i = 1, 2
          call wrong(varied%beta_n(i), "beta")
          call wrong(varied%n(i), "n")
          call wrong(varied%c2(i), "c")
          call wrong(varied%d2(i), "d")
          call wrong(varied%h(i), "h")
          do j = 1, 2
            call wrong(varied%repulsion(i, j), "A")
            call wrong(varied%attraction(i, j), "B")
            call wrong(varied%lambda(i, j), "lambda")
            call wrong(varied%mu(i, j), "mu")
            call wrong(varied%inner(i, j), "R")
            call wrong(varied%outer(i, j), "S")
          end do
        end do
      else if (varied%species == 2) then
        do i = 0, 2
          call wrong(varied%log_a(i), "A")
          call wrong(varied%b(i), "p")
          call wrong(varied%log_c(i), "xi")
          call wrong(varied%e(i), "q")
        end do
        call wrong(varied%cutoff, "cutoff", by=0.05_dp) ! a sharp one, between distances
      else
        call wrong(varied%c, "c")
        call wrong(varied%d, "d")
        if (varied%beta > 0) call wrong(varied%beta, "beta")
        call wrong(varied%scale, "A")
        varied%b4 = 1e-6_dp
        call check(parameters_error(varied) > 1e-10_dp, trim(names(n))//": another B is seen")
        varied%b4 = 0
        do i = 0, 4
          if (abs(varied%coefficient(i)) > 0) call wrong(varied%coefficient(i), "a coefficient")
        end do
      end if
    end do

  end subroutine test_every_parameter_is_seen

  !> The stored energies tell another value of a parameter, of `varied`.
  subroutine wrong(parameter, name, by)
    real(dp), target, intent(inout) :: parameter
    character(*), intent(in) :: name
    real(dp), intent(in), optional :: by !< part of it
    real(dp) :: right
    right = parameter
    parameter = right*(1 + 1e-6_dp)
    if (present(by)) parameter = right*(1 + by)
    call check(parameters_error(varied) > 1e-11_dp, varied%name(1)//": another "//name//" is seen")
    parameter = right
  end subroutine wrong

  subroutine test_masses()
    character(2), parameter :: names(4) = ["Si", "Cu", "Fe", "W "]
    type(potential_t) :: p
    integer :: n, k
    do n = 1, size(names)
      p = find_potential(trim(names(n)))
      do k = 1, p%species
        call check(abs(p%mass(k)/mass_of(p%name(k)) - 1) < 1e-15_dp, &
                   p%name(k)//" has the stored mass")
      end do
    end do
  end subroutine test_masses

  !> The mean of a crystal's sites is its cohesive energy.
  subroutine test_site_energies()
    type(md_crystal_t) :: crystal
    real(dp) :: energies(2), mean
    integer :: n, others
    do n = 1, size(table)
      crystal = crystal_named(table(n)%crystal)
      energies = site_energies(find_potential(trim(crystal%species)), crystal)
      others = crystal%sites/2 ! on the second sublattice
      if (crystal%name == "cu3au") others = 3
      mean = ((crystal%sites - others)*energies(crystal%occupant(1)) &
              + others*energies(crystal%occupant(2)))/crystal%sites
      call check(abs(mean - table(n)%energy) < 1e-5_dp, trim(crystal%name)//": energies of sites")
    end do
  end subroutine test_site_energies

  !> A crystal with velocities, after some steps.
  subroutine make_moving(name, system)
    character(*), intent(in) :: name
    type(system_t), intent(out) :: system
    type(md_crystal_t) :: crystal
    real(dp) :: none(3, 3)
    none = 0
    crystal = crystal_named(name)
    call make(name, find_potential(crystal%species), crystal%edge, none, 0.0_dp, system)
    call warm_up(MPI_COMM_WORLD, system%potential, 1_c_int64_t, 900.0_dp, system%total, &
                 system%atoms)
    call advance(system, 20)
  end subroutine make_moving

  subroutine test_wrong_steps_are_seen()
    character(5), parameter :: names(3) = ["sic  ", "cu3au", "fe   "]
    type(system_t) :: system
    type(sample_t), allocatable :: before(:), after(:)
    real(dp) :: errors(2)
    integer :: n
    do n = 1, size(names)
      call make_moving(trim(names(n)), system)
      before = look(system, draw(1_c_int64_t, system%total, 24))
      call advance(system, 1)
      after = look(system, draw(1_c_int64_t, system%total, 24))
      errors = step_errors(system, before, after, system%timestep)
      call check(errors(1) < 1e-15_dp .and. errors(2) < 1e-14_dp, names(n)//": steps are right")
      errors = step_errors(system, before, after, system%timestep*(1 + 1e-6_dp))
      call check(errors(1) > 1e-12_dp .and. errors(2) > 1e-11_dp, names(n)//": another time step")
      call advance(system, 1)
      errors = step_errors(system, before, look(system, before%id), system%timestep)
      call check(errors(1) > 1e-6_dp .and. errors(2) > 1e-4_dp, names(n)//": two steps at once")
      system%potential%mass = system%potential%mass*(1 + 1e-6_dp)
      before = look(system, before%id)
      call advance(system, 1)
      errors = step_errors(system, before, look(system, before%id), system%timestep)
      call check(errors(2) > 1e-11_dp, names(n)//": other masses")
      errors = step_errors(system, before, look(system, before%id + system%total), system%timestep)
      call check(errors(1) > 1, names(n)//": atoms that nobody has")
    end do
  end subroutine test_wrong_steps_are_seen

  !> Neighbours that are missing, there twice, or of the wrong place.
  subroutine test_wrong_lists_are_seen()
    character(5), parameter :: names(3) = ["sic  ", "cu3au", "fe   "]
    type(system_t) :: system
    type(sample_t), allocatable :: samples(:)
    integer :: n, i, entry
    do n = 1, size(names)
      call make_moving(trim(names(n)), system)
      call make_lists(system)
      i = 5
      samples = look(system, [system%atoms%id(i)])
      call check(list_errors(system, samples, 0.0_dp) == 0, names(n)//": all pairs are listed")
      call check(list_errors(system, samples, system%skin) == 0, names(n)//": with the skin's")
      call check(list_errors(system, samples, system%skin + 1.5_dp) > 0, &
                 names(n)//": not those beyond")
      associate (work => system%list%work(1))
        entry = work%entry(work%start(i))
        work%entry(work%start(i)) = work%entry(work%start(i) + 1)
        call check(list_errors(system, samples, 0.0_dp) + &
                   list_errors(system, samples, system%skin) >= 2, names(n)//": one twice, one not")
        work%entry(work%start(i)) = entry
        system%atoms%x(1, entry/4) = system%atoms%x(1, entry/4) + 1e-6_dp
        system%atoms%id(i) = -1
        call check(list_errors(system, samples, system%skin) > 0, names(n)//": nobody's atom")
      end associate
      samples = look(system, [system%atoms%id(6)])
      system%list%work(1)%start(7:) = system%list%work(1)%start(6)
      call check(list_errors(system, samples, 0.0_dp) > 0, names(n)//": none of an atom's")
    end do
  end subroutine test_wrong_lists_are_seen

  subroutine test_closest_pair()
    type(system_t) :: system
    real(dp) :: none(3, 3), distance
    integer(c_int64_t) :: ids(2)
    integer :: i, j
    character(240) :: line
    none = 0
    call make("fe", find_potential("Fe"), 2.8665_dp, none, 0.0_dp, system)
    i = findloc(system%atoms%id(:system%atoms%own), 1_c_int64_t, dim=1)
    j = findloc(system%atoms%id(:system%atoms%own), 54_c_int64_t, dim=1)
    system%atoms%x(1:3, i) = 0.1_dp ! the other is at the last cell's centre, across the faces
    system%atoms%x(1:3, j) = 3*2.8665_dp - 0.1_dp
    call make_lists(system)
    call closest_pair(system, distance, ids)
    call check(abs(distance - 0.2_dp*sqrt(3.0_dp)) < 1e-12_dp .and. all(ids == [1, 54]), &
               "the closest pair is actual across faces")
    call find_forces(system)
    call failure_of_all(system, line)
    call check(index(line, "atoms 1 and 54 on rank 0 are ") > 0 &
               .and. index(line, ".3464 A apart") > 0, &
               "atoms closer than the potential goes are named: "//trim(line))
  end subroutine test_closest_pair

  subroutine test_departure()
    type(system_t) :: system
    type(endpoint_t) :: endpoint
    real(dp) :: distance
    integer(c_int64_t) :: id
    integer :: rank
    call make_moving("fe", system)
    call remember(system, endpoint, with_forces=.false.)
    call find_departure(system, endpoint, distance, id, rank)
    call check(.not. distance > 0, "nothing has departed")
    system%atoms%x(2, 7) = system%atoms%x(2, 7) + 1e-9_dp
    call find_departure(system, endpoint, distance, id, rank)
    call check(abs(distance - 1e-9_dp) < 1e-14_dp .and. id == system%atoms%id(7) .and. rank == 0, &
               "an atom elsewhere is named")
    system%atoms%v(1, 9) = system%atoms%v(1, 9) + 1e-6_dp
    call find_departure(system, endpoint, distance, id, rank)
    call check(abs(distance - 1e-8_dp) < 1e-14_dp .and. id == system%atoms%id(9), &
               "and one that is faster")
    system%atoms%own = system%atoms%own - 1
    call find_departure(system, endpoint, distance, id, rank)
    call check(distance > 1, "and a missing one")
  end subroutine test_departure

  !> What is no number is wrong, wherever it turns up.
  subroutine test_nan()
    type(system_t) :: system
    type(sample_t), allocatable :: samples(:)
    type(endpoint_t) :: endpoint
    real(dp), allocatable :: energies(:)
    real(dp) :: nan, distance, errors(2)
    integer(c_int64_t) :: id
    integer :: rank
    character(240) :: text
    nan = ieee_value(nan, ieee_quiet_nan)
    call make_moving("cu3au", system)
    call remember(system, endpoint, with_forces=.false.)
    allocate (energies(system%atoms%own))
    call find_forces(system, energies)
    samples = look(system, [system%atoms%id(3)], energies)
    samples(1)%f(2) = nan
    samples(1)%energy = nan
    call reference_errors(system, samples, errors(1), errors(2))
    call check(all(errors > 1), "a NaN is a wrong force, and a wrong energy")
    errors = step_errors(system, look(system, samples%id), samples, system%timestep)
    call check(errors(2) > 1, "and a wrong step")
    system%atoms%v(2, 3) = nan
    call find_departure(system, endpoint, distance, id, rank)
    call check(distance > 1 .and. id == system%atoms%id(3), "and a departure")
    call advance(system, 1)
    call failure_of_all(system, text)
    call check(index(text, " has moved NaN A since") > 0, "and a failure: "//trim(text))
    call make_moving("cu3au", system)
    system%potential%log_c = nan
    call find_forces(system)
    call check(.not. abs(system%energy) <= huge(nan), "and a NaN density is a NaN energy")
  end subroutine test_nan

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

  !> A list that would have more entries than can be counted ends before.
  subroutine test_lists_have_a_limit()
    type(system_t) :: system
    real(dp) :: none(3, 3)
    character(240) :: text
    none = 0
    call make("fe", find_potential("Fe"), 2.8665_dp, none, 0.0_dp, system)
    call make_lists(system)
    call failure_of_all(system, text)
    call check(text == "", "54 atoms have their lists: "//trim(text))
    system%list%limit = 300
    call make_lists(system)
    call failure_of_all(system, text)
    call check(index(text, "a list takes 300 entries per thread") > 0 .and. &
               maxval(system%list%work(1)%start) <= 301, "longer lists end: "//trim(text))
  end subroutine test_lists_have_a_limit

end program unit_md
