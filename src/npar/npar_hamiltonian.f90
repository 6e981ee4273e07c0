! H applied to bands: kinetic energy, local potential by FFTs in the team, projectors.
module npar_hamiltonian
  use, intrinsic :: iso_c_binding, only: c_double_complex, c_loc, c_size_t, dp => c_double
  use bx_transpose, only: bx_apply, bx_columns
  use bx_charges, only: bx_charge_products, bx_computes, bx_copy, bx_is_hollow, by_all_threads
  use npar_blas, only: dgemm, dgemv
  use npar_collectives, only: sum_over
  use npar_model, only: crystal_t, householder, most_channels
  use npar_state, only: bands_of, batch, flat, lap, npar_wipe, phase_kinetic, phase_nonlocal, &
    phase_reduce, phase_zeroing, state_t, wipe
  implicit none (type, external)
  private
  public :: choose_kpoint, apply_hamiltonian, fields_of, fields_of_groups, fill_field, take_field

contains

  !> Kinetic energies and projectors of one k-point, unless they are there already.
  subroutine choose_kpoint(s, k)
    type(state_t), intent(inout) :: s
    integer, intent(in) :: k
    real(dp), allocatable :: energy(:), state(:), mixed(:)
    real(dp), allocatable :: v(:)
    integer :: atom, i, first, stride
    if (s%k == k) return
    s%k = k
    energy = s%basis%kinetic(s%crystal, s%spectra(k)%kpoint)
    s%kinetic(1::2) = energy
    s%kinetic(2::2) = energy
    if (bx_is_hollow()) return ! no memory is touched for what is not multiplied
    stride = s%factor() ! of complex waves: projectors are real
    allocate (mixed(size(s%beta, 1)), state(2*s%waves()))
    do atom = 1, s%crystal%atoms
      first = s%crystal%projectors_before(atom)
      v = householder(atom, s%crystal%channels_of(atom))
      mixed = 0
      do i = 1, size(v)
        call s%basis%exact(s%spectra(k), i + first, state)
        s%beta(:, first + i) = state(::stride)
        mixed = mixed + v(i)*s%beta(:, first + i)
      end do
      do i = 1, size(v)
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
      call wipe(s, flat(h))
      call lap(s, phase_zeroing)
    end if
    if (bx_computes(bx_copy, 16.0_dp*size(c), by_all_threads)) then
      !$omp parallel do schedule(static)
      do i = 1, size(c, 2)
        h(:, i) = s%kinetic*c(:, i)
      end do
    end if
    call lap(s, phase_kinetic)
    call add_local(s, c, h)
    call add_nonlocal(s, c, h)
  end subroutine apply_hamiltonian

  !> Number of transforms for so many bands: two real ones travel as one field.
  pure integer function fields_of(crystal, bands) result(n)
    type(crystal_t), intent(in) :: crystal
    integer, intent(in) :: bands
    n = merge((bands + 1)/2, bands, crystal%gamma)
  end function fields_of

  !> Number of transforms for the bands of all groups, each group's on their own.
  pure integer function fields_of_groups(s) result(n)
    type(state_t), intent(in) :: s
    integer :: group
    n = sum([(fields_of(s%crystal, bands_of(s%crystal%bands, s%npar, group)), group=0, s%npar - 1)])
  end function fields_of_groups

  !> Adds the local potential times c to h, both (2 * waves, bands), in real space.
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
      if (.not. s%apply%is_simulated_now(s%team, s%ncore, count)) cycle
      if (computes_fields(s, count)) then
        do i = 0, count - 1
          call fill_field(s, c, first + i, i)
        end do
      end if
      call lap(s, phase_kinetic)
      call bx_apply(s%exchange, count, s%potential)
      if (computes_fields(s, count)) then
        do i = 0, count - 1
          call take_field(s, h, first + i, i, scale)
        end do
      end if
      call lap(s, phase_kinetic)
      call s%apply%mark_done()
    end do
  end subroutine add_local

  !> Charges fields whose columns are written, or read; whether they are to be.
  logical function computes_fields(s, fields) result(computes)
    type(state_t), intent(in) :: s
    integer, intent(in) :: fields
    computes = bx_computes(bx_copy, 16.0_dp*fields*s%fft%grid(3)*s%fft%columns, by_all_threads)
  end function computes_fields

  !> Writes bands to the columns of a field of the transpose library.
  subroutine fill_field(s, c, field, band)
    type(state_t), intent(in) :: s
    real(dp), intent(in), contiguous :: c(:, :)
    integer, intent(in) :: field, band
    complex(c_double_complex), pointer :: columns(:, :)
    integer :: n
    columns => bx_columns(s%fft, band)
    n = merge(2*field - 1, field, s%crystal%gamma)
    if (s%crystal%gamma .and. n < size(c, 2)) then
      call s%basis%fill(columns, c(:, n), c(:, n + 1))
    else
      call s%basis%fill(columns, c(:, n))
    end if
  end subroutine fill_field

  !> Reads bands back from the columns of a field.
  subroutine take_field(s, h, field, band, scale)
    type(state_t), intent(in) :: s
    real(dp), intent(inout), contiguous :: h(:, :)
    integer, intent(in) :: field, band
    real(dp), intent(in) :: scale
    complex(c_double_complex), pointer :: columns(:, :)
    integer :: n
    columns => bx_columns(s%fft, band)
    n = merge(2*field - 1, field, s%crystal%gamma)
    if (s%crystal%gamma .and. n < size(h, 2)) then
      call s%basis%take(columns, scale, h(:, n), h(:, n + 1))
    else
      call s%basis%take(columns, scale, h(:, n))
    end if
  end subroutine take_field

  !> h = h + beta D beta' c.  Projectors and D are real: a complex band goes as two real ones.
  subroutine add_nonlocal(s, c, h)
    type(state_t), intent(inout) :: s
    real(dp), intent(in), contiguous :: c(:, :)
    real(dp), intent(inout), contiguous :: h(:, :)
    integer :: n, rows, bands, atom, channels, at, i
    n = s%crystal%projectors()
    rows = size(s%beta, 1)
    bands = s%factor()*size(c, 2)
    if (s%knobs%zeroing) then
      call wipe(s, flat(s%projection(:, :, 1)))
      call lap(s, phase_zeroing)
    end if
    if (s%crystal%gamma) then
      call project(s, c, bands)
    else
      !$omp parallel do schedule(static)
      do i = 1, size(c, 2)
        s%parts(:, 2*i - 1) = c(1::2, i)
        s%parts(:, 2*i) = c(2::2, i)
      end do
      call project(s, s%parts, bands)
    end if
    call lap(s, phase_nonlocal)
    call sum_over(flat(s%projection(:, :, 1)), s%team, s%knobs%emulated)
    call lap(s, phase_reduce)
    do atom = 1, s%crystal%atoms
      channels = s%crystal%channels_of(atom)
      at = s%crystal%projectors_before(atom) + 1
      call dgemm("N", "N", channels, bands, channels, 1.0_dp, s%d(:, :, atom), most_channels, &
                 s%projection(at, 1, 1), n, 0.0_dp, s%projection(at, 1, 2), n)
    end do
    if (s%crystal%gamma) then
      call expand(s, 1.0_dp, h, bands)
    else
      call expand(s, 0.0_dp, s%parts, bands)
      !$omp parallel do schedule(static)
      do i = 1, size(c, 2)
        h(1::2, i) = h(1::2, i) + s%parts(:, 2*i - 1)
        h(2::2, i) = h(2::2, i) + s%parts(:, 2*i)
      end do
    end if
    call lap(s, phase_nonlocal)
  end subroutine add_nonlocal

  !> beta' c for so many real bands.  By atom, rows of real waves are multiplied in two parts: VASP
  !> has a real matrix for both parts of a wave, of half the bytes.
  subroutine project(s, c, bands)
    type(state_t), intent(inout) :: s
    real(dp), intent(in), contiguous :: c(:, :)
    integer, intent(in) :: bands
    integer :: n, rows, height, atom, first, row, i
    n = s%crystal%projectors()
    rows = size(s%beta, 1)
    if (s%knobs%by_atom) then
      if (.not. computes_by_atom(s, bands)) return
      height = max(1, s%waves())
      s%projection(:, :, 1) = 0
      do atom = 1, s%crystal%atoms
        first = s%crystal%projectors_before(atom) + 1
        do row = 1, rows, height
          do i = 1, bands
            call dgemv("T", height, s%crystal%channels_of(atom), 1.0_dp, s%beta(row, first), &
                       rows, c(row:, i), 1, 1.0_dp, s%projection(first, i, 1), 1)
          end do
        end do
      end do
      return
    end if
    call dgemm("T", "N", n, bands, rows, 1.0_dp, s%beta, max(1, rows), c, max(1, rows), 0.0_dp, &
               s%projection(1, 1, 1), n)
  end subroutine project

  !> h = factor h + beta times the projections of so many real bands.
  subroutine expand(s, factor, h, bands)
    type(state_t), intent(inout) :: s
    real(dp), intent(in) :: factor
    real(dp), intent(inout), contiguous :: h(:, :)
    integer, intent(in) :: bands
    integer :: n, rows, height, atom, first, row, i
    n = s%crystal%projectors()
    rows = size(s%beta, 1)
    if (s%knobs%by_atom) then
      if (.not. computes_by_atom(s, bands)) return
      height = max(1, s%waves())
      do atom = 1, s%crystal%atoms
        first = s%crystal%projectors_before(atom) + 1
        do row = 1, rows, height
          do i = 1, bands
            call dgemv("N", height, s%crystal%channels_of(atom), 1.0_dp, s%beta(row, first), &
                       rows, s%projection(first, i, 2), 1, merge(factor, 1.0_dp, atom == 1), &
                       h(row:, i), 1)
          end do
        end do
      end do
      return
    end if
    call dgemm("N", "N", rows, bands, n, 1.0_dp, s%beta, max(1, rows), s%projection(1, 1, 2), n, &
               factor, h, max(1, rows))
  end subroutine expand

  !> Whether products of each atom's projectors and each of so many real bands are computed; if not,
  !> they are charged.
  logical function computes_by_atom(s, bands) result(computes)
    type(state_t), intent(in) :: s
    integer, intent(in) :: bands
    real(dp) :: entries
    integer :: atoms(2), kind, parts
    computes = .not. bx_is_hollow()
    if (computes) return
    parts = merge(2, 1, s%crystal%gamma)
    atoms = s%crystal%atoms_of_kinds(s%crystal%atoms)
    do kind = 1, size(atoms)
      entries = real(s%waves(), dp)*s%crystal%channels(kind)
      call bx_charge_products(2*entries, 8*entries, real(bands, dp)*parts*atoms(kind))
    end do
  end function computes_by_atom

  !> With --zeroing, sets the fields of a plan to 0.
  subroutine wipe_fields(s, count)
    type(state_t), intent(in) :: s
    integer, intent(in) :: count
    complex(c_double_complex), pointer, contiguous :: columns(:, :)
    integer :: i
    do i = 0, count - 1
      columns => bx_columns(s%fft, i)
      if (size(columns) > 0) call npar_wipe(c_loc(columns), 16*size(columns, kind=c_size_t))
    end do
    call lap(s, phase_zeroing)
  end subroutine wipe_fields

end module npar_hamiltonian
