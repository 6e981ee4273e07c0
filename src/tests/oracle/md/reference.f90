! Energies, forces and pressure of a small periodic crystal with displaced atoms, in 113 bits, by
! the potentials' definitions: sums over all pairs (Tersoff: all triples near), Tersoff's forces and
! all pressures by central differences of the energy.  It shares no code with the kernel.
!
! gfortran -O2 reference.f90 -o reference && ./reference sic >sic_ref.csv
!
! A second argument is another lattice constant (A); first lines of three of them are in
! ../../../md/md_oracle.f90.
!
! Prints id, force (eV/A) and energy (eV) of each atom, after a line with the total energy (eV) and
! the pressure -dE/dV (eV/A^3).  Parameters are the binary64 values next to the published decimals.
program reference
  use, intrinsic :: iso_fortran_env, only: int64, real64, real128
  implicit none (type, external)
  integer, parameter :: q = real128, d = real64
  real(q), parameter :: pi = acos(-1.0_q), h = 1e-11_q
  character(16) :: name, constant
  real(q), allocatable :: x(:, :), f(:, :), e(:)
  integer, allocatable :: kind(:), near(:, :)
  real(q) :: edge, total, up, down
  integer :: n, i, c

  call get_command_argument(1, name)
  call get_command_argument(2, constant)
  call build()
  n = size(kind)
  allocate (f(3, n), e(n))
  if (name == "sic") call find_near()
  call energies(x, edge, e)
  total = sum(e)
  if (name == "sic") then
    do i = 1, n
      do c = 1, 3
        f(c, i) = -(moved(i, c, h) - moved(i, c, -h))/(2*h)
      end do
    end do
  else
    call metal_forces(f)
  end if
  up = strained(1 + h)
  down = strained(1 - h)
  write (*, "(a, i0, 2(',', es24.16e3))") "#,", n, real(total, d), &
    real(-(up - down)/(2*h)/(3*edge**3), d)
  do i = 1, n
    write (*, "(i0, 4(',', es24.16e3))") i, real(f(:, i), d), real(e(i), d)
  end do

