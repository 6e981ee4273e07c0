! H applied to bands: kinetic energy, local potential by FFTs in the team, projectors.
module npar_hamiltonian
  use, intrinsic :: iso_c_binding, only: c_double_complex, dp => c_double
  use bx_transpose, only: bx_apply, bx_columns
  use npar_blas, only: dgemm, zgemm
  use npar_collectives, only: sum_over
  use npar_model, only: crystal_t, householder, projectors_per_atom
  use npar_state, only: batch, flat, lap, phase_kinetic, phase_nonlocal, phase_reduce, &
    phase_zeroing, state_t, wiped
  implicit none (type, external)
  private
  public :: choose_kpoint, apply_hamiltonian, fields_of, fill_field, take_field

contains

  !> Kinetic energies and projectors of one k-point, unless they are there already.
  subroutine choose_kpoint(s, k)
    type(state_t), intent(inout) :: s
    integer, intent(in) :: k
    real(dp), allocatable :: energy(:), mixed(:)
    real(dp) :: v(projectors_per_atom)
    integer :: atom, i, first
    if (s%k == k) return
    s%k = k
    energy = s%basis%kinetic(s%crystal, s%spectra(k)%kpoint)
    s%kinetic(1::2) = energy
    s%kinetic(2::2) = energy
    allocate (mixed(2*s%waves()))
    do atom = 1, s%crystal%atoms
      first = (atom - 1)*projectors_per_atom
      v = householder(atom)
      mixed = 0
      do i = 1, projectors_per_atom
        call s%basis%exact(s%spectra(k), i + first, s%beta(:, first + i))
        mixed = mixed + v(i)*s%beta(:, first + i)
      end do
      do i = 1, projectors_per_atom
        s%beta(:, first + i) = s%beta(:, first + i) - 2*v(i)*mixed
      end do
    end do
    call lap(s, phase_nonlocal)
  end subroutine choose_kpoint

  !> h = H c, both (2 * waves, my bands).
  subroutine apply_hamiltonian(s, c, h)
    type(state_t), intent(inout) :: s
    real(dp), intent(in), contiguous :: c(:, :)
    real(dp), intent(inout), contiguous, target :: h(:, :)
    integer :: i
    if (s%knobs%zeroing) then
      call wiped(s, flat(h))
      call lap(s, phase_zeroing)
    end if
    !$omp parallel do schedule(static)
    do i = 1, size(c, 2)
      h(:, i) = s%kinetic*c(:, i)
    end do
    call lap(s, phase_kinetic)
    call add_local(s, c, h)
    call add_nonlocal(s, c, h)
  end subroutine apply_hamiltonian

  !> Number of transforms for so many bands: two real ones travel as one field.
  pure function fields_of(crystal, bands) result(n)
    type(crystal_t), intent(in) :: crystal
    integer, intent(in) :: bands
    integer :: n
    n = merge((bands + 1)/2, bands, crystal%gamma)
  end function fields_of

  subroutine add_local(s, c, h)
    type(state_t), intent(inout) :: s
    real(dp), intent(in), contiguous :: c(:, :)
    real(dp), intent(inout), contiguous :: h(:, :)
    real(dp) :: scale
    integer :: fields, first, count, i
    scale = 1.0_dp/product(real(s%crystal%grid, dp))
    fields = fields_of(s%crystal, size(c, 2))
    do first = 1, fields, batch
      count = min(batch, fields - first + 1)
      if (s%knobs%zeroing) call wipe_fields(s, count)
      do i = 0, count - 1
        call fill_field(s, c, first + i, i)
      end do
      call lap(s, phase_kinetic)
      call bx_apply(s%fft, s%exchange, count, s%potential)
      do i = 0, count - 1
        call take_field(s, h, first + i, i, scale)
      end do
      call lap(s, phase_kinetic)
    end do
  end subroutine add_local

  subroutine fill_field(s, c, field, band)
    type(state_t), intent(in) :: s
    real(dp), intent(in), contiguous :: c(:, :)
    integer, intent(in) :: field, band
    complex(c_double_complex), pointer :: columns(:, :)
    integer :: n
    columns => bx_columns(s%fft, band)
    if (.not. s%crystal%gamma) then
      call s%basis%fill(columns, c(:, field))
      return
    end if
    n = 2*field - 1
    if (n < size(c, 2)) then
      call s%basis%fill(columns, c(:, n), c(:, n + 1))
    else
      call s%basis%fill(columns, c(:, n))
    end if
  end subroutine fill_field

  subroutine take_field(s, h, field, band, scale)
    type(state_t), intent(in) :: s
    real(dp), intent(inout), contiguous :: h(:, :)
    integer, intent(in) :: field, band
    real(dp), intent(in) :: scale
    complex(c_double_complex), pointer :: columns(:, :)
    integer :: n
    columns => bx_columns(s%fft, band)
    if (.not. s%crystal%gamma) then
      call s%basis%take(columns, scale, h(:, field))
      return
    end if
    n = 2*field - 1
    if (n < size(h, 2)) then
      call s%basis%take(columns, scale, h(:, n), h(:, n + 1))
    else
      call s%basis%take(columns, scale, h(:, n))
    end if
  end subroutine take_field

  !> h = h + beta D beta' c.
  subroutine add_nonlocal(s, c, h)
    type(state_t), intent(inout) :: s
    real(dp), intent(in), contiguous :: c(:, :)
    real(dp), intent(inout), contiguous :: h(:, :)
    integer :: n, w, bands, atom, at
    complex(dp), parameter :: one = 1, zero = 0
    complex(dp) :: d(projectors_per_atom, projectors_per_atom)
    n = s%crystal%projectors()
    bands = size(c, 2)
    w = s%waves()
    if (s%knobs%zeroing) then
      call wiped(s, flat(s%projection(:, :, 1)))
      call lap(s, phase_zeroing)
    end if
    if (s%crystal%gamma) then
      call dgemm("T", "N", n, bands, 2*w, 1.0_dp, s%beta, max(1, 2*w), c, max(1, 2*w), 0.0_dp, &
                 s%projection(1, 1, 1), n)
    else
      call zgemm("C", "N", n, bands, w, one, s%beta, max(1, w), c, max(1, w), zero, &
                 s%projection(1, 1, 1), n)
    end if
    call lap(s, phase_nonlocal)
    call sum_over(flat(s%projection(:, :, 1)), s%team, s%knobs%emulated)
    call lap(s, phase_reduce)
    do atom = 1, s%crystal%atoms
      at = (atom - 1)*projectors_per_atom
      if (s%crystal%gamma) then
        call dgemm("N", "N", projectors_per_atom, bands, projectors_per_atom, 1.0_dp, &
                   s%d(:, :, atom), projectors_per_atom, s%projection(at + 1, 1, 1), n, 0.0_dp, &
                   s%projection(at + 1, 1, 2), n)
      else
        d = s%d(:, :, atom)
        call zgemm("N", "N", projectors_per_atom, bands, projectors_per_atom, one, d, &
                   projectors_per_atom, s%projection(2*at + 1, 1, 1), n, zero, &
                   s%projection(2*at + 1, 1, 2), n)
      end if
    end do
    if (s%crystal%gamma) then
      call dgemm("N", "N", 2*w, bands, n, 1.0_dp, s%beta, max(1, 2*w), s%projection(1, 1, 2), n, &
                 1.0_dp, h, max(1, 2*w))
    else
      call zgemm("N", "N", w, bands, n, one, s%beta, max(1, w), s%projection(1, 1, 2), n, one, h, &
                 max(1, w))
    end if
    call lap(s, phase_nonlocal)
  end subroutine add_nonlocal

  subroutine wipe_fields(s, count)
    type(state_t), intent(in) :: s
    integer, intent(in) :: count
    integer :: i
    do i = 0, count - 1
      call wiped(s, bx_columns(s%fft, i))
    end do
    call lap(s, phase_zeroing)
  end subroutine wipe_fields

end module npar_hamiltonian
