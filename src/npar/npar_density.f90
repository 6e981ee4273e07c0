! The density of occupied bands, what it should be, and the potential that follows from it.
module npar_density
  use, intrinsic :: iso_c_binding, only: c_double_complex, dp => c_double
  use mpi_f08, only: MPI_Allreduce, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, MPI_MAX
  use bx_charges, only: bx_computes, bx_copy, bx_is_hollow, by_all_threads
  use bx_transpose, only: bx_planes, bx_transform, bx_way_forward
  use npar_collectives, only: sum_over
  use npar_hamiltonian, only: fill_field
  use npar_model, only: coupling, depth, gap_above, pi, spectrum_t
  use npar_state, only: lap, phase_density, phase_kinetic, phase_reduce, state_t
  implicit none (type, external)
  private
  public :: add_density, finish_density, set_exact_density, set_ionic_potential, set_potential

  real(dp), parameter :: mixing = 0.5_dp !< share of the new density

contains

  !> Two electrons a band, spread over the k-points, of my group's occupied bands at one k-point;
  !> they are the first of mine.
  subroutine add_density(s, psi)
    type(state_t), intent(inout) :: s
    real(dp), intent(in), contiguous :: psi(:, :)
    complex(c_double_complex), pointer :: planes(:, :, :)
    integer :: occupied, field, stride, z
    real(dp) :: weight
    weight = 2.0_dp/s%crystal%kpoints
    occupied = count(s%band <= s%occupied)
    stride = merge(2, 1, s%crystal%gamma)
    do field = 1, (occupied + stride - 1)/stride
      if (s%forward%is_simulated_now(s%team, s%ncore)) then
        if (.not. bx_is_hollow()) call fill_field(s, psi(:, :occupied), field, 0)
        call lap(s, phase_kinetic)
        call bx_transform(s%exchange, bx_way_forward, 0, 0)
        call s%forward%mark_done()
      end if
      planes => bx_planes(s%fft, 0)
      if (bx_computes(bx_copy, 24.0_dp*size(planes), by_all_threads)) then
        !$omp parallel do schedule(static)
        do z = 1, s%fft%planes
          s%density_out(:, :, z) = s%density_out(:, :, z) + &
                                   weight*(real(planes(:, :, z), dp)**2 + aimag(planes(:, :, z))**2)
        end do
      end if
      call lap(s, phase_density)
    end do
  end subroutine add_density

  !> Sums over the groups and mixes.
  subroutine finish_density(s)
    type(state_t), intent(inout) :: s
    real(dp), pointer, contiguous :: vector(:)
    if (s%fft%planes > 0 .or. s%ncore > 1) then
      vector(1:size(s%density_out)) => s%density_out
      call sum_over(vector, s%across, s%knobs%emulated)
      call lap(s, phase_reduce)
    end if
    if (.not. bx_is_hollow()) s%density = s%density + mixing*(s%density_out - s%density)
    call set_potential(s)
    call lap(s, phase_density)
  end subroutine finish_density

  !> Sets the local potential from the density (Hartree).
  subroutine set_potential(s)
    type(state_t), intent(inout) :: s
    if (bx_is_hollow()) return
    s%potential = s%ionic + s%strength*(s%density - s%density_exact)
  end subroutine set_potential

  !> Sum over d of 2 v_d cos(2 pi x_d / L_d), on my planes.
  subroutine set_ionic_potential(s)
    type(state_t), intent(inout) :: s
    real(dp) :: v(3), place(3) !< of the box's edges
    integer :: x, y, z
    v = 0
    if (.not. s%crystal%hybrid) v = 2*depth*s%crystal%quantum()
    do z = 1, s%fft%planes
      do y = 1, s%crystal%grid(2)
        do x = 1, s%crystal%grid(1)
          place = real([x, y, s%fft%first_plane + z] - 1, dp)/s%crystal%grid
          s%ionic(x, y, z) = sum(v*cos(2*pi*place))
        end do
      end do
    end do
  end subroutine set_ionic_potential

  !> The potential per density.  The density answers to a potential by at most 2 max(rho) / gap
  !> times it (first-order perturbation theory, root mean square).  With this strength a deviation
  !> comes back no larger than it went in.  Else it would grow where the gap is small.
  subroutine set_strength(s)
    type(state_t), intent(inout) :: s
    real(dp) :: densest(1), gap
    densest = 0
    if (size(s%density_exact) > 0) densest = maxval(s%density_exact)
    call MPI_Allreduce(MPI_IN_PLACE, densest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, s%team)
    gap = gap_above(s%spectra, s%occupied)
    s%strength = min(coupling*minval(s%crystal%quantum())/(2*s%occupied), gap/(2*densest(1)))
  end subroutine set_strength

  !> Of the exact eigenstates, by one-dimensional sums.
  subroutine set_exact_density(s)
    type(state_t), intent(inout) :: s
    real(dp), allocatable :: line(:, :, :)
    integer :: k, n, q(3), y, z
    s%density_exact = 0
    do k = 1, s%crystal%kpoints
      line = squares(s%spectra(k), s%crystal%grid)
      do n = 1, s%occupied
        q = s%spectra(k)%quantum(:, s%spectra(k)%state(n))
        do z = 1, s%fft%planes
          do y = 1, s%crystal%grid(2)
            s%density_exact(:, y, z) = s%density_exact(:, y, z) + 2.0_dp/s%crystal%kpoints &
                                       *line(s%fft%first_plane + z, q(3), 3)*line(y, q(2), 2) &
                                       *line(:s%crystal%grid(1), q(1), 1)
          end do
        end do
      end do
    end do
    call set_strength(s)
  end subroutine set_exact_density

  !> |sum over n of c_n exp(-2 pi i n j / N)|**2 at j = 0..N-1, of each one-dimensional state.
  function squares(spectrum, grid) result(line)
    type(spectrum_t), intent(in) :: spectrum
    integer, intent(in) :: grid(3)
    real(dp), allocatable :: line(:, :, :)
    complex(dp) :: wave
    integer :: d, j, m, n, state
    m = ubound(spectrum%wave, 1)
    allocate (line(maxval(grid), size(spectrum%wave, 2), 3))
    line = 0
    do d = 1, 3
      do state = 1, size(spectrum%wave, 2)
        do j = 1, grid(d)
          wave = 0
          do n = -m, m
            wave = wave + spectrum%wave(n, state, d) &
                   *exp(cmplx(0.0_dp, -2*pi*modulo(n*(j - 1), grid(d))/grid(d), dp))
          end do
          line(j, state, d) = real(wave, dp)**2 + aimag(wave)**2
        end do
      end do
    end do
  end function squares

end module npar_density
