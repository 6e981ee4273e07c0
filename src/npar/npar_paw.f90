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
  use bx_charges, only: bx_algebra, bx_computes, bx_is_hollow, by_all_threads
  use npar_collectives, only: sum_over
  use npar_model, only: crystal_t, householder, most_channels, pi
  use npar_state, only: lap, phase_paw, phase_paw_sum, phase_zeroing, state_t, wipe
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
    integer :: atom, channels, first
    if (.not. (bx_is_hollow() .or. allocated(node))) call gauss_rule(points, node, weight)
    vector(1:size(s%d)) => s%d
    call wipe(s, vector)
    call lap(s, phase_zeroing)
    if (.not. bx_is_hollow()) s%d = 0
    s%squares = 0
    do atom = 1 + s%rank, s%crystal%atoms, s%ranks
      channels = s%crystal%channels_of(atom)
      first = s%crystal%projectors_before(atom)
      if (bx_computes(bx_algebra, 2.0_dp*channels*(channels + 6)*points, by_all_threads)) then
        call integrate(householder(atom, channels), &
                       s%spectra(1)%shift(first + 1:first + channels), node, weight, &
                       s%d(:channels, :channels, atom), s%squares)
      end if
    end do
    call lap(s, phase_paw)
    call sum_over(vector, s%world, s%knobs%emulated, by_alltoall=s%knobs%paw_alltoall)
    call lap(s, phase_paw_sum)
  end subroutine sum_one_centre_terms

  !> The D_ij of one atom, whose channels have these v and shifts, by quadrature.  Adds the squares
  !> of the weights to `squares`.
  pure subroutine integrate(v, shift, node, weight, d, squares)
    real(dp), intent(in) :: v(:), shift(:), node(:), weight(:)
    real(dp), intent(out) :: d(:, :)
    real(dp), intent(inout) :: squares
    real(dp), dimension(size(v)) :: p, g, h
    integer :: i, q
    d = 0
    do q = 1, size(node)
      p = legendre(size(v), node(q))
      g = p - 2*v*dot_product(v, p)
      p = p*shift
      h = weight(q)*(p - 2*v*dot_product(v, p))
      do i = 1, size(v)
        d(:, i) = d(:, i) + g*h(i)
      end do
      squares = squares + weight(q)**2
    end do
  end subroutine integrate

  !> `count` Legendre polynomials at x, of norm 1 on [-1, 1].
  pure function legendre(count, x) result(p)
    integer, intent(in) :: count
    real(dp), intent(in) :: x
    real(dp) :: p(count)
    integer :: n
    p(1:2) = [1.0_dp, x]
    do n = 2, count - 1
      p(n + 1) = ((2*n - 1)*x*p(n) - (n - 1)*p(n - 1))/n
    end do
    p = p*sqrt([(n - 0.5_dp, n=1, count)])
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
    real(dp), dimension(most_channels, most_channels, crystal%atoms) :: exact
    real(dp), allocatable :: v(:), mixture(:, :)
    integer :: atom, first, n, i
    exact = 0
    do atom = 1, crystal%atoms
      first = crystal%projectors_before(atom)
      n = crystal%channels_of(atom)
      v = householder(atom, n)
      mixture = -2*spread(v, 1, n)*spread(v, 2, n)
      do i = 1, n
        mixture(i, i) = mixture(i, i) + 1
      end do
      exact(:n, :n, atom) = matmul(mixture*spread(shift(first + 1:first + n), 1, n), mixture)
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
