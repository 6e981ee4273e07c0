! The column-wise FFT of DL_POLY 3: on the domains as they are, without any all-to-all.
!
! Each rank has a block of the grid and talks to the ranks of its row, column and file alone.  The
! first butterflies of a 1D transform, decimated in frequency, combine points of different ranks:
! ranks whose places differ in one digit exchange whole blocks.  What is left are transforms within
! the blocks (I. J. Bush, I. T. Todorov and W. Smith, Computer Physics Communications 175, 323
! (2006); M. Ashworth et al., HPCxTR0417 (2004), section 4.1).  Their digits are bits; ours are of
! any base.
module md_fft_columns
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use bx_charges, only: bx_charge, bx_fft, by_all_threads
  use mpi_f08, only: MPI_DOUBLE_PRECISION, MPI_Irecv, MPI_Isend, MPI_Request, &
    MPI_STATUSES_IGNORE, MPI_Waitall
  use md_domain, only: arrived_whole, count_messages, domain_t, neighbour, seal_payload
  use md_fft, only: fft_t, reals_of, transform_lines
  use md_regrid, only: patch_t, set_limits
  implicit none (type, external)
  private
  public :: make_fft_columns

  !> A digit of this rank's place in a direction.
  type :: digit_t
    integer :: base = 1, value = 0
    integer :: weight = 1 !< domains between ranks whose digits differ by one
    integer :: first = 0  !< this rank's first point, of the points with its digits up to this one
    integer :: length = 1 !< points of the line that is combined
  end type digit_t

  type, extends(fft_t), public :: fft_columns_t
    integer :: blocks(3) = 1 !< along each direction: the first ranks have one, others are idle
    type(digit_t), allocatable :: digits(:)
    integer :: of_direction(0:3) = 0 !< the digits of direction d end here
    real(dp), allocatable :: outgoing(:), incoming(:, :)
  contains
    procedure :: forward => forward_columns
    procedure :: backward => backward_columns
  end type fft_columns_t

  real(dp), parameter :: two_pi = 2*acos(-1.0_dp)
  real(dp), parameter :: per_point = 8 !< flop to combine a point with another block's

