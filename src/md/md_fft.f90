! 3D FFTs of a grid that is spread over the ranks of a domain: what their methods have in common,
! and the method by transposes.  There the grid goes from the domains to planes, or to rows where
! ranks are more than planes, is transformed, and goes on to columns by MPI_Alltoallv.  Fields are
! real, so that half of the frequencies along x will do.
module md_fft
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_int, c_loc, c_ptr, dp => c_double
  use bx_fftw, only: fftw_execute_dft, fftw_execute_dft_c2r, fftw_execute_dft_r2c, &
    fftw_plan_many_dft, fftw_plan_many_dft_c2r, fftw_plan_many_dft_r2c
  use md_domain, only: domain_t
  use md_regrid, only: make_regrid, move, patch_t, patches_t, regrid_t, set_limits, &
    share_of_points
  implicit none (type, external)
  private
  public :: make_fft_transpose, transform_lines, reals_of

  !> Frequencies, from 0, of the indices of a direction.
  type :: frequencies_t
    integer, allocatable :: at(:)
  end type frequencies_t

  !> A method: unnormalised transforms between this rank's points in space and its share of the
  !> spectrum, whose frequencies may be any.  The side where the field is not may lack its array.
  type, abstract, public :: fft_t
    integer :: grid(3) = 0
    integer :: words = 2 !< reals of a point in space; if 1, rows end with unused ones
    type(patches_t) :: patches !< points in space
    complex(dp), allocatable :: space(:, :, :), spectrum(:, :, :)
    type(frequencies_t) :: frequency(3) !< of the spectrum
  contains
    procedure(transform), deferred :: forward  !< sum of f(r) exp(-2 pi i k r / grid)
    procedure(transform), deferred :: backward !< sum of f(k) exp(+2 pi i k r / grid)
  end type fft_t

  abstract interface
    !> Collective.
    subroutine transform(self, domain)
      import :: domain_t, fft_t
      implicit none (type, external)
      class(fft_t), intent(inout), target :: self
      type(domain_t), intent(inout) :: domain
    end subroutine transform
  end interface

  !> Ranks share out y and z of rows along x, then x and z of those along y, then x and y of columns
  !> along z.  Where all of z is enough, rows along x and y are planes, and stay where they are.
  type, extends(fft_t), public :: fft_transpose_t
    logical :: planes = .true.
    type(regrid_t) :: to_rows, to_columns
    complex(dp), allocatable :: rows(:, :, :) !< along y
  contains
    procedure :: forward => forward_transpose
    procedure :: backward => backward_transpose
  end type fft_transpose_t

  !> FFTW's plans by shape: they live as long as the process.  FFTW_ESTIMATE, so that the same
  !> layout gives the same bits.
  type :: plan_t
    !> Points, lines, distance of points, distance of lines, sign: 2 and -2 of real lines.
    integer :: shape(5) = 0
    type(c_ptr) :: handle
  end type plan_t
  type(plan_t), allocatable :: plans(:)
  integer(c_int), parameter :: fftw_estimate = 64

  real(dp), target :: nothing(2, 0, 0, 0)

