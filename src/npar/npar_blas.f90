! BLAS and LAPACK routines that this kernel calls.  Waves are real arrays in which a complex number
! is a pair, so matrices are of assumed type: the same storage goes to d and z routines.
module npar_blas
  use, intrinsic :: iso_c_binding, only: dp => c_double
  implicit none (type, external)
  private
  public :: dgemm, zgemm, dgemv, zgemv, dsyrk, zherk, dtrsm, ztrsm, dstev

  abstract interface
    subroutine update_of_rank_k(uplo, trans, n, k, alpha, a, lda, beta, c, ldc)
      import :: dp
      implicit none (type, external)
      character, intent(in) :: uplo, trans
      integer, intent(in) :: n, k, lda, ldc
      real(dp), intent(in) :: alpha, beta
      type(*), intent(in) :: a(*)
      type(*), intent(inout) :: c(*)
    end subroutine update_of_rank_k
  end interface

  procedure(update_of_rank_k) :: dsyrk, zherk

  interface
    subroutine dgemm(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
      import :: dp
      implicit none (type, external)
      character, intent(in) :: transa, transb
      integer, intent(in) :: m, n, k, lda, ldb, ldc
      real(dp), intent(in) :: alpha, beta
      type(*), intent(in) :: a(*), b(*)
      type(*), intent(inout) :: c(*)
    end subroutine dgemm

    subroutine zgemm(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
      import :: dp
      implicit none (type, external)
      character, intent(in) :: transa, transb
      integer, intent(in) :: m, n, k, lda, ldb, ldc
      complex(dp), intent(in) :: alpha, beta
      type(*), intent(in) :: a(*), b(*)
      type(*), intent(inout) :: c(*)
    end subroutine zgemm

    subroutine dgemv(trans, m, n, alpha, a, lda, x, incx, beta, y, incy)
      import :: dp
      implicit none (type, external)
      character, intent(in) :: trans
      integer, intent(in) :: m, n, lda, incx, incy
      real(dp), intent(in) :: alpha, beta
      type(*), intent(in) :: a(*), x(*)
      type(*), intent(inout) :: y(*)
    end subroutine dgemv

    subroutine zgemv(trans, m, n, alpha, a, lda, x, incx, beta, y, incy)
      import :: dp
      implicit none (type, external)
      character, intent(in) :: trans
      integer, intent(in) :: m, n, lda, incx, incy
      complex(dp), intent(in) :: alpha, beta
      type(*), intent(in) :: a(*), x(*)
      type(*), intent(inout) :: y(*)
    end subroutine zgemv

    subroutine dtrsm(side, uplo, transa, diag, m, n, alpha, a, lda, b, ldb)
      import :: dp
      implicit none (type, external)
      character, intent(in) :: side, uplo, transa, diag
      integer, intent(in) :: m, n, lda, ldb
      real(dp), intent(in) :: alpha
      type(*), intent(in) :: a(*)
      type(*), intent(inout) :: b(*)
    end subroutine dtrsm

    subroutine ztrsm(side, uplo, transa, diag, m, n, alpha, a, lda, b, ldb)
      import :: dp
      implicit none (type, external)
      character, intent(in) :: side, uplo, transa, diag
      integer, intent(in) :: m, n, lda, ldb
      complex(dp), intent(in) :: alpha
      type(*), intent(in) :: a(*)
      type(*), intent(inout) :: b(*)
    end subroutine ztrsm

    subroutine dstev(jobz, n, d, e, z, ldz, work, info)
      import :: dp
      implicit none (type, external)
      character, intent(in) :: jobz
      integer, intent(in) :: n, ldz
      real(dp), intent(inout) :: d(*), e(*)
      real(dp), intent(out) :: z(ldz, *), work(*)
      integer, intent(out) :: info
    end subroutine dstev
  end interface

end module npar_blas
