! Exact exchange between real orbitals, as hybrid functionals need it: of each band with each
! occupied one a pair density, its potential by two FFTs of the whole grid.  Every rank has whole
! bands (NPAR = ranks), and the occupied ones of each rank go to all in turn.
!
! Two occupied bands travel as one complex field a + i b: the pair densities with a real band are
! real, so that one transform carries two.
module npar_exchange
  use, intrinsic :: iso_c_binding, only: c_double_complex, c_int, c_ptr, dp => c_double
  use bx_fftw, only: fftw_destroy_plan, fftw_execute_dft, fftw_plan_dft_3d
  use bx_charges, only: bx_charge, bx_copy, bx_is_simulated, by_all_threads
  use bx_transpose, only: bx_forward, bx_inverse, bx_planes
  use npar_collectives, only: broadcast
  use npar_hamiltonian, only: fill_field, take_field
  use npar_model, only: exchange_mixing, pi
  use npar_state, only: bands_of, flat, lap, phase_exchange, phase_pair_fft, phase_reduce, state_t
  implicit none (type, external)
  private
  public :: pair_ffts_t, apply_exchange, exchange_energy, make_pair_ffts, free_pair_ffts

  !> FFTs of the whole grid within a rank, and the kernel that stands between them.
  type :: pair_ffts_t
    type(c_ptr) :: forward, inverse
    complex(c_double_complex), allocatable :: field(:, :, :)
    real(dp), allocatable :: kernel(:, :, :) !< -a 4 pi / |G|**2 / volume / points: Hartree
  end type pair_ffts_t

contains

  !> Plans the FFTs of the whole grid; `planner` is an FFTW planner effort.  With "estimate" plans,
  !> and so all bits, are the same in every run.
  subroutine make_pair_ffts(s, planner, ffts)
    type(state_t), intent(in) :: s
    character(*), intent(in) :: planner
    type(pair_ffts_t), intent(out) :: ffts
    integer(c_int) :: n(3), flags
    integer :: x, y, z
    real(dp) :: g2, q(3)
    flags = 0 ! FFTW_MEASURE
    if (planner == "estimate") flags = 64
    if (planner == "patient") flags = 32
    n = int(s%crystal%grid, c_int)
    q = 2*s%crystal%quantum()
    allocate (ffts%field(n(1), n(2), n(3)), ffts%kernel(n(1), n(2), n(3)))
    ffts%forward = fftw_plan_dft_3d(n(3), n(2), n(1), ffts%field, ffts%field, -1_c_int, flags)
    ffts%inverse = fftw_plan_dft_3d(n(3), n(2), n(1), ffts%field, ffts%field, 1_c_int, flags)
    do z = 1, n(3)
      do y = 1, n(2)
        do x = 1, n(1)
          g2 = sum(q*real(frequency([x, y, z], n), dp)**2)
          ffts%kernel(x, y, z) = 0
          if (g2 > 0) ffts%kernel(x, y, z) = &
            -exchange_mixing*4*pi/g2/s%crystal%volume()/product(real(n, dp))
        end do
      end do
    end do
  end subroutine make_pair_ffts

  !> Frequency, -(n-1)/2 to n/2, of a place from 1 to n.
  elemental function frequency(place, n) result(f)
    integer, intent(in) :: place, n
    integer :: f
    f = place - 1
    if (2*f > n) f = f - n
  end function frequency

  !> Frees what make_pair_ffts has made.
  subroutine free_pair_ffts(ffts)
    type(pair_ffts_t), intent(inout) :: ffts
    if (.not. allocated(ffts%field)) return
    call fftw_destroy_plan(ffts%forward)
    call fftw_destroy_plan(ffts%inverse)
    deallocate (ffts%field, ffts%kernel)
  end subroutine free_pair_ffts

  !> vx = (exchange operator of the occupied bands) psi, both (2 * waves, my bands).
  subroutine apply_exchange(s, ffts, psi, vx)
    type(state_t), intent(inout) :: s
    type(pair_ffts_t), intent(inout) :: ffts
    real(dp), intent(in), contiguous :: psi(:, :)
    real(dp), intent(inout), contiguous :: vx(:, :)
    real(dp), allocatable :: orbital(:, :, :, :), sum_of_pairs(:, :, :, :), other(:, :)
    complex(c_double_complex), pointer :: planes(:, :, :)
    integer :: group, bands, pair, i, n(3)
    n = s%crystal%grid
    allocate (orbital(n(1), n(2), n(3), size(psi, 2)), sum_of_pairs(n(1), n(2), n(3), size(psi, 2)))
    planes => bx_planes(s%fft, 0)
    do pair = 1, (size(psi, 2) + 1)/2
      call fill_field(s, psi, pair, 0)
      call bx_forward(s%exchange, 0, 0)
      orbital(:, :, :, 2*pair - 1) = real(planes, dp)
      if (2*pair <= size(psi, 2)) orbital(:, :, :, 2*pair) = aimag(planes)
    end do
    call lap(s, phase_exchange)
    sum_of_pairs = 0
    do group = 0, s%npar - 1
      bands = bands_of(s%occupied, s%npar, group)
      allocate (other(size(psi, 1), bands))
      if (group == s%group) other = psi(:, :bands)
      call lap(s, phase_exchange)
      call broadcast(flat(other), group, s%across, s%knobs%emulated)
      call lap(s, phase_reduce)
      do pair = 1, (bands + 1)/2
        call fill_field(s, other, pair, 0)
        call bx_forward(s%exchange, 0, 0)
        do i = 1, size(psi, 2)
          ffts%field = orbital(:, :, :, i)*planes
          call lap(s, phase_exchange)
          call fftw_execute_dft(ffts%forward, ffts%field, ffts%field)
          call lap(s, phase_pair_fft)
          ffts%field = ffts%kernel*ffts%field
          call lap(s, phase_exchange)
          call fftw_execute_dft(ffts%inverse, ffts%field, ffts%field)
          call lap(s, phase_pair_fft)
          sum_of_pairs(:, :, :, i) = sum_of_pairs(:, :, :, i) + real(conjg(planes)*ffts%field, dp)
        end do
        ! of each point and band: the product, the kernel's, the sum
        if (bx_is_simulated) then
          call bx_charge(bx_copy, 88.0_dp*size(planes)*size(psi, 2), by_all_threads)
        end if
        call lap(s, phase_exchange)
      end do
      deallocate (other)
    end do
    vx = 0
    do pair = 1, (size(psi, 2) + 1)/2
      planes = sum_of_pairs(:, :, :, 2*pair - 1)
      if (2*pair <= size(psi, 2)) then
        planes = planes + (0.0_dp, 1.0_dp)*sum_of_pairs(:, :, :, 2*pair)
      end if
      call bx_inverse(s%exchange, 0, 0)
      call take_field(s, vx, pair, 0, 1/product(real(n, dp)))
    end do
    call lap(s, phase_exchange)
  end subroutine apply_exchange

  !> Exchange energy of this rank's occupied bands: the sum of <psi|vx>, two electrons per band,
  !> each pair once: Hartree.
  pure function exchange_energy(s, psi, vx) result(energy)
    type(state_t), intent(in) :: s
    real(dp), intent(in), contiguous :: psi(:, :), vx(:, :)
    real(dp) :: energy
    integer :: occupied
    occupied = count(s%band <= s%occupied)
    energy = sum(psi(:, :occupied)*vx(:, :occupied))
  end function exchange_energy

end module npar_exchange
