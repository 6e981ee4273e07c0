! Samples for verification: a few random atoms and all atoms near them, on any rank.  A search over
! all atoms finds them, without lists or ghosts, so that lists and ghosts can be judged by them.
!
! Their forces and energies by the potentials' definitions alone are the reference for md_metal and
! md_tersoff: sums over all near atoms, no derivatives.  Derivatives come from the energy by a
! complex step, dE/dx = Im E(x + ih)/h, which loses no digits (W. Squire and G. Trapp, SIAM Rev. 40,
! 110 (1998)).
module md_reference
  use, intrinsic :: iso_c_binding, only: c_int64_t, dp => c_double
  use mpi_f08, only: MPI_Allgather, MPI_Allreduce, MPI_DOUBLE_PRECISION, MPI_Gatherv, &
    MPI_IN_PLACE, MPI_INTEGER, MPI_MAX, MPI_SUM
  use bx_harness, only: bx_largest, bx_uniform
  use md_domain, only: domain_t, offsets_of
  use md_potential, only: finnis_sinclair_kind, gupta_kind, ionic_kind, potential_t, tersoff_kind
  use md_system, only: system_t
  implicit none (type, external)
  private
  public :: draw, edge_energy, gather_near, gather_rows, look, reference_energy, reference_errors, &
    sample_t

  real(dp), parameter :: tiny_step = 1e-40_dp !< A
  real(dp), parameter :: pi = acos(-1.0_dp)

  !> An atom as its owner has it.
  type :: sample_t
    integer(c_int64_t) :: id = 0
    integer :: owners = 0 !< ranks that have it: one
    integer :: species = 0
    real(dp) :: x(3) = 0, v(3) = 0, f(3) = 0 !< A, A/ps, eV/A
    real(dp) :: energy = 0                   !< eV
  end type sample_t

