! Verification of time steps and lists, without their own code: velocity Verlet from forces and
! stored masses, a search for pairs, and the atoms' places after the verified steps.
module md_judge
  use, intrinsic :: iso_c_binding, only: c_int64_t, dp => c_double
  use mpi_f08, only: MPI_2DOUBLE_PRECISION, MPI_Allreduce, MPI_Bcast, MPI_DOUBLE_PRECISION, &
    MPI_IN_PLACE, MPI_INTEGER8, MPI_MAXLOC, MPI_MINLOC, MPI_SUM
  use bx_harness, only: bx_largest, bx_uniform
  use md_atoms, only: box_t, cross, make_box
  use md_forces, only: find_forces
  use md_ionic, only: ionic_energies, ionic_pass
  use md_list, only: find_closest
  use md_oracle, only: charge_of, mass_of, oracle_bonds, oracle_boltzmann, oracle_coulomb, &
    oracle_mass_to_energy
  use md_potential, only: is_rigid, potential_t
  use md_reference, only: gather_near, gather_rows, sample_t
  use md_system, only: failure_t, system_t
  implicit none (type, external)
  private
  public :: closest_pair, copies_apart, step_errors, molecule_errors, list_errors, &
    outdated, displace, listed_pairs, motion, own_step_errors, pair_error, virial_of_energy
  public :: endpoint_t, remember, find_departure

  real(dp), parameter :: same_place = 1e-9_dp !< A

  !> A rank's own atoms, in the order of its lists.
  type :: endpoint_t
    integer(c_int64_t), allocatable :: id(:)
    real(dp), allocatable :: x(:, :), v(:, :) !< (3, own): A, A/ps
    real(dp), allocatable :: f(:, :)          !< (3, own), if asked for: eV/A
  end type endpoint_t

