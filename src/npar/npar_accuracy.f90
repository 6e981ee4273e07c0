! How exactly the closed form is known, and the tolerances that follow from it.
!
! The cutoff.  The closed form has all plane waves, the calculation those within the cutoff.  An
! eigenstate c has the norm `lost` = sum |c_G|**2 beyond it.
! - Eigenvalues differ in second order.  The states cut at the sphere are trial states (Ritz).  V
!   alone couples inside and outside, and c decays by V / (kinetic energy - energy) from one wave to
!   the next, so that <cut|V|outside> = lost * (cutoff - energy) to leading order.  Dense
!   diagonalisation agrees within 10% (unit_npar.f90).
! - States and density differ in first order.  At any point a state changes by at most the sum of
!   |c_G| beyond the cutoff.  What is inside answers to this by less than as much again.
!
! The noise.  A coefficient of the start differs by at most noise / (1 + kinetic energy / quantum).
! Steps remove it, but the first steps not all of it.
module npar_accuracy
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use npar_basis, only: beyond_cutoff
  use npar_model, only: coupling, crystal_t, exchange_mixing, frequencies, gap_above, pi, spectrum_t
  implicit none (type, external)
  private
  public :: accuracy_t, accuracy_of, exchange_response, small_noise

  !> Up to here every step is compared, above it the converged answer.
  real(dp), parameter :: small_noise = 1e-7_dp
  !> What is left of a larger noise after convergence (`converged` in npar_kernel).
  real(dp), parameter :: noise_left = 2e-9_dp
  real(dp), parameter :: largest_lost = 1e-11_dp !< times the cutoff: Hartree
  !> Amplitude by which occupied and empty states mix, where the gap is small.
  real(dp), parameter :: largest_mixing = 1e-7_dp
  real(dp), parameter :: rounding = 1e-14_dp !< of the cutoff, the largest number in H

  !> Tolerances, and whether they can be held.
  type :: accuracy_t
    real(dp) :: energy = 0 !< of an eigenvalue: Hartree
    real(dp) :: density = 0 !< at any point: of the mean
    real(dp) :: bands = 0 !< of the norm of a sum of all bands with signs
    logical :: converged = .true. !< the cutoff is large enough
    logical :: distinct = .true. !< the gap is large enough
  end type accuracy_t

