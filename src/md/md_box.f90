! The periodic box: any three vectors that span a volume.
module md_box
  use, intrinsic :: iso_c_binding, only: dp => c_double
  implicit none (type, external)
  private
  public :: box_t, make_box, cross

  type :: box_t
    real(dp) :: edge(3, 3) = 0    !< vectors in columns: A
    real(dp) :: inverse(3, 3) = 0 !< 1/A
    real(dp) :: height(3) = 0     !< distance between opposite faces: A
    real(dp) :: volume = 0        !< A^3
  contains
    procedure :: fractions
  end type box_t

contains

  !> The box of three edges; its volume is 0 where they span none.
  pure type(box_t) function make_box(edge) result(box)
    real(dp), intent(in) :: edge(3, 3) !< vectors in columns: A
    real(dp) :: normal(3, 3)
    integer :: d
    box%edge = edge
    do d = 1, 3
      normal(:, d) = cross(edge(:, mod(d, 3) + 1), edge(:, mod(d + 1, 3) + 1))
    end do
    box%volume = dot_product(edge(:, 1), normal(:, 1))
    if (.not. abs(box%volume) > 0) return
    do d = 1, 3
      box%inverse(d, :) = normal(:, d)/box%volume
      box%height(d) = abs(box%volume)/norm2(normal(:, d))
    end do
    box%volume = abs(box%volume)
  end function make_box

  !> Coordinates of a point (A) along the edges: 0 to 1 within the box.
  pure function fractions(self, x) result(s)
    class(box_t), intent(in) :: self
    real(dp), intent(in) :: x(3)
    real(dp) :: s(3)
    s = self%inverse(:, 1)*x(1) + self%inverse(:, 2)*x(2) + self%inverse(:, 3)*x(3)
  end function fractions

  !> The vector product a x b.
  pure function cross(a, b) result(c)
    real(dp), intent(in) :: a(3), b(3)
    real(dp) :: c(3)
    c = [a(2)*b(3) - a(3)*b(2), a(3)*b(1) - a(1)*b(3), a(1)*b(2) - a(2)*b(1)]
  end function cross

end module md_box
