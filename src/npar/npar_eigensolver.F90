! All eigenvalues and vectors of a symmetric or Hermitian matrix that every rank has.
!
! lapack: every rank solves it.  scalapack, elpa: each rank takes its blocks, all ranks solve it
! together, and a sum over zero-padded matrices puts the vectors together, as in VASP.
module npar_eigensolver
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use mpi_f08, only: MPI_Comm, MPI_Comm_size
  use bx_harness, only: bx_region_enter, bx_region_leave
  use npar_blas, only: dsyevd, zheevd
  use npar_collectives, only: sum_over
#ifdef BX_HAVE_ELPA
  use elpa, only: elpa_allocate, elpa_deallocate, elpa_init, ELPA_OK, ELPA_SOLVER_1STAGE, elpa_t
#endif
  implicit none (type, external)
  private
  public :: eigensolver_t, eigensolver_names, why_no_eigensolver

#ifdef BX_HAVE_ELPA
  integer, parameter :: known = 3
#else
  integer, parameter :: known = 2
#endif
  character(16), parameter :: names(3) = [character(16) :: "lapack", "scalapack", "elpa"]
  integer, parameter :: largest_block = 32

  !> An eigensolver for matrices of one size.
  type :: eigensolver_t
    private
    character(16) :: library = ""
    type(MPI_Comm) :: comm
    logical :: is_complex = .false.
    integer :: n = 0, block = 1, ranks = 1
    integer :: handle = -1 !< of the communicator in BLACS
    integer :: context = -1, rows = 1, columns = 1, row = 0, column = 0 !< of the grid of ranks
    integer :: my_rows = 0, my_columns = 0, descriptor(9) = 0
  contains
    procedure :: create
    procedure :: solve
    procedure :: destroy
  end type eigensolver_t

  interface
    subroutine blacs_gridinit(context, order, rows, columns)
      implicit none (type, external)
      integer, intent(inout) :: context
      character, intent(in) :: order
      integer, intent(in) :: rows, columns
    end subroutine blacs_gridinit

    subroutine blacs_gridinfo(context, rows, columns, row, column)
      implicit none (type, external)
      integer, intent(in) :: context
      integer, intent(out) :: rows, columns, row, column
    end subroutine blacs_gridinfo

    subroutine blacs_gridexit(context)
      implicit none (type, external)
      integer, intent(in) :: context
    end subroutine blacs_gridexit

    function sys2blacs_handle(comm) result(handle)
      implicit none (type, external)
      integer, intent(in) :: comm
      integer :: handle
    end function sys2blacs_handle

    subroutine free_blacs_system_handle(handle)
      implicit none (type, external)
      integer, intent(in) :: handle
    end subroutine free_blacs_system_handle

    function numroc(n, block, place, first, places) result(count)
      implicit none (type, external)
      integer, intent(in) :: n, block, place, first, places
      integer :: count
    end function numroc

    subroutine descinit(descriptor, m, n, mb, nb, first_row, first_column, context, lld, info)
      implicit none (type, external)
      integer, intent(out) :: descriptor(9), info
      integer, intent(in) :: m, n, mb, nb, first_row, first_column, context, lld
    end subroutine descinit

    subroutine pdsyevd(jobz, uplo, n, a, ia, ja, desca, w, z, iz, jz, descz, work, lwork, iwork, &
                       liwork, info)
      import :: dp
      implicit none (type, external)
      character, intent(in) :: jobz, uplo
      integer, intent(in) :: n, ia, ja, desca(9), iz, jz, descz(9), lwork, liwork
      type(*), intent(inout) :: a(*), z(*), work(*)
      real(dp), intent(out) :: w(*)
      integer, intent(out) :: iwork(*), info
    end subroutine pdsyevd

    subroutine pzheevd(jobz, uplo, n, a, ia, ja, desca, w, z, iz, jz, descz, work, lwork, rwork, &
                       lrwork, iwork, liwork, info)
      import :: dp
      implicit none (type, external)
      character, intent(in) :: jobz, uplo
      integer, intent(in) :: n, ia, ja, desca(9), iz, jz, descz(9), lwork, lrwork, liwork
      type(*), intent(inout) :: a(*), z(*), work(*)
      real(dp), intent(out) :: w(*), rwork(*)
      integer, intent(out) :: iwork(*), info
    end subroutine pzheevd
  end interface