contains

  !> Transforms all lines along direction d of a block: sign -1 forward, +1 backward.  Local.
  subroutine transform_lines(block, d, sign)
    complex(dp), intent(inout), contiguous :: block(:, :, :)
    integer, intent(in) :: d, sign
    type(c_ptr) :: plan
    integer :: n(3)
    n = shape(block)
    if (any(n == 0) .or. n(d) == 1) return
    select case (d)
    case (1)
      plan = plan_for([n(1), n(2), 1, n(1), sign])
    case (2)
      plan = plan_for([n(2), n(1), n(1), 1, sign])
    case default
      plan = plan_for([n(3), n(1), n(1)*n(2), 1, sign])
    end select
    call execute(plan, d, sign, n, block)
  end subroutine transform_lines

  !> Transforms all rows of `points` reals along x to half of their frequencies, or back.  Local.
  subroutine transform_rows(block, points, sign)
    complex(dp), intent(inout), contiguous :: block(:, :, :)
    integer, intent(in) :: points, sign
    integer :: n(3)
    n = shape(block)
    if (any(n == 0)) return
    call execute(plan_for([points, n(2), 1, n(1), 2*sign]), 1, 2*sign, n, block)
  end subroutine transform_rows

  !> Executes the plan of a layer of lines for all layers of a block, (n).
  subroutine execute(plan, d, sign, n, block)
    type(c_ptr), intent(in) :: plan
    integer, intent(in) :: d, sign, n(3)
    complex(dp), intent(inout) :: block(n(1), n(2), *)
    integer :: k
    !$omp parallel do schedule(static)
    do k = 1, merge(n(2), n(3), d == 3)
      if (d == 3) then
        call fftw_execute_dft(plan, block(1, k, 1), block(1, k, 1))
      else if (sign == -2) then
        call fftw_execute_dft_r2c(plan, block(1, 1, k), block(1, 1, k))
      else if (sign == 2) then
        call fftw_execute_dft_c2r(plan, block(1, 1, k), block(1, 1, k))
      else
        call fftw_execute_dft(plan, block(1, 1, k), block(1, 1, k))
      end if
    end do
    !$omp end parallel do
  end subroutine execute

  !> The plan of a shape.
  type(c_ptr) function plan_for(shape) result(handle)
    integer, intent(in) :: shape(5)
    complex(dp), allocatable :: field(:)
    integer(c_int) :: n(1)
    integer :: k, stride
    if (.not. allocated(plans)) allocate (plans(0))
    do k = 1, size(plans)
      handle = plans(k)%handle
      if (all(plans(k)%shape == shape)) return
    end do
    n = shape(1)
    allocate (field(1 + (shape(1) - 1)*shape(3) + (shape(2) - 1)*shape(4)))
    stride = 2*shape(4) ! reals
    select case (shape(5))
    case (-2)
      handle = fftw_plan_many_dft_r2c(1, n, shape(2), field, n, 1, stride, field, n, 1, shape(4), &
                                      fftw_estimate)
    case (2)
      handle = fftw_plan_many_dft_c2r(1, n, shape(2), field, n, 1, shape(4), field, n, 1, stride, &
                                      fftw_estimate)
    case default
      handle = fftw_plan_many_dft(1, n, shape(2), field, n, shape(3), shape(4), field, n, &
                                  shape(3), shape(4), shape(5), fftw_estimate)
    end select
    plans = [plans, plan_t(shape, handle)]
  end function plan_for

  !> The reals of a field, so many `words` to each of the first places: 2 (which is usual), its real
  !> and imaginary parts, or 1.
  function reals_of(field, words) result(reals)
    complex(dp), intent(in), target, contiguous :: field(:, :, :)
    integer, intent(in), optional :: words
    real(dp), pointer, contiguous :: reals(:, :, :, :)
    integer :: n
    n = 2
    if (present(words)) n = words
    if (size(field) == 0) then
      reals => nothing
    else
      call c_f_pointer(c_loc(field), reals, [n, 2*size(field, 1)/n, size(field, 2), size(field, 3)])
    end if
  end function reals_of

  ! ---- by transposes ----

  !> Local.
  subroutine make_fft_transpose(domain, grid, method)
    type(domain_t), intent(in) :: domain
    integer, intent(in) :: grid(3)
    class(fft_t), allocatable, intent(out) :: method
    type(fft_transpose_t), allocatable :: fft
    type(patches_t) :: planes, rows, columns !< of frequencies along x
    integer :: across, others, half(3), d, k
    allocate (fft)
    fft%grid = grid
    fft%words = 1
    half = [grid(1)/2 + 1, grid(2:)]
    across = min(domain%ranks, grid(3))
    do while (mod(domain%ranks, across) /= 0)
      across = across - 1
    end do
    fft%planes = across == domain%ranks
    others = domain%ranks/across
    fft%patches = cut(grid, [1, others, across], [1, across, 1])
    planes = cut(half, [1, others, across], [1, across, 1])
    rows = cut(half, [others, 1, across], [across, 1, 1])
    columns = cut(half, [others, across, 1], [across, 1, 1])
    call fit(fft%space, planes%of_rank(domain%rank))
    if (domain%ranks > 1) call fit(fft%spectrum, columns%of_rank(domain%rank))
    if (fft%planes) then
      if (domain%ranks > 1) call make_regrid(domain, half, planes, columns, .true., &
                                             fft%to_columns)
    else
      call fit(fft%rows, rows%of_rank(domain%rank))
      call make_regrid(domain, half, planes, rows, .true., fft%to_rows)
      call make_regrid(domain, half, rows, columns, .true., fft%to_columns)
    end if
    associate (mine => columns%of_rank(domain%rank))
      do d = 1, 3
        fft%frequency(d)%at = [(k, k=mine%low(d), mine%high(d))]
      end do
    end associate
    call move_alloc(fft, method)
  end subroutine make_fft_transpose

  !> The grid cut into so many shares along each direction, one `every` so many ranks.
  pure type(patches_t) function cut(grid, shares, every) result(patches)
    integer, intent(in) :: grid(3), shares(3), every(3)
    integer :: d, s
    do d = 1, 3
      call set_limits(patches, d, every(d), &
                      reshape([(share_of_points(grid(d), shares(d), s), s=0, shares(d) - 1)], &
                              [2, shares(d)]))
    end do
  end function cut

  !> Allocates a field of a patch's size.
  subroutine fit(field, patch)
    complex(dp), allocatable, intent(out) :: field(:, :, :)
    type(patch_t), intent(in) :: patch
    integer :: n(3)
    n = patch%extent()
    allocate (field(n(1), n(2), n(3)))
  end subroutine fit

  subroutine forward_transpose(self, domain)
    class(fft_transpose_t), intent(inout), target :: self
    type(domain_t), intent(inout) :: domain
    call transform_rows(self%space, self%grid(1), -1)
    if (.not. self%planes) then
      call move(self%to_rows, domain, 2, .true., reals_of(self%space), reals_of(self%rows))
      call transform_lines(self%rows, 2, -1)
      call move(self%to_columns, domain, 2, .true., reals_of(self%rows), reals_of(self%spectrum))
    else
      call transform_lines(self%space, 2, -1)
      if (domain%ranks == 1) then ! planes are columns
        call move_alloc(self%space, self%spectrum)
      else
        call move(self%to_columns, domain, 2, .true., reals_of(self%space), reals_of(self%spectrum))
      end if
    end if
    call transform_lines(self%spectrum, 3, -1)
  end subroutine forward_transpose

  subroutine backward_transpose(self, domain)
    class(fft_transpose_t), intent(inout), target :: self
    type(domain_t), intent(inout) :: domain
    call transform_lines(self%spectrum, 3, 1)
    if (.not. self%planes) then
      call move(self%to_columns, domain, 2, .false., reals_of(self%spectrum), reals_of(self%rows))
      call transform_lines(self%rows, 2, 1)
      call move(self%to_rows, domain, 2, .false., reals_of(self%rows), reals_of(self%space))
    else
      if (domain%ranks == 1) then
        call move_alloc(self%spectrum, self%space)
      else
        call move(self%to_columns, domain, 2, .false., reals_of(self%spectrum), &
                  reals_of(self%space))
      end if
      call transform_lines(self%space, 2, 1)
    end if
    call transform_rows(self%space, self%grid(1), 1)
  end subroutine backward_transpose

end module md_fft
