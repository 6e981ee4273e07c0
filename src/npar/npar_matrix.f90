! The matrix between all bands, by the distributions and drivers of src/eigen.
!
! lapack: every rank has the whole matrix and works alone, as VASP without ScaLAPACK.  The drivers
! of ScaLAPACK and ELPA: each rank has its blocks.  Then matrices are summed, and eigenvectors come
! to the bands, in panels of columns: of n^2 numbers no rank has more than a few n^2/ranks.
module npar_matrix
  use, intrinsic :: iso_c_binding, only: c_associated, c_bool, c_char, c_double, c_f_pointer, &
    c_int, c_loc, c_null_char, c_null_ptr, c_ptr, c_size_t, dp => c_double
  use mpi_f08, only: MPI_Comm, MPI_Comm_rank, MPI_Comm_size
  use bx_charges, only: bx_is_hollow, bx_is_sampled
  use bx_harness, only: bx_region_enter, bx_region_leave, bx_string_at
  use npar_collectives, only: gather_parts, sum_over, sum_parts, traffic_of_exchange, &
    traffic_of_sum, traffic_t, operator(+), operator(*)
  use npar_sampling, only: part_t
  implicit none (type, external)
  private
  public :: driver_of, libraries, matrix_bytes, matrix_t, most_bands, why_no_driver

  !> What --linear-algebra chooses from, and the driver of each unless --driver names another.
  character(16), parameter :: libraries(*) = [character(16) :: "lapack", "scalapack", "elpa"]
  character(16), parameter :: usual(*) = [character(16) :: "lapack", "pdsyevd", "elpa1"]

  !> With more, a matrix of all bands, 2 n^2 numbers, and the workspace of LAPACK (1 + 6 n + 2 n^2)
  !> and ScaLAPACK (1 + 8 n + 2 n^2) on one rank leave 32 bits.
  integer, parameter :: most_bands = 32766

  !> A matrix of all bands: f = 1 real or 2 numbers an entry.
  type :: matrix_t
    character(16) :: driver = "" !< "": not created
    integer :: panels = 0 !< of columns
    real(dp) :: bytes = 0 !< of this rank, with the driver's workspace; -1 where it does not tell
    type(c_ptr), private :: self = c_null_ptr
    type(MPI_Comm), private :: comm
    integer, private :: n = 0, f = 1, ranks = 1, rank = 0, width = 0
    integer, private :: block = 1, grid_rows = 1, grid_columns = 1
    logical, private :: alone = .true.
    real(dp), pointer, contiguous :: part(:) => null() !< my columns of my rows
    real(dp), pointer, contiguous :: vectors(:) => null() !< the same of the eigenvectors
    real(dp), pointer, contiguous, private :: whole(:, :) => null() !< (f n, width) a panel
    real(dp), allocatable, private :: packed(:) !< the same, rank by rank
    real(dp), private :: own_bytes = 0 !< without workspace
    type(part_t), private :: sample !< the panel that is simulated where parts are sampled
  contains
    procedure :: create
    procedure :: destroy
    procedure :: first
    procedure :: last
    procedure :: panel
    procedure :: sampled
    procedure :: charge_others
    procedure :: sum_panel
    procedure :: gather_panel
    procedure :: solve
    procedure :: factor
    procedure :: subtract_unit
    procedure :: traffic_of_panels
    procedure, private :: counts
    procedure, private :: repack
  end type matrix_t

  interface
    function npar_solver_can(name, n, parts, ranks, why, why_size) result(can) bind(C)
      import :: c_bool, c_char, c_int, c_size_t
      implicit none (type, external)
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: n, parts, ranks
      character(kind=c_char), intent(out) :: why(*)
      integer(c_size_t), value :: why_size
      logical(c_bool) :: can
    end function npar_solver_can

    function npar_matrix_create(run, name, comm, n, parts, shape, part) result(matrix) bind(C)
      import :: c_char, c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: comm, n, parts
      integer(c_int), intent(out) :: shape(5)
      type(c_ptr), intent(out) :: part
      type(c_ptr) :: matrix
    end function npar_matrix_create

    function npar_matrix_bytes(run, name, comm, n, parts, block) result(bytes) bind(C)
      import :: c_char, c_double, c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: comm, n, parts
      integer(c_int), intent(out) :: block
      real(c_double) :: bytes
    end function npar_matrix_bytes

    function npar_matrix_solve(matrix, w, vectors, workspace) result(info) bind(C)
      import :: c_double, c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: matrix
      real(c_double), intent(out) :: w(*), workspace
      type(c_ptr), intent(out) :: vectors
      integer(c_int) :: info
    end function npar_matrix_solve

    function npar_matrix_factor(matrix) result(info) bind(C)
      import :: c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: matrix
      integer(c_int) :: info
    end function npar_matrix_factor

    subroutine npar_matrix_free(matrix) bind(C)
      import :: c_ptr
      implicit none (type, external)
      type(c_ptr), value :: matrix
    end subroutine npar_matrix_free
  end interface

