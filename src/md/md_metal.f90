! Many-body potentials of metals: energy sum_i [ 1/2 sum_j phi(r_ij) - scale sqrt(rho_i) ], with the
! density rho_i = sum_j rho(r_ij).  Gupta and Finnis-Sinclair differ in their pair functions alone.
!
! Pairs are evaluated in batches; the sums over an atom's neighbours are loops of their own.
module md_metal
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use md_pairs, only: batch, distances, next_batch
  use md_potential, only: gupta_kind, potential_t
  implicit none (type, external)
  private
  public :: density_pass, force_pass

  !> An exponent whose exponential is nothing beside any sum, and that vector units may take as any
  !> other: what depends on a condition would be computed one by one.
  real(dp), parameter :: vanishing = -500

contains

  !> Adds the densities of the pairs of atoms first..last to `rho`, of both atoms.  Entries are
  !> those of worker_t in md_list; `most` is the largest number of neighbours of an atom.
  subroutine density_pass(p, first, last, start, entry, most, x, keep, rho, repulsion, density, &
                          energy, lowest, pair_energy, own)
    type(potential_t), intent(in) :: p
    integer, intent(in) :: first, last, start(first:), entry(*), most
    real(dp), intent(in) :: x(4, *)
    logical, intent(in) :: keep !< whether to write -phi'/r and -rho'/r of each entry
    real(dp), intent(inout) :: rho(*), repulsion(*), density(*)
    real(dp), intent(out) :: energy !< of the pairs: eV
    real(dp), intent(out) :: lowest !< the least density of a pair, if it is negative; else 0
    real(dp), intent(inout), optional :: pair_energy(*) !< half of each pair is added to both: eV
    !> Pairs with later atoms are another rank's, too: half of their energy counts.
    integer, intent(in), optional :: own
    real(dp), dimension(batch + most) :: r2, g, phi, a, b
    integer :: kind(batch + most)
    integer :: i, k, j, upto, base, n
    real(dp) :: total, half
    energy = 0
    lowest = 0
    i = first
    do while (i <= last)
      call next_batch(i, last, first, start, upto, base, n)
      call distances(i, upto, first, start, entry, x, r2, kind)
      if (keep) then
        call pair_terms(p, n, r2, kind, g, phi, repulsion(base + 1), density(base + 1))
      else
        call pair_terms(p, n, r2, kind, g, phi, a, b)
      end if
      energy = energy + sum(phi(:n))
      if (present(own)) then
        energy = energy - 0.5_dp*sum(phi(:n), mask=entry(base + 1:base + n)/4 > own)
      end if
      lowest = min(lowest, minval(g(:n)))
      do j = i, upto
        total = 0
        do k = start(j) - base, start(j + 1) - 1 - base
          total = total + g(k)
          rho(entry(base + k)/4) = rho(entry(base + k)/4) + g(k)
        end do
        rho(j) = rho(j) + total
      end do
      if (present(pair_energy)) then
        do j = i, upto
          do k = start(j) - base, start(j + 1) - 1 - base
            half = 0.5_dp*phi(k)
            pair_energy(j) = pair_energy(j) + half
            pair_energy(entry(base + k)/4) = pair_energy(entry(base + k)/4) + half
          end do
        end do
      end if
      i = upto + 1
    end do
  end subroutine density_pass

  !> Adds the forces of the pairs of atoms first..last to `f` (eV/A), of both atoms.  `slope` is the
  !> derivative of each atom's embedding energy, dF/drho; with `kept`, repulsion and density are
  !> those that density_pass has written.
  subroutine force_pass(p, first, last, start, entry, most, x, slope, kept, repulsion, density, f)
    type(potential_t), intent(in) :: p
    integer, intent(in) :: first, last, start(first:), entry(*), most
    real(dp), intent(in) :: x(4, *), slope(*), repulsion(*), density(*)
    logical, intent(in) :: kept
    real(dp), intent(inout) :: f(4, *)
    real(dp), dimension(batch + most) :: r2, g, phi, a, b
    integer :: kind(batch + most)
    integer :: i, upto, base, n
    if (kept) then
      call add_forces(first, last, first, start, entry, x, slope, 0, repulsion, density, f)
      return
    end if
    i = first
    do while (i <= last)
      call next_batch(i, last, first, start, upto, base, n)
      call distances(i, upto, first, start, entry, x, r2, kind)
      call pair_terms(p, n, r2, kind, g, phi, a, b)
      call add_forces(i, upto, first, start, entry, x, slope, base, a, b, f)
      i = upto + 1
    end do
  end subroutine force_pass

  !> Density g, energy phi (eV), -phi'/r and -rho'/r of n pairs of squared distances r2 (A^2).
  subroutine pair_terms(p, n, r2, kind, g, phi, repulsion, density)
    type(potential_t), intent(in) :: p
    integer, intent(in) :: n, kind(*)
    real(dp), intent(in) :: r2(*)
    real(dp), intent(inout) :: g(*), phi(*), repulsion(*), density(*)
    if (p%kind == gupta_kind) then
      call gupta_terms(n, r2, kind, p%cutoff**2, p%log_a, p%b, p%log_c, p%e, g, phi, repulsion, &
                       density)
    else
      call finnis_sinclair_terms(n, r2, p%c, p%coefficient(0), p%coefficient(1), &
                                 p%coefficient(2), p%coefficient(3), p%coefficient(4), p%d, &
                                 p%beta/p%d, p%b4, g, phi, repulsion, density)
    end if
  end subroutine pair_terms

  !> The same for Gupta's potential (Cleri and Rosato 1993).
  pure subroutine gupta_terms(n, r2, kind, cut2, log_a, b, log_c, e, g, phi, repulsion, density)
    integer, intent(in) :: n, kind(n)
    real(dp), intent(in) :: r2(n), cut2, log_a(0:2), b(0:2), log_c(0:2), e(0:2)
    real(dp), intent(inout) :: g(n), phi(n), repulsion(n), density(n)
    ! scalars: an element loaded under a condition would end vectorisation
    real(dp) :: a0, a1, a2, b0, b1, b2, c0, c1, c2, e0, e1, e2
    real(dp) :: r, inverse, fall, spread, beyond, a, c
    integer :: k
    a0 = log_a(0)
    a1 = log_a(1)
    a2 = log_a(2)
    b0 = b(0)
    b1 = b(1)
    b2 = b(2)
    c0 = log_c(0)
    c1 = log_c(1)
    c2 = log_c(2)
    e0 = e(0)
    e1 = e(1)
    e2 = e(2)
    !$omp simd private(r, inverse, fall, spread, beyond, a, c)
    do k = 1, n
      a = merge(a0, merge(a1, a2, kind(k) == 1), kind(k) == 0)
      fall = merge(b0, merge(b1, b2, kind(k) == 1), kind(k) == 0)
      c = merge(c0, merge(c1, c2, kind(k) == 1), kind(k) == 0)
      spread = merge(e0, merge(e1, e2, kind(k) == 1), kind(k) == 0)
      beyond = merge(0.0_dp, vanishing, r2(k) < cut2)
      r = sqrt(r2(k))
      inverse = 1/r
      phi(k) = exp(beyond + a - fall*r)
      g(k) = exp(beyond + c - spread*r)
      repulsion(k) = fall*phi(k)*inverse
      density(k) = spread*g(k)*inverse
    end do
  end subroutine gupta_terms

  !> The same for Finnis and Sinclair's potential, also extended (Dai et al. 2006).
  pure subroutine finnis_sinclair_terms(n, r2, c, c0, c1, c2, c3, c4, d, beta_d, b4, g, phi, &
                                        repulsion, density)
    integer, intent(in) :: n
    real(dp), intent(in) :: r2(n), c, c0, c1, c2, c3, c4, d, beta_d, b4
    real(dp), intent(inout) :: g(n), phi(n), repulsion(n), density(n)
    real(dp) :: r, inverse, u, w, polynomial, slope
    integer :: k
    !$omp simd private(r, inverse, u, w, polynomial, slope)
    do k = 1, n
      r = sqrt(r2(k))
      inverse = 1/r
      w = min(r - c, 0.0_dp) ! both terms end smoothly
      u = min(r - d, 0.0_dp)
      polynomial = c0 + r*(c1 + r*(c2 + r*(c3 + r*c4)))
      slope = c1 + r*(2*c2 + r*(3*c3 + r*4*c4))
      phi(k) = w*w*polynomial
      g(k) = u*u*(1 + u*(beta_d + u*b4))
      repulsion(k) = -w*(2*polynomial + w*slope)*inverse
      density(k) = -u*(2 + u*(3*beta_d + u*4*b4))*inverse
    end do
  end subroutine finnis_sinclair_terms

  !> Adds the forces of the pairs of atoms i..upto; terms of entry k are at k - base.  This one
  !> loop does both: with two, as ions have, a step took 1.1 times as long.
  subroutine add_forces(i, upto, first, start, entry, x, slope, base, repulsion, density, f)
    integer, intent(in) :: i, upto, first, start(first:), entry(*), base
    real(dp), intent(in) :: x(4, *), slope(*), repulsion(*), density(*)
    real(dp), intent(inout) :: f(4, *)
    real(dp) :: xj(4), fj(4), pull(4), scale
    integer :: j, k, other
    do j = i, upto
      xj = x(:, j)
      fj = 0
      do k = start(j), start(j + 1) - 1
        other = entry(k)/4
        scale = repulsion(k - base) + (slope(j) + slope(other))*density(k - base)
        pull = scale*(xj - x(:, other))
        fj = fj + pull
        f(:, other) = f(:, other) - pull
      end do
      f(:, j) = f(:, j) + fj
    end do
  end subroutine add_forces

end module md_metal
