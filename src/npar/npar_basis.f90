! The plane waves of a team: which columns of the grid each rank owns, which plane waves stand in
! them, and the way between a band's coefficients and its columns.
!
! Coefficients are pairs of reals, plane waves of a column adjoining in ascending z.  Gamma: of G
! and -G one is stored, times sqrt(2), so that a product over the stored ones is that over the
! sphere; two bands a and b travel as the columns of a + i b; the column of -G is its owner's too.
module npar_basis
  use, intrinsic :: iso_c_binding, only: dp => c_double, c_int
  use npar_model, only: crystal_t, sorted, spectrum_t
  implicit none (type, external)
  private
  public :: basis_t, make_basis, beyond_cutoff, count_plane_waves

  !> A column's stored plane waves: z = low..high, from coefficient `first` on.
  type :: line_t
    integer :: x, y, low, high, first
    integer :: column, mirror !< among the rank's columns; mirror 0: none (complex waves)
  end type line_t

  type :: basis_t
    logical :: gamma
    integer :: grid(3)
    integer :: waves = 0 !< plane waves stored here
    integer :: columns = 0 !< of this rank
    integer(c_int), allocatable :: column_xy(:), column_owner(:) !< of all ranks of the team
    type(line_t), allocatable :: lines(:)
    integer :: origin = 0 !< the coefficient of G = 0, 0 where another rank has it
  contains
    procedure :: fill
    procedure :: take
    procedure :: kinetic
    procedure :: exact
    procedure :: labels
  end type basis_t

