! The FFT by transposes: the grid goes from the domains to planes, or to rows where ranks are more
! than planes, is transformed there, and goes on to columns by MPI_Alltoallv.
module md_fft_transpose
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use md_domain, only: domain_t
  use md_fft, only: fft_t, reals_of, transform_lines
  use md_regrid, only: make_regrid, patch_t, regrid_t, share_of_points, to_inner, to_outer
  implicit none (type, external)
  private
  public :: make_fft_transpose

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

contains

  !> Local.
  subroutine make_fft_transpose(domain, grid, method)
    type(domain_t), intent(in) :: domain
    integer, intent(in) :: grid(3)
    class(fft_t), allocatable, intent(out) :: method
    type(fft_transpose_t), allocatable :: fft
    type(patch_t), allocatable :: rows(:), columns(:)
    integer :: across, r, d, k
    allocate (fft)
    fft%grid = grid
    across = min(domain%ranks, grid(3))
    do while (mod(domain%ranks, across) /= 0)
      across = across - 1
    end do
    fft%planes = across == domain%ranks
    allocate (fft%patches(0:domain%ranks - 1), rows(0:domain%ranks - 1), &
              columns(0:domain%ranks - 1))
    do r = 0, domain%ranks - 1
      associate (along => r/across, part => mod(r, across), others => domain%ranks/across)
        fft%patches(r) = cut(grid, 2, share_of_points(grid(2), others, along), &
                             3, share_of_points(grid(3), across, part))
        rows(r) = cut(grid, 1, share_of_points(grid(1), others, along), &
                      3, share_of_points(grid(3), across, part))
        columns(r) = cut(grid, 1, share_of_points(grid(1), others, along), &
                         2, share_of_points(grid(2), across, part))
      end associate
    end do
    call fit(fft%space, fft%patches(domain%rank))
    call fit(fft%spectrum, columns(domain%rank))
    if (fft%planes) then
      call make_regrid(domain, grid, fft%patches, columns, .true., fft%to_columns)
    else
      call fit(fft%rows, rows(domain%rank))
      call make_regrid(domain, grid, fft%patches, rows, .true., fft%to_rows)
      call make_regrid(domain, grid, rows, columns, .true., fft%to_columns)
    end if
    do d = 1, 3
      fft%frequency(d)%at = [(k, k=columns(domain%rank)%low(d), columns(domain%rank)%high(d))]
    end do
    call move_alloc(fft, method)
  end subroutine make_fft_transpose

  !> The whole grid but for directions c and d, of which it has the points of two shares.
  pure function cut(grid, c, share_of_c, d, share_of_d) result(patch)
    integer, intent(in) :: grid(3), c, share_of_c(2), d, share_of_d(2)
    type(patch_t) :: patch
    patch%low = 0
    patch%high = grid - 1
    patch%low([c, d]) = [share_of_c(1), share_of_d(1)]
    patch%high([c, d]) = [share_of_c(2), share_of_d(2)]
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
    call transform_lines(self%space, 1, -1)
    if (self%planes) then
      call transform_lines(self%space, 2, -1)
      call to_inner(self%to_columns, domain, 2, reals_of(self%space), reals_of(self%spectrum))
    else
      call to_inner(self%to_rows, domain, 2, reals_of(self%space), reals_of(self%rows))
      call transform_lines(self%rows, 2, -1)
      call to_inner(self%to_columns, domain, 2, reals_of(self%rows), reals_of(self%spectrum))
    end if
    call transform_lines(self%spectrum, 3, -1)
  end subroutine forward_transpose

  subroutine backward_transpose(self, domain)
    class(fft_transpose_t), intent(inout), target :: self
    type(domain_t), intent(inout) :: domain
    call transform_lines(self%spectrum, 3, 1)
    if (self%planes) then
      call to_outer(self%to_columns, domain, 2, reals_of(self%spectrum), reals_of(self%space))
      call transform_lines(self%space, 2, 1)
    else
      call to_outer(self%to_columns, domain, 2, reals_of(self%spectrum), reals_of(self%rows))
      call transform_lines(self%rows, 2, 1)
      call to_outer(self%to_rows, domain, 2, reals_of(self%rows), reals_of(self%space))
    end if
    call transform_lines(self%space, 1, 1)
  end subroutine backward_transpose

end module md_fft_transpose
