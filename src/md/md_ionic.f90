! Pairs of ions: the part of Ewald's sum in real space, and short-range repulsion and dispersion.
!
! erfc(b r)/r is 1/r less a smooth function of r^2, which a polynomial gives: no exponential, no
! table (the rest of the sum: md_mesh).
module md_ionic
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use md_pairs, only: batch, distances, next_batch
  use md_potential, only: coulomb, potential_t
  implicit none (type, external)
  private
  public :: ionic_pass, ionic_energies, find_smooth

  integer, parameter :: degree = 18
  real(dp), parameter :: pi = acos(-1.0_dp)

  !> erf(b r)/r (1/A) and its -(d/dr)/r (1/A^3), as polynomials in per_r2 r^2 - 1, which is -1 to 1
  !> within the cutoff.
  type, public :: smooth_t
    real(dp) :: per_r2 = 0, potential(0:degree) = 0, force(0:degree) = 0
  end type smooth_t

contains

  !> The polynomials of a potential's splitting parameter, by interpolation at Chebyshev's points.
  pure type(smooth_t) function find_smooth(p) result(smooth)
    type(potential_t), intent(in) :: p
    real(dp) :: angle(0:degree), values(0:degree, 2), r, x
    integer :: i
    smooth%per_r2 = 2/p%cutoff**2
    angle = pi*([(i, i=0, degree)] + 0.5_dp)/(degree + 1)
    do i = 0, degree
      r = sqrt((cos(angle(i)) + 1)/smooth%per_r2)
      x = p%splitting*r
      values(i, 1) = erf(x)/r
      values(i, 2) = (values(i, 1) - 2*p%splitting/sqrt(pi)*exp(-x*x))/r**2
    end do
    smooth%potential = polynomial_through(angle, values(:, 1))
    smooth%force = polynomial_through(angle, values(:, 2))
  end function find_smooth

  !> Coefficients of the polynomial that has `values` at cos(angle), Chebyshev's points.
  pure function polynomial_through(angle, values) result(coefficients)
    real(dp), intent(in) :: angle(0:degree), values(0:degree)
    real(dp) :: coefficients(0:degree)
    real(dp), dimension(0:degree) :: before, now, next !< of Chebyshev's polynomials, by powers
    integer :: k
    before = 0
    now = 0
    now(0) = 1
    coefficients = 0
    do k = 0, degree
      coefficients = coefficients + now*sum(values*cos(k*angle))*merge(1, 2, k == 0)/(degree + 1)
      next = merge(1, 2, k == 0)*[0.0_dp, now(:degree - 1)] - before
      before = now
      now = next
    end do
  end function polynomial_through

  !> Adds the forces of the pairs of atoms first..last to `f` (eV/A), of both atoms.  Entries are
  !> those of worker_t in md_list; `most` is the largest number of neighbours of an atom.
  subroutine ionic_pass(p, smooth, first, last, start, entry, most, x, f, virial)
    type(potential_t), intent(in) :: p
    type(smooth_t), intent(in) :: smooth
    integer, intent(in) :: first, last, start(first:), entry(*), most
    real(dp), intent(in) :: x(4, *)
    real(dp), intent(inout) :: f(4, *)
    real(dp), intent(out) :: virial !< sum of r f over the pairs: eV
    real(dp), dimension(batch + most) :: r2, scale
    integer :: kind(batch + most)
    integer :: i, upto, base, n
    virial = 0
    i = first
    do while (i <= last)
      call next_batch(i, last, first, start, upto, base, n)
      call distances(i, upto, first, start, entry, x, r2, kind)
      call force_terms(p, smooth, n, r2, kind, scale)
      virial = virial + dot_product(scale(:n), r2(:n))
      call add_forces(i, upto, first, start, entry, x, base, scale, f)
      i = upto + 1
    end do
  end subroutine ionic_pass

  !> The energy (eV) of the same pairs; half of each is added to both of its atoms in `halves`.
  subroutine ionic_energies(p, smooth, first, last, start, entry, most, x, energy, halves, own)
    type(potential_t), intent(in) :: p
    type(smooth_t), intent(in) :: smooth
    integer, intent(in) :: first, last, start(first:), entry(*), most
    real(dp), intent(in) :: x(4, *)
    real(dp), intent(out) :: energy
    real(dp), intent(inout) :: halves(*)
    !> Pairs with later atoms are another rank's, too: half of their energy counts.
    integer, intent(in), optional :: own
    real(dp), dimension(batch + most) :: r2, phi
    integer :: kind(batch + most)
    integer :: i, j, k, upto, base, n
    energy = 0
    i = first
    do while (i <= last)
      call next_batch(i, last, first, start, upto, base, n)
      call distances(i, upto, first, start, entry, x, r2, kind)
      call energy_terms(p, smooth, n, r2, kind, phi)
      energy = energy + sum(phi(:n))
      if (present(own)) then
        energy = energy - 0.5_dp*sum(phi(:n), mask=entry(base + 1:base + n)/4 > own)
      end if
      do j = i, upto
        do k = start(j) - base, start(j + 1) - 1 - base
          halves(j) = halves(j) + 0.5_dp*phi(k)
          halves(entry(base + k)/4) = halves(entry(base + k)/4) + 0.5_dp*phi(k)
        end do
      end do
      i = upto + 1
    end do
  end subroutine ionic_energies

  !> -(d phi/dr)/r (eV/A^2) of n pairs of squared distances r2 (A^2).
  pure subroutine force_terms(p, smooth, n, r2, kind, scale)
    type(potential_t), intent(in) :: p
    type(smooth_t), intent(in) :: smooth
    integer, intent(in) :: n, kind(n)
    real(dp), intent(in) :: r2(n)
    real(dp), intent(inout) :: scale(n)
    ! Without conditions, which would end vectorisation: parameters are parabolas in the kind.
    real(dp), dimension(0:2) :: a, c, d, q
    real(dp) :: h(0:degree), b, cut2, per_r2, t, r, inverse, inverse2, inside, z, g
    integer :: k
    a = parabola(p%log_a)
    c = parabola(6*p%c6)
    d = parabola(8*p%d8)
    q = parabola([(charges(p, k), k=0, 2)])
    h = smooth%force
    b = p%b(0)
    cut2 = p%cutoff**2
    per_r2 = smooth%per_r2
    !$omp simd private(t, r, inverse, inverse2, inside, z, g)
    do k = 1, n
      t = kind(k)
      inside = 0.5_dp + sign(0.5_dp, cut2 - r2(k))
      r = sqrt(r2(k))
      inverse = 1/r
      inverse2 = inverse*inverse
      z = per_r2*r2(k) - 1 ! the polynomial is written out: a call would end vectorisation, too
      g = h(18)
      g = (((((g*z + h(17))*z + h(16))*z + h(15))*z + h(14))*z + h(13))*z + h(12)
      g = (((((g*z + h(11))*z + h(10))*z + h(9))*z + h(8))*z + h(7))*z + h(6)
      g = (((((g*z + h(5))*z + h(4))*z + h(3))*z + h(2))*z + h(1))*z + h(0)
      scale(k) = inside*(b*exp(a(0) + t*(a(1) + t*a(2)) - b*r)*inverse &
        + (q(0) + t*(q(1) + t*q(2)))*(inverse*inverse2 - g) &
        - inverse2**4*(c(0) + t*(c(1) + t*c(2)) + inverse2*(d(0) + t*(d(1) + t*d(2)))))
    end do
  end subroutine force_terms

  !> phi (eV), likewise.
  pure subroutine energy_terms(p, smooth, n, r2, kind, phi)
    type(potential_t), intent(in) :: p
    type(smooth_t), intent(in) :: smooth
    integer, intent(in) :: n, kind(n)
    real(dp), intent(in) :: r2(n)
    real(dp), intent(inout) :: phi(n)
    real(dp) :: r
    integer :: k
    do k = 1, n
      phi(k) = 0
      if (r2(k) >= p%cutoff**2) cycle
      r = sqrt(r2(k))
      phi(k) = exp(p%log_a(kind(k)) - p%b(kind(k))*r) - (p%c6(kind(k)) + p%d8(kind(k))/r2(k)) &
               /r2(k)**3 + charges(p, kind(k))*(1/r - polynomial(smooth%potential, &
                                                                 smooth%per_r2*r2(k) - 1))
    end do
  end subroutine energy_terms

  !> Coefficients of the parabola that has these values at 0, 1 and 2.
  pure function parabola(values) result(c)
    real(dp), intent(in) :: values(0:2)
    real(dp) :: c(0:2)
    c = [values(0), 2*values(1) - 1.5_dp*values(0) - 0.5_dp*values(2), &
         0.5_dp*(values(0) + values(2)) - values(1)]
  end function parabola

  !> The product of a pair's charges, in eV A.  Not charge(merge(1, 2, ...)): where GCC 12
  !> vectorises such a subscript, it takes a true logical for -1, and reads before the array
  !> (-O2, -O3).
  pure real(dp) function charges(p, kind)
    type(potential_t), intent(in) :: p
    integer, intent(in) :: kind
    charges = coulomb*merge(p%charge(1), p%charge(2), kind < 2) &
              *merge(p%charge(1), p%charge(2), kind < 1)
  end function charges

  !> A polynomial at x.
  pure real(dp) function polynomial(c, x)
    real(dp), intent(in) :: c(0:degree), x
    integer :: k
    polynomial = c(degree)
    do k = degree - 1, 0, -1
      polynomial = polynomial*x + c(k)
    end do
  end function polynomial

  !> Adds the forces of the pairs of atoms i..upto to `f` (eV/A), of both atoms: `scale` times the
  !> vector between them (eV/A^2).  Terms of entry k are at k - base.
  subroutine add_forces(i, upto, first, start, entry, x, base, scale, f)
    integer, intent(in) :: i, upto, first, start(first:), entry(*), base
    real(dp), intent(in) :: x(4, *), scale(*)
    real(dp), intent(inout) :: f(4, *)
    real(dp) :: xj(4), fj(4), pull(4)
    integer :: j, k, other
    do j = i, upto
      xj = x(:, j)
      fj = 0
      do k = start(j), start(j + 1) - 1
        other = entry(k)/4
        pull = scale(k - base)*(xj - x(:, other))
        fj = fj + pull
        f(:, other) = f(:, other) - pull
      end do
      f(:, j) = f(:, j) + fj
    end do
  end subroutine add_forces

end module md_ionic
