! Between bands and plane waves: the two layouts, matrices of all bands, rotation, orthonormality.
!
! Narrow: a rank's own bands, its team's share of plane waves.  Wide: all bands, group by group, a
! slice of those plane waves.  With one group they are the same.
module npar_subspace
  use, intrinsic :: iso_c_binding, only: c_int, dp => c_double
  use bx_harness, only: bx_largest
  use npar_blas, only: dgemm, dpotrf, dsyrk, dtrsm, zgemm, zherk, zpotrf, ztrsm
  use npar_collectives, only: exchange, sum_over
  use npar_state, only: bands_of, flat, lap, phase_diagonalise, phase_redistribute, phase_reduce, &
    phase_rotate, phase_subspace, phase_zeroing, state_t, wiped
  implicit none (type, external)
  private
  public :: diagonalise_subspace, orthonormalise, orthonormality_error

  complex(dp), parameter :: one = 1, zero = 0

contains

  !> Counts and places of what goes to and comes from each group, in reals.
  subroutine lengths(s, narrow, narrow_at, wide, wide_at)
    type(state_t), intent(in) :: s
    integer(c_int), intent(out), dimension(0:) :: narrow, narrow_at, wide, wide_at
    integer :: g, here, mine
    mine = size(s%band)
    here = s%slice(s%group + 1) - s%slice(s%group)
    do g = 0, s%npar - 1
      narrow(g) = 2*(s%slice(g + 1) - s%slice(g))*mine
      wide(g) = 2*here*bands_of(s%crystal%bands, s%npar, g)
      narrow_at(g) = sum(narrow(:g - 1))
      wide_at(g) = sum(wide(:g - 1))
    end do
  end subroutine lengths

  !> Redistributes from narrow(2 * waves, my bands) to wide(rows of my slice, bands).  Collective
  !> across the groups.
  subroutine widen(s, narrow, wide)
    type(state_t), intent(inout) :: s
    real(dp), intent(in), contiguous :: narrow(:, :)
    real(dp), intent(inout), contiguous, target :: wide(:, :)
    integer(c_int), dimension(0:s%npar - 1) :: sends, sends_at, receives, receives_at
    integer :: g, i, rows, at
    if (s%npar == 1) then
      wide = narrow
      call lap(s, phase_redistribute)
      return
    end if
    if (s%knobs%zeroing) then
      call wiped(s, s%buffer)
      call wiped(s, flat(wide))
      call lap(s, phase_zeroing)
    end if
    call lengths(s, sends, sends_at, receives, receives_at)
    do g = 0, s%npar - 1
      rows = 2*(s%slice(g + 1) - s%slice(g))
      do i = 1, size(narrow, 2)
        at = sends_at(g) + (i - 1)*rows
        s%buffer(at + 1:at + rows) = narrow(2*s%slice(g) + 1:2*s%slice(g) + rows, i)
      end do
    end do
    call exchange(s%buffer, sends, sends_at, flat(wide), receives, receives_at, s%across, &
                  s%knobs%emulated)
    call lap(s, phase_redistribute)
  end subroutine widen

  !> Redistributes back from `wide` to `narrow`.
  subroutine narrow_again(s, wide, narrow)
    type(state_t), intent(inout) :: s
    real(dp), intent(in), contiguous, target :: wide(:, :)
    real(dp), intent(inout), contiguous :: narrow(:, :)
    integer(c_int), dimension(0:s%npar - 1) :: sends, sends_at, receives, receives_at
    integer :: g, i, rows, at
    if (s%npar == 1) then
      narrow = wide
      call lap(s, phase_redistribute)
      return
    end if
    if (s%knobs%zeroing) then
      call wiped(s, s%buffer)
      call lap(s, phase_zeroing)
    end if
    call lengths(s, receives, receives_at, sends, sends_at)
    call exchange(flat(wide), sends, sends_at, s%buffer, receives, receives_at, s%across, &
                  s%knobs%emulated)
    do g = 0, s%npar - 1
      rows = 2*(s%slice(g + 1) - s%slice(g))
      do i = 1, size(narrow, 2)
        at = receives_at(g) + (i - 1)*rows
        narrow(2*s%slice(g) + 1:2*s%slice(g) + rows, i) = s%buffer(at + 1:at + rows)
      end do
    end do
    call lap(s, phase_redistribute)
  end subroutine narrow_again

  !> matrix = a' b summed over all ranks, (bands, bands) in the order of the wide layout; without b
  !> the upper triangle of a' a.
  subroutine overlap(s, a, b)
    type(state_t), intent(inout) :: s
    real(dp), intent(in), contiguous :: a(:, :)
    real(dp), intent(in), contiguous, optional :: b(:, :)
    integer :: n, rows
    n = s%crystal%bands
    rows = size(a, 1)
    if (s%knobs%zeroing) then
      call wiped(s, flat(s%matrix))
      call lap(s, phase_zeroing)
    end if
    if (.not. present(b)) then
      s%matrix = 0 ! the other triangle is summed too
      if (s%crystal%gamma) then
        call dsyrk("U", "T", n, rows, 1.0_dp, a, max(1, rows), 0.0_dp, s%matrix, n)
      else
        call zherk("U", "C", n, rows/2, 1.0_dp, a, max(1, rows/2), 0.0_dp, s%matrix, n)
      end if
    else if (s%crystal%gamma) then
      call dgemm("T", "N", n, n, rows, 1.0_dp, a, max(1, rows), b, max(1, rows), 0.0_dp, &
                 s%matrix, n)
    else
      call zgemm("C", "N", n, n, rows/2, one, a, max(1, rows/2), b, max(1, rows/2), zero, &
                 s%matrix, n)
    end if
    call lap(s, phase_subspace)
    call sum_over(flat(s%matrix), s%world, s%knobs%emulated)
    call lap(s, phase_reduce)
  end subroutine overlap

  !> Diagonalises H among all bands: psi and h become the eigenvectors and H times them, ascending.
  subroutine diagonalise_subspace(s, psi, h, energy)
    type(state_t), intent(inout) :: s
    real(dp), intent(inout), contiguous :: psi(:, :), h(:, :)
    real(dp), intent(out) :: energy(:)
    logical :: solved
    call widen(s, psi, s%wide)
    call widen(s, h, s%wide_h)
    call overlap(s, s%wide, s%wide_h)
    call s%solver(library_number(s))%solve(s%matrix, energy, solved)
    s%failed = s%failed .or. .not. solved
    call order_as_wide(s)
    call lap(s, phase_diagonalise)
    call rotate(s, s%wide)
    call narrow_again(s, s%spare, psi)
    call rotate(s, s%wide_h)
    call narrow_again(s, s%spare, h)
  end subroutine diagonalise_subspace

  !> Place of the knobs' eigensolver in s%solver.
  pure function library_number(s) result(n)
    type(state_t), intent(in) :: s
    integer :: n
    n = findloc([character(16) :: "lapack", "scalapack", "elpa"], s%knobs%linear_algebra, 1)
  end function library_number

  !> The n-th eigenvector becomes band n, which has its column where its group's bands are.
  subroutine order_as_wide(s)
    type(state_t), intent(inout) :: s
    real(dp), allocatable :: ascending(:, :)
    integer :: g, n, at
    if (s%npar == 1) return
    ascending = s%matrix
    at = 0
    do g = 0, s%npar - 1
      do n = g + 1, s%crystal%bands, s%npar
        at = at + 1
        s%matrix(:, at) = ascending(:, n)
      end do
    end do
  end subroutine order_as_wide

  !> spare = a times the matrix.
  subroutine rotate(s, a)
    type(state_t), intent(inout) :: s
    real(dp), intent(in), contiguous :: a(:, :)
    integer :: n, rows
    n = s%crystal%bands
    rows = size(a, 1)
    if (s%knobs%zeroing) then
      call wiped(s, flat(s%spare))
      call lap(s, phase_zeroing)
    end if
    if (s%crystal%gamma) then
      call dgemm("N", "N", rows, n, n, 1.0_dp, a, max(1, rows), s%matrix, n, 0.0_dp, s%spare, &
                 max(1, rows))
    else
      call zgemm("N", "N", rows/2, n, n, one, a, max(1, rows/2), s%matrix, n, zero, s%spare, &
                 max(1, rows/2))
    end if
    call lap(s, phase_rotate)
  end subroutine rotate

  !> By Cholesky's factor of the overlap matrix.
  subroutine orthonormalise(s, psi)
    type(state_t), intent(inout) :: s
    real(dp), intent(inout), contiguous :: psi(:, :)
    integer :: n, rows, info
    n = s%crystal%bands
    rows = size(s%wide, 1)
    call widen(s, psi, s%wide)
    call overlap(s, s%wide)
    if (s%crystal%gamma) then
      call dpotrf("U", n, s%matrix, n, info)
      call lap(s, phase_diagonalise)
      call dtrsm("R", "U", "N", "N", rows, n, 1.0_dp, s%matrix, n, s%wide, max(1, rows))
    else
      call zpotrf("U", n, s%matrix, n, info)
      call lap(s, phase_diagonalise)
      call ztrsm("R", "U", "N", "N", rows/2, n, one, s%matrix, n, s%wide, max(1, rows/2))
    end if
    s%failed = s%failed .or. info /= 0
    call lap(s, phase_rotate)
    call narrow_again(s, s%wide, psi)
  end subroutine orthonormalise

  !> Largest element of the overlap matrix less the unit matrix.
  function orthonormality_error(s, psi) result(error)
    type(state_t), intent(inout) :: s
    real(dp), intent(in), contiguous :: psi(:, :)
    real(dp) :: error
    integer :: i
    call widen(s, psi, s%wide)
    call overlap(s, s%wide, s%wide)
    do i = 1, s%crystal%bands
      s%matrix((i - 1)*s%factor() + 1, i) = s%matrix((i - 1)*s%factor() + 1, i) - 1
    end do
    error = bx_largest([s%matrix])
  end function orthonormality_error

end module npar_subspace
