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
! The gap.  Empty bands mixed into an occupied one by m change the exchange operator, and this mixes
! them by at most m times the largest exchange / gap (its matrix has no larger sum of a row).  With
! less than 1/2 a step takes errors away; with more than 1 the closed form is no stable answer
! (Thouless, Nucl. Phys. 21, 225, 1960).
!
! The noise.  A coefficient of the start differs by at most noise / (1 + kinetic energy / quantum).
! Steps remove it, but the first steps not all of it.
module npar_accuracy
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use npar_basis, only: beyond_cutoff
  use npar_model, only: coupling, crystal_t, gap_above, spectrum_t
  implicit none (type, external)
  private
  public :: accuracy_t, accuracy_of, small_noise

  !> Up to here every step is compared, above it the converged answer.
  real(dp), parameter :: small_noise = 1e-7_dp
  !> What is left of a larger noise after convergence (`converged` in npar_kernel).
  real(dp), parameter :: noise_left = 2e-9_dp
  real(dp), parameter :: largest_lost = 1e-11_dp !< times the cutoff: Hartree
  !> Amplitude by which occupied and empty states mix, where the gap is small.
  real(dp), parameter :: largest_mixing = 1e-7_dp
  real(dp), parameter :: most_exchange = 0.5_dp !< of the gap
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
  pure function accuracy_of(crystal, spectra, occupied, noise) result(accuracy)
    type(crystal_t), intent(in) :: crystal
    type(spectrum_t), intent(in) :: spectra(:)
    integer, intent(in) :: occupied
    real(dp), intent(in) :: noise
    type(accuracy_t) :: accuracy
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
    if (crystal%hybrid) then
      accuracy%distinct = accuracy%distinct .and. gap_above(spectra, occupied)*most_exchange >= &
                          maxval(abs(spectra(1)%exchange_of))
    end if
  end function accuracy_of

  !> No point has a larger amplitude of band i.
  pure function largest(s, i) result(amplitude)
    type(spectrum_t), intent(in) :: s
    integer, intent(in) :: i
    real(dp) :: amplitude
    integer :: d
    amplitude = product([(sum(abs(s%wave(:, s%quantum(d, s%state(i)), d))), d=1, 3)])
  end function largest

end module npar_accuracy
