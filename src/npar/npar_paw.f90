! One-centre terms, whose atoms are shared by the ranks: each atom's D_ij by quadrature on its rank,
! then a sum over all ranks, so that every rank has those of every atom.  Ranks with fewer atoms
! wait in the sum.
!
! The integrand is chosen so that the integral is known: P_i are normalised Legendre polynomials,
! g_i their Householder mixture, and D_ij the integral over [-1, 1] of g_i times the mixture of the
! P_j times their shifts; Gauss's rule is exact for it.
module npar_paw
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use bx_harness, only: bx_largest
  use bx_charges, only: bx_algebra, bx_charge, bx_is_hollow, bx_is_simulated, by_all_threads
  use npar_collectives, only: sum_over
  use npar_model, only: crystal_t, householder, pi, projectors_per_atom
  use npar_state, only: lap, phase_paw, phase_paw_sum, phase_zeroing, state_t, wiped
  implicit none (type, external)
  private
  public :: sum_one_centre_terms, exact_one_centre_terms, one_centre_error, idle_ranks

  integer, parameter :: points = 1000 !< of the quadrature: as a radial times a small angular grid

contains

  !> Number of ranks without an atom.
  pure integer function idle_ranks(atoms, ranks) result(idle)
    integer, intent(in) :: atoms, ranks
    idle = max(0, ranks - atoms)
  end function idle_ranks

  !> Sets s%d to the D_ij of every atom, (channels, channels, atoms): Hartree.  Collective.
  subroutine sum_one_centre_terms(s)
    type(state_t), intent(inout) :: s
    real(dp), save, allocatable :: node(:), weight(:)
    real(dp), pointer, contiguous :: vector(:)
    integer :: atom
    if (.not. (bx_is_hollow() .or. allocated(node))) call gauss_rule(points, node, weight)
    vector(1:size(s%d)) => s%d
    call wiped(s, vector)
    call lap(s, phase_zeroing)
    if (.not. bx_is_hollow()) s%d = 0
    do atom = 1 + s%rank, s%crystal%atoms, s%ranks
      if (.not. bx_is_hollow()) then
        call integrate(atom, s%spectra(1)%shift, node, weight, s%d(:, :, atom))
      end if
      if (bx_is_simulated) then
        call bx_charge(bx_algebra, 2.0_dp*projectors_per_atom*(projectors_per_atom + 6)*points, &
                       by_all_threads)
      end if
    end do
    call lap(s, phase_paw)
    call sum_over(vector, s%world, s%knobs%emulated, by_alltoall=s%knobs%paw_alltoall)
    call lap(s, phase_paw_sum)
  end subroutine sum_one_centre_terms

  !> One atom's D_ij by quadrature.
  pure subroutine integrate(atom, shift, node, weight, d)
    integer, intent(in) :: atom
    real(dp), intent(in) :: shift(:), node(:), weight(:)
    real(dp), intent(out), contiguous :: d(:, :)
    real(dp), dimension(projectors_per_atom) :: v, p, g, h
    integer :: i, q, first
    first = (atom - 1)*projectors_per_atom
    v = householder(atom)
    d = 0
    do q = 1, size(node)
      p = legendre(node(q))
      g = p - 2*v*dot_product(v, p)
      p = p*shift(first + 1:first + projectors_per_atom)
      h = weight(q)*(p - 2*v*dot_product(v, p))
      do i = 1, projectors_per_atom
        d(:, i) = d(:, i) + g*h(i)
      end do
    end do
  end subroutine integrate

  !> P_0 .. P_n at x, of norm 1 on [-1, 1].
  pure function legendre(x) result(p)
    real(dp), intent(in) :: x
    real(dp) :: p(projectors_per_atom)
    integer :: n
    p(1:2) = [1.0_dp, x]
    do n = 2, projectors_per_atom - 1
      p(n + 1) = ((2*n - 1)*x*p(n) - (n - 1)*p(n - 1))/n
    end do
    p = p*sqrt([(n - 0.5_dp, n=1, projectors_per_atom)])
  end function legendre

  !> Nodes and weights on [-1, 1], by Newton's method.
  pure subroutine gauss_rule(n, node, weight)
    integer, intent(in) :: n
    real(dp), allocatable, intent(out) :: node(:), weight(:)
    real(dp) :: x, p(0:2), slope
    integer :: i, j, turn
    allocate (node(n), weight(n))
    do i = 1, n
      x = cos(pi*(i - 0.25_dp)/(n + 0.5_dp))
      do turn = 1, 8
        p(0:1) = [1.0_dp, x]
        do j = 2, n
          p(2) = ((2*j - 1)*x*p(1) - (j - 1)*p(0))/j
          p(0:1) = p(1:2)
        end do
        slope = n*(p(0) - x*p(1))/(1 - x**2)
        x = x - p(1)/slope
      end do
      node(i) = x
      weight(i) = 2/((1 - x**2)*slope**2)
    end do
  end subroutine gauss_rule

  !> The exact integrals D_ij, (channels, channels, atoms): Hartree.
  function exact_one_centre_terms(crystal, shift) result(exact)
    type(crystal_t), intent(in) :: crystal
    real(dp), intent(in) :: shift(:) !< of the states: Hartree
    real(dp), dimension(projectors_per_atom, projectors_per_atom, crystal%atoms) :: exact
    real(dp) :: v(projectors_per_atom), mixture(projectors_per_atom, projectors_per_atom)
    integer :: atom, i
    do atom = 1, crystal%atoms
      v = householder(atom)
      mixture = -2*spread(v, 1, projectors_per_atom)*spread(v, 2, projectors_per_atom)
      do i = 1, projectors_per_atom
        mixture(i, i) = mixture(i, i) + 1
      end do
      do i = 1, projectors_per_atom
        exact(:, i, atom) = shift((atom - 1)*projectors_per_atom + i)*mixture(:, i)
      end do
      exact(:, :, atom) = matmul(exact(:, :, atom), mixture)
    end do
  end function exact_one_centre_terms

  !> Largest deviation from the exact integrals, relative to the largest shift.
  real(dp) function one_centre_error(s) result(error)
    type(state_t), intent(in) :: s
    integer :: atom
    error = 0
    do atom = 1, s%crystal%atoms
      error = max(error, bx_largest([s%d(:, :, atom) - s%d_exact(:, :, atom)]))
    end do
    error = error/maxval(abs(s%spectra(1)%shift))
  end function one_centre_error

end module npar_paw
