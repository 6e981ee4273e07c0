! Exact exchange between real orbitals, as hybrid functionals need it: of each band with each
! occupied one a pair density, its potential by two FFTs of the whole grid.  The ranks of a team
! share these FFTs.  All bands go to all groups.  Each takes the pairs of its own occupied ones.
! What they add to a band is summed over the groups on the grid, as in Quantum ESPRESSO 5 (exx.f90).
!
! Two occupied bands are one complex field a + i b: the pair densities with a real band are real, so
! that one transform carries two.
module npar_exchange
  use, intrinsic :: iso_c_binding, only: c_double_complex, c_int, dp => c_double
  use bx_charges, only: bx_charge, bx_copy, bx_is_hollow, by_all_threads
  use bx_transpose, only: bx_columns, bx_exchange_t, bx_fft_t, bx_free_fft, bx_make_fft, &
    bx_planes, bx_transform, bx_way_forward, bx_way_inverse
  use npar_collectives, only: broadcast, sum_over
  use npar_hamiltonian, only: fill_field, take_field
  use npar_model, only: exchange_mixing, pi
  use npar_state, only: bands_of, first_of_each, flat, lap, phase_exchange, phase_redistribute, &
    phase_reduce, state_t
  implicit none (type, external)
  private
  public :: pair_ffts_t, apply_exchange, exchange_energy, make_pair_ffts, free_pair_ffts

  !> FFTs of pair densities, which fill all columns of the grid, and the kernel between them.
  type :: pair_ffts_t
    type(bx_fft_t) :: fft !< of a team
    type(bx_exchange_t) :: exchange !< by the method of the knobs
    real(dp), allocatable :: kernel(:, :) !< (nz, columns) -a 4 pi / |G|**2 / volume / points
  end type pair_ffts_t