contains

  !> Cells in the order x, y, z (fastest), sites within; coordinate c of atom i is displaced by
  !> 0.2 (m/2^31 - 1/2) A, m = (1103515245 (3i + c) + 12345) mod 2^31.
  subroutine build()
    real(d) :: site(3, 24), a
    integer :: type_of(24), cells, sites, ix, iy, iz, s, k
    integer(int64) :: m
    site = 0
    site(:, 2:4) = reshape([0.0_d, 0.5_d, 0.5_d, 0.5_d, 0.0_d, 0.5_d, 0.5_d, 0.5_d, 0.0_d], [3, 3])
    type_of = 1
    select case (name)
    case ("sic")
      cells = 3
      a = 4.32_d
      sites = 8
      site(:, 5:8) = reshape([0.25_d, 0.25_d, 0.25_d, 0.25_d, 0.75_d, 0.75_d, 0.75_d, 0.25_d, &
                              0.75_d, 0.75_d, 0.75_d, 0.25_d], [3, 4])
      type_of(5:) = 2
    case ("cu3au")
      cells = 5
      a = 3.74_d
      sites = 4
      type_of(1) = 2
    case ("fe", "w")
      cells = 6
      a = merge(2.8665_d, 3.1652_d, name == "fe")
      sites = 2
      site(:, 2) = 0.5_d
    case ("gramicidin") ! hydrogen has no terms, but every third number
      cells = 3
      a = 6.3524_d
      sites = 24
      site(:, 13::3) = site(:, 1:4) + 0.25_d
      site(:, 1:10:3) = site(:, 1:4)
      type_of = 2
      type_of(1::3) = 1
    case ("nacl")
      cells = 5
      a = 5.64_d
      sites = 8
      site(:, 5:8) = reshape([0.5_d, 0.5_d, 0.5_d, 0.5_d, 0.0_d, 0.0_d, 0.0_d, 0.5_d, 0.0_d, &
                              0.0_d, 0.0_d, 0.5_d], [3, 4])
      type_of(5:) = 2
    case default
      error stop "usage: reference sic|cu3au|fe|w|nacl|gramicidin"
    end select
    if (constant /= "") read (constant, *) a
    edge = real(cells*a, q)
    allocate (x(3, sites*cells**3), kind(sites*cells**3))
    i = 0
    do ix = 0, cells - 1
      do iy = 0, cells - 1
        do iz = 0, cells - 1
          do s = 1, sites
            i = i + 1
            kind(i) = type_of(s)
            do k = 1, 3
              m = mod(1103515245_int64*(3*i + k) + 12345_int64, 2147483648_int64)
              x(k, i) = real((merge(ix, merge(iy, iz, k == 2), k == 1) + site(k, s))*a &
                             + 0.2_d*(real(m, d)/2147483648.0_d - 0.5_d), q)
            end do
          end do
        end do
      end do
    end do
  end subroutine build

  pure function apart(a, b, box) result(r)
    real(q), intent(in) :: a(3), b(3), box
    real(q) :: r(3)
    r = b - a - box*anint((b - a)/box)
  end function apart

  subroutine energies(at, box, each)
    real(q), intent(in) :: at(:, :), box
    real(q), intent(out) :: each(:)
    integer :: j
    do j = 1, size(each)
      each(j) = energy_of(j, at, box)
    end do
  end subroutine energies

  real(q) function strained(factor)
    real(q), intent(in) :: factor
    real(q) :: each(n)
    call energies(x*factor, edge*factor, each)
    strained = sum(each)
  end function strained

  !> Energy of the atoms that know where atom j is, with it moved.
  real(q) function moved(j, along, by)
    integer, intent(in) :: j, along
    real(q), intent(in) :: by
    real(q) :: at(3, n)
    integer :: k
    at = x
    at(along, j) = at(along, j) + by
    moved = energy_of(j, at, edge)
    do k = 1, near(0, j)
      moved = moved + energy_of(near(k, j), at, edge)
    end do
  end function moved

  subroutine find_near()
    integer :: j, k
    allocate (near(0:80, n))
    near = 0
    do j = 1, n
      do k = 1, n
        if (k == j .or. norm2(apart(x(:, j), x(:, k), edge)) > 3.3_q) cycle
        near(0, j) = near(0, j) + 1
        near(near(0, j), j) = k
      end do
    end do
  end subroutine find_near

  real(q) function energy_of(j, at, box)
    integer, intent(in) :: j
    real(q), intent(in) :: at(:, :), box
    real(q) :: r, rho, terms(4)
    integer :: k
    if (name == "sic") then
      energy_of = tersoff(j, at, box)
      return
    end if
    energy_of = 0
    rho = 0
    do k = 1, n
      if (k == j) cycle
      r = norm2(apart(at(:, j), at(:, k), box))
      terms = pair(kind(j) + kind(k) - 2, r)
      energy_of = energy_of + terms(1)/2
      rho = rho + terms(3)
    end do
    energy_of = energy_of - scale_of()*sqrt(rho)
  end function energy_of

  real(q) function scale_of()
    scale_of = 1
    if (name == "fe") scale_of = 1.828905_d
    if (name == "w") scale_of = 1.885948_d
  end function scale_of

  !> phi, phi', rho, rho' of a pair of species (0: both first, 1: mixed, 2: both second).
  function pair(species, r) result(t)
    integer, intent(in) :: species
    real(q), intent(in) :: r
    real(q) :: t(4), c, dd, beta, v(0:4), w, u, p, dp
    real(d), parameter :: a(0:2) = [0.0855_d, 0.1539_d, 0.2061_d], &
      xi(0:2) = [1.224_d, 1.5605_d, 1.790_d], pe(0:2) = [10.960_d, 11.05_d, 10.229_d], &
      qe(0:2) = [2.278_d, 3.0475_d, 4.036_d], r0(0:2) = [2.556_d, 2.65_d, 2.884_d]
    real(d), parameter :: joule = 1.602176634e-19_d, pauling(0:2) = [1.25_d, 1.0_d, 0.75_d], &
      radii(0:2) = [2.340_d, 2.755_d, 3.170_d], c6(0:2) = [1.68e-19_d, 11.2e-19_d, 116e-19_d], &
      d8(0:2) = [0.8e-19_d, 13.9e-19_d, 233e-19_d]
    t = 0
    if (name == "nacl") then ! without charges
      if (r >= 10.9_d) return
      u = real(0.338e-19_d, q)*pauling(species)*exp((radii(species) - r)/real(0.317_d, q))
      t(1) = (u - c6(species)/r**6 - d8(species)/r**8)/real(joule, q)
      t(2) = (-u/real(0.317_d, q) + 6*c6(species)/r**7 + 8*d8(species)/r**9)/real(joule, q)
      return
    end if
    if (name == "gramicidin") then ! exp-6, of SPC/E's well and distance; without charges
      if (r >= 9 .or. species > 0) return
      u = real(0.650_d, q)/96.48533212_d/(16 - 6)
      w = real(3.166_d, q)*2**(1/6.0_q)
      t(1) = u*(6*exp(16*(1 - r/w)) - 16*(w/r)**6)
      t(2) = u*96*((w/r)**6/r - exp(16*(1 - r/w))/w)
      return
    end if
    if (name == "cu3au") then
      if (r >= 6.2_d) return
      t(1) = 2*real(a(species), q)*exp(-pe(species)*(r/r0(species) - 1))
      t(2) = -real(pe(species), q)/r0(species)*t(1)
      t(3) = real(xi(species), q)**2*exp(-2*real(qe(species), q)*(r/r0(species) - 1))
      t(4) = -2*real(qe(species), q)/r0(species)*t(3)
      return
    end if
    if (name == "fe") then
      v = [1.2371147_d, -0.3592185_d, -0.0385607_d, 0.0_d, 0.0_d]
      c = 3.40_d
      dd = 3.569745_d
      beta = 1.8_d
    else
      v = [48.52796_d, -33.79621_d, 5.854334_d, -0.0098221_d, 0.033338_d]
      c = 3.25_d
      dd = 4.41_d
      beta = 0
    end if
    w = r - c
    p = v(0) + r*(v(1) + r*(v(2) + r*(v(3) + r*v(4))))
    dp = v(1) + r*(2*v(2) + r*(3*v(3) + r*4*v(4)))
    if (w < 0) t(1:2) = [w**2*p, 2*w*p + w**2*dp]
    u = r - dd
    if (u < 0) t(3:4) = [u**2 + beta*u**3/dd, 2*u + 3*beta*u**2/dd]
  end function pair

  subroutine metal_forces(force)
    real(q), intent(out) :: force(:, :)
    real(q) :: rho(n), slope(n), r(3), t(4)
    integer :: j, k
    rho = 0
    do j = 1, n
      do k = 1, n
        if (k == j) cycle
        t = pair(kind(j) + kind(k) - 2, norm2(apart(x(:, j), x(:, k), edge)))
        rho(j) = rho(j) + t(3)
      end do
    end do
    slope = 0
    where (rho > 0) slope = -scale_of()/(2*sqrt(rho))
    force = 0
    do j = 1, n
      do k = 1, n
        if (k == j) cycle
        r = apart(x(:, j), x(:, k), edge)
        t = pair(kind(j) + kind(k) - 2, norm2(r))
        force(:, j) = force(:, j) + (t(2) + (slope(j) + slope(k))*t(4))*r/norm2(r)
      end do
    end do
  end subroutine metal_forces

  real(q) function tersoff(j, at, box)
    integer, intent(in) :: j
    real(q), intent(in) :: at(:, :), box
    real(d), parameter :: a(2) = [1830.8_d, 1393.6_d], b(2) = [471.18_d, 346.74_d], &
      lambda(2) = [2.4799_d, 3.4879_d], mu(2) = [1.7322_d, 2.2119_d], &
      beta(2) = [1.1e-6_d, 1.5724e-7_d], m(2) = [0.78734_d, 0.72751_d], &
      cc(2) = [1.0039e5_d, 3.8049e4_d], dd(2) = [16.217_d, 4.3484_d], &
      hh(2) = [-0.59825_d, -0.57058_d]
    real(q) :: v(3, near(0, j)), r(near(0, j)), zeta, cosine, chi, bond, la, lm
    integer :: k, l, s, o
    s = kind(j)
    do k = 1, near(0, j)
      v(:, k) = apart(at(:, j), at(:, near(k, j)), box)
      r(k) = norm2(v(:, k))
    end do
    tersoff = 0
    do k = 1, near(0, j)
      o = kind(near(k, j))
      zeta = 0
      do l = 1, near(0, j)
        if (l == k) cycle
        cosine = dot_product(v(:, k), v(:, l))/(r(k)*r(l))
        zeta = zeta + cut(s, kind(near(l, j)), r(l))*(1 + (real(cc(s), q)/dd(s))**2 &
               - real(cc(s), q)**2/(real(dd(s), q)**2 + (hh(s) - cosine)**2))
      end do
      chi = 1
      if (s /= o) chi = 0.9776_d
      bond = chi*(1 + (beta(s)*zeta)**m(s))**(-1/(2*real(m(s), q)))
      la = (real(lambda(s), q) + lambda(o))/2
      lm = (real(mu(s), q) + mu(o))/2
      tersoff = tersoff + cut(s, o, r(k))*(sqrt(real(a(s), q)*a(o))*exp(-la*r(k)) &
                                           - bond*sqrt(real(b(s), q)*b(o))*exp(-lm*r(k)))/2
    end do
  end function tersoff

  real(q) function cut(s, o, r)
    integer, intent(in) :: s, o
    real(q), intent(in) :: r
    real(d), parameter :: inner(2) = [2.7_d, 1.8_d], outer(2) = [3.0_d, 2.1_d]
    real(q) :: from, to
    from = sqrt(real(inner(s), q)*inner(o))
    to = sqrt(real(outer(s), q)*outer(o))
    cut = 0
    if (r < from) then
      cut = 1
    else if (r < to) then
      cut = (1 + cos(pi*(r - from)/(to - from)))/2
    end if
  end function cut

end program reference