contains

  !> The largest errors of samples after a step of `timestep` (ps), against velocity Verlet (W. C.
  !> Swope et al., J. Chem.  Phys. 76, 637 (1982), equations 4 and 5).  errors(1): positions,
  !> relative to the longest edge of the box; errors(2): velocities, relative to the fastest
  !> sample's or 1 A/ps.  Huge if the samples are not the same atoms.
  function step_errors(system, before, after, timestep) result(errors)
    type(system_t), intent(in) :: system
    type(sample_t), intent(in) :: before(:), after(:)
    real(dp), intent(in) :: timestep
    real(dp) :: errors(2), fastest
    integer :: k
    errors = 0
    fastest = 1
    do k = 1, size(before)
      fastest = max(fastest, norm2(before(k)%v), norm2(after(k)%v))
    end do
    do k = 1, size(before)
      associate (a => before(k), b => after(k))
        if (a%owners /= 1 .or. b%owners /= 1 .or. a%species /= b%species) then
          errors = huge(errors)
          return
        end if
        errors = max(errors, step_error(system, a%species, [a%x, a%v, a%f], [b%x, b%v, b%f], &
                                        timestep, fastest))
      end associate
    end do
  end function step_errors

  !> The same of this rank's own atoms, by its own forces; of atoms that have changed their place in
  !> the lists, none.
  function own_step_errors(system, before, timestep) result(errors)
    type(system_t), intent(in) :: system
    type(endpoint_t), intent(in) :: before !< with forces
    real(dp), intent(in) :: timestep
    real(dp) :: errors(2), fastest
    integer :: k
    errors = 0
    associate (atoms => system%atoms)
      fastest = max(1.0_dp, maxval(abs(atoms%v(:, :atoms%own))))
      do k = 1, min(atoms%own, size(before%id))
        if (before%id(k) /= atoms%id(k)) cycle
        errors = max(errors, step_error(system, atoms%species(k), &
                                        [before%x(:, k), before%v(:, k), before%f(:, k)], &
                                        [atoms%x(1:3, k), atoms%v(:, k), atoms%f(1:3, k)], &
                                        timestep, fastest))
      end do
    end associate
  end function own_step_errors

  !> The errors of an atom that has moved from a to b, each of which is position (A), velocity
  !> (A/ps) and force (eV/A).
  function step_error(system, species, a, b, timestep, fastest) result(errors)
    type(system_t), intent(in) :: system
    integer, intent(in) :: species
    real(dp), intent(in) :: a(9), b(9), timestep, fastest
    real(dp) :: errors(2), per_force, d(3)
    per_force = timestep/(oracle_mass_to_energy*mass_of(system%potential%name(species)))
    d = image(system, b(1:3) - a(1:3) - timestep*(a(4:6) + 0.5_dp*per_force*a(7:9)))
    errors = [bx_largest(d)/maxval(norm2(system%box%edge, dim=1)), &
              bx_largest(b(4:6) - a(4:6) - 0.5_dp*per_force*(a(7:9) + b(7:9)))/fastest]
  end function step_error

  !> The same of rigid molecules, whose atoms are samples that follow each other.  What forces do
  !> not explain has to be of bonds: along the bonds of the step's begin, for velocities also of its
  !> end, equal and opposite.  Of three atoms that is so where it adds up to no force and no torque.
  !> errors(1) and errors(2) are as above; errors(3): of bonds, relative to their lengths, and how
  !> much their velocities would change that in a step.
  function molecule_errors(system, before, after, timestep) result(errors)
    type(system_t), intent(in) :: system
    type(sample_t), intent(in) :: before(:), after(:)
    real(dp), intent(in) :: timestep
    real(dp) :: errors(3), mass(3), at(3, 3), next(3, 3), d(3, 3), w(3, 3), fastest, longest
    integer :: m, i, j
    errors = 0
    fastest = 1
    longest = maxval(norm2(system%box%edge, dim=1))
    do m = 0, size(before) - 3, 3
      do i = 1, 3
        associate (a => before(m + i), b => after(m + i))
          if (a%owners /= 1 .or. b%owners /= 1 .or. a%species /= b%species) then
            errors = huge(errors)
            return
          end if
          fastest = max(fastest, norm2(b%v))
          mass(i) = mass_of(system%potential%name(a%species))
          at(:, i) = image(system, a%x - before(m + 1)%x)
          next(:, i) = image(system, b%x - after(m + 1)%x)
          d(:, i) = image(system, b%x - a%x - timestep &
                            *(a%v + 0.5_dp*timestep/(oracle_mass_to_energy*mass(i))*a%f))
          w(:, i) = b%v - a%v - 0.5_dp*timestep/(oracle_mass_to_energy*mass(i))*(a%f + b%f) &
                    - d(:, i)/timestep
        end associate
      end do
      errors(1) = max(errors(1), left_over(mass, at, d)/longest)
      errors(2) = max(errors(2), left_over(mass, next, w))
      do j = 2, 3
        do i = 1, j - 1
          errors(3) = max(errors(3), bx_largest([norm2(next(:, i) - next(:, j)) &
                                                 /oracle_bonds(i, j) - 1, &
                          timestep*dot_product(next(:, i) - next(:, j), after(m + i)%v &
                                               - after(m + j)%v)/oracle_bonds(i, j)**2]))
        end do
      end do
    end do
    errors(2) = errors(2)/fastest
  end function molecule_errors

  !> Kinetic energy (eV) and temperature (K) of the atoms, of all ranks; molecules have 6 degrees of
  !> freedom each.  Collective.
  subroutine motion(system, kinetic, temperature)
    type(system_t), intent(in) :: system
    real(dp), intent(out) :: kinetic, temperature
    real(dp) :: freedoms
    integer :: k
    kinetic = 0
    do k = 1, system%atoms%own
      kinetic = kinetic + 0.5_dp*oracle_mass_to_energy*sum(system%atoms%v(:, k)**2) &
                *mass_of(system%potential%name(system%atoms%species(k)))
    end do
    call MPI_Allreduce(MPI_IN_PLACE, kinetic, 1, MPI_DOUBLE_PRECISION, MPI_SUM, system%domain%comm)
    freedoms = merge(2, 3, is_rigid(system%potential))*real(system%total, dp) - 3
    temperature = 0
    if (freedoms > 0) temperature = 2*kinetic/(freedoms*oracle_boltzmann)
  end subroutine motion

  !> The sum of x f over all pairs, of all ranks (eV), by the change of their energy in a larger and
  !> a smaller box: without forces.  Sharp cutoffs grow, too, so that no pair crosses them.  The
  !> mesh's energy does not change, as its influence function stays.  Forces are then another box's.
  !> Collective.
  real(dp) function virial_of_energy(system) result(virial)
    type(system_t), intent(inout) :: system
    real(dp), parameter :: growth = 1e-6_dp
    type(box_t) :: box
    type(failure_t) :: failure
    real(dp), allocatable :: x(:, :)
    real(dp) :: energy(2), scale, cutoff, unused(3, 3)
    integer :: n
    box = system%box
    cutoff = system%potential%cutoff
    failure = system%failure
    x = system%atoms%x
    do n = 1, 2
      scale = 1 + merge(growth, -growth, n == 1)
      system%box = make_box(scale*box%edge)
      system%potential%cutoff = scale*cutoff
      system%atoms%x = scale*x
      call find_forces(system, virial=unused)
      energy(n) = system%energy
    end do
    system%box = box
    system%potential%cutoff = cutoff
    system%failure = failure
    system%atoms%x = x
    call MPI_Allreduce(MPI_IN_PLACE, energy, 2, MPI_DOUBLE_PRECISION, MPI_SUM, system%domain%comm)
    virial = (energy(2) - energy(1))/(2*growth)
  end function virial_of_energy

  !> The largest error of the forces and energies of two charges, screened by Gaussians, at
  !> distances from 0.9 A to the cutoff: relative to each, or eV/A and eV.
  real(dp) function pair_error(system) result(worst)
    type(system_t), intent(in) :: system
    integer, parameter :: pairs = 256
    real(dp), parameter :: least = 0.9_dp, pi = acos(-1.0_dp) !< A
    type(potential_t) :: p
    real(dp) :: x(4, 0:pairs), f(4, 0:pairs), halves(0:pairs), r(pairs), phi(pairs), pull(pairs), q
    real(dp) :: unused
    integer :: a, b, k
    p = system%potential
    p%log_a = -500 ! charges alone
    p%c6 = 0
    p%d8 = 0
    r = least + (p%cutoff - least)*[(real(k, dp)/(pairs + 1), k=1, pairs)]
    x = 0
    x(1, 1:) = r
    worst = 0
    do b = 1, p%species
      do a = 1, b
        f = 0
        halves = 0
        associate (entries => [(4*(k + 1) + a + b - 2, k=1, pairs)])
          call ionic_pass(p, system%smooth, 1, 1, [1, pairs + 1], entries, pairs, x, f, unused)
          call ionic_energies(p, system%smooth, 1, 1, [1, pairs + 1], entries, pairs, x, unused, &
                              halves)
        end associate
        q = oracle_coulomb*charge_of(p%name(a))*charge_of(p%name(b))
        phi = q*erfc(p%splitting*r)/r
        pull = phi/r + q*2*p%splitting/sqrt(pi)*exp(-(p%splitting*r)**2)/r
        worst = max(worst, bx_largest((2*halves(1:) - phi)/max(1.0_dp, abs(phi))), &
                    bx_largest((f(1, 1:) - pull)/max(1.0_dp, abs(pull))))
      end do
    end do
  end function pair_error

  !> The shortest of a vector's images: A.
  pure function image(system, d) result(shortest)
    type(system_t), intent(in) :: system
    real(dp), intent(in) :: d(3)
    real(dp) :: shortest(3), s(3)
    s = system%box%fractions(d)
    shortest = matmul(system%box%edge, s - anint(s))
  end function image

  !> The largest component of what vectors add up to, by mass, and of their moments at the places
  !> `at` (A), over 1 A: in units of the vectors.
  pure real(dp) function left_over(mass, at, vectors)
    real(dp), intent(in) :: mass(3), at(3, 3), vectors(3, 3)
    real(dp) :: total(3), moment(3)
    integer :: i
    total = 0
    moment = 0
    do i = 1, 3
      total = total + mass(i)*vectors(:, i)
      moment = moment + mass(i)*cross(at(:, i), vectors(:, i))
    end do
    left_over = bx_largest([total, moment])/sum(mass)
  end function left_over

  !> Number of wrong entries in the ranks' lists of the samples, up to `margin` (A) beyond each
  !> pair's cutoff: neighbours that are missing, listed twice, or listed where no atom is.
  !> Collective.
  integer(c_int64_t) function list_errors(system, samples, margin) result(wrong)
    type(system_t), intent(in) :: system
    type(sample_t), intent(in) :: samples(:)
    real(dp), intent(in) :: margin
    real(dp), allocatable :: listed(:, :), mine(:, :), entries(:, :), near(:, :)
    integer, allocatable :: sample_of(:)
    integer :: s, k, root
    call collect_entries(system, samples, margin, listed, sample_of)
    wrong = 0
    do s = 1, size(samples)
      if (samples(s)%owners /= 1) then
        wrong = wrong + 1
        cycle
      end if
      associate (domain => system%domain, reach => system%potential%reach(:, samples(s)%species))
        root = mod(s, domain%world_size)
        mine = listed(:, pack([(k, k=1, size(sample_of))], sample_of == s))
        call gather_rows(domain, mine, root, entries)
        call gather_near(system, samples(s)%x, maxval(reach) + margin, root, near)
        if (root == domain%world_rank) wrong = wrong + unlike(near, entries, reach + margin)
      end associate
    end do
    call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER8, MPI_SUM, system%domain%world)
  end function list_errors

  !> Number of neighbours of all atoms within each pair's cutoff, in the lists of all ranks.
  !> Collective.
  integer(c_int64_t) function listed_pairs(system) result(count)
    type(system_t), intent(in) :: system
    integer :: t, i, j, k
    count = 0
    do t = 1, size(system%list%work)
      associate (work => system%list%work(t), atoms => system%atoms)
        do i = work%first, work%last
          do k = work%start(i), work%start(i + 1) - 1
            j = work%entry(k)/4
            if (sum((atoms%x(1:3, j) - atoms%x(1:3, i))**2) >= &
                system%potential%reach(atoms%species(j), atoms%species(i))**2) cycle
            count = count + 1
            if (system%list%half .and. .not. (system%list%twice .and. j > atoms%own)) then
              count = count + 1 ! the other atom's, too
            end if
          end do
        end do
      end associate
    end do
    call MPI_Allreduce(MPI_IN_PLACE, count, 1, MPI_INTEGER8, MPI_SUM, system%domain%world)
  end function listed_pairs

  !> Number of atoms that have moved by more than `allowed` (A) since their list was made.
  !> Collective.
  integer(c_int64_t) function outdated(system, allowed) result(count)
    type(system_t), intent(in) :: system
    real(dp), intent(in) :: allowed
    real(dp) :: moved
    integer :: k
    count = 0
    do k = 1, system%atoms%own
      moved = norm2(system%atoms%x(1:3, k) - system%atoms%listed(:, k))
      if (.not. moved <= allowed) count = count + 1
    end do
    call MPI_Allreduce(MPI_IN_PLACE, count, 1, MPI_INTEGER8, MPI_SUM, system%domain%world)
  end function outdated

  !> Number of atoms that ranks with copies of the box have elsewhere than the first rank, or with
  !> another velocity, be it by the last bit.  Collective.
  integer(c_int64_t) function copies_apart(system) result(count)
    type(system_t), intent(in) :: system
    real(dp), allocatable :: first(:, :) !< (6, own): A, A/ps
    integer :: k
    count = 0
    if (system%domain%copies == 1) return
    associate (atoms => system%atoms)
      allocate (first(6, system%total))
      do k = 1, atoms%own
        first(:, k) = [atoms%x(1:3, k), atoms%v(:, k)]
      end do
      call MPI_Bcast(first, size(first), MPI_DOUBLE_PRECISION, 0, system%domain%world)
      do k = 1, atoms%own
        if (.not. all(abs(first(:, k) - [atoms%x(1:3, k), atoms%v(:, k)]) <= 0)) count = count + 1
      end do
    end associate
    call MPI_Allreduce(MPI_IN_PLACE, count, 1, MPI_INTEGER8, MPI_SUM, system%domain%world)
  end function copies_apart

  !> Entries of this rank's lists that belong to samples: vectors from the sample (A) and species,
  !> listed(4, entries), and the sample of each, sample_of(entries).
  subroutine collect_entries(system, samples, margin, listed, sample_of)
    type(system_t), intent(in) :: system
    type(sample_t), intent(in) :: samples(:)
    real(dp), intent(in) :: margin
    real(dp), allocatable, intent(out) :: listed(:, :)
    integer, allocatable, intent(out) :: sample_of(:)
    integer, allocatable :: mark(:)
    integer(c_int64_t) :: ids(size(samples))
    integer :: t, i, j, k, count
    ids = samples%id
    allocate (listed(4, 64), sample_of(64))
    allocate (mark(system%atoms%all), source=0)
    do k = 1, system%atoms%all
      if (any(ids == system%atoms%id(k))) mark(k) = findloc(ids, system%atoms%id(k), dim=1)
    end do
    count = 0
    do t = 1, size(system%list%work)
      associate (work => system%list%work(t))
        do i = work%first, work%last
          do k = work%start(i), work%start(i + 1) - 1
            j = work%entry(k)/4
            if (mark(i) > 0) call append(i, j)
            if (system%list%twice .and. j > system%atoms%own) cycle ! its owner lists it, too
            if (mark(j) > 0 .and. system%list%half) call append(j, i)
          end do
        end do
      end associate
    end do
    listed = listed(:, :count)
    sample_of = sample_of(:count)

  contains

    !> Appends the neighbour `to` of `from`, if it is within the pair's reach.
    subroutine append(from, to)
      integer, intent(in) :: from, to
      real(dp) :: d(3)
      associate (atoms => system%atoms)
        d = atoms%x(1:3, to) - atoms%x(1:3, from)
        if (norm2(d) > system%potential%reach(atoms%species(to), atoms%species(from)) + margin) then
          return
        end if
        count = count + 1
        if (count > size(sample_of)) then
          listed = reshape(listed, [4, 2*count], pad=[0.0_dp])
          sample_of = [sample_of, sample_of]
        end if
        listed(:, count) = [d, real(atoms%species(to), dp)]
        sample_of(count) = mark(from)
      end associate
    end subroutine append

  end subroutine collect_entries

  !> Number of rows of `near` and `entries` within `reach` (A, by species) without a partner among
  !> the others; rows just at the reach may lack one.
  integer function unlike(near, entries, reach) result(count)
    real(dp), intent(in) :: near(:, :), entries(:, :), reach(:)
    logical :: matched(size(entries, 2))
    integer :: i, k
    matched = .false.
    count = 0
    do i = 1, size(near, 2)
      do k = 1, size(entries, 2)
        if (matched(k) .or. nint(near(4, i)) /= nint(entries(4, k))) cycle
        if (norm2(near(1:3, i) - entries(1:3, k)) < same_place) exit
      end do
      if (k <= size(entries, 2)) then
        matched(k) = .true.
      else if (within(near(:, i))) then
        count = count + 1
      end if
    end do
    do k = 1, size(entries, 2)
      if (.not. matched(k) .and. within(entries(:, k))) count = count + 1
    end do

  contains

    !> Whether a row is inside the reach of its species.
    logical function within(row)
      real(dp), intent(in) :: row(4)
      within = norm2(row(1:3)) < reach(nint(row(4))) - same_place
    end function within

  end function unlike

  !> The two closest atoms in the lists of all ranks.  Collective.
  subroutine closest_pair(system, distance, ids)
    type(system_t), intent(in) :: system
    real(dp), intent(out) :: distance         !< A; huge if no list has an entry
    integer(c_int64_t), intent(out) :: ids(2) !< in ascending order
    real(dp) :: distance_and_rank(2)
    call find_closest(system%list, system%atoms, distance, ids)
    distance_and_rank = [distance, real(system%domain%world_rank, dp)]
    call MPI_Allreduce(MPI_IN_PLACE, distance_and_rank, 1, MPI_2DOUBLE_PRECISION, MPI_MINLOC, &
                       system%domain%world)
    distance = distance_and_rank(1)
    call MPI_Bcast(ids, 2, MPI_INTEGER8, nint(distance_and_rank(2)), system%domain%world)
  end subroutine closest_pair

  !> Moves each own atom, or molecule, by `distance` (A) in a random direction, the same on every
  !> layout.
  subroutine displace(system, distance, seed)
    type(system_t), intent(inout) :: system
    real(dp), intent(in) :: distance
    integer(c_int64_t), intent(in) :: seed
    real(dp) :: d(3)
    integer :: k, c
    do k = 1, system%atoms%own
      do c = 1, 3
        d(c) = bx_uniform(seed, 3*((system%atoms%id(k) - 1)/system%potential%sites + 1) + c)
      end do
      if (norm2(d) > 0) system%atoms%x(1:3, k) = system%atoms%x(1:3, k) + distance*d/norm2(d)
    end do
  end subroutine displace

  !> Notes the own atoms in `endpoint`, with_forces or without.
  subroutine remember(system, endpoint, with_forces)
    type(system_t), intent(in) :: system
    type(endpoint_t), intent(inout) :: endpoint
    logical, intent(in) :: with_forces
    associate (n => system%atoms%own)
      endpoint%id = system%atoms%id(:n)
      endpoint%x = system%atoms%x(1:3, :n)
      endpoint%v = system%atoms%v(:, :n)
      if (with_forces) endpoint%f = system%atoms%f(1:3, :n)
    end associate
  end subroutine remember

  !> Finds the atom furthest from the endpoint: its distance (A; velocities count as the way of
  !> 0.01 ps), id and rank.  The distance is huge if the endpoint has other atoms.  Collective.
  subroutine find_departure(system, endpoint, distance, id, rank)
    type(system_t), intent(in) :: system
    type(endpoint_t), intent(in) :: endpoint
    real(dp), intent(out) :: distance
    integer(c_int64_t), intent(out) :: id
    integer, intent(out) :: rank
    real(dp), parameter :: soon = 0.01_dp !< ps
    real(dp) :: distance_and_rank(2), departure
    integer :: k
    distance = 0
    id = 0
    associate (atoms => system%atoms)
      do k = 1, atoms%own
        departure = huge(departure)
        if (k <= size(endpoint%id)) then
          if (endpoint%id(k) == atoms%id(k)) departure = max( &
            bx_largest(atoms%x(1:3, k) - endpoint%x(:, k)), &
            soon*bx_largest(atoms%v(:, k) - endpoint%v(:, k)))
        end if
        if (departure <= distance) cycle
        distance = departure
        id = atoms%id(k)
      end do
      if (atoms%own < size(endpoint%id)) distance = huge(distance)
    end associate
    distance_and_rank = [distance, real(system%domain%world_rank, dp)]
    call MPI_Allreduce(MPI_IN_PLACE, distance_and_rank, 1, MPI_2DOUBLE_PRECISION, MPI_MAXLOC, &
                       system%domain%world)
    distance = distance_and_rank(1)
    rank = nint(distance_and_rank(2))
    call MPI_Bcast(id, 1, MPI_INTEGER8, rank, system%domain%world)
  end subroutine find_departure

end module md_judge