contains

  !> The driver of a library: the one asked for if it is the library's, else the usual one.
  pure character(16) function driver_of(library, requested) result(driver)
    character(*), intent(in) :: library, requested
    driver = usual(findloc(libraries, library, 1))
    if (requested(:min(2, len(requested))) == driver(:2)) driver = requested
  end function driver_of

  !> The reason why a driver cannot solve a matrix of size n on so many ranks; "" if it can.
  character(120) function why_no_driver(driver, n, gamma, ranks) result(why)
    character(*), intent(in) :: driver
    integer, intent(in) :: n, ranks
    logical, intent(in) :: gamma !< real matrices
    character(kind=c_char), target :: text(120)
    why = ""
    if (npar_solver_can(trim(driver)//c_null_char, n, merge(1, 2, gamma), ranks, text, &
                        size(text, kind=c_size_t))) return
    why = bx_string_at(c_loc(text))
  end function why_no_driver

  !> Bytes that create and solve allocate on this rank.  Arguments as create's.  Collective.
  real(dp) function matrix_bytes(run, comm, driver, n, f) result(bytes)
    type(c_ptr), intent(in) :: run
    type(MPI_Comm), intent(in) :: comm
    character(*), intent(in) :: driver
    integer, intent(in) :: n, f
    integer(c_int) :: block
    integer :: ranks
    call MPI_Comm_size(comm, ranks)
    bytes = npar_matrix_bytes(run, trim(driver)//c_null_char, comm%MPI_VAL, n, f, block)
    if (driver /= "lapack") bytes = bytes + 16.0_dp*f*n*panel_width(n, int(block), ranks)
  end function matrix_bytes

  !> Columns of a panel: each rank's share of the columns, in whole blocks.
  pure function panel_width(n, block, ranks) result(columns)
    integer, intent(in) :: n, block, ranks
    integer :: columns, blocks
    blocks = (n + block - 1)/block
    columns = block*((blocks + ranks - 1)/ranks)
  end function panel_width

  !> Allocates a matrix of all bands, f numbers an entry, for a driver.  Collective over comm.
  subroutine create(self, run, comm, driver, n, f)
    class(matrix_t), intent(inout) :: self
    type(c_ptr), intent(in) :: run
    type(MPI_Comm), intent(in) :: comm
    character(*), intent(in) :: driver
    integer, intent(in) :: n, f
    type(c_ptr) :: part
    integer(c_int) :: shape(5)
    self%driver = driver
    self%comm = comm
    self%n = n
    self%f = f
    call MPI_Comm_size(comm, self%ranks)
    call MPI_Comm_rank(comm, self%rank)
    self%self = npar_matrix_create(run, trim(driver)//c_null_char, comm%MPI_VAL, n, f, shape, part)
    self%block = shape(3)
    self%grid_rows = shape(4)
    self%grid_columns = shape(5)
    call c_f_pointer(part, self%part, [f*shape(1)*shape(2)])
    self%vectors => self%part
    self%alone = driver == "lapack"
    self%own_bytes = 8.0_dp*size(self%part)
    self%width = n
    self%panels = 1
    if (.not. self%alone) then
      self%width = panel_width(n, self%block, self%ranks)
      self%panels = (n + self%width - 1)/self%width
      allocate (self%whole(f*n, self%width), self%packed(f*n*self%width))
      self%own_bytes = 2*self%own_bytes + 16.0_dp*size(self%whole)
    end if
    self%bytes = self%own_bytes
  end subroutine create

  !> Frees it.  Collective.
  subroutine destroy(self)
    class(matrix_t), intent(inout) :: self
    if (.not. c_associated(self%self)) return
    call npar_matrix_free(self%self)
    self%self = c_null_ptr
    self%driver = ""
    if (self%alone) return
    deallocate (self%whole, self%packed)
  end subroutine destroy

  !> First column of a panel, from 1.
  pure integer function first(self, j)
    class(matrix_t), intent(in) :: self
    integer, intent(in) :: j
    first = (j - 1)*self%width + 1
  end function first

  !> Last column of a panel.
  pure integer function last(self, j)
    class(matrix_t), intent(in) :: self
    integer, intent(in) :: j
    last = min(self%n, j*self%width)
  end function last

  !> First and last panel to compute: all; where parts are sampled, the one in the middle.
  function sampled(self) result(ends)
    class(matrix_t), intent(inout) :: self
    integer :: ends(2)
    ends = [1, self%panels]
    if (bx_is_sampled()) ends = (self%panels + 1)/2
  end function sampled

  !> Called before and after a panel of `sampled`: charges the time of the others, by columns.
  subroutine charge_others(self, j, begins)
    class(matrix_t), intent(inout) :: self
    integer, intent(in) :: j
    logical, intent(in) :: begins
    if (.not. bx_is_sampled() .or. self%panels == 1) return
    if (begins) then
      call self%sample%begins(self%comm)
    else
      call self%sample%mark_done()
      call self%sample%charge(real(self%n, dp)/(self%last(j) - self%first(j) + 1) - 1, &
                              real(self%panels - 1, dp))
    end if
  end subroutine charge_others

  !> Where this rank's addends of a panel's numbers go: (f n, columns of the panel).
  function panel(self, j) result(addends)
    class(matrix_t), intent(inout) :: self
    integer, intent(in) :: j
    real(dp), pointer, contiguous :: addends(:, :)
    if (self%alone) then
      addends(1:self%f*self%n, 1:self%n) => self%part
    else
      addends => self%whole(:, :self%last(j) - self%first(j) + 1)
    end if
  end function panel

  !> Sums the addends of all ranks; each rank keeps its part.  Collective.
  subroutine sum_panel(self, j, emulated)
    class(matrix_t), intent(inout) :: self
    integer, intent(in) :: j
    logical, intent(in) :: emulated
    integer(c_int) :: parts(0:self%ranks - 1)
    integer :: at
    if (self%alone) then
      call sum_over(self%part, self%comm, emulated)
    else
      parts = self%counts(j)
      at = place(self, j)
      call self%repack(j, .false.)
      call sum_parts(self%packed(:sum(parts)), parts, self%part(at + 1:at + parts(self%rank)), &
                     self%comm, emulated)
    end if
  end subroutine sum_panel

  !> The columns of a panel, (f n, columns), on every rank: of the eigenvectors if `parts_of` is
  !> `vectors`, of Cholesky's factor if it is `part`.  Collective.
  function gather_panel(self, parts_of, j, emulated) result(columns)
    class(matrix_t), intent(inout) :: self
    real(dp), pointer, contiguous, intent(in) :: parts_of(:)
    integer, intent(in) :: j
    logical, intent(in) :: emulated
    real(dp), pointer, contiguous :: columns(:, :)
    integer(c_int) :: parts(0:self%ranks - 1)
    integer :: at
    if (self%alone) then
      columns(1:self%f*self%n, 1:self%n) => parts_of
    else
      parts = self%counts(j)
      at = place(self, j)
      call gather_parts(parts_of(at + 1:at + parts(self%rank)), self%packed(:sum(parts)), parts, &
                        self%comm, emulated)
      call self%repack(j, .true.)
      columns => self%panel(j)
    end if
  end function gather_panel

  !> Reals of a panel that each rank has, (0:ranks - 1).
  pure function counts(self, j) result(reals)
    class(matrix_t), intent(in) :: self
    integer, intent(in) :: j
    integer(c_int) :: reals(0:self%ranks - 1)
    integer :: r
    do r = 0, self%ranks - 1
      reals(r) = int(self%f*owned(self, 1, self%n, mod(r, self%grid_rows), self%grid_rows) &
                     *owned(self, self%first(j), self%last(j), r/self%grid_rows, &
                            self%grid_columns), c_int)
    end do
  end function counts

  !> Where this rank's part of a panel begins in its part of the matrix, from 0.
  pure integer function place(self, j)
    class(matrix_t), intent(in) :: self
    integer, intent(in) :: j
    place = self%f*owned(self, 1, self%n, mod(self%rank, self%grid_rows), self%grid_rows) &
            *owned(self, 1, self%first(j) - 1, self%rank/self%grid_rows, self%grid_columns)
  end function place

  !> How many of the rows, or columns, low to high a place of the grid has.
  pure integer function owned(self, low, high, place_, places)
    type(matrix_t), intent(in) :: self
    integer, intent(in) :: low, high, place_, places
    owned = up_to(high) - up_to(low - 1)
  contains
    pure integer function up_to(rows)
      integer, intent(in) :: rows
      integer :: blocks
      blocks = rows/self%block ! whole ones, dealt in turn
      up_to = (blocks + places - 1 - place_)/places*self%block
      if (mod(blocks, places) == place_) up_to = up_to + mod(rows, self%block)
    end function up_to
  end function owned

  !> Puts a panel's numbers rank by rank into `packed`, or back into `whole`.
  subroutine repack(self, j, back)
    class(matrix_t), intent(inout) :: self
    integer, intent(in) :: j
    logical, intent(in) :: back
    integer :: r, column, c, row, at, from, length
    if (bx_is_hollow()) return
    at = 0
    do r = 0, self%ranks - 1
      do column = self%first(j), self%last(j)
        if (mod((column - 1)/self%block, self%grid_columns) /= r/self%grid_rows) cycle
        c = column - self%first(j) + 1
        do row = mod(r, self%grid_rows)*self%block, self%n - 1, self%grid_rows*self%block
          from = self%f*row
          length = self%f*min(self%block, self%n - row)
          if (back) then
            self%whole(from + 1:from + length, c) = self%packed(at + 1:at + length)
          else
            self%packed(at + 1:at + length) = self%whole(from + 1:from + length, c)
          end if
          at = at + length
        end do
      end do
    end do
  end subroutine repack

  !> Solves the matrix, which is lost; eigenvalues(n) ascend.  `solved` is false if the library
  !> failed.  Collective.
  subroutine solve(self, eigenvalues, solved)
    class(matrix_t), intent(inout) :: self
    real(dp), intent(out), contiguous :: eigenvalues(:)
    logical, intent(out) :: solved
    type(c_ptr) :: vectors
    real(dp) :: workspace
    if (.not. self%alone) call bx_region_enter(merge("ELPA     ", "ScaLAPACK", &
                                                     self%driver(:4) == "elpa"))
    solved = npar_matrix_solve(self%self, eigenvalues, vectors, workspace) == 0
    if (.not. self%alone) call bx_region_leave()
    call c_f_pointer(vectors, self%vectors, [size(self%part)])
    self%bytes = merge(self%own_bytes + workspace, -1.0_dp, workspace >= 0) ! not told: a NaN
  end subroutine solve

  !> Replaces the upper triangle by Cholesky's factor; `factored` is false if there is none.
  !> Collective.
  subroutine factor(self, factored)
    class(matrix_t), intent(inout) :: self
    logical, intent(out) :: factored
    if (.not. self%alone) call bx_region_enter("ScaLAPACK")
    factored = npar_matrix_factor(self%self) == 0
    if (.not. self%alone) call bx_region_leave()
  end subroutine factor

  !> Subtracts the unit matrix.
  subroutine subtract_unit(self)
    class(matrix_t), intent(inout) :: self
    integer :: i, row, column, rows
    row = merge(0, mod(self%rank, self%grid_rows), self%alone)
    column = merge(0, self%rank/self%grid_rows, self%alone)
    rows = owned(self, 1, self%n, row, self%grid_rows)
    do i = 1, self%n
      if (mod((i - 1)/self%block, self%grid_rows) /= row) cycle
      if (mod((i - 1)/self%block, self%grid_columns) /= column) cycle
      associate (diagonal => self%part(self%f*(rows*owned(self, 1, i - 1, column, &
                 self%grid_columns) + owned(self, 1, i - 1, row, self%grid_rows)) + 1))
        diagonal = diagonal - 1
      end associate
    end do
  end subroutine subtract_unit

  !> Traffic of summing all panels, and of gathering as many on every rank.
  pure type(traffic_t) function traffic_of_panels(self, emulated) result(traffic)
    class(matrix_t), intent(in) :: self
    logical, intent(in) :: emulated
    integer :: j
    if (self%alone) then
      traffic = traffic_of_sum(self%f*self%n**2, self%ranks, emulated)
      return
    end if
    do j = 1, self%panels ! a part goes from every rank to its owner, then from there to every rank
      traffic = traffic + traffic_of_exchange(spread(1, 1, self%ranks), self%counts(j), emulated)*2
    end do
  end function traffic_of_panels

end module npar_matrix