contains

  !> Blocks for a grid: along each direction as many equal ones as there are domains, or the next
  !> smaller number that divides the grid.  Local.
  subroutine make_fft_columns(domain, grid, method)
    type(domain_t), intent(in) :: domain
    integer, intent(in) :: grid(3)
    class(fft_t), allocatable, intent(out) :: method
    type(fft_columns_t), allocatable :: fft
    type(patch_t) :: mine
    integer :: d, k, points(3)
    allocate (fft)
    fft%grid = grid
    do d = 1, 3
      fft%blocks(d) = min(domain%dims(d), grid(d))
      do while (mod(grid(d), fft%blocks(d)) /= 0)
        fft%blocks(d) = fft%blocks(d) - 1
      end do
    end do
    points = grid/fft%blocks
    allocate (fft%digits(0))
    do d = 1, 3 ! ranks beyond the last block have none
      call set_limits(fft%patches, d, product(domain%dims(:d - 1)), &
                      reshape([(k*points(d), &
                                merge((k + 1)*points(d) - 1, -1, k < fft%blocks(d)), &
                                k=0, domain%dims(d) - 1)], [2, domain%dims(d)]))
    end do
    mine = fft%patches%of_rank(domain%rank)
    points = mine%extent()
    allocate (fft%space(points(1), points(2), points(3)))
    allocate (fft%outgoing(2*product(points) + 1), fft%incoming(0, 0))
    do d = 1, 3
      if (product(points) > 0) call find_digits(fft, d, domain%at(d))
      fft%of_direction(d) = size(fft%digits)
      allocate (fft%frequency(d)%at(points(d)))
      fft%frequency(d)%at = [(offset_of(fft, d) + fft%blocks(d)*k, k=0, points(d) - 1)]
    end do
    call move_alloc(fft, method)
  end subroutine make_fft_columns

  !> Appends the digits of place `at` in direction d, by the prime factors of the number of blocks.
  subroutine find_digits(fft, d, at)
    class(fft_columns_t), intent(inout) :: fft
    integer, intent(in) :: d, at
    type(digit_t) :: digit
    integer :: left, place, length, points
    left = fft%blocks(d)
    length = fft%grid(d)
    points = fft%grid(d)/fft%blocks(d)
    place = at
    do while (left > 1)
      digit%base = 2
      do while (mod(left, digit%base) /= 0)
        digit%base = digit%base + 1
      end do
      left = left/digit%base
      digit%weight = left
      digit%value = place/left
      place = mod(place, left)
      digit%first = place*points
      digit%length = length
      length = length/digit%base
      fft%digits = [fft%digits, digit]
    end do
  end subroutine find_digits

  !> The lowest of this rank's frequencies in direction d: its digits, the first one lowest.
  pure integer function offset_of(fft, d) result(offset)
    class(fft_columns_t), intent(in) :: fft
    integer, intent(in) :: d
    integer :: k, unit
    offset = 0
    unit = 1
    do k = fft%of_direction(d - 1) + 1, size(fft%digits)
      offset = offset + unit*fft%digits(k)%value
      unit = unit*fft%digits(k)%base
    end do
  end function offset_of

  subroutine forward_columns(self, domain)
    class(fft_columns_t), intent(inout), target :: self
    type(domain_t), intent(inout) :: domain
    integer :: d, k
    do d = 1, 3
      do k = self%of_direction(d - 1) + 1, self%of_direction(d)
        call combine(self, domain, d, self%digits(k), -1)
        call turn(self%space, d, self%digits(k), -1)
      end do
      call transform_lines(self%space, d, -1)
    end do
    call move_alloc(self%space, self%spectrum)
  end subroutine forward_columns

  subroutine backward_columns(self, domain)
    class(fft_columns_t), intent(inout), target :: self
    type(domain_t), intent(inout) :: domain
    integer :: d, k
    call move_alloc(self%spectrum, self%space)
    do d = 3, 1, -1
      call transform_lines(self%space, d, 1)
      do k = self%of_direction(d), self%of_direction(d - 1) + 1, -1
        call turn(self%space, d, self%digits(k), 1)
        call combine(self, domain, d, self%digits(k), 1)
      end do
    end do
  end subroutine backward_columns

  !> Replaces the block by the sum over the ranks of this digit of their blocks, each times
  !> exp(sign 2 pi i value other / base).
  subroutine combine(fft, domain, d, digit, sign)
    class(fft_columns_t), intent(inout), target, asynchronous :: fft
    type(domain_t), intent(inout) :: domain
    integer, intent(in) :: d, sign
    type(digit_t), intent(in) :: digit
    type(MPI_Request) :: requests(2*digit%base)
    complex(dp) :: factor(0:digit%base - 1)
    real(dp), pointer, contiguous :: mine(:, :, :, :)
    integer, parameter :: tag = 4
    integer :: words, other, n, peer
    words = 2*size(fft%space)
    if (domain%sealed) words = words + 1
    if (size(fft%incoming, 1) < words .or. size(fft%incoming, 2) < digit%base) then
      deallocate (fft%incoming)
      allocate (fft%incoming(words + 1, digit%base))
    end if
    mine => reals_of(fft%space)
    fft%outgoing(:2*size(fft%space)) = reshape(mine, [2*size(fft%space)])
    call seal_payload(domain, fft%outgoing(:words))
    n = 0
    do other = 0, digit%base - 1
      factor(other) = unit_root(sign*digit%value*other, digit%base)
      if (other == digit%value) cycle
      peer = neighbour(domain, d, (other - digit%value)*digit%weight)
      call MPI_Irecv(fft%incoming(:, other + 1), words, MPI_DOUBLE_PRECISION, peer, tag, &
                     domain%comm, requests(n + 1))
      call MPI_Isend(fft%outgoing, words, MPI_DOUBLE_PRECISION, peer, tag, domain%comm, &
                     requests(n + 2))
      n = n + 2
    end do
    call MPI_Waitall(n, requests, MPI_STATUSES_IGNORE)
    call count_messages(domain, n/2, 8*words*(n/2))
    fft%space = fft%space*factor(digit%value)
    do other = 0, digit%base - 1
      if (other == digit%value) cycle
      peer = neighbour(domain, d, (other - digit%value)*digit%weight)
      call arrived_whole(domain, peer, fft%incoming(:words, other + 1))
      call add_times(fft%space, factor(other), fft%incoming(1, other + 1))
    end do
    call bx_charge(bx_fft, per_point*size(fft%space)*digit%base, by_all_threads)
  end subroutine combine

  !> Adds to a block another one, times a factor; its parts stand in `reals`, (2, points).
  subroutine add_times(block, factor, reals)
    complex(dp), intent(inout), contiguous :: block(:, :, :)
    complex(dp), intent(in) :: factor
    real(dp), intent(in) :: reals(2, size(block, 1), size(block, 2), *)
    integer :: x, y, z
    !$omp parallel do private(x, y) schedule(static)
    do z = 1, size(block, 3)
      do y = 1, size(block, 2)
        do x = 1, size(block, 1)
          block(x, y, z) = block(x, y, z) + factor*cmplx(reals(1, x, y, z), reals(2, x, y, z), dp)
        end do
      end do
    end do
    !$omp end parallel do
  end subroutine add_times

  !> Multiplies each point by exp(sign 2 pi i value place / length), its place along direction d.
  subroutine turn(block, d, digit, sign)
    complex(dp), intent(inout) :: block(:, :, :)
    integer, intent(in) :: d, sign
    type(digit_t), intent(in) :: digit
    complex(dp) :: factor(size(block, d))
    integer :: k, y, z
    if (digit%value == 0) return
    do k = 1, size(factor)
      factor(k) = unit_root(sign*digit%value*(digit%first + k - 1), digit%length)
    end do
    !$omp parallel do private(y) schedule(static)
    do z = 1, size(block, 3)
      do y = 1, size(block, 2)
        select case (d)
        case (1)
          block(:, y, z) = block(:, y, z)*factor
        case (2)
          block(:, y, z) = block(:, y, z)*factor(y)
        case default
          block(:, y, z) = block(:, y, z)*factor(z)
        end select
      end do
    end do
    !$omp end parallel do
  end subroutine turn

  !> exp(2 pi i k / n).
  pure complex(dp) function unit_root(k, n)
    integer, intent(in) :: k, n
    real(dp) :: angle
    angle = two_pi*modulo(k, n)/n
    unit_root = cmplx(cos(angle), sin(angle), dp)
  end function unit_root

end module md_fft_columns