contains

  !> For so many occupied bands and a start with noise.
  pure type(accuracy_t) function accuracy_of(crystal, spectra, occupied, noise) result(accuracy)
    type(crystal_t), intent(in) :: crystal
    type(spectrum_t), intent(in) :: spectra(:)
    integer, intent(in) :: occupied
    real(dp), intent(in) :: noise
    real(dp) :: beyond(2), lost, together, density, left
    integer :: k, i
    lost = 0
    density = 0
    do k = 1, size(spectra)
      together = 0
      do i = 1, crystal%bands
        beyond = beyond_cutoff(crystal, spectra(k), spectra(k)%state(i))
        lost = max(lost, beyond(1))
        together = together + beyond(1)
        ! two electrons a band: 2 (|c + d|**2 - |c|**2) = 4 Re c* d, d being twice what is lost
        if (i <= occupied) density = density + 8*beyond(2)*largest(spectra(k), i)/size(spectra)
      end do
      ! bands as they are cut, with random signs: what is inside answers by less than what is lost
      accuracy%bands = max(accuracy%bands, 2*sqrt(together))
    end do
    left = merge(noise, noise_left, noise <= small_noise)
    ! the sum of 2 / (1 + n**2)**2 over all n, a band's noise squared, is below 20
    accuracy%bands = accuracy%bands + left*sqrt(20.0_dp*crystal%bands) + 1e-11_dp
    ! at a point: 4 standard deviations of 2.6 noise, times 2 for |c + d|**2, times an amplitude of
    ! up to 3, a little less as bands add up
    accuracy%density = density/(2*occupied) + 50*left + 1e-9_dp
    ! and the potential of the density: the first step leaves a tenth of the noise; waves beyond the
    ! cutoff make a density of short waves, of which a state meets less than a hundredth
    accuracy%energy = 1e-10_dp*max(1.0_dp, crystal%cutoff/100) &
                      + coupling*minval(crystal%quantum())*(0.1_dp*left + 0.01_dp*accuracy%density)
    ! likewise the exchange with bands that have noise
    if (crystal%hybrid) then
      accuracy%energy = accuracy%energy + 0.3_dp*maxval(abs(spectra(1)%exchange_of))*left
    end if
    accuracy%converged = lost*max(1.0_dp, crystal%cutoff) <= largest_lost
    accuracy%distinct = gap_above(spectra, occupied)*largest_mixing >= &
                        crystal%cutoff*max(lost, rounding)
  end function accuracy_of

  !> The largest factor by which a step of a hybrid multiplies errors of the occupied bands.  Above
  !> 1 rounding leads away from the closed form (Thouless, Nucl. Phys. 21, 225, 1960).
  !>
  !> An error mixes the empty wave G + Q into G.  The exchange K(G, G') / gap then mixes G' + Q and
  !> G' - Q into G'; Q couples with no other.  The largest sum of a row bounds the factor.  Only a Q
  !> with a gap below `widest` can have a large sum: a row of K is at most the exchange of a band.
  pure function exchange_response(crystal, s, occupied) result(response)
    type(crystal_t), intent(in) :: crystal
    type(spectrum_t), intent(in) :: s
    integer, intent(in) :: occupied !< bands, a closed shell
    real(dp) :: response, widest
    integer :: wave(3, occupied), q(3), bound(3), i, a
    logical, allocatable :: is_done(:, :, :)
    real(dp), allocatable :: lowest(:, :, :)
    do i = 1, occupied
      wave(:, i) = frequencies(s, s%state(i), .true.)
    end do
    widest = 4*maxval(abs(s%exchange_of))
    ! the lowest energy of each |G|: Hartree
    bound = 0
    do a = 1, size(s%energy)
      bound = max(bound, frequencies(s, s%state(a), .false.))
    end do
    allocate (lowest(0:bound(1), 0:bound(2), 0:bound(3)), source=huge(widest))
    do a = 1, size(s%energy)
      q = frequencies(s, s%state(a), .false.)
      lowest(q(1), q(2), q(3)) = min(lowest(q(1), q(2), q(3)), s%energy(a))
    end do
    bound = bound + maxval(abs(wave), 2)
    allocate (is_done(-bound(1):bound(1), -bound(2):bound(2), -bound(3):bound(3)), source=.false.)
    response = 0
    do i = 1, occupied
      do a = occupied + 1, size(s%energy)
        if (s%energy(a) - s%energy(i) > widest) exit
        q = frequencies(s, s%state(a), .true.) - wave(:, i)
        if (is_done(q(1), q(2), q(3))) cycle
        is_done(q(1), q(2), q(3)) = .true.
        response = max(response, response_at(q))
      end do
    end do

  contains

    !> Largest sum of a row for one Q.
    pure function response_at(q) result(largest)
      integer, intent(in) :: q(3)
      real(dp) :: largest, row, gap(occupied, 2)
      integer :: j, k, way
      do j = 1, occupied
        gap(j, :) = [gap_of(j, q), gap_of(j, -q)]
      end do
      largest = 0
      do k = 1, occupied
        if (gap(k, 1) >= huge(gap)) cycle
        row = 0
        do j = 1, occupied
          do way = 1, 2
            row = row + coupled(wave(:, k) - wave(:, j) - merge(0, q, way == 1))/gap(j, way)
          end do
        end do
        largest = max(largest, row)
      end do
    end function response_at

    !> From band j to the wave that differs by q, infinite where this is occupied: Hartree.
    pure real(dp) function gap_of(j, q) result(gap)
      integer, intent(in) :: j, q(3)
      integer :: n(3)
      n = wave(:, j) + q
      gap = huge(gap)
      if (any(all(wave == spread(n, 2, occupied), 1))) return
      n = abs(n)
      if (any(n > ubound(lowest))) return ! far above the cutoff
      gap = max(lowest(n(1), n(2), n(3)) - s%energy(j), tiny(gap)**0.25_dp)
    end function gap_of

    !> Exchange between two waves that differ by n, 0 of a wave with itself: Hartree.
    pure real(dp) function coupled(n) result(k)
      integer, intent(in) :: n(3)
      k = 0
      if (any(n /= 0)) k = exchange_mixing*4*pi/crystal%volume()/sum(2*crystal%quantum()*n**2)
    end function coupled

  end function exchange_response

  !> No point has a larger amplitude of band i.
  pure real(dp) function largest(s, i) result(amplitude)
    type(spectrum_t), intent(in) :: s
    integer, intent(in) :: i
    integer :: d
    amplitude = product([(sum(abs(s%wave(:, s%quantum(d, s%state(i)), d))), d=1, 3)])
  end function largest

end module npar_accuracy
