! Pairs of many atoms at once, in batches that stay in cache, so that vector units have long loops:
! what passes over lists of pairs (worker_t in md_list) have in common.
module md_pairs
  use, intrinsic :: iso_c_binding, only: dp => c_double
  implicit none (type, external)
  private
  public :: next_batch, distances

  integer, parameter, public :: batch = 512 !< pairs, but at least those of one atom

contains

  !> The batch that begins with atom i: atoms i..upto, whose n entries follow entry `base`.
  pure subroutine next_batch(i, last, first, start, upto, base, n)
    integer, intent(in) :: i, last, first, start(first:)
    integer, intent(out) :: upto, base, n
    upto = i
    do while (upto < last)
      if (start(upto + 2) - start(i) > batch) exit
      upto = upto + 1
    end do
    base = start(i) - 1
    n = start(upto + 1) - 1 - base
  end subroutine next_batch

  !> Squared distances (A^2) and kinds of the pairs of atoms i..upto.
  subroutine distances(i, upto, first, start, entry, x, r2, kind)
    integer, intent(in) :: i, upto, first, start(first:), entry(*)
    real(dp), intent(in) :: x(4, *)
    real(dp), intent(inout) :: r2(*)
    integer, intent(inout) :: kind(*)
    integer :: j, k, base, other
    real(dp) :: xj, yj, zj, dx, dy, dz
    base = start(i) - 1
    do j = i, upto
      xj = x(1, j)
      yj = x(2, j)
      zj = x(3, j)
      do k = start(j), start(j + 1) - 1
        other = entry(k)/4
        dx = xj - x(1, other)
        dy = yj - x(2, other)
        dz = zj - x(3, other)
        r2(k - base) = dx*dx + dy*dy + dz*dz
        kind(k - base) = iand(entry(k), 3)
      end do
    end do
  end subroutine distances

end module md_pairs
