! A rigid molecule on any number of ranks, its atoms on several of them: a free one turns as in
! closed form, and wrong steps are seen.
program unit_constraints
  use, intrinsic :: ieee_arithmetic, only: ieee_quiet_nan, ieee_value
  use, intrinsic :: iso_c_binding, only: c_int64_t, dp => c_double
  use mpi_f08, only: MPI_COMM_WORLD, MPI_Comm_rank, MPI_Finalize, MPI_Init
  use md_atoms, only: make_box, reserve
  use md_constraints, only: bond_error, bonds_of_all, make_constraints
  use md_domain, only: home_of, make_domain
  use md_judge, only: molecule_errors
  use md_potential, only: find_potential, water_sites
  use md_reference, only: look, sample_t
  use md_system, only: failure_of_all, style_t, system_t, use_style
  use md_verlet, only: advance
  use unit_check, only: check, end_checks
  implicit none (type, external)

  real(dp), parameter :: edge = 30 !< A
  integer(c_int64_t), parameter :: ids(3) = [1_c_int64_t, 2_c_int64_t, 3_c_int64_t]
  integer :: rank, d

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  do d = 1, 3
    call test_turning(cshift([1.0_dp, 0.0_dp, 0.0_dp], d), cshift([0.0_dp, 1.0_dp, 0.0_dp], d), &
                      style_t())
  end do
  call test_turning([1.0_dp, 0.0_dp, 0.0_dp], [0.0_dp, 1.0_dp, 0.0_dp], style_t(dlpoly3=.true.))
  call test_turning([1.0_dp, 0.0_dp, 0.0_dp], [0.0_dp, 1.0_dp, 0.0_dp], style_t(replicated=.true.))
  call test_one_molecule_of_many()
  call test_skipped()
  call test_torn(5.0_dp, 2_c_int64_t)
  call test_torn(0.0_dp, 4_c_int64_t)
  call test_torn(0.0_dp, -1_c_int64_t)
  call MPI_Finalize()
  call end_checks("unit_constraints", rank == 0)