contains

  !> The libraries that this executable was built with.
  pure function eigensolver_names() result(list)
    character(16), allocatable :: list(:)
    list = names(:known)
  end function eigensolver_names

  !> The reason why a library cannot solve a matrix of size n on so many ranks; "" if it can.
  pure function why_no_eigensolver(library, n, ranks) result(why)
    character(*), intent(in) :: library
    integer, intent(in) :: n, ranks
    character(120) :: why
    integer :: columns
    columns = ranks/rows_of(ranks)
    why = ""
    if (.not. any(eigensolver_names() == library)) then
      why = "not built with "//library
    else if (library == "elpa" .and. n < columns) then
      write (why, "('ELPA needs a part of the matrix in each of ', i0, ' columns of ranks; there &
        &are ', i0, ' bands')") columns, n
    end if
  end function why_no_eigensolver

  !> Rows of the grid of ranks: as many as columns, or the next smaller divisor.
  pure function rows_of(ranks) result(rows)
    integer, intent(in) :: ranks
    integer :: rows
    rows = int(sqrt(real(ranks, dp)))
    do while (mod(ranks, rows) /= 0)
      rows = rows - 1
    end do
  end function rows_of

  !> Prepares for matrices of size n, real or complex.  Collective over comm.
  subroutine create(self, comm, library, n, is_complex)
    class(eigensolver_t), intent(inout) :: self
    type(MPI_Comm), intent(in) :: comm
    character(*), intent(in) :: library
    integer, intent(in) :: n
    logical, intent(in) :: is_complex
    integer :: info
    self%library = library
    self%comm = comm
    self%n = n
    self%is_complex = is_complex
    call MPI_Comm_size(comm, self%ranks)
    if (library == "lapack") return
    self%rows = rows_of(self%ranks)
    self%columns = self%ranks/self%rows
    ! small matrices in small blocks: as many ranks as can be have a part
    self%block = max(1, min(largest_block, n/self%columns))
    self%handle = sys2blacs_handle(comm%MPI_VAL)
    self%context = self%handle
    call blacs_gridinit(self%context, "C", self%rows, self%columns)
    call blacs_gridinfo(self%context, self%rows, self%columns, self%row, self%column)
    self%my_rows = numroc(n, self%block, self%row, 0, self%rows)
    self%my_columns = numroc(n, self%block, self%column, 0, self%columns)
    call descinit(self%descriptor, n, n, self%block, self%block, 0, 0, self%context, &
                  max(1, self%my_rows), info)
    if (info /= 0) error stop "descinit failed"
  end subroutine create

  !> Frees the grid of ranks.  Collective.
  subroutine destroy(self)
    class(eigensolver_t), intent(inout) :: self
    if (self%context < 0) return
    call blacs_gridexit(self%context)
    call free_blacs_system_handle(self%handle)
    self%context = -1
  end subroutine destroy

  !> Replaces a(n, n), or a(2 n, n) for complex numbers, by its eigenvectors; eigenvalues(n) ascend.
  !> `solved` is false, on all ranks, if the library failed.  Collective.
  subroutine solve(self, a, eigenvalues, solved)
    class(eigensolver_t), intent(inout) :: self
    real(dp), intent(inout), contiguous :: a(:, :)
    real(dp), intent(out) :: eigenvalues(:)
    logical, intent(out) :: solved
    if (self%library == "lapack") then
      call solve_alone(self, a, eigenvalues, solved)
    else
      call bx_region_enter(merge("ScaLAPACK", "ELPA     ", self%library == "scalapack"))
      call solve_together(self, a, eigenvalues, solved)
      call bx_region_leave()
      call put_together(self, a)
    end if
  end subroutine solve

  !> The same by LAPACK, on each rank.
  subroutine solve_alone(self, a, eigenvalues, solved)
    type(eigensolver_t), intent(in) :: self
    real(dp), intent(inout), contiguous :: a(:, :)
    real(dp), intent(out) :: eigenvalues(:)
    logical, intent(out) :: solved
    real(dp), allocatable :: work(:), rwork(:)
    integer, allocatable :: iwork(:)
    integer :: n, info
    n = self%n
    allocate (iwork(3 + 5*n))
    if (self%is_complex) then
      allocate (work(2*(2*n + n**2)), rwork(1 + 5*n + 2*n**2))
      call zheevd("V", "U", n, a, n, eigenvalues, work, size(work)/2, rwork, size(rwork), iwork, &
                  size(iwork), info)
    else
      allocate (work(1 + 6*n + 2*n**2))
      call dsyevd("V", "U", n, a, n, eigenvalues, work, size(work), iwork, size(iwork), info)
    end if
    solved = info == 0
  end subroutine solve_alone

  !> Row (or column) of the whole matrix at a local place.
  pure function global(self, local, place, places) result(i)
    type(eigensolver_t), intent(in) :: self
    integer, intent(in) :: local, place, places
    integer :: i
    i = ((local - 1)/self%block*places + place)*self%block + mod(local - 1, self%block) + 1
  end function global

  !> The same by all ranks: each takes its blocks, and the vectors are put together.
  subroutine solve_together(self, a, eigenvalues, solved)
    type(eigensolver_t), intent(in) :: self
    real(dp), intent(inout), contiguous :: a(:, :)
    real(dp), intent(out) :: eigenvalues(:)
    logical, intent(out) :: solved
    real(dp), allocatable :: mine(:, :), vectors(:, :)
    integer :: i, j, f, at
    f = merge(2, 1, self%is_complex)
    allocate (mine(f*max(1, self%my_rows), max(1, self%my_columns)))
    allocate (vectors, mold=mine)
    do j = 1, self%my_columns
      do i = 1, self%my_rows
        at = f*(global(self, i, self%row, self%rows) - 1)
        mine(f*(i - 1) + 1:f*i, j) = a(at + 1:at + f, global(self, j, self%column, self%columns))
      end do
    end do
    if (self%library == "scalapack") then
      call by_scalapack(self, mine, eigenvalues, vectors, solved)
    end if
#ifdef BX_HAVE_ELPA
    if (self%library == "elpa") call by_elpa(self, mine, eigenvalues, vectors, solved)
#endif
    a = 0
    do j = 1, self%my_columns
      do i = 1, self%my_rows
        at = f*(global(self, i, self%row, self%rows) - 1)
        a(at + 1:at + f, global(self, j, self%column, self%columns)) = vectors(f*(i - 1) + 1:f*i, j)
      end do
    end do
  end subroutine solve_together

  !> Solves the distributed matrix by ScaLAPACK.
  subroutine by_scalapack(self, a, eigenvalues, vectors, solved)
    type(eigensolver_t), intent(in) :: self
    real(dp), intent(inout), contiguous :: a(:, :), vectors(:, :)
    real(dp), intent(out) :: eigenvalues(:)
    logical, intent(out) :: solved
    real(dp), allocatable :: work(:), rwork(:)
    integer, allocatable :: iwork(:)
    real(dp) :: ask(2), rask(1)
    integer :: iask(1), info, slack
    ! the workspace asked for is too small where n is less than a block a rank
    slack = 2*self%block*(self%n + self%block) + 4*self%n
    if (self%is_complex) then
      call pzheevd("V", "U", self%n, a, 1, 1, self%descriptor, eigenvalues, vectors, 1, 1, &
                   self%descriptor, ask, -1, rask, -1, iask, -1, info)
      allocate (work(2*(int(ask(1)) + slack)), rwork(int(rask(1)) + slack), &
                iwork(iask(1) + 7*self%n + 8*self%columns + 2))
      call pzheevd("V", "U", self%n, a, 1, 1, self%descriptor, eigenvalues, vectors, 1, 1, &
                   self%descriptor, work, size(work)/2, rwork, size(rwork), iwork, &
                   size(iwork), info)
    else
      call pdsyevd("V", "U", self%n, a, 1, 1, self%descriptor, eigenvalues, vectors, 1, 1, &
                   self%descriptor, ask, -1, iask, -1, info)
      allocate (work(int(ask(1)) + slack), iwork(iask(1) + 7*self%n + 8*self%columns + 2))
      call pdsyevd("V", "U", self%n, a, 1, 1, self%descriptor, eigenvalues, vectors, 1, 1, &
                   self%descriptor, work, size(work), iwork, size(iwork), info)
    end if
    solved = info == 0
  end subroutine by_scalapack

#ifdef BX_HAVE_ELPA
  !> Solves the distributed matrix by ELPA.
  subroutine by_elpa(self, a, eigenvalues, vectors, solved)
    type(eigensolver_t), intent(in) :: self
    real(dp), intent(inout), contiguous, target :: a(:, :), vectors(:, :)
    real(dp), intent(out) :: eigenvalues(:)
    logical, intent(out) :: solved
    integer, parameter :: api = 20170403
    class(elpa_t), pointer :: elpa
    complex(dp), allocatable :: za(:, :), zv(:, :)
    integer :: status
    status = elpa_init(api)
    elpa => elpa_allocate(status)
    call elpa%set("na", self%n, status)
    call elpa%set("nev", self%n, status)
    call elpa%set("local_nrows", max(1, self%my_rows), status)
    call elpa%set("local_ncols", max(1, self%my_columns), status)
    call elpa%set("nblk", self%block, status)
    call elpa%set("mpi_comm_parent", self%comm%MPI_VAL, status)
    call elpa%set("process_row", self%row, status)
    call elpa%set("process_col", self%column, status)
    status = elpa%setup()
    solved = status == ELPA_OK
    if (.not. solved) return
    call elpa%set("solver", ELPA_SOLVER_1STAGE, status)
    if (self%is_complex) then
      allocate (za(size(a, 1)/2, size(a, 2)), zv(size(a, 1)/2, size(a, 2)))
      za = cmplx(a(1::2, :), a(2::2, :), dp)
      call elpa%eigenvectors(za, eigenvalues, zv, status)
      vectors(1::2, :) = real(zv, dp)
      vectors(2::2, :) = aimag(zv)
    else
      call elpa%eigenvectors(a, eigenvalues, vectors, status)
    end if
    solved = status == ELPA_OK
    call elpa_deallocate(elpa, status)
  end subroutine by_elpa
#endif

  !> Adds the zero-padded parts of all ranks.
  subroutine put_together(self, a)
    type(eigensolver_t), intent(in) :: self
    real(dp), intent(inout), contiguous, target :: a(:, :)
    real(dp), pointer, contiguous :: vector(:)
    vector(1:size(a)) => a
    call sum_over(vector, self%comm, .false.)
  end subroutine put_together

end module npar_eigensolver
