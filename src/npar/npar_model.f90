! A crystal whose eigenvalues are known in closed form.
!
! Local potential: V = sum over d of 2 v_d cos(2 pi x_d / L_d), so that an eigenstate is a product
! of three one-dimensional ones, each from a tridiagonal matrix.  Nonlocal potential: the projectors
! of an atom are Householder mixtures of as many exact eigenstates, which it shifts by known
! amounts.
! Density-dependent potential: proportional to rho - rho*, where rho* is the density of the exact
! eigenstates, so that the self-consistent solution is the closed form.
! Hybrid functional: v = 0, eigenstates are plane waves, or cosines and sines of them.  The occupied
! states are a closed shell: with each wave all of its mirror images are occupied.  Then the density
! matrix depends on r - r' alone, and plane waves are eigenstates of exact exchange, which is a sum
! over pairs (the singular term left out).  An open shell has no closed form.
!
! Units: Hartree, bohr.  A plane wave is exp(-i (k + G) r), the sign of the transpose library's
! forward transform; G = 2 pi n / L.
module npar_model
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use npar_blas, only: dstev
  implicit none (type, external)
  private
  public :: crystal_t, spectrum_t, solve_spectra, householder, most_channels, pi
  public :: about_half, coupling, depth, exchange_mixing, frequencies, gap_above, grid_of_pairs
  public :: sorted

  real(dp), parameter :: pi = acos(-1.0_dp)
  !> Channels of an atom: two projectors for each of s, p and d (Kresse and Joubert, Phys. Rev. B
  !> 59, 1758, 1999).  As in VASP, all atoms have D_ij of so many: 166 kB of 64 atoms, 1.94 MB of
  !> 750.
  integer, parameter :: most_channels = 18
  real(dp), parameter :: exchange_mixing = 0.25_dp !< share of exact exchange, as in PBE0
  real(dp), parameter :: depth(3) = [0.35_dp, 0.45_dp, 0.60_dp] !< v_d, of the kinetic quantum
  !> The potential's answer to a density of twice the mean, at most: of the kinetic quantum.  Small,
  !> as it turns a density that is known to first order into eigenvalues that are to second.
  real(dp), parameter :: coupling = 0.01_dp
  real(dp), parameter :: largest_shift = 0.2_dp !< by projectors, of the kinetic quantum
  integer, parameter :: margin = 8 !< one-dimensional waves beyond the cutoff: they are converged

  !> A calculation.
  type :: crystal_t
    integer :: bands = 0, atoms = 0, kpoints = 1, grid(3) = 0
    real(dp) :: box(3) = 0 !< bohr
    real(dp) :: cutoff = 0 !< Hartree: plane waves with |G|**2 / 2 up to it
    logical :: gamma = .true. !< real wave functions: half the sphere is stored
    logical :: hybrid = .false.
    logical :: exchange_alone = .false. !< of a hybrid: a step is the exchange of given bands
    integer :: npar = 0 !< band groups of the code that it was published of; 0: any
    !> Of a chemical formula's first atom, and of its others.
    integer :: channels(2) = most_channels
    integer :: formula = 1 !< atoms
  contains
    procedure :: quantum => kinetic_quantum
    procedure :: radius => cutoff_radius
    procedure :: volume => box_volume
    procedure :: atoms_of_kinds
    procedure :: channels_of
    procedure :: projectors_before
    procedure :: projectors => count_projectors
  end type crystal_t

  !> The closed form at one k-point.
  type :: spectrum_t
    real(dp) :: kpoint(3) = 0 !< of 2 pi / L
    integer, allocatable :: quantum(:, :) !< (3, states) the one-dimensional states of a product
    real(dp), allocatable :: shift(:) !< (states) by projectors: Hartree
    real(dp), allocatable :: energy(:) !< (states) in ascending order: Hartree
    integer, allocatable :: state(:) !< (states) the product state of each energy
    real(dp), allocatable :: wave(:, :, :) !< (-m:m, one-dimensional state, 3) coefficients
    real(dp) :: exchange = 0 !< hybrid: of the occupied bands, their sum: Hartree
    real(dp), allocatable :: exchange_of(:) !< (states) hybrid, of each product state: Hartree
    logical, allocatable :: odd(:, :) !< (one-dimensional state, 3) parity, at k = 0
  contains
    procedure :: imaginary => factors_of_i
  end type spectrum_t

