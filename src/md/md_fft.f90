! 3D FFTs of a grid that is spread over the ranks of a domain: what their methods have in common.
module md_fft
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_int, c_loc, c_ptr, dp => c_double
  use bx_fftw, only: fftw_execute_dft, fftw_plan_many_dft
  use md_domain, only: domain_t
  use md_regrid, only: patch_t
  implicit none (type, external)
  private
  public :: transform_lines, reals_of

  !> Frequencies, from 0, of the indices of a direction.
  type :: frequencies_t
    integer, allocatable :: at(:)
  end type frequencies_t

  !> A method: unnormalised transforms between this rank's points in space and its share of the
  !> spectrum, whose frequencies may be any.  The side where the field is not may lack its array.
  type, abstract, public :: fft_t
    integer :: grid(3) = 0
    type(patch_t), allocatable :: patches(:) !< (0:ranks-1): points in space of each rank
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

  !> FFTW's plans by shape: they live as long as the process.  FFTW_ESTIMATE, so that the same
  !> layout gives the same bits.
  type :: plan_t
    integer :: shape(5) = 0 !< points, lines, distance of points, distance of lines, sign
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
    call execute(plan, d, n, block)
  end subroutine transform_lines

  !> Executes the plan of a layer of lines for all layers of a block, (n).
  subroutine execute(plan, d, n, block)
    type(c_ptr), intent(in) :: plan
    integer, intent(in) :: d, n(3)
    complex(dp), intent(inout) :: block(n(1), n(2), *)
    integer :: k
    !$omp parallel do schedule(static)
    do k = 1, merge(n(2), n(3), d == 3)
      if (d == 3) then
        call fftw_execute_dft(plan, block(1, k, 1), block(1, k, 1))
      else
        call fftw_execute_dft(plan, block(1, 1, k), block(1, 1, k))
      end if
    end do
    !$omp end parallel do
  end subroutine execute

  !> The plan of a shape.
  function plan_for(shape) result(handle)
    integer, intent(in) :: shape(5)
    type(c_ptr) :: handle
    complex(dp), allocatable :: field(:)
    integer(c_int) :: n(1)
    integer :: k
    if (.not. allocated(plans)) allocate (plans(0))
    do k = 1, size(plans)
      handle = plans(k)%handle
      if (all(plans(k)%shape == shape)) return
    end do
    n = shape(1)
    allocate (field(1 + (shape(1) - 1)*shape(3) + (shape(2) - 1)*shape(4)))
    handle = fftw_plan_many_dft(1, n, shape(2), field, n, shape(3), shape(4), field, n, &
                                shape(3), shape(4), shape(5), fftw_estimate)
    plans = [plans, plan_t(shape, handle)]
  end function plan_for

  !> The real and imaginary parts of a field: (2, shape of the field).
  function reals_of(field) result(reals)
    complex(dp), intent(in), target, contiguous :: field(:, :, :)
    real(dp), pointer, contiguous :: reals(:, :, :, :)
    if (size(field) == 0) then
      reals => nothing
    else
      call c_f_pointer(c_loc(field), reals, [2, shape(field)])
    end if
  end function reals_of

end module md_fft
