! Outcomes of verification: those of every step, and those of the first steps alone.
!
! After every step all bands are examined for the price of reading them three times: not each band
! with each other, but all against one vector, which shows a change of any coefficient of any band
! (Freivalds, Probabilistic machines can use less running time, 1977).
module npar_check
  use, intrinsic :: iso_c_binding, only: c_int64_t, c_ptr, dp => c_double
  use mpi_f08, only: MPI_Allreduce, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, MPI_SUM
  use bx_harness, only: bx_check, bx_largest, bx_seed, bx_uniform
  use npar_accuracy, only: accuracy_t
  use npar_blas, only: dgemv, zgemv
  use npar_collectives, only: sum_over
  use npar_model, only: pi
  use npar_paw, only: one_centre_error
  use npar_state, only: flat, state_t
  use npar_subspace, only: orthonormality_error
  implicit none (type, external)
  private
  public :: check_exchange, check_orthonormality, check_step, note_density, set_probe

  real(dp), parameter :: orthonormal = 1e-11_dp
  complex(dp), parameter :: one = 1, zero = 0

contains

  !> After a step: compares the eigenvalues of the lowest `compared` bands.  Compares the density if
  !> all occupied bands are among them, and the space of all bands if all are.
  subroutine check_step(s, accuracy, compared, verification)
    type(state_t), intent(inout) :: s
    type(accuracy_t), intent(in) :: accuracy
    integer, intent(in) :: compared
    type(c_ptr), intent(in) :: verification
    real(dp) :: lost, skew
    integer :: k
    call bx_check(verification, "eigenvalues", bx_largest([(bx_largest(s%energy(:compared, k) &
      - s%spectra(k)%energy(:compared)), k=1, s%crystal%kpoints)]), accuracy%energy, "Hartree")
    call examine_bands(s, lost, skew)
    call bx_check(verification, "orthonormality", skew, orthonormal, "1")
    if (compared == s%crystal%bands) call bx_check(verification, "bands", lost, accuracy%bands, "1")
    call bx_check(verification, "factorisations", merge(1.0_dp, 0.0_dp, s%failed), 0.0_dp, "failed")
    call bx_check(verification, "minimisations", merge(1.0_dp, 0.0_dp, s%infinite), 0.0_dp, &
                  "not finite")
    call bx_check(verification, "one-centre", one_centre_error(s), 1e-12_dp, "of the largest")
    call bx_check(verification, "points of one-centre terms", points_error(s), 1e-5_dp, "of all")
    call check_mixing(s, verification)
    call note_density(s)
    call bx_check(verification, "electrons", electrons_error(s), 1e-12_dp, "of all")
    if (compared >= s%occupied) then
      call bx_check(verification, "density", bx_largest(s%density_out - s%density_exact) &
                    /(2*s%occupied), accuracy%density, "of the mean")
    end if
    s%failed = .false.
    s%infinite = .false.
  end subroutine check_step

  !> The product of every band with every other, which takes as long as a part of a step.
  subroutine check_orthonormality(s, verification)
    type(state_t), intent(inout) :: s
    type(c_ptr), intent(in) :: verification
    integer :: k
    call bx_check(verification, "orthonormality", bx_largest([(orthonormality_error(s, &
                  s%psi(:, :, k)), k=1, s%crystal%kpoints)]), orthonormal, "1")
  end subroutine check_orthonormality

  !> Deviation of the points of the quadrature, of 1000 for each atom.  Gauss's rule is exact with
  !> fewer; but the squares of n weights add up to pi^2 / (2n + 1), within 2.5e-7 where n is 1000:
  !> a weight is pi / (n + 1/2) times the sine of its node's angle.
  function points_error(s) result(error)
    type(state_t), intent(in) :: s
    integer, parameter :: points = 1000
    real(dp) :: error, total
    total = s%squares
    call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, s%world)
    error = abs(total*(2*points + 1)/(pi**2*s%crystal%atoms) - 1)
  end function points_error

  !> Notes what the density on my planes is before a step.
  subroutine note_density(s)
    type(state_t), intent(inout) :: s
    s%noted = weighted(s, s%density)
  end subroutine note_density

  !> The deviations of the density on my planes from half of that before the step and half of the
  !> step's own, and of the local potential from what this density makes: roundings, of as many
  !> points as are added up, and of one.
  subroutine check_mixing(s, verification)
    type(state_t), intent(in) :: s
    type(c_ptr), intent(in) :: verification
    real(dp) :: mixed, deviation, rounding
    rounding = epsilon(1.0_dp)*sqrt(real(size(s%density), dp))*bx_largest(s%density_exact)
    mixed = abs(weighted(s, s%density) - (s%noted + weighted(s, s%density_out))/2)
    deviation = bx_largest(s%potential - s%ionic - s%strength*(s%density - s%density_exact))
    call bx_check(verification, "mixed density", mixed/max(rounding, tiny(rounding)), 100.0_dp, &
                  "roundings")
    call bx_check(verification, "potential", deviation/max(spacing(bx_largest(s%potential)), &
                  tiny(deviation)), 4.0_dp, "roundings")
  end subroutine check_mixing

  !> Sum over what a density on my planes is beside the exact one, with a random weight for each
  !> point, so that any change is seen.
  function weighted(s, density) result(total)
    type(state_t), intent(in) :: s
    real(dp), intent(in) :: density(:, :, :)
    real(dp) :: total
    integer :: x, y, z
    integer(c_int64_t) :: index
    total = 0
    index = 0
    do z = 1, size(density, 3)
      do y = 1, size(density, 2)
        do x = 1, size(density, 1)
          index = index + 1
          total = total + bx_uniform(bx_seed(s%run), index)*(density(x, y, z) &
                                                             - s%density_exact(x, y, z))
        end do
      end do
    end do
  end function weighted

  !> Deviation of the number of electrons on my group's planes, of all electrons.
  function electrons_error(s) result(error)
    type(state_t), intent(in) :: s
    real(dp) :: error, total
    total = sum(s%density_out)
    call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, s%team)
    error = abs(total/product(real(s%crystal%grid, dp))/(2*s%occupied) - 1)
  end function electrons_error

  !> After an exchange step: compares the energy, of which this rank has `mine`, and what the
  !> exchange operator makes of the lowest `compared` bands.  Returns the energy: Hartree.
  function check_exchange(s, mine, accuracy, compared, verification) result(energy)
    type(state_t), intent(in) :: s
    real(dp), intent(in) :: mine
    type(accuracy_t), intent(in) :: accuracy
    integer, intent(in) :: compared
    type(c_ptr), intent(in) :: verification
    real(dp) :: energy, factor
    real(dp), target :: norms(1, size(s%band))
    integer :: i
    energy = mine
    call MPI_Allreduce(MPI_IN_PLACE, energy, 1, MPI_DOUBLE_PRECISION, MPI_SUM, s%world)
    call bx_check(verification, "exchange", abs(energy/s%spectra(1)%exchange - 1), 1e-10_dp, &
                  "of all")
    associate (exact => s%spectra(1))
      norms = 0
      do i = 1, count(s%band <= compared)
        factor = exact%exchange_of(exact%state(s%band(i)))
        norms(1, i) = sum((s%hp(:, i) - factor*s%psi(:, i, 1))**2)
      end do
      call sum_over(flat(norms), s%team, .false.)
      call bx_check(verification, "exchanged bands", sqrt(bx_largest(norms(1, :))) &
                    /maxval(abs(exact%exchange_of)), accuracy%bands, "of the largest")
    end associate
  end function check_exchange

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

end module npar_check
