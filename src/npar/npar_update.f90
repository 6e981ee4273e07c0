! Residual minimisation, band by band.
module npar_update
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use bx_harness, only: bx_largest
  use bx_charges, only: bx_charge, bx_copy, bx_is_hollow, by_all_threads
  use npar_collectives, only: sum_over
  use npar_hamiltonian, only: apply_hamiltonian
  use npar_state, only: flat, lap, phase_reduce, phase_update, state_t
  implicit none (type, external)
  private
  public :: update_bands, residual_norms

contains

  !> Improves psi(2 * waves, my bands) and h = H psi together: psi + lambda p, with p the
  !> preconditioned residual and lambda such that the new residual is smallest (D. M. Wood and
  !> A. Zunger, J. Phys. A 18, 1343 (1985); one step of RMM-DIIS).  Collective over the team.
  subroutine update_bands(s, psi, h)
    type(state_t), intent(inout) :: s
    real(dp), intent(inout), contiguous :: psi(:, :), h(:, :)
    real(dp), target :: sums(3, size(psi, 2))
    real(dp) :: energy(size(psi, 2)), quantum
    integer :: bands, i
    quantum = minval(s%crystal%quantum()) ! a constant wave has no kinetic energy
    bands = merge(0, size(psi, 2), bx_is_hollow()) ! to be computed
    !$omp parallel do schedule(static)
    do i = 1, bands
      sums(:, i) = [dot_product(psi(:, i), psi(:, i)), dot_product(psi(:, i), h(:, i)), &
                    sum(s%kinetic*psi(:, i)**2)]
    end do
    call reduce(s, sums)
    energy(:bands) = sums(2, :bands)/sums(1, :bands)
    !$omp parallel do schedule(static)
    do i = 1, bands
      s%p(:, i) = preconditioner(s%kinetic, max(sums(3, i)/sums(1, i), quantum)) &
                  *(h(:, i) - energy(i)*psi(:, i))
    end do
    call bx_charge(bx_copy, 40.0_dp*size(psi), by_all_threads)
    call lap(s, phase_update)
    call apply_hamiltonian(s, s%p, s%hp)
    !$omp parallel do schedule(static)
    do i = 1, bands
      sums(:, i) = overlap_with_residual(s, s%hp(:, i) - energy(i)*s%p(:, i), &
                                         h(:, i) - energy(i)*psi(:, i))
    end do
    call reduce(s, sums)
    !$omp parallel do schedule(static)
    do i = 1, bands
      if (.not. sums(1, i) > tiny(1.0_dp)) cycle ! the residual is none
      call add(-sums(2:3, i)/sums(1, i), s%p(:, i), psi(:, i))
      call add(-sums(2:3, i)/sums(1, i), s%hp(:, i), h(:, i))
    end do
    call bx_charge(bx_copy, 64.0_dp*size(psi), by_all_threads)
    call lap(s, phase_update)
  end subroutine update_bands

  !> Teter, Payne and Allan, Phys. Rev. B 40, 12255 (1989), equation 5.16, of the kinetic energies
  !> of a plane wave and of the band; over 1.5, as is usual.
  elemental function preconditioner(kinetic, of_band) result(k)
    real(dp), intent(in) :: kinetic, of_band
    real(dp) :: k, x, top
    x = kinetic/(1.5_dp*of_band)
    top = 27 + x*(18 + x*(12 + x*8))
    k = top/(top + 16*x**4)
  end function preconditioner

  !> <a|a>, and <a|r>, which has no imaginary part for real waves.
  pure function overlap_with_residual(s, a, r) result(products)
    type(state_t), intent(in) :: s
    real(dp), intent(in), contiguous :: a(:), r(:)
    real(dp) :: products(3)
    products = [dot_product(a, a), dot_product(a, r), 0.0_dp]
    if (.not. s%crystal%gamma) then
      products(3) = dot_product(a(1::2), r(2::2)) - dot_product(a(2::2), r(1::2))
    end if
  end function overlap_with_residual

  !> y = y + factor x, of complex numbers as pairs of reals.
  pure subroutine add(factor, x, y)
    real(dp), intent(in) :: factor(2)
    real(dp), intent(in), contiguous :: x(:)
    real(dp), intent(inout) :: y(2, *)
    integer :: i
    do i = 1, size(x)/2
      y(1, i) = y(1, i) + factor(1)*x(2*i - 1) - factor(2)*x(2*i)
      y(2, i) = y(2, i) + factor(1)*x(2*i) + factor(2)*x(2*i - 1)
    end do
  end subroutine add

  !> Sums over the team, (n, bands).
  subroutine reduce(s, sums)
    type(state_t), intent(inout) :: s
    real(dp), intent(inout), contiguous, target :: sums(:, :)
    call lap(s, phase_update)
    call sum_over(flat(sums), s%team, s%knobs%emulated)
    s%infinite = s%infinite .or. .not. bx_largest([sums]) < huge(1.0_dp)
    call lap(s, phase_reduce)
  end subroutine reduce

  !> |H psi - e psi| of my bands, psi normalised, (my bands): Hartree.
  function residual_norms(s, psi, h, energy) result(norms)
    type(state_t), intent(in) :: s
    real(dp), intent(in), contiguous :: psi(:, :), h(:, :)
    real(dp), intent(in) :: energy(:)
    real(dp) :: norms(size(psi, 2))
    real(dp), target :: sums(1, size(psi, 2))
    integer :: i
    do i = 1, size(psi, 2)
      sums(1, i) = sum((h(:, i) - energy(i)*psi(:, i))**2)
    end do
    call sum_over(flat(sums), s%team, .false.)
    norms = sqrt(sums(1, :))
  end function residual_norms

end module npar_update