contains

  !> A molecule without forces, its oxygen at a corner of domains, hydrogen moving at +-speed (A/ps)
  !> normal to its plane.
  subroutine make(axis, across, speed, style, system)
    real(dp), intent(in) :: axis(3), across(3), speed
    type(style_t), intent(in) :: style
    type(system_t), intent(out) :: system
    real(dp) :: at(3, 3), x(3), s(3)
    integer :: k
    system%potential = find_potential("O")
    system%potential%charge = 0
    system%potential%log_a = -500
    system%potential%c6 = 0
    system%box = make_box(reshape([edge, 0.0_dp, 0.0_dp, 0.0_dp, edge, 0.0_dp, 0.0_dp, 0.0_dp, &
                                   edge], [3, 3]))
    system%skin = 0.5_dp
    system%total = 3
    call make_domain(MPI_COMM_WORLD, system%box, system%potential%cutoff + system%skin, &
                     system%domain)
    allocate (system%list%work(1))
    call use_style(system, style)
    call reserve(system%atoms, 3)
    at = water_sites(axis, across)
    do k = 1, 3
      x = at(:, k) + edge*real(system%domain%grid - 1, dp)/system%domain%grid ! of the last domains
      s = system%box%fractions(x)
      s = s - floor(s)
      if (any(home_of(system%domain, s) /= system%domain%at)) cycle
      system%atoms%own = system%atoms%own + 1
      associate (n => system%atoms%own)
        system%atoms%x(:, n) = [edge*s, 0.0_dp]
        system%atoms%v(:, n) = merge(0, 5 - 2*k, k == 1)*speed*normal(axis, across)
        system%atoms%id(n) = k
        system%atoms%species(n) = merge(1, 2, k == 1)
        system%atoms%image(:, n) = 0
      end associate
    end do
    system%atoms%all = system%atoms%own
  end subroutine make

  !> The vector product of the axis and the direction across.
  pure function normal(a, b) result(c)
    real(dp), intent(in) :: a(3), b(3)
    real(dp) :: c(3)
    c = [a(2)*b(3) - a(3)*b(2), a(3)*b(1) - a(1)*b(3), a(1)*b(2) - a(2)*b(1)]
  end function normal

  !> In a step a hydrogen atom moves by the speed along the normal, and its bonds put it back
  !> across, onto the circle: it turns by asin(speed timestep / radius).
  subroutine test_turning(axis, across, style)
    real(dp), intent(in) :: axis(3), across(3)
    type(style_t), intent(in) :: style
    integer, parameter :: steps = 4
    real(dp), parameter :: speed = 200 !< A/ps
    type(system_t) :: system
    type(sample_t) :: before(3), after(3)
    character(240) :: line
    real(dp) :: at(3, 3), angle, errors(3), worst, d(3)
    integer :: n, k
    call make(axis, across, speed, style, system)
    call advance(system, 0)
    after = look(system, ids)
    errors = 0
    do n = 1, steps
      before = after
      call advance(system, 1)
      after = look(system, ids)
      errors = max(errors, molecule_errors(system, before, after, system%timestep))
    end do
    call failure_of_all(system, line)
    call check(line == "", "no failure: "//trim(line), 0.0_dp)
    at = water_sites(axis, across)
    angle = steps*asin(speed*system%timestep/norm2(at(:, 2) - at(:, 3))*2)
    at = water_sites(axis, cos(angle)*across + sin(angle)*normal(axis, across))
    worst = 0
    do k = 2, 3
      d = after(k)%x - after(1)%x
      d = d - edge*anint(d/edge)
      worst = max(worst, maxval(abs(d - at(:, k))))
    end do
    call check(worst < 1e-6_dp, "a free molecule turns", worst)
    call check(errors(1) < 1e-14_dp, "its places are of bonds", errors(1))
    call check(errors(2) < 1e-11_dp, "its velocities are of bonds", errors(2))
    call check(errors(3) < 2e-8_dp, "its bonds", errors(3))
    call check(bond_error(system%constraints, system%atoms) < 2e-8_dp, "bonds of each rank", &
               bond_error(system%constraints, system%atoms))
    call check(system%constraints%iterations > 4*steps, "iterations", &
               system%constraints%iterations)
    call check(maxval(abs(after(1)%v)) < 1e-6_dp, "no momentum", maxval(abs(after(1)%v)))
    call test_wrong(system, before, after)
  end subroutine test_turning

  !> An atom that is 1e-9 A off, a velocity that is 1e-6 A/ps off, a longer bond.
  subroutine test_wrong(system, before, after)
    type(system_t), intent(in) :: system
    type(sample_t), intent(in) :: before(3), after(3)
    type(sample_t) :: wrong(3)
    real(dp) :: errors(3)
    wrong = after
    wrong(2)%x(1) = wrong(2)%x(1) + 1e-9_dp
    errors = molecule_errors(system, before, wrong, system%timestep)
    call check(errors(1) > 1e-14_dp, "a wrong place is seen", errors(1))
    wrong = after
    wrong(3)%v(2) = wrong(3)%v(2) + 1e-6_dp
    errors = molecule_errors(system, before, wrong, system%timestep)
    call check(errors(2) > 1e-11_dp, "a wrong velocity is seen", errors(2))
    wrong = after
    wrong(2)%x = wrong(1)%x + (1 + 1e-7_dp)*(wrong(2)%x - wrong(1)%x)
    errors = molecule_errors(system, before, wrong, system%timestep)
    call check(errors(3) > 2e-8_dp, "a longer bond is seen", errors(3))
    wrong(3)%x(1) = ieee_value(edge, ieee_quiet_nan)
    errors = molecule_errors(system, before, wrong, system%timestep)
    call check(all(errors(::2) > 1), "a place that is no number is seen", errors(3))
  end subroutine test_wrong

  !> What a rank does for the bonds of its atoms does not depend on how many there are elsewhere.
  subroutine test_one_molecule_of_many()
    integer(c_int64_t), parameter :: others = 3*10_c_int64_t**12
    type(system_t) :: system
    integer(c_int64_t) :: missing
    real(dp) :: bonds(2)
    call make([1.0_dp, 0.0_dp, 0.0_dp], [0.0_dp, 1.0_dp, 0.0_dp], 0.0_dp, style_t(), system)
    call advance(system, 0)
    bonds(1) = bonds_of_all(system%constraints, system%domain, system%atoms)
    system%atoms%id(:system%atoms%all) = system%atoms%id(:system%atoms%all) + others
    call make_constraints(system%constraints, system%potential, system%domain, system%atoms, &
                          others + 3, missing)
    bonds(2) = bonds_of_all(system%constraints, system%domain, system%atoms)
    call check(missing == 0 .and. all(abs(bonds - 3) < 0.1_dp), "three bonds", bonds(2))
  end subroutine test_one_molecule_of_many

  !> Ranks that skip the exchange of a molecule's atoms are seen: its bonds, or a failure.
  subroutine test_skipped()
    type(system_t) :: system
    type(sample_t) :: before(3), after(3)
    character(240) :: line
    real(dp) :: errors(3)
    call make([1.0_dp, 0.0_dp, 0.0_dp], [0.0_dp, 1.0_dp, 0.0_dp], 200.0_dp, style_t(), system)
    call advance(system, 0)
    before = look(system, ids)
    system%constraints%peers = system%constraints%peers(:0)
    call advance(system, 1)
    after = look(system, ids)
    errors = molecule_errors(system, before, after, system%timestep)
    call failure_of_all(system, line)
    call check(line /= "" .or. errors(3) > 1e-3_dp, "a skipped exchange is seen", errors(3))
  end subroutine test_skipped

  !> Atom 2, moved by `away` (A) or with a number that no atom has, is a failure with a line, and no
  !> rank waits for another, whatever was sent.
  subroutine test_torn(away, number)
    real(dp), intent(in) :: away
    integer(c_int64_t), intent(in) :: number
    type(system_t) :: system
    character(240) :: line
    integer :: k
    call make([1.0_dp, 0.0_dp, 0.0_dp], [0.0_dp, 1.0_dp, 0.0_dp], 0.0_dp, style_t(), system)
    do k = 1, system%atoms%own
      if (system%atoms%id(k) /= 2) cycle
      system%atoms%x(3, k) = system%atoms%x(3, k) + away
      system%atoms%id(k) = number
    end do
    call advance(system, 1)
    call failure_of_all(system, line)
    call check(index(line, "is torn apart") > 0, "a torn molecule: "//trim(line), 0.0_dp)
  end subroutine test_torn

end program unit_constraints