contains

  !> Plans the FFTs of the team of a state, whose ranks are on these nodes; `planner` is an FFTW
  !> planner effort.  With "estimate" plans, and so all bits, are the same in every run.  Collective
  !> over the team.
  subroutine make_pair_ffts(s, node_of, planner, ffts)
    type(state_t), intent(in) :: s
    integer(c_int), intent(in) :: node_of(:) !< (ranks of the team)
    character(*), intent(in) :: planner
    type(pair_ffts_t), intent(out) :: ffts
    integer(c_int), allocatable :: xy(:), owner(:), mine(:)
    integer :: n(3), i, z, first(0:s%ncore)
    real(dp) :: g2, q(3)
    n = s%crystal%grid
    q = 2*s%crystal%quantum()
    xy = [(int(i, c_int), i=0, n(1)*n(2) - 1)]
    allocate (owner(size(xy)))
    first = first_of_each(size(xy), s%ncore)
    do i = 0, s%ncore - 1
      owner(first(i) + 1:first(i + 1)) = int(i, c_int)
    end do
    ffts%fft = bx_make_fft(s%run, s%team, n, xy, owner, node_of, 1, planner)
    mine = pack(xy, owner == s%member)
    allocate (ffts%kernel(n(3), size(mine)))
    do i = 1, size(mine)
      do z = 1, n(3)
        g2 = sum(q*real(frequency([mod(mine(i), n(1)) + 1, mine(i)/n(1) + 1, z], n), dp)**2)
        ffts%kernel(z, i) = 0
        if (g2 > 0) ffts%kernel(z, i) = &
          -exchange_mixing*4*pi/g2/s%crystal%volume()/product(real(n, dp))
      end do
    end do
  end subroutine make_pair_ffts

  !> Frequency, -(n-1)/2 to n/2, of a place from 1 to n.
  elemental integer function frequency(place, n) result(f)
    integer, intent(in) :: place, n
    f = place - 1
    if (2*f > n) f = f - n
  end function frequency

  !> Frees what make_pair_ffts has made.  Collective over the team.
  subroutine free_pair_ffts(ffts)
    type(pair_ffts_t), intent(inout) :: ffts
    call bx_free_fft(ffts%fft)
  end subroutine free_pair_ffts

  !> vx = (exchange operator of the occupied bands) psi, both (2 * waves, my bands).  Arrays stay as
  !> they are where a hollow run charges a transform without computing it.
  subroutine apply_exchange(s, ffts, psi, vx)
    type(state_t), intent(inout) :: s
    type(pair_ffts_t), intent(inout) :: ffts
    real(dp), intent(in), contiguous :: psi(:, :)
    real(dp), intent(inout), contiguous :: vx(:, :)
    complex(c_double_complex), allocatable :: occupied_two(:, :, :, :)
    real(dp), allocatable :: orbitals(:, :, :, :), vx_orbitals(:, :, :, :), coefficients(:, :)
    real(dp), allocatable, target :: vx_orbital(:)
    real(dp), pointer, contiguous :: vx_at(:, :, :)
    complex(c_double_complex), pointer :: planes(:, :, :), field(:, :, :), columns(:, :)
    integer :: group, bands, twos, two, i, n(3)
    logical :: hollow
    hollow = bx_is_hollow()
    n = [s%crystal%grid(:2), s%fft%planes]
    bands = bands_of(s%occupied, s%npar, s%group)
    twos = (bands + 1)/2
    allocate (occupied_two(n(1), n(2), n(3), twos), orbitals(n(1), n(2), n(3), 2))
    allocate (vx_orbitals(n(1), n(2), n(3), size(psi, 2)), vx_orbital(product(n)))
    vx_at(1:n(1), 1:n(2), 1:n(3)) => vx_orbital
    planes => bx_planes(s%fft, 0)
    field => bx_planes(ffts%fft, 0)
    columns => bx_columns(ffts%fft, 0)
    do two = 1, twos
      if (.not. s%forward%is_simulated_now(s%team, s%ncore)) cycle
      call fill_field(s, psi(:, :bands), two, 0)
      call bx_transform(s%exchange, bx_way_forward, 0, 0)
      occupied_two(:, :, :, two) = planes
      call s%forward%mark_done()
    end do
    do group = 0, s%npar - 1
      bands = bands_of(s%crystal%bands, s%npar, group)
      allocate (coefficients(size(psi, 1), bands))
      if (group == s%group) coefficients = psi
      call lap(s, phase_exchange)
      call broadcast(flat(coefficients), group, s%across)
      call lap(s, phase_redistribute)
      do i = 1, bands
        if (mod(i, 2) == 1) call transform_two((i + 1)/2)
        call add_pairs(orbitals(:, :, :, 2 - mod(i, 2)))
        call lap(s, phase_exchange)
        if (s%sum_vx%is_simulated_now(s%across, s%npar)) then
          call sum_over(vx_orbital, s%across, s%knobs%emulated, s%knobs%paw_alltoall)
          call s%sum_vx%mark_done()
        end if
        call lap(s, phase_reduce)
        if (group == s%group .and. .not. hollow) vx_orbitals(:, :, :, i) = vx_at
      end do
      deallocate (coefficients)
    end do
    vx = 0
    do two = 1, (size(psi, 2) + 1)/2
      if (.not. s%back%is_simulated_now(s%team, s%ncore)) cycle
      planes = vx_orbitals(:, :, :, 2*two - 1)
      if (2*two <= size(psi, 2)) then
        planes = planes + (0.0_dp, 1.0_dp)*vx_orbitals(:, :, :, 2*two)
      end if
      call bx_transform(s%exchange, bx_way_inverse, 0, 0)
      call take_field(s, vx, two, 0, 1/product(real(s%crystal%grid, dp)))
      call s%back%mark_done()
    end do
    call lap(s, phase_exchange)

  contains

    !> orbitals = two bands of a group on the grid.
    subroutine transform_two(number)
      integer, intent(in) :: number
      if (.not. s%forward%is_simulated_now(s%team, s%ncore)) return
      call fill_field(s, coefficients, number, 0)
      call bx_transform(s%exchange, bx_way_forward, 0, 0)
      orbitals(:, :, :, 1) = real(planes, dp)
      orbitals(:, :, :, 2) = aimag(planes)
      call s%forward%mark_done()
    end subroutine transform_two

    !> vx_orbital = what this group's occupied bands add to the exchange operator's result.
    subroutine add_pairs(orbital)
      real(dp), intent(in) :: orbital(:, :, :)
      integer :: j
      if (.not. hollow) vx_orbital = 0 ! which touches its memory
      do j = 1, twos
        if (.not. s%pair%is_simulated_now(s%team, s%ncore)) cycle
        field = orbital*occupied_two(:, :, :, j)
        call lap(s, phase_exchange)
        call bx_transform(ffts%exchange, bx_way_inverse, 0, 0)
        columns = ffts%kernel*columns
        call lap(s, phase_exchange)
        call bx_transform(ffts%exchange, bx_way_forward, 0, 0)
        vx_at = vx_at + real(conjg(occupied_two(:, :, :, j))*field, dp)
        call s%pair%mark_done()
      end do
      ! of each point and two bands: the product, the kernel's, the sum
      call bx_charge(bx_copy, 88.0_dp*product(n)*twos, by_all_threads)
    end subroutine add_pairs

  end subroutine apply_exchange

  !> Exchange energy of this rank's occupied bands: the sum of <psi|vx>, two electrons per band,
  !> each pair once: Hartree.
  pure real(dp) function exchange_energy(s, psi, vx) result(energy)
    type(state_t), intent(in) :: s
    real(dp), intent(in), contiguous :: psi(:, :), vx(:, :)
    integer :: occupied
    occupied = count(s%band <= s%occupied)
    energy = sum(psi(:, :occupied)*vx(:, :occupied))
  end function exchange_energy

end module npar_exchange
