! FFTW's C functions for transforms of many lines within a rank (fftw3.f03, which declares all of
! FFTW, is not always in the include path of a Fortran compiler).
!
! Real transforms are declared in place: their reals stand in an array of complex numbers.
module bx_fftw
  use, intrinsic :: iso_c_binding, only: c_double_complex, c_int, c_ptr
  implicit none (type, external)
  private
  public :: fftw_plan_many_dft, fftw_execute_dft
  public :: fftw_plan_many_dft_r2c, fftw_plan_many_dft_c2r, fftw_execute_dft_r2c, &
    fftw_execute_dft_c2r

  interface
    function fftw_plan_many_dft(rank, n, many, in, in_size, in_stride, in_distance, out, &
      out_size, out_stride, out_distance, sign, flags) result(plan) bind(C)
      import :: c_double_complex, c_int, c_ptr
      implicit none (type, external)
      integer(c_int), value :: rank, many, in_stride, in_distance, out_stride, out_distance, sign, &
        flags
      integer(c_int), intent(in) :: n(*), in_size(*), out_size(*)
      complex(c_double_complex), intent(inout) :: in(*), out(*)
      type(c_ptr) :: plan
    end function fftw_plan_many_dft

    subroutine fftw_execute_dft(plan, in, out) bind(C)
      import :: c_double_complex, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: plan
      complex(c_double_complex), intent(inout) :: in(*)
      complex(c_double_complex), intent(inout) :: out(*)
    end subroutine fftw_execute_dft

    subroutine fftw_execute_dft_r2c(plan, in, out) bind(C)
      import :: c_double_complex, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: plan
      complex(c_double_complex), intent(inout) :: in(*)
      complex(c_double_complex), intent(inout) :: out(*)
    end subroutine fftw_execute_dft_r2c

    subroutine fftw_execute_dft_c2r(plan, in, out) bind(C)
      import :: c_double_complex, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: plan
      complex(c_double_complex), intent(inout) :: in(*)
      complex(c_double_complex), intent(inout) :: out(*)
    end subroutine fftw_execute_dft_c2r

    function fftw_plan_many_dft_r2c(rank, n, many, in, in_size, in_stride, in_distance, out, &
      out_size, out_stride, out_distance, flags) result(plan) bind(C)
      import :: c_double_complex, c_int, c_ptr
      implicit none (type, external)
      integer(c_int), value :: rank, many, in_stride, in_distance, out_stride, out_distance, flags
      integer(c_int), intent(in) :: n(*), in_size(*), out_size(*)
      complex(c_double_complex), intent(inout) :: in(*), out(*)
      type(c_ptr) :: plan
    end function fftw_plan_many_dft_r2c

    function fftw_plan_many_dft_c2r(rank, n, many, in, in_size, in_stride, in_distance, out, &
      out_size, out_stride, out_distance, flags) result(plan) bind(C)
      import :: c_double_complex, c_int, c_ptr
      implicit none (type, external)
      integer(c_int), value :: rank, many, in_stride, in_distance, out_stride, out_distance, flags
      integer(c_int), intent(in) :: n(*), in_size(*), out_size(*)
      complex(c_double_complex), intent(inout) :: in(*), out(*)
      type(c_ptr) :: plan
    end function fftw_plan_many_dft_c2r
  end interface

end module bx_fftw
