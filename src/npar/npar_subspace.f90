! Between bands and plane waves: the two layouts, matrices of all bands, rotation, orthonormality.
!
! Narrow: a rank's own bands, its team's share of plane waves.  Wide: all bands, group by group, a
! slice of those plane waves.  With one group they are the same.  All slices are equally long, so
! that messages are where NPAR divides the bands: then MPI_Alltoall exchanges them, as the profiles
! of Catlow et al. (2010, tables 5, 7, 9, 12) imply.
module npar_subspace
  use, intrinsic :: iso_c_binding, only: c_int, dp => c_double
  use bx_harness, only: bx_largest
  use bx_charges, only: bx_computes, bx_copy, bx_is_hollow, by_one_thread
  use npar_blas, only: dgemm, dsyrk, dtrsm, zgemm, zherk, ztrsm
  use npar_collectives, only: exchange
  use npar_state, only: bands_of, flat, lap, phase_diagonalise, phase_redistribute, phase_reduce, &
    phase_rotate, phase_subspace, phase_zeroing, state_t, wipe
  implicit none (type, external)
  private
  public :: diagonalise_subspace, orthonormalise, orthonormality_error

  complex(dp), parameter :: one = 1, zero = 0

contains

  !> Reals of a band in a group's slice, without the zeros that fill it up.
  pure integer function filled(s, group)
    type(state_t), intent(in) :: s
    integer, intent(in) :: group
    filled = 2*max(0, min(s%height, s%waves() - group*s%height))
  end function filled

  !> Redistributes from narrow(2 * waves, my bands) to wide(rows of my slice, bands), or back.
  !> Collective across the groups.
  subroutine redistribute(s, narrow, wide, back)
    type(state_t), intent(inout) :: s
    real(dp), intent(inout), contiguous :: narrow(:, :)
    real(dp), intent(inout), contiguous, target :: wide(:, :)
    logical, intent(in) :: back
    integer(c_int), dimension(0:s%npar - 1) :: of_narrow, of_wide !< reals of each group
    integer :: g, i, rows, before, at
    if (s%npar == 1) then
      if (.not. bx_is_hollow()) then
        if (back) then
          narrow = wide
        else
          wide = narrow
        end if
      end if
      call lap(s, phase_redistribute)
      return
    end if
    if (.not. s%move(merge(2, 1, back))%is_simulated_now(s%across, s%npar)) return
    if (s%knobs%zeroing) then
      call wipe(s, s%buffer)
      if (.not. back) call wipe(s, flat(wide))
      call lap(s, phase_zeroing)
    end if
    of_narrow = 2*s%height*size(narrow, 2)
    of_wide = [(2*s%height*bands_of(s%crystal%bands, s%npar, g), g=0, s%npar - 1)]
    if (back) call exchange(flat(wide), of_wide, s%buffer, of_narrow, s%across, s%knobs%emulated)
    if (bx_computes(bx_copy, 8.0_dp*size(s%buffer), by_one_thread)) then
      at = 0
      do g = 0, s%npar - 1
        rows = filled(s, g)
        before = 2*s%height*g
        do i = 1, size(narrow, 2)
          if (back) then
            narrow(before + 1:before + rows, i) = s%buffer(at + 1:at + rows)
          else
            s%buffer(at + 1:at + rows) = narrow(before + 1:before + rows, i)
            s%buffer(at + rows + 1:at + 2*s%height) = 0
          end if
          at = at + 2*s%height
        end do
      end do
    end if
    if (.not. back) call exchange(s%buffer, of_narrow, flat(wide), of_wide, s%across, &
                                  s%knobs%emulated)
    call s%move(merge(2, 1, back))%mark_done()
    call lap(s, phase_redistribute)
  end subroutine redistribute

  !> matrix = a' b summed over all ranks, (bands, bands) in the order of the wide layout; without b
  !> the upper triangle of a' a.
  subroutine overlap(s, a, b)
    type(state_t), intent(inout) :: s
    real(dp), intent(in), contiguous :: a(:, :)
    real(dp), intent(in), contiguous, optional :: b(:, :)
    real(dp), pointer, contiguous :: panel(:, :)
    integer :: ends(2), n, before, columns, j
    n = s%crystal%bands
    ends = s%matrix%sampled()
    do j = ends(1), ends(2)
      call s%matrix%charge_others(j, begins=.true.)
      panel => s%matrix%panel(j)
      before = s%matrix%first(j) - 1
      columns = size(panel, 2)
      if (s%knobs%zeroing) then
        call wipe(s, flat(panel))
        call lap(s, phase_zeroing)
      end if
      if (present(b)) then
        call multiply(s, a, b(:, before + 1:before + columns), panel)
      else
        if (.not. bx_is_hollow()) panel = 0 ! the other triangle is summed too
        if (before > 0) call multiply(s, a(:, :before), a(:, before + 1:before + columns), panel)
        call square(s, a(:, before + 1:before + columns), panel, before)
      end if
      call lap(s, phase_subspace)
      call s%matrix%sum_panel(j, s%knobs%emulated)
      call s%matrix%charge_others(j, begins=.false.)
      call lap(s, phase_reduce)
    end do
  end subroutine overlap

  !> The first rows of c = a' b.
  subroutine multiply(s, a, b, c)
    type(state_t), intent(in) :: s
    real(dp), intent(in), contiguous :: a(:, :), b(:, :)
    real(dp), intent(inout), contiguous :: c(:, :)
    integer :: rows
    rows = size(a, 1)
    if (s%crystal%gamma) then
      call dgemm("T", "N", size(a, 2), size(b, 2), rows, 1.0_dp, a, max(1, rows), b, &
                 max(1, rows), 0.0_dp, c, s%crystal%bands)
    else
      call zgemm("C", "N", size(a, 2), size(b, 2), rows/2, one, a, max(1, rows/2), b, &
                 max(1, rows/2), zero, c, s%crystal%bands)
    end if
  end subroutine multiply

  !> The upper triangle of a' a, in the rows of c after the first `before`.
  subroutine square(s, a, c, before)
    type(state_t), intent(in) :: s
    real(dp), intent(in), contiguous :: a(:, :)
    real(dp), intent(inout) :: c(s%factor()*s%crystal%bands, *)
    integer, intent(in) :: before
    integer :: rows
    rows = size(a, 1)
    if (s%crystal%gamma) then
      call dsyrk("U", "T", size(a, 2), rows, 1.0_dp, a, max(1, rows), 0.0_dp, c(before + 1, 1), &
                 s%crystal%bands)
    else
      call zherk("U", "C", size(a, 2), rows/2, 1.0_dp, a, max(1, rows/2), 0.0_dp, &
                 c(2*before + 1, 1), s%crystal%bands)
    end if
  end subroutine square

  !> Diagonalises H among all bands: psi and h become the eigenvectors and H times them, ascending.
  subroutine diagonalise_subspace(s, psi, h, energy)
    type(state_t), intent(inout) :: s
    real(dp), intent(inout), contiguous :: psi(:, :), h(:, :)
    real(dp), intent(out), contiguous :: energy(:)
    logical :: solved
    call redistribute(s, psi, s%wide, back=.false.)
    call redistribute(s, h, s%wide_h, back=.false.)
    call overlap(s, s%wide, s%wide_h)
    call s%matrix%solve(energy, solved)
    s%failed = s%failed .or. .not. solved
    call lap(s, phase_diagonalise)
    call rotate(s)
    call redistribute(s, psi, s%spare, back=.true.)
    call redistribute(s, h, s%spare_h, back=.true.)
  end subroutine diagonalise_subspace

  !> spare = wide times the eigenvectors, and the same of H.  The n-th eigenvector becomes band n,
  !> which has its column where its group's bands are.
  subroutine rotate(s)
    type(state_t), intent(inout) :: s
    real(dp), pointer, contiguous :: vectors(:, :)
    integer :: ends(2), j, g, n, at, columns, first
    if (s%knobs%zeroing) then
      call wipe(s, flat(s%spare))
      call wipe(s, flat(s%spare_h))
      call lap(s, phase_zeroing)
    end if
    ends = s%matrix%sampled()
    do j = ends(1), ends(2)
      call s%matrix%charge_others(j, begins=.true.)
      vectors => s%matrix%gather_panel(s%matrix%vectors, j, s%knobs%emulated)
      call lap(s, phase_redistribute)
      at = 0 ! first of the group's columns
      do g = 0, s%npar - 1
        n = s%matrix%first(j) + modulo(g + 1 - s%matrix%first(j), s%npar) ! the group's first
        first = n - s%matrix%first(j) + 1
        columns = (s%matrix%last(j) - n + s%npar)/s%npar
        if (columns > 0) then
          call turn(s, s%wide, vectors(:, first:), columns, s%spare(:, at + (n - 1)/s%npar + 1:))
          call turn(s, s%wide_h, vectors(:, first:), columns, &
                    s%spare_h(:, at + (n - 1)/s%npar + 1:))
        end if
        at = at + bands_of(s%crystal%bands, s%npar, g)
      end do
      call s%matrix%charge_others(j, begins=.false.)
      call lap(s, phase_rotate)
    end do
  end subroutine rotate

  !> turned(:, :columns) = a times every npar-th of the vectors.
  subroutine turn(s, a, vectors, columns, turned)
    type(state_t), intent(in) :: s
    real(dp), intent(in), contiguous :: a(:, :), vectors(:, :)
    integer, intent(in) :: columns
    real(dp), intent(inout), contiguous :: turned(:, :)
    integer :: n, rows
    n = s%crystal%bands
    rows = size(a, 1)
    if (s%crystal%gamma) then
      call dgemm("N", "N", rows, columns, n, 1.0_dp, a, max(1, rows), vectors, s%npar*n, 0.0_dp, &
                 turned, max(1, rows))
    else
      call zgemm("N", "N", rows/2, columns, n, one, a, max(1, rows/2), vectors, s%npar*n, zero, &
                 turned, max(1, rows/2))
    end if
  end subroutine turn

  !> By Cholesky's factor of the overlap matrix.
  subroutine orthonormalise(s, psi)
    type(state_t), intent(inout) :: s
    real(dp), intent(inout), contiguous :: psi(:, :)
    real(dp), pointer, contiguous :: factor(:, :)
    integer :: ends(2), j
    logical :: factored
    call redistribute(s, psi, s%wide, back=.false.)
    call overlap(s, s%wide)
    call s%matrix%factor(factored)
    s%failed = s%failed .or. .not. factored
    call lap(s, phase_diagonalise)
    ends = s%matrix%sampled()
    do j = ends(1), ends(2)
      call s%matrix%charge_others(j, begins=.true.)
      factor => s%matrix%gather_panel(s%matrix%part, j, s%knobs%emulated)
      call lap(s, phase_redistribute)
      call divide(s, s%matrix%first(j) - 1, size(factor, 2), factor)
      call s%matrix%charge_others(j, begins=.false.)
      call lap(s, phase_rotate)
    end do
    call redistribute(s, psi, s%wide, back=.true.)
  end subroutine orthonormalise

  !> Makes the bands of a panel, after the first `before`, orthonormal to each other and to those
  !> before: columns of Cholesky's factor.
  subroutine divide(s, before, columns, factor)
    type(state_t), intent(inout) :: s
    integer, intent(in) :: before, columns
    real(dp), intent(in) :: factor(s%factor()*s%crystal%bands, columns)
    integer :: n, rows
    n = s%crystal%bands
    rows = size(s%wide, 1)
    associate (panel => s%wide(:, before + 1:before + columns))
      if (s%crystal%gamma) then
        if (before > 0) call dgemm("N", "N", rows, columns, before, -1.0_dp, s%wide, &
                                   max(1, rows), factor, n, 1.0_dp, panel, max(1, rows))
        call dtrsm("R", "U", "N", "N", rows, columns, 1.0_dp, factor(before + 1, 1), n, panel, &
                   max(1, rows))
      else
        if (before > 0) call zgemm("N", "N", rows/2, columns, before, -one, s%wide, &
                                   max(1, rows/2), factor, n, one, panel, max(1, rows/2))
        call ztrsm("R", "U", "N", "N", rows/2, columns, one, factor(2*before + 1, 1), n, panel, &
                   max(1, rows/2))
      end if
    end associate
  end subroutine divide

  !> Largest element of the overlap matrix less the unit matrix.
  real(dp) function orthonormality_error(s, psi) result(error)
    type(state_t), intent(inout) :: s
    real(dp), intent(inout), contiguous :: psi(:, :)
    call redistribute(s, psi, s%wide, back=.false.)
    call overlap(s, s%wide, s%wide)
    call s%matrix%subtract_unit()
    error = bx_largest(s%matrix%part)
  end function orthonormality_error

end module npar_subspace
