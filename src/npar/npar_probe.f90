! Whether all bands are right, for the price of reading them three times: not each band with each
! other, but all against one vector, which shows a change of any coefficient of any band (Freivalds,
! Probabilistic machines can use less running time, 1977).
module npar_probe
  use, intrinsic :: iso_c_binding, only: c_int64_t, dp => c_double
  use bx_harness, only: bx_largest, bx_seed, bx_uniform
  use npar_blas, only: dgemv, zgemv
  use npar_collectives, only: sum_over
  use npar_state, only: flat, state_t
  implicit none (type, external)
  private
  public :: set_probe, examine_bands

  complex(dp), parameter :: one = 1, zero = 0

contains

  !> probe = sum over all bands of the exact states with random signs.
  subroutine set_probe(s)
    type(state_t), intent(inout) :: s
    real(dp), allocatable :: c(:)
    integer(c_int64_t) :: index
    integer :: k, i
    allocate (s%probe(2*s%waves(), s%crystal%kpoints), source=0.0_dp)
    allocate (c(2*s%waves()))
    do k = 1, s%crystal%kpoints
      do i = 1, size(s%band)
        call s%basis%exact(s%spectra(k), s%spectra(k)%state(s%band(i)), c)
        index = int(k, c_int64_t)*s%crystal%bands + s%band(i)
        s%probe(:, k) = s%probe(:, k) + sign(1.0_dp, bx_uniform(bx_seed(s%run), index))*c
      end do
    end do
    call sum_over(flat(s%probe), s%across, .false.)
  end subroutine set_probe

  !> Projects the probe on the bands.  `lost`: the norm of the remainder at the worst k-point, which
  !> is the distance of the bands' space from that of the exact states.  `skew`: the largest change
  !> of a product with a band by the projection; orthonormal bands have none.
  subroutine examine_bands(s, lost, skew)
    type(state_t), intent(in) :: s
    real(dp), intent(out) :: lost, skew
    real(dp), allocatable, target :: sum_of_bands(:, :), part(:, :), again(:, :)
    real(dp), target :: norms(1, s%crystal%kpoints)
    integer :: k
    allocate (sum_of_bands, mold=s%probe)
    allocate (part(s%factor()*size(s%band), s%crystal%kpoints))
    call products(s, s%probe, part)
    do k = 1, s%crystal%kpoints
      call combine(s, k, part(:, k), sum_of_bands(:, k))
    end do
    call sum_over(flat(sum_of_bands), s%across, .false.)
    allocate (again, mold=part)
    call products(s, sum_of_bands, again)
    skew = bx_largest([again - part])
    do k = 1, s%crystal%kpoints
      norms(1, k) = sum((sum_of_bands(:, k) - s%probe(:, k))**2)
    end do
    call sum_over(flat(norms), s%team, .false.)
    lost = sqrt(bx_largest(norms(1, :)))
  end subroutine examine_bands

  !> <psi|vector> of my bands, (1 or 2 * my bands, k-points).
  subroutine products(s, vector, part)
    type(state_t), intent(in) :: s
    real(dp), intent(in), contiguous :: vector(:, :)
    real(dp), intent(inout), contiguous, target :: part(:, :)
    integer :: k, n, bands
    n = s%waves()
    bands = size(s%band)
    part = 0
    do k = 1, s%crystal%kpoints
      if (s%crystal%gamma) then
        call dgemv("T", 2*n, bands, 1.0_dp, s%psi(:, :, k), max(1, 2*n), vector(:, k), 1, 0.0_dp, &
                   part(:, k), 1)
      else
        call zgemv("C", n, bands, one, s%psi(:, :, k), max(1, n), vector(:, k), 1, zero, &
                   part(:, k), 1)
      end if
    end do
    call sum_over(flat(part), s%team, .false.)
  end subroutine products

  !> The sum of my bands with these factors.
  subroutine combine(s, k, part, vector)
    type(state_t), intent(in) :: s
    integer, intent(in) :: k
    real(dp), intent(in), contiguous :: part(:)
    real(dp), intent(inout), contiguous :: vector(:)
    integer :: n, bands
    n = s%waves()
    bands = size(s%band)
    vector = 0
    if (s%crystal%gamma) then
      call dgemv("N", 2*n, bands, 1.0_dp, s%psi(:, :, k), max(1, 2*n), part, 1, 0.0_dp, vector, 1)
    else
      call zgemv("N", n, bands, one, s%psi(:, :, k), max(1, n), part, 1, zero, vector, 1)
    end if
  end subroutine combine

end module npar_probe