contains

  !> (2 pi / L)**2 / 2 of each direction: Hartree.
  pure function kinetic_quantum(self) result(q)
    class(crystal_t), intent(in) :: self
    real(dp) :: q(3)
    q = 0.5_dp*(2*pi/self%box)**2
  end function kinetic_quantum

  !> Radius of the cutoff in each direction, in units of 2 pi / L.
  pure function cutoff_radius(self) result(radius)
    class(crystal_t), intent(in) :: self
    real(dp) :: radius(3)
    radius = sqrt(self%cutoff/self%quantum())
  end function cutoff_radius

  !> Volume of the box: bohr^3.
  pure real(dp) function box_volume(self) result(volume)
    class(crystal_t), intent(in) :: self
    volume = product(self%box)
  end function box_volume

  !> Number of projectors of an atom.
  pure integer function channels_of(self, atom) result(count)
    class(crystal_t), intent(in) :: self
    integer, intent(in) :: atom
    ! Not channels(merge(1, 2, ...)), which GCC 12 miscompiles: see charges of md_ionic.
    count = merge(self%channels(1), self%channels(2), mod(atom - 1, self%formula) == 0)
  end function channels_of

  !> How many of so many atoms are a formula's first, and how many are others.
  pure function atoms_of_kinds(self, atoms) result(count)
    class(crystal_t), intent(in) :: self
    integer, intent(in) :: atoms
    integer :: count(2), firsts
    firsts = (atoms + self%formula - 1)/self%formula
    count = [firsts, atoms - firsts]
  end function atoms_of_kinds

  !> Number of projectors of all atoms before one.
  pure integer function projectors_before(self, atom) result(count)
    class(crystal_t), intent(in) :: self
    integer, intent(in) :: atom
    count = dot_product(self%channels, self%atoms_of_kinds(atom - 1))
  end function projectors_before

  !> Number of projectors of all atoms.
  pure integer function count_projectors(self) result(count)
    class(crystal_t), intent(in) :: self
    count = self%projectors_before(self%atoms + 1)
  end function count_projectors

  !> The vector v of the mixture 1 - 2 v v' of an atom's channels.
  pure function householder(atom, channels) result(v)
    integer, intent(in) :: atom, channels
    real(dp) :: v(channels)
    integer :: i
    v = [(cos(0.3_dp*i*atom + 1), i=1, channels)]
    v = v/norm2(v)
  end function householder

  !> A product of real one-dimensional states times i**n has c(-G) = conjg(c(G)).
  pure function factors_of_i(self, state) result(n)
    class(spectrum_t), intent(in) :: self
    integer, intent(in) :: state
    integer :: n, d
    n = 0
    do d = 1, 3
      if (self%odd(self%quantum(d, state), d)) n = n + 1
    end do
  end function factors_of_i

  !> The closed form at all k-points, and the number of occupied bands, the same at each: near half
  !> of the bands, where the gap is widest.  0: there are too few states within the cutoff, or no
  !> closed shell for a hybrid functional.
  subroutine solve_spectra(crystal, spectra, occupied)
    type(crystal_t), intent(in) :: crystal
    type(spectrum_t), allocatable, intent(out) :: spectra(:)
    integer, intent(out) :: occupied
    integer :: mesh(3), k
    allocate (spectra(crystal%kpoints))
    mesh = mesh_of(crystal%kpoints)
    do k = 1, crystal%kpoints
      if (.not. crystal%gamma) spectra(k)%kpoint = &
        (real([mod(k - 1, mesh(1)), mod((k - 1)/mesh(1), mesh(2)), (k - 1)/(mesh(1)*mesh(2))], dp) &
         + 0.5_dp)/(2*mesh + 1)
      call solve_spectrum(crystal, spectra(k))
    end do
    occupied = 0
    if (minval([(size(spectra(k)%energy), k=1, size(spectra))]) <= crystal%bands) return
    if (crystal%hybrid) then
      call fill_closed_shell(crystal, spectra, occupied)
    else
      occupied = widest_gap(crystal, spectra)
    end if
  end subroutine solve_spectra

  !> The smallest and the largest number of bands that may be occupied.
  pure function about_half(crystal) result(numbers)
    type(crystal_t), intent(in) :: crystal
    integer :: numbers(2)
    numbers = max(1, nint([0.3_dp, 0.7_dp]*crystal%bands))
  end function about_half

  !> Three factors of n, as equal as can be.
  pure function mesh_of(n) result(mesh)
    integer, intent(in) :: n
    integer :: mesh(3), i, j
    mesh = [n, 1, 1]
    do i = 1, n
      if (mod(n, i) /= 0) cycle
      do j = i, n/i
        if (mod(n/i, j) == 0 .and. n/i/j >= j) then
          if (n/i/j - i < mesh(1) - mesh(3)) mesh = [n/i/j, j, i]
        end if
      end do
    end do
  end function mesh_of

  !> The closed form at one k-point: product states within the cutoff, the lowest sorted, with
  !> shifts.
  subroutine solve_spectrum(crystal, s)
    type(crystal_t), intent(in) :: crystal
    type(spectrum_t), intent(inout) :: s
    real(dp), allocatable :: level(:, :), sums(:)
    integer, allocatable :: order(:), triple(:, :)
    real(dp) :: q(3), v, limit
    integer :: d, i, m, n, states, wanted
    q = crystal%quantum()
    m = maxval(int(crystal%radius())) + margin
    n = 2*m + 1
    allocate (level(n, 3), s%wave(-m:m, n, 3), s%odd(n, 3))
    do d = 1, 3
      v = merge(0.0_dp, depth(d)*q(d), crystal%hybrid)
      call solve_line(q(d), s%kpoint(d), v, m, level(:, d), s%wave(:, :, d), s%odd(:, d))
    end do
    ! a plane wave more than the cutoff away is in none of the states that are asked for
    limit = crystal%cutoff
    states = states_below(level, limit)
    wanted = min(states, crystal%projectors() + 2*crystal%bands + 64)
    ! states grow with the power 1.5: few more than are wanted need be sorted
    if (states > 2*wanted) limit = limit*(1.5_dp*wanted/states)**(2/3.0_dp)
    if (states_below(level, limit) < wanted) limit = crystal%cutoff
    states = states_below(level, limit)
    allocate (sums(states), triple(3, states))
    states = states_below(level, limit, sums, triple)
    order = sorted(sums)
    s%quantum = triple(:, order(:wanted))
    s%energy = sums(order(:wanted))
    allocate (s%shift(wanted))
    s%shift = 0
    do i = 1, min(wanted, crystal%projectors())
      s%shift(i) = largest_shift*minval(q)*cos(1.3_dp*i)
    end do
    call arrange(s, s%energy + s%shift)
  end subroutine solve_spectrum

  !> Number of the product states up to an energy (Hartree), with their energies and one-dimensional
  !> states.
  integer function states_below(level, limit, sums, triple) result(states)
    real(dp), intent(in) :: level(:, :), limit
    real(dp), intent(inout), optional :: sums(:)
    integer, intent(inout), optional :: triple(:, :)
    integer :: i, j, k
    states = 0
    do i = 1, size(level, 1)
      do j = 1, size(level, 1)
        if (level(i, 1) + level(j, 2) + minval(level(:, 3)) > limit) cycle
        do k = 1, size(level, 1)
          if (level(i, 1) + level(j, 2) + level(k, 3) > limit) cycle
          states = states + 1
          if (.not. present(sums)) cycle
          sums(states) = level(i, 1) + level(j, 2) + level(k, 3)
          triple(:, states) = [i, j, k]
        end do
      end do
    end do
  end function states_below

  !> Sorts by `energy`, given by product state.
  subroutine arrange(s, energy)
    type(spectrum_t), intent(inout) :: s
    real(dp), intent(in) :: energy(:)
    s%state = sorted(energy)
    s%energy = energy(s%state)
  end subroutine arrange

  !> H = q (n + k)**2 + v (|n><n+1| + |n+1><n|), n = -m..m.  At k = 0 even and odd states apart, as
  !> those of near-degenerate pairs must not mix.
  subroutine solve_line(q, k, v, m, level, wave, odd)
    real(dp), intent(in) :: q, k, v
    integer, intent(in) :: m
    real(dp), intent(out) :: level(:), wave(-m:, :)
    logical, intent(out) :: odd(:)
    real(dp), allocatable :: z(:, :)
    real(dp), parameter :: half = sqrt(0.5_dp)
    integer :: j, n
    wave = 0
    odd = .false.
    if (abs(k) > 0) then
      call diagonalise([(q*(n + k)**2, n=-m, m)], [(v, n=1, 2*m)], level, z)
      wave = z
      return
    end if
    call diagonalise([(q*n**2, n=0, m)], [v*sqrt(2.0_dp), (v, n=1, m - 1)], level(:m + 1), z)
    do j = 1, m + 1
      wave(0, j) = z(1, j)
      wave(1:m, j) = half*z(2:, j)
      wave(-m:-1, j) = half*z(m + 1:2:-1, j)
    end do
    call diagonalise([(q*n**2, n=1, m)], [(v, n=1, m - 1)], level(m + 2:), z)
    odd(m + 2:) = .true.
    do j = 1, m
      wave(1:m, m + 1 + j) = half*z(:, j)
      wave(-m:-1, m + 1 + j) = -half*z(m:1:-1, j)
    end do
  end subroutine solve_line

  !> Eigenvalues, ascending, and eigenvectors of a symmetric tridiagonal matrix.
  subroutine diagonalise(diagonal, beside, values, vectors)
    real(dp), intent(in) :: diagonal(:), beside(:)
    real(dp), intent(out) :: values(:)
    real(dp), allocatable, intent(out) :: vectors(:, :)
    real(dp) :: e(size(beside) + 1), work(2*size(diagonal))
    integer :: n, info
    n = size(diagonal)
    values = diagonal
    e(:size(beside)) = beside
    allocate (vectors(n, n))
    call dstev("V", n, values, e, vectors, n, work, info)
    if (info /= 0) error stop "dstev did not converge"
  end subroutine diagonalise

  !> Of the numbers of bands near half of all, the one above which the gap is widest at every k.
  pure function widest_gap(crystal, spectra) result(occupied)
    type(crystal_t), intent(in) :: crystal
    type(spectrum_t), intent(in) :: spectra(:)
    integer :: occupied, n
    integer :: numbers(2)
    numbers = about_half(crystal)
    occupied = numbers(1)
    do n = numbers(1) + 1, numbers(2)
      if (gap_above(spectra, n) > gap_above(spectra, occupied)) occupied = n
    end do
  end function widest_gap

  !> The smallest distance of band n from the next at any k-point: Hartree.
  pure real(dp) function gap_above(spectra, n) result(gap)
    type(spectrum_t), intent(in) :: spectra(:)
    integer, intent(in) :: n
    integer :: k
    gap = minval([(spectra(k)%energy(n + 1) - spectra(k)%energy(n), k=1, size(spectra))])
  end function gap_above

  !> Fills the closed shell with the widest gap above it, and adds its exact exchange.
  subroutine fill_closed_shell(crystal, spectra, occupied)
    type(crystal_t), intent(in) :: crystal
    type(spectrum_t), intent(inout) :: spectra(:)
    integer, intent(out) :: occupied
    type(spectrum_t) :: candidate(1)
    type(spectrum_t), allocatable :: widest
    logical, allocatable :: closed(:)
    integer :: numbers(2), n
    numbers = about_half(crystal)
    closed = closed_below(spectra(1), numbers(2))
    occupied = 0
    do n = max(2, numbers(1)), numbers(2) ! a single wave exchanges with nothing
      if (.not. closed(n)) cycle
      candidate = spectra
      call add_exchange(crystal, candidate(1), n)
      if (.not. same_states(spectra(1)%state(:n), candidate(1)%state(:n))) cycle
      if (occupied > 0) then
        if (gap_above(candidate, n) <= gap_above([widest], occupied)) cycle
      end if
      occupied = n
      widest = candidate(1)
    end do
    if (occupied > 0) spectra(1) = widest
  end subroutine fill_closed_shell

  !> The smallest grid that holds products of a band and an occupied band.
  pure function grid_of_pairs(s, bands, occupied) result(grid)
    type(spectrum_t), intent(in) :: s
    integer, intent(in) :: bands, occupied
    integer :: grid(3), of_bands(3), of_occupied(3), i
    of_bands = 0
    of_occupied = 0
    do i = 1, bands
      of_bands = max(of_bands, frequencies(s, s%state(i), .false.))
      if (i == occupied) of_occupied = of_bands
    end do
    grid = 2*(of_bands + of_occupied) + 1
  end function grid_of_pairs

  !> Whether the lowest 1..n states are a closed shell, (n).
  pure function closed_below(s, n) result(closed)
    type(spectrum_t), intent(in) :: s
    integer, intent(in) :: n
    logical :: closed(n)
    integer :: wave(3, n), i, missing
    missing = 0
    do i = 1, n
      wave(:, i) = frequencies(s, s%state(i), .false.)
      if (any(all(wave(:, :i - 1) == spread(wave(:, i), 2, i - 1), 1))) then
        missing = missing - 1
      else
        missing = missing + 2**count(wave(:, i) > 0) - 1
      end if
      closed(i) = missing == 0
    end do
  end function closed_below

  !> Whether two lists have the same states, in any order.
  pure logical function same_states(a, b) result(same)
    integer, intent(in) :: a(:), b(:)
    integer :: i
    same = all([(any(b == a(i)), i=1, size(a))])
  end function same_states

  !> Plane waves: -a 4 pi / volume * sum over occupied G' /= G of 1 / |G - G'|**2.
  subroutine add_exchange(crystal, s, occupied)
    type(crystal_t), intent(in) :: crystal
    type(spectrum_t), intent(inout) :: s
    integer, intent(in) :: occupied
    real(dp), allocatable :: energy(:)
    integer :: n(3), other(3, occupied), i, j
    real(dp) :: x, distance
    ! the states of a product of cosines and sines are as many as its plane waves
    do j = 1, occupied
      other(:, j) = frequencies(s, s%state(j), .true.)
    end do
    allocate (energy(size(s%energy)), s%exchange_of(size(s%energy)))
    do i = 1, size(s%energy)
      n = frequencies(s, s%state(i), .false.)
      x = 0
      do j = 1, occupied
        distance = sum(2*crystal%quantum()*(n - other(:, j))**2)
        if (distance > 0) x = x + 1/distance
      end do
      x = -exchange_mixing*4*pi/crystal%volume()*x
      energy(s%state(i)) = s%energy(i) + x
      s%exchange_of(s%state(i)) = x
      if (i <= occupied) s%exchange = s%exchange + x
    end do
    call arrange(s, energy)
  end subroutine add_exchange

  !> |n| of each direction; `signed`: the sine stands for -|n|, the cosine for |n|.
  pure function frequencies(s, state, signed) result(n)
    type(spectrum_t), intent(in) :: s
    integer, intent(in) :: state
    logical, intent(in) :: signed
    integer :: n(3), d, j, even
    even = (size(s%odd, 1) + 1)/2
    do d = 1, 3
      j = s%quantum(d, state)
      n(d) = merge(j - even, j - 1, s%odd(j, d))
      if (signed .and. s%odd(j, d)) n(d) = -n(d)
    end do
  end function frequencies

  !> Places of x in ascending order; equal ones keep theirs (heap sort).
  pure function sorted(x) result(order)
    real(dp), intent(in) :: x(:)
    integer, allocatable :: order(:)
    integer :: i, n, swap
    n = size(x)
    order = [(i, i=1, n)]
    do i = n/2, 1, -1
      call sift(x, order, i, n)
    end do
    do i = n, 2, -1
      swap = order(1)
      order(1) = order(i)
      order(i) = swap
      call sift(x, order, 1, i - 1)
    end do
  end function sorted

  !> One step of heapsort on order(first:last).
  pure subroutine sift(x, order, first, last)
    real(dp), intent(in) :: x(:)
    integer, intent(inout) :: order(:)
    integer, intent(in) :: first, last
    integer :: parent, child, moving
    moving = order(first)
    parent = first
    do while (2*parent <= last)
      child = 2*parent
      if (child < last) then
        if (before(x, order(child), order(child + 1))) child = child + 1
      end if
      if (.not. before(x, moving, order(child))) exit
      order(parent) = order(child)
      parent = child
    end do
    order(parent) = moving
  end subroutine sift

  !> Whether x(i) is before x(j): equal numbers stay in order.
  pure logical function before(x, i, j) result(less)
    real(dp), intent(in) :: x(:)
    integer, intent(in) :: i, j
    less = x(i) < x(j) .or. (.not. x(i) > x(j) .and. i < j)
  end function before

end module npar_model