contains

  !> Of the whole sphere, or of the stored half.
  pure integer function count_plane_waves(crystal) result(count)
    type(crystal_t), intent(in) :: crystal
    integer :: x, y, high, r(3)
    r = int(crystal%radius())
    count = 0
    do y = -r(2), r(2)
      do x = -r(1), r(1)
        high = height(crystal, x, y)
        if (high >= 0) count = count + 2*high + 1
      end do
    end do
    if (crystal%gamma) count = (count + 1)/2
  end function count_plane_waves

  !> Largest z of the sphere over a column, -1 outside.
  pure integer function height(crystal, x, y) result(z)
    type(crystal_t), intent(in) :: crystal
    integer, intent(in) :: x, y
    real(dp) :: q(3), left
    q = crystal%quantum()
    left = crystal%cutoff*(1 + 1e-12_dp) - q(1)*x**2 - q(2)*y**2
    z = -1
    if (left >= 0) z = int(sqrt(left/q(3)))
  end function height

  !> The part of rank `me` of `ranks`.  Short runs of columns along x are dealt out, those with most
  !> plane waves first, each to the rank that has fewest so far.
  type(basis_t) function make_basis(crystal, ranks, me) result(basis)
    type(crystal_t), intent(in) :: crystal
    integer, intent(in) :: ranks, me
    type(line_t), allocatable :: lines(:)
    integer, allocatable :: run(:), owner(:)
    integer :: x, y, high, r(3), count
    basis%gamma = crystal%gamma
    basis%grid = crystal%grid
    r = int(crystal%radius())
    allocate (lines((2*r(1) + 1)*(2*r(2) + 1)))
    count = 0
    do y = merge(0, -r(2), crystal%gamma), r(2)
      do x = -r(1), r(1)
        high = height(crystal, x, y)
        if (high < 0 .or. (crystal%gamma .and. y == 0 .and. x < 0)) cycle
        count = count + 1
        lines(count) = line_t(x, y, -high, high, 0, 0, 0)
        if (crystal%gamma .and. y == 0 .and. x == 0) lines(count)%low = 0
      end do
    end do
    lines = lines(:count)
    run = runs_of(lines, max(1, min(8, count/(8*ranks))))
    owner = owners_of(lines, run, ranks)
    call name_columns(basis, lines, owner)
    basis%lines = pack(lines, owner == me)
    call place_lines(basis, me)
  end function make_basis

  !> Number of the run that each line is in: neighbours along x, at most so many.
  pure function runs_of(lines, longest) result(run)
    type(line_t), intent(in) :: lines(:)
    integer, intent(in) :: longest
    integer, allocatable :: run(:)
    integer :: i, length
    allocate (run(size(lines)))
    run(1) = 1
    length = 1
    do i = 2, size(lines)
      length = length + 1
      run(i) = run(i - 1)
      if (length > longest .or. lines(i)%y /= lines(i - 1)%y) then
        run(i) = run(i) + 1
        length = 1
      end if
    end do
  end function runs_of

  !> Owner of each line: each run goes to the rank with the fewest plane waves so far.
  pure function owners_of(lines, run, ranks) result(owner)
    type(line_t), intent(in) :: lines(:)
    integer, intent(in) :: run(:), ranks
    integer, allocatable :: owner(:)
    integer, allocatable :: weight(:), heaviest(:), owner_of_run(:)
    integer :: load(ranks), i, best
    allocate (weight(run(size(run))), owner_of_run(run(size(run))))
    weight = 0
    do i = 1, size(lines)
      weight(run(i)) = weight(run(i)) + lines(i)%high - lines(i)%low + 1
    end do
    heaviest = sorted(-real(weight, dp))
    load = 0
    do i = 1, size(weight)
      best = minloc(load, 1)
      owner_of_run(heaviest(i)) = best - 1
      load(best) = load(best) + weight(heaviest(i))
    end do
    owner = owner_of_run(run)
  end function owners_of

  !> Every column of the team in the numbering of the grid, y * nx + x, with the mirrors.
  subroutine name_columns(basis, lines, owner)
    type(basis_t), intent(inout) :: basis
    type(line_t), intent(in) :: lines(:)
    integer, intent(in) :: owner(:)
    integer :: i, n
    allocate (basis%column_xy(2*size(lines)), basis%column_owner(2*size(lines)))
    n = 0
    do i = 1, size(lines)
      n = n + 1
      basis%column_xy(n) = int(place(basis%grid, lines(i)%x, lines(i)%y), c_int)
      basis%column_owner(n) = int(owner(i), c_int)
      if (basis%gamma .and. (lines(i)%x /= 0 .or. lines(i)%y /= 0)) then
        n = n + 1
        basis%column_xy(n) = int(place(basis%grid, -lines(i)%x, -lines(i)%y), c_int)
        basis%column_owner(n) = int(owner(i), c_int)
      end if
    end do
    basis%column_xy = basis%column_xy(:n)
    basis%column_owner = basis%column_owner(:n)
  end subroutine name_columns

  !> Number of a column in the grid, y * nx + x.
  pure integer function place(grid, x, y) result(xy)
    integer, intent(in) :: grid(3), x, y
    xy = modulo(y, grid(2))*grid(1) + modulo(x, grid(1))
  end function place

  !> Where my lines begin, and which of my columns, in ascending order, are theirs.
  subroutine place_lines(basis, me)
    type(basis_t), intent(inout) :: basis
    integer, intent(in) :: me
    integer, allocatable :: mine(:)
    integer :: i
    mine = pack(basis%column_xy, basis%column_owner == me)
    mine = mine(sorted(real(mine, dp)))
    basis%columns = size(mine)
    basis%waves = 0
    do i = 1, size(basis%lines)
      associate (line => basis%lines(i))
        line%first = basis%waves + 1
        line%column = findloc(mine, place(basis%grid, line%x, line%y), 1)
        if (basis%gamma) line%mirror = findloc(mine, place(basis%grid, -line%x, -line%y), 1)
        if (line%x == 0 .and. line%y == 0) basis%origin = line%first - line%low
        basis%waves = basis%waves + line%high - line%low + 1
      end associate
    end do
  end subroutine place_lines

  !> Columns (nz, columns) of a band, or of two at the gamma point; every element is written.
  subroutine fill(self, columns, a, b)
    class(basis_t), intent(in) :: self
    complex(dp), intent(out) :: columns(0:, :)
    real(dp), intent(in), contiguous :: a(:)
    real(dp), intent(in), contiguous, optional :: b(:)
    integer :: i
    !$omp parallel do schedule(static)
    do i = 1, size(self%lines)
      if (.not. self%gamma) then
        call fill_line(self%lines(i), self%grid(3), columns(:, self%lines(i)%column), a)
      else if (present(b)) then
        call fill_pair(self%lines(i), self%grid(3), columns, a, b)
      else
        call fill_real(self%lines(i), self%grid(3), columns, a)
      end if
    end do
  end subroutine fill

  pure subroutine fill_line(line, nz, column, a)
    type(line_t), intent(in) :: line
    integer, intent(in) :: nz
    complex(dp), intent(out) :: column(0:)
    real(dp), intent(in) :: a(2, *)
    integer :: z, at
    at = line%first - line%low
    do z = 0, line%high
      column(z) = cmplx(a(1, at + z), a(2, at + z), dp)
    end do
    column(line%high + 1:nz + line%low - 1) = 0
    do z = line%low, -1
      column(nz + z) = cmplx(a(1, at + z), a(2, at + z), dp)
    end do
  end subroutine fill_line

  !> a + i b at G, conjg(a) + i conjg(b) at -G.
  pure subroutine fill_pair(line, nz, columns, a, b)
    type(line_t), intent(in) :: line
    integer, intent(in) :: nz
    complex(dp), intent(inout) :: columns(0:, :)
    real(dp), intent(in) :: a(2, *), b(2, *)
    real(dp), parameter :: half = sqrt(0.5_dp)
    integer :: z, at, c, m
    at = line%first - line%low
    c = line%column
    m = line%mirror
    columns(line%high + 1:nz - line%high - 1, c) = 0
    columns(line%high + 1:nz - line%high - 1, m) = 0
    do z = max(line%low, 0), line%high
      columns(z, c) = half*cmplx(a(1, at + z) - b(2, at + z), a(2, at + z) + b(1, at + z), dp)
    end do
    do z = line%low, -1
      columns(nz + z, c) = half*cmplx(a(1, at + z) - b(2, at + z), a(2, at + z) + b(1, at + z), dp)
      columns(-z, m) = half*cmplx(a(1, at + z) + b(2, at + z), b(1, at + z) - a(2, at + z), dp)
    end do
    do z = max(line%low, 1), line%high
      columns(nz - z, m) = half*cmplx(a(1, at + z) + b(2, at + z), b(1, at + z) - a(2, at + z), dp)
    end do
    if (c == m) then
      columns(0, c) = cmplx(a(1, at), b(1, at), dp)
    else
      columns(0, m) = half*cmplx(a(1, at) + b(2, at), b(1, at) - a(2, at), dp)
    end if
  end subroutine fill_pair

  pure subroutine fill_real(line, nz, columns, a)
    type(line_t), intent(in) :: line
    integer, intent(in) :: nz
    complex(dp), intent(inout) :: columns(0:, :)
    real(dp), intent(in) :: a(2, *)
    real(dp), parameter :: half = sqrt(0.5_dp)
    integer :: z, at, c, m
    at = line%first - line%low
    c = line%column
    m = line%mirror
    columns(line%high + 1:nz - line%high - 1, c) = 0
    columns(line%high + 1:nz - line%high - 1, m) = 0
    do z = line%low, line%high
      columns(modulo(z, nz), c) = half*cmplx(a(1, at + z), a(2, at + z), dp)
      if (c /= m .or. z /= 0) then
        columns(modulo(-z, nz), m) = half*cmplx(a(1, at + z), -a(2, at + z), dp)
      end if
    end do
    if (c == m) columns(0, c) = a(1, at)
  end subroutine fill_real

  !> Adds `scale` times what the columns hold to the coefficients; the inverse of fill.
  subroutine take(self, columns, scale, a, b)
    class(basis_t), intent(in) :: self
    complex(dp), intent(in) :: columns(0:, :)
    real(dp), intent(in) :: scale
    real(dp), intent(inout), contiguous :: a(:)
    real(dp), intent(inout), contiguous, optional :: b(:)
    integer :: i
    !$omp parallel do schedule(static)
    do i = 1, size(self%lines)
      if (.not. self%gamma) then
        call take_line(self%lines(i), self%grid(3), columns(:, self%lines(i)%column), scale, a)
      else if (present(b)) then
        call take_pair(self%lines(i), self%grid(3), columns, scale, a, b)
      else
        call take_real(self%lines(i), self%grid(3), columns, scale, a)
      end if
    end do
  end subroutine take

  pure subroutine take_line(line, nz, column, scale, a)
    type(line_t), intent(in) :: line
    integer, intent(in) :: nz
    complex(dp), intent(in) :: column(0:)
    real(dp), intent(in) :: scale
    real(dp), intent(inout) :: a(2, *)
    integer :: z, at
    at = line%first - line%low
    do z = 0, line%high
      a(1, at + z) = a(1, at + z) + scale*real(column(z), dp)
      a(2, at + z) = a(2, at + z) + scale*aimag(column(z))
    end do
    do z = line%low, -1
      a(1, at + z) = a(1, at + z) + scale*real(column(nz + z), dp)
      a(2, at + z) = a(2, at + z) + scale*aimag(column(nz + z))
    end do
  end subroutine take_line

  !> a = (u + conjg(w)) / 2, b = (u - conjg(w)) / 2i, with u at G and w at -G.
  pure subroutine take_pair(line, nz, columns, scale, a, b)
    type(line_t), intent(in) :: line
    integer, intent(in) :: nz
    complex(dp), intent(in) :: columns(0:, :)
    real(dp), intent(in) :: scale
    real(dp), intent(inout) :: a(2, *), b(2, *)
    real(dp) :: f
    integer :: z, at, c, m
    at = line%first - line%low
    c = line%column
    m = line%mirror
    f = scale*sqrt(0.5_dp)
    if (c == m) then ! G = 0 has no other half, and its coefficient is real
      a(1, at) = a(1, at) + scale*real(columns(0, c), dp)
      b(1, at) = b(1, at) + scale*aimag(columns(0, c))
    else
      call split(f, columns(0, c), columns(0, m), a(:, at), b(:, at))
    end if
    do z = max(line%low, 1), line%high
      call split(f, columns(z, c), columns(nz - z, m), a(:, at + z), b(:, at + z))
    end do
    do z = line%low, -1
      call split(f, columns(nz + z, c), columns(-z, m), a(:, at + z), b(:, at + z))
    end do
  end subroutine take_pair

  pure subroutine split(f, u, w, a, b)
    real(dp), intent(in) :: f
    complex(dp), intent(in) :: u, w
    real(dp), intent(inout) :: a(2), b(2)
    a(1) = a(1) + f*(real(u, dp) + real(w, dp))
    a(2) = a(2) + f*(aimag(u) - aimag(w))
    b(1) = b(1) + f*(aimag(u) + aimag(w))
    b(2) = b(2) + f*(real(w, dp) - real(u, dp))
  end subroutine split

  pure subroutine take_real(line, nz, columns, scale, a)
    type(line_t), intent(in) :: line
    integer, intent(in) :: nz
    complex(dp), intent(in) :: columns(0:, :)
    real(dp), intent(in) :: scale
    real(dp), intent(inout) :: a(2, *)
    real(dp) :: f, unused(2)
    integer :: z, at, c, m
    at = line%first - line%low
    c = line%column
    m = line%mirror
    f = scale*sqrt(0.5_dp)
    do z = line%low, line%high
      if (c == m .and. z == 0) then
        a(1, at) = a(1, at) + scale*real(columns(0, c), dp)
      else
        call split(f, columns(modulo(z, nz), c), columns(modulo(-z, nz), m), a(:, at + z), unused)
      end if
    end do
  end subroutine take_real

  !> Of a product state's coefficients beyond the cutoff: the sum of their squares, and that of
  !> their magnitudes.
  pure function beyond_cutoff(crystal, s, state) result(sums)
    type(crystal_t), intent(in) :: crystal
    type(spectrum_t), intent(in) :: s
    integer, intent(in) :: state
    real(dp) :: sums(2), xy
    real(dp), allocatable :: wave(:), above(:, :)
    integer :: x, y, z, m, q(3)
    m = ubound(s%wave, 1)
    q = s%quantum(:, state)
    allocate (wave(-m:m), above(2, -1:m), source=0.0_dp)
    wave = abs(s%wave(:, q(3), 3))
    do z = m - 1, -1, -1 ! of all |G_z| above z; of all, above -1
      above(:, z) = above(:, z + 1) + [wave(z + 1)**2, wave(z + 1)]
      if (z >= 0) above(:, z) = above(:, z) + [wave(-z - 1)**2, wave(-z - 1)]
    end do
    sums = 0
    do y = -m, m
      do x = -m, m
        xy = abs(s%wave(x, q(1), 1)*s%wave(y, q(2), 2))
        sums = sums + [xy**2, xy]*above(:, min(height(crystal, x, y), m))
      end do
    end do
  end function beyond_cutoff

  !> |k + G|**2 / 2 of every coefficient: Hartree, (waves).
  function kinetic(self, crystal, kpoint) result(energy)
    class(basis_t), intent(in) :: self
    type(crystal_t), intent(in) :: crystal
    real(dp), intent(in) :: kpoint(3)
    real(dp), allocatable :: energy(:)
    real(dp) :: q(3)
    integer, allocatable :: g(:, :)
    integer :: i
    q = crystal%quantum()
    g = self%labels()
    allocate (energy(self%waves))
    do i = 1, self%waves
      energy(i) = sum(q*(g(:, i) + kpoint)**2)
    end do
  end function kinetic

  !> Coefficients of a product state, (2 * waves).
  subroutine exact(self, s, state, c)
    class(basis_t), intent(in) :: self
    type(spectrum_t), intent(in) :: s
    integer, intent(in) :: state
    real(dp), intent(out) :: c(2, *)
    real(dp) :: xy, factor, signs(2)
    integer :: i, low, first, count, part, power
    power = 0
    if (self%gamma) power = s%imaginary(state)
    part = 1 + mod(power, 2) ! i**power is real or imaginary
    factor = merge(sqrt(2.0_dp), 1.0_dp, self%gamma)*merge(-1.0_dp, 1.0_dp, mod(power/2, 2) == 1)
    !$omp parallel do schedule(static) private(low, first, count, xy)
    do i = 1, size(self%lines)
      low = self%lines(i)%low
      first = self%lines(i)%first
      count = self%lines(i)%high - low + 1
      xy = factor*s%wave(self%lines(i)%x, s%quantum(1, state), 1) &
           *s%wave(self%lines(i)%y, s%quantum(2, state), 2)
      c(part, first:first + count - 1) = xy*s%wave(low:low + count - 1, s%quantum(3, state), 3)
      c(3 - part, first:first + count - 1) = 0
    end do
    if (self%gamma .and. self%origin > 0) then
      signs = c(:, self%origin)
      c(:, self%origin) = [signs(1)*sqrt(0.5_dp), 0.0_dp]
    end if
  end subroutine exact

  !> (3, waves) the G of every coefficient, in units of 2 pi / L.
  function labels(self) result(g)
    class(basis_t), intent(in) :: self
    integer, allocatable :: g(:, :)
    integer :: i, z
    allocate (g(3, self%waves))
    do i = 1, size(self%lines)
      associate (line => self%lines(i))
        do z = line%low, line%high
          g(:, line%first + z - line%low) = [line%x, line%y, z]
        end do
      end associate
    end do
  end function labels

end module npar_basis