contains

  !> The largest errors of the samples' forces, relative to the largest force or 1 eV/A, and of
  !> their energies, relative to each or 1 eV.  Collective.
  subroutine reference_errors(system, samples, force_error, energy_error, more_force, more_energy, &
                              but_shared)
    type(system_t), intent(in) :: system
    type(sample_t), intent(in) :: samples(:)
    real(dp), intent(out) :: force_error, energy_error
    !> Of the samples: forces (eV/A, (3, samples)) and energies (eV) to be added to the reference's.
    real(dp), intent(in), optional :: more_force(:, :), more_energy(:)
    logical, intent(in), optional :: but_shared !< the reference lacks a force that all samples have
    real(dp) :: force(3), energy, largest, reach, excess(3, size(samples)), other(size(samples))
    real(dp), allocatable :: near(:, :)
    integer :: s, root
    reach = 2*system%potential%cutoff
    if (system%potential%kind == ionic_kind) reach = reach/2 ! neighbours' neighbours have no part
    largest = 1
    do s = 1, size(samples)
      largest = max(largest, maxval(abs(samples(s)%f)))
    end do
    excess = 0
    other = 0
    do s = 1, size(samples)
      associate (sample => samples(s), domain => system%domain)
        root = mod(s, domain%world_size)
        call gather_near(system, sample%x, reach, root, near)
        if (root /= domain%world_rank) cycle
        call force_on_centre(system%potential, sample%species, near, force, energy)
        if (present(more_force)) force = force + more_force(:, s)
        if (present(more_energy)) energy = energy + more_energy(s)
        excess(:, s) = sample%f - force
        other(s) = (sample%energy - energy)/max(1.0_dp, abs(energy))
      end associate
    end do
    call MPI_Allreduce(MPI_IN_PLACE, excess, size(excess), MPI_DOUBLE_PRECISION, MPI_SUM, &
                       system%domain%world)
    call MPI_Allreduce(MPI_IN_PLACE, other, size(other), MPI_DOUBLE_PRECISION, MPI_SUM, &
                       system%domain%world)
    if (present(but_shared)) then
      if (but_shared) excess = excess - spread(sum(excess, 2)/size(samples), 2, size(samples))
    end if
    force_error = bx_largest(reshape(excess, [size(excess)]))/largest
    energy_error = bx_largest(other)
    if (any(samples%owners /= 1)) then
      force_error = huge(force_error)
      energy_error = huge(energy_error)
    end if
  end subroutine reference_errors

  !> The largest energy that a sample and an atom that comes within the cutoff gain by it together,
  !> but for charges: eV; 0 of potentials that end smoothly.  Collective.
  real(dp) function edge_energy(system, samples) result(largest)
    type(system_t), intent(in) :: system
    type(sample_t), intent(in) :: samples(:)
    real(dp), parameter :: just_within = 1 - 1e-9_dp
    real(dp), allocatable :: near(:, :)
    real(dp) :: alone
    integer :: s, b
    largest = 0
    associate (p => system%potential, domain => system%domain)
      do s = 1, size(samples)
        call gather_near(system, samples(s)%x, p%cutoff, mod(s, domain%world_size), near)
        if (mod(s, domain%world_size) /= domain%world_rank) cycle
        alone = reference_energy(p, samples(s)%species, near)
        do b = 1, p%species
          largest = max(largest, 2*abs(reference_energy(p, samples(s)%species, reshape([near, &
            just_within*p%reach(b, samples(s)%species), 0.0_dp, 0.0_dp, real(b, dp)], &
            [4, size(near, 2) + 1])) - alone))
        end do
      end do
      call MPI_Allreduce(MPI_IN_PLACE, largest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, domain%world)
    end associate
  end function edge_energy

  !> Force (eV/A) and energy (eV) of an atom at the origin among those at near(1:3, :) (A), of
  !> species near(4, :).
  subroutine force_on_centre(p, species, near, force, energy)
    type(potential_t), intent(in) :: p
    integer, intent(in) :: species
    real(dp), intent(in) :: near(:, :)
    real(dp), intent(out) :: force(3), energy
    complex(dp) :: x(3, 0:size(near, 2)), total, own
    integer :: kind(0:size(near, 2)), c, k
    kind(0) = species
    kind(1:) = nint(near(4, :))
    do c = 1, 3
      x(:, 0) = 0
      x(:, 1:) = cmplx(near(1:3, :), 0.0_dp, dp)
      x(c, 0) = cmplx(0.0_dp, tiny_step, dp)
      own = energy_of(p, 0, kind, x)
      total = own
      do k = 1, size(near, 2) ! those whose energy knows the atom
        if (norm2(near(1:3, k)) <= p%cutoff) total = total + energy_of(p, k, kind, x)
      end do
      force(c) = -aimag(total)/tiny_step
    end do
    energy = real(own, dp)
  end subroutine force_on_centre

  !> Energy (eV) of an atom at the origin among those at near(1:3, :) (A), of species near(4, :).
  real(dp) function reference_energy(p, species, near) result(energy)
    type(potential_t), intent(in) :: p
    integer, intent(in) :: species
    real(dp), intent(in) :: near(:, :)
    complex(dp) :: x(3, 0:size(near, 2))
    x(:, 0) = 0
    x(:, 1:) = cmplx(near(1:3, :), 0.0_dp, dp)
    energy = real(energy_of(p, 0, [species, nint(near(4, :))], x), dp)
  end function reference_energy

  !> Energy of atom i: eV.
  function energy_of(p, i, kind, x) result(energy)
    type(potential_t), intent(in) :: p
    integer, intent(in) :: i, kind(0:)
    complex(dp), intent(in) :: x(:, 0:)
    complex(dp) :: energy, rho, r(0:size(x, 2) - 1)
    integer :: j
    energy = 0
    rho = 0
    do j = 0, size(x, 2) - 1
      r(j) = sqrt((x(1, j) - x(1, i))**2 + (x(2, j) - x(2, i))**2 + (x(3, j) - x(3, i))**2)
    end do
    if (p%kind == tersoff_kind) then
      energy = tersoff_energy(p, i, kind, x, r)
      return
    end if
    do j = 0, size(x, 2) - 1
      if (j == i .or. real(r(j), dp) >= p%cutoff) cycle
      energy = energy + 0.5_dp*repulsion(p, kind(i) + kind(j) - 2, r(j))
      rho = rho + density(p, kind(i) + kind(j) - 2, r(j))
    end do
    if (abs(rho) > 0) energy = energy - p%scale*sqrt(rho)
  end function energy_of

  !> phi(r) of a pair of metal atoms or ions: eV.
  complex(dp) function repulsion(p, pair, r) result(phi)
    type(potential_t), intent(in) :: p
    integer, intent(in) :: pair
    complex(dp), intent(in) :: r
    integer :: k
    phi = 0
    if (p%kind == gupta_kind) then
      phi = exp(p%log_a(pair))*exp(-p%b(pair)*r)
    else if (p%kind == ionic_kind) then ! charges are md_spme's
      phi = exp(p%log_a(pair))*exp(-p%b(pair)*r) - p%c6(pair)/r**6 - p%d8(pair)/r**8
    else if (real(r, dp) < p%c) then
      phi = (r - p%c)**2*sum([(p%coefficient(k)*r**k, k=0, 4)])
    end if
  end function repulsion

  !> rho(r) of a metal's pair.
  complex(dp) function density(p, pair, r) result(rho)
    type(potential_t), intent(in) :: p
    integer, intent(in) :: pair
    complex(dp), intent(in) :: r
    rho = 0
    if (p%kind == gupta_kind) then
      rho = exp(p%log_c(pair))*exp(-p%e(pair)*r)
    else if (p%kind == finnis_sinclair_kind .and. real(r, dp) < p%d) then
      rho = (r - p%d)**2 + p%beta*(r - p%d)**3/p%d + p%b4*(r - p%d)**4
    end if
  end function density

  !> Half the energy of the bonds of centre i (Tersoff 1989, equations 1 and 2): eV.
  function tersoff_energy(p, i, kind, x, r) result(energy)
    type(potential_t), intent(in) :: p
    integer, intent(in) :: i, kind(0:)
    complex(dp), intent(in) :: x(:, 0:), r(0:)
    complex(dp) :: energy, zeta, cosine, b
    integer :: j, k, a
    a = kind(i)
    energy = 0
    do j = 0, size(r) - 1
      if (j == i .or. real(r(j), dp) >= p%outer(kind(j), a)) cycle
      zeta = 0
      do k = 0, size(r) - 1
        if (k == i .or. k == j .or. real(r(k), dp) >= p%outer(kind(k), a)) cycle
        cosine = sum((x(:, j) - x(:, i))*(x(:, k) - x(:, i)))/(r(j)*r(k))
        zeta = zeta + cut(p, a, kind(k), r(k))*(1 + p%c2(a)/p%d2(a) &
                                                - p%c2(a)/(p%d2(a) + (p%h(a) - cosine)**2))
      end do
      b = 1
      if (abs(zeta) > 0) b = (1 + (p%beta_n(a)*zeta)**p%n(a))**(-0.5_dp/p%n(a))
      energy = energy + 0.5_dp*cut(p, a, kind(j), r(j)) &
               *(p%repulsion(kind(j), a)*exp(-p%lambda(kind(j), a)*r(j)) &
                 - b*p%attraction(kind(j), a)*exp(-p%mu(kind(j), a)*r(j)))
    end do
  end function tersoff_energy

  !> Tersoff's cutoff function of a pair of species: 1 to 0.
  complex(dp) function cut(p, a, b, r) result(weight)
    type(potential_t), intent(in) :: p
    integer, intent(in) :: a, b
    complex(dp), intent(in) :: r
    weight = 1
    if (real(r, dp) > p%inner(b, a)) then
      weight = 0.5_dp + 0.5_dp*cos(pi*(r - p%inner(b, a))/(p%outer(b, a) - p%inner(b, a)))
    end if
  end function cut

  !> Ids of at most `count` of `total` atoms: repeated draws are dropped.
  function draw(seed, total, count) result(ids)
    integer(c_int64_t), intent(in) :: seed, total
    integer, intent(in) :: count
    integer(c_int64_t), allocatable :: ids(:)
    integer(c_int64_t) :: id
    integer :: s
    ids = [integer(c_int64_t) ::]
    do s = 1, count
      id = 1 + min(total - 1, int(0.5_dp*(1 + bx_uniform(seed, int(s, c_int64_t))) &
                                  *real(total, dp), c_int64_t))
      if (all(ids /= id)) ids = [ids, id]
    end do
  end function draw

  !> The atoms of these ids, on every rank.  Collective.
  function look(system, ids, energies) result(samples)
    type(system_t), intent(in) :: system
    integer(c_int64_t), intent(in) :: ids(:)
    real(dp), intent(in), optional :: energies(:) !< (own): eV; without, energies are 0
    type(sample_t) :: samples(size(ids))
    real(dp) :: table(12, size(ids))
    integer :: s, k
    table = 0
    do k = 1, system%atoms%own
      if (all(ids /= system%atoms%id(k))) cycle
      s = findloc(ids, system%atoms%id(k), dim=1)
      associate (atoms => system%atoms)
        table(:11, s) = table(:11, s) + [1.0_dp, real(atoms%species(k), dp), atoms%x(1:3, k), &
                                         atoms%v(:, k), atoms%f(1:3, k)]
      end associate
      if (present(energies)) table(12, s) = energies(k)
    end do
    call MPI_Allreduce(MPI_IN_PLACE, table, size(table), MPI_DOUBLE_PRECISION, MPI_SUM, &
                       system%domain%comm)
    do s = 1, size(ids)
      samples(s) = sample_t(ids(s), nint(table(1, s)), nint(table(2, s)), table(3:5, s), &
                            table(6:8, s), table(9:11, s), table(12, s))
    end do
  end function look

  !> All atoms and images within `reach` (A) of a point (A), but not the one at the point itself.
  !> Collective over the world.
  subroutine gather_near(system, point, reach, root, near)
    type(system_t), intent(in) :: system
    real(dp), intent(in) :: point(3), reach
    integer, intent(in) :: root
    !> (4, atoms) on rank `root` of the world: vectors from the point (A), and species.
    real(dp), allocatable, intent(out) :: near(:, :)
    real(dp), allocatable :: mine(:, :)
    integer :: count, k, a, b, c, images(3)
    real(dp) :: s(3), d(3)
    images = int(reach/system%box%height + 0.5_dp)
    count = 0
    allocate (mine(4, 64))
    do k = 1, system%atoms%own
      s = system%box%fractions(system%atoms%x(1:3, k) - point)
      s = s - anint(s)
      do c = -images(3), images(3)
        do b = -images(2), images(2)
          do a = -images(1), images(1)
            d = matmul(system%box%edge, s + [a, b, c])
            if (norm2(d) > reach .or. norm2(d) < 1e-9_dp) cycle
            count = count + 1
            if (count > size(mine, 2)) mine = reshape(mine, [4, 2*count], pad=[0.0_dp])
            mine(:, count) = [d, real(system%atoms%species(k), dp)]
          end do
        end do
      end do
    end do
    if (system%domain%copies > 1) then ! this rank has all atoms
      near = mine(:, :count)
    else
      call gather_rows(system%domain, mine(:, :count), root, near)
    end if
  end subroutine gather_near

  !> Joins the ranks' rows, mine(4, :), in the order of ranks, to all(4, :) on rank `root` of the
  !> world.  Collective over it.
  subroutine gather_rows(domain, mine, root, all)
    type(domain_t), intent(in) :: domain
    integer, intent(in) :: root
    real(dp), intent(in) :: mine(:, :)
    real(dp), allocatable, intent(out) :: all(:, :)
    integer, dimension(domain%world_size) :: counts, offsets
    call MPI_Allgather(size(mine), 1, MPI_INTEGER, counts, 1, MPI_INTEGER, domain%world)
    offsets = offsets_of(counts)
    allocate (all(4, sum(counts)/4))
    call MPI_Gatherv(mine, size(mine), MPI_DOUBLE_PRECISION, all, counts, offsets, &
                     MPI_DOUBLE_PRECISION, root, domain%world)
  end subroutine gather_rows

end module md_reference
