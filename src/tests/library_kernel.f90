! The transpose library as other kernels call it from Fortran, against a dense serial FFT: columns
! of any shape on any ranks, and local operators with a field that has no symmetry.
module library_kernel
  use, intrinsic :: iso_c_binding, only: c_bool, c_char, c_double, c_double_complex, &
    c_f_pointer, c_funloc, c_int, c_int64_t, c_loc, c_ptr, c_size_t
  use mpi_f08, only: MPI_Allreduce, MPI_Barrier, MPI_Comm, MPI_Comm_free, MPI_Comm_rank, &
    MPI_Comm_size, MPI_Comm_split, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, MPI_SUM
  use bx_fftw, only: fftw_execute_dft
  use bx_harness, only: bx_check, bx_choice_t, bx_comm, bx_kernel_t, bx_node_of, bx_ok, bx_text, &
    bx_traffic_classes, bx_traffic_read, bx_traffic_t, bx_without
  use bx_transpose, only: bx_apply, bx_columns, bx_counts, bx_exchange_t, bx_fft_t, &
    bx_free_exchange, bx_free_fft, bx_make_exchange, bx_make_fft, &
    bx_planes, bx_transform, bx_transpose_calls, bx_transpose_methods, bx_way_forward, &
    bx_way_inverse
  implicit none (type, external)
  private
  public :: this_kernel

  integer, parameter :: dp = c_double, bands = 5, applied = 4 !< the last is to be left alone
  integer, parameter :: layouts = 6
  character(*), parameter :: names(layouts) = [character(12) :: "ends", "middle", "comb", &
                                               "one owner", "teams", "no column"]
  integer, parameter :: grids(3, layouts) = reshape( &
    [14, 9, 10, 9, 10, 7, 12, 6, 5, 40, 36, 24, 10, 8, 9, 6, 5, 4], [3, layouts])

  !> One layout: its columns, whose they are, and a real field of the whole grid.
  type :: layout_t
    type(bx_fft_t) :: fft
    type(MPI_Comm) :: team
    integer :: rank = 0, n(3) = 0
    integer(c_int), allocatable :: xy(:), owner(:), mine(:)
    real(dp), allocatable :: field(:, :, :)
  end type layout_t

  type :: state_t
    type(c_ptr) :: run
    type(MPI_Comm) :: comm
    type(layout_t) :: layout(layouts)
    type(bx_exchange_t) :: timed !< of the first layout, for `step`
    integer :: method = -1 !< whose `timed` is
  end type state_t

  type(state_t), target :: state
  type(bx_kernel_t), target :: kernel
  type(bx_choice_t), target :: cases(1)
  type(bx_choice_t), allocatable, target :: methods(:)
  type(c_ptr), target :: phases(5)

  interface
    function fftw_plan_dft_3d(n0, n1, n2, in, out, sign, flags) result(plan) bind(C)
      import :: c_double_complex, c_int, c_ptr
      implicit none (type, external)
      integer(c_int), value :: n0, n1, n2, sign, flags
      complex(c_double_complex), intent(inout) :: in(*), out(*)
      type(c_ptr) :: plan
    end function fftw_plan_dft_3d

    subroutine fftw_destroy_plan(plan) bind(C)
      import :: c_ptr
      implicit none (type, external)
      type(c_ptr), value :: plan
    end subroutine fftw_destroy_plan
  end interface

contains

  function this_kernel() result(address) bind(C, name="bx_kernel_get")
    type(c_ptr) :: address
    character(16), allocatable :: all(:)
    integer :: i
    allocate (all, source=bx_transpose_methods())
    if (.not. allocated(methods)) allocate (methods(size(all)))
    do i = 1, size(all)
      methods(i) = bx_choice_t(bx_text(all(i)), bx_text("an exchange"), bx_text("sometimes"), &
                               calls=bx_text(bx_transpose_calls(all(i))))
    end do
    cases(1) = bx_choice_t(bx_text("columns"), bx_text("columns of any shape on any ranks"))
    phases = [bx_text("fft1d"), bx_text("pack"), bx_text("exchange"), bx_text("unpack"), &
              bx_text("fft2d")]
    kernel = bx_kernel_t(name=bx_text("library"), summary=bx_text("a test of the library"), &
                         cases=c_loc(cases), case_count=1, methods=c_loc(methods), &
                         method_count=size(all, kind=c_size_t), phases=c_loc(phases), &
                         phase_count=5, setup=c_funloc(setup), &
                         applicable=c_funloc(applicable), verify=c_funloc(verify), &
                         begin=c_funloc(begin), step=c_funloc(step), &
                         teardown=c_funloc(teardown))
    address = c_loc(kernel)
  end function this_kernel

  !> In [-1, 1), without symmetry, the same on every rank.  Of integers: compilers fuse sums and
  !> products of reals in some calls and not in others, so that bits differ.
  elemental function random(i, j) result(value)
    integer, intent(in) :: i, j
    real(dp) :: value
    integer(c_int64_t), parameter :: prime = 65537
    integer(c_int64_t) :: k
    k = modulo(7919_c_int64_t*i + 104729_c_int64_t*j, prime)
    value = 2*(real(modulo(k*k*k, prime), dp)/prime) - 1
  end function random

  pure function has_column(layout, n, x, y) result(has)
    integer, intent(in) :: layout, n(3), x, y
    logical :: has
    select case (names(layout))
    case ("ends") ! of unequal lengths, with holes
      has = (x <= 3 .or. x >= n(1) - 2) .and. random(x, y) > -0.6_dp
    case ("middle")
      has = x >= 3 .and. x <= 6 .and. random(x, y) > -0.6_dp
    case ("comb") ! more runs than are told apart
      has = modulo(x, 2) == 1
    case ("one owner")
      has = x /= 11
    case ("teams")
      has = x + y <= 7
    case default
      has = .false.
    end select
  end function has_column

  !> Scattered; the first of several ranks has none.
  pure function owner_of(layout, ranks, xy) result(owner)
    integer, intent(in) :: layout, ranks, xy
    integer :: owner
    owner = ranks - 1
    if (names(layout) /= "one owner" .and. ranks > 1) owner = 1 + modulo(7*xy + xy/3, ranks - 1)
  end function owner_of

  subroutine make(s, i)
    type(state_t), intent(inout) :: s
    integer, intent(in) :: i
    integer(c_int), allocatable :: node_of(:)
    integer :: x, y, z, ranks, world_ranks, world_rank, teams
    associate (l => s%layout(i))
      call MPI_Comm_rank(s%comm, world_rank)
      call MPI_Comm_size(s%comm, world_ranks)
      teams = merge(min(2, world_ranks), 1, names(i) == "teams")
      call MPI_Comm_split(s%comm, modulo(world_rank, teams), world_rank, l%team)
      call MPI_Comm_rank(l%team, l%rank)
      call MPI_Comm_size(l%team, ranks)
      associate (nodes => bx_node_of(s%run, world_ranks))
        node_of = nodes(1 + modulo(world_rank, teams)::teams)
      end associate
      l%n = grids(:, i)
      allocate (l%xy(0), l%owner(0))
      do x = l%n(1) - 1, 0, -1 ! in no order that the library keeps
        do y = 0, l%n(2) - 1
          if (.not. has_column(i, l%n, x, y)) cycle
          l%xy = [l%xy, int(y*l%n(1) + x, c_int)]
          l%owner = [l%owner, int(owner_of(i, ranks, y*l%n(1) + x), c_int)]
        end do
      end do
      l%mine = ascending(pack(l%xy, l%owner == l%rank))
      allocate (l%field(l%n(1), l%n(2), l%n(3)))
      do z = 1, l%n(3)
        do y = 1, l%n(2)
          do x = 1, l%n(1)
            l%field(x, y, z) = random(x + 100*y, z + i)
          end do
        end do
      end do
      l%fft = bx_make_fft(s%run, l%team, l%n, l%xy, l%owner, node_of, bands, "estimate")
    end associate
  end subroutine make

  pure function ascending(values) result(sorted)
    integer(c_int), intent(in) :: values(:)
    integer(c_int), allocatable :: sorted(:)
    integer :: i
    sorted = values
    do i = 1, size(values)
      sorted(1 + count(values < values(i))) = values(i)
    end do
  end function ascending

  function setup(run, address) result(code) bind(C)
    type(c_ptr), value :: run
    type(c_ptr), intent(out) :: address
    integer(c_int) :: code
    integer :: i
    state%run = run
    state%comm%MPI_VAL = bx_comm(run)
    do i = 1, layouts
      call make(state, i)
    end do
    address = c_loc(state)
    code = bx_ok
  end function setup

  function name_of(method) result(name)
    integer(c_size_t), intent(in) :: method
    character(:), allocatable :: name
    character(16), allocatable :: all(:)
    allocate (all, source=bx_transpose_methods())
    name = trim(all(method + 1))
  end function name_of

  !> Element z of the column xy of a band.
  elemental function coefficient(band, xy, z) result(c)
    integer, intent(in) :: band, xy, z
    complex(dp) :: c
    c = cmplx(random(xy + 1000*band, z), random(z, xy + 1000*band), dp)
  end function coefficient

  subroutine fill(l, band)
    type(layout_t), intent(in) :: l
    integer, intent(in) :: band
    complex(c_double_complex), pointer, contiguous :: columns(:, :)
    integer :: i, z
    columns => bx_columns(l%fft, band)
    do i = 1, l%fft%columns
      columns(:, i) = coefficient(band, int(l%mine(i)), [(z, z=0, l%n(3) - 1)])
    end do
  end subroutine fill

  !> The dense transform of a band.
  subroutine dense_forward(l, band, grid)
    type(layout_t), intent(in) :: l
    integer, intent(in) :: band
    complex(c_double_complex), intent(out), contiguous :: grid(:, :, :)
    integer :: i, z
    grid = 0
    do i = 1, size(l%xy)
      grid(modulo(l%xy(i), l%n(1)) + 1, l%xy(i)/l%n(1) + 1, :) = &
        coefficient(band, int(l%xy(i)), [(z, z=0, l%n(3) - 1)])
    end do
    call dense(grid, -1)
  end subroutine dense_forward

  subroutine dense(grid, sign)
    complex(c_double_complex), intent(inout), contiguous :: grid(:, :, :)
    integer, intent(in) :: sign
    type(c_ptr) :: plan
    integer(c_int), parameter :: estimate = 64
    plan = fftw_plan_dft_3d(size(grid, 3, c_int), size(grid, 2, c_int), size(grid, 1, c_int), &
                            grid, grid, int(sign, c_int), estimate)
    call fftw_execute_dft(plan, grid, grid)
    call fftw_destroy_plan(plan)
  end subroutine dense

  !> Largest difference of my columns of a band from the dense grid's.
  function column_error(l, band, grid) result(error)
    type(layout_t), intent(in) :: l
    integer, intent(in) :: band
    complex(c_double_complex), intent(in) :: grid(:, :, :)
    real(dp) :: error
    complex(c_double_complex), pointer, contiguous :: columns(:, :)
    integer :: i
    error = 0
    columns => bx_columns(l%fft, band)
    do i = 1, l%fft%columns
      call worsen(error, columns(:, i) - grid(modulo(l%mine(i), l%n(1)) + 1, &
                                              l%mine(i)/l%n(1) + 1, :))
    end do
  end function column_error

  !> error = the largest of it and of |differences|; a NaN is infinite.
  pure subroutine worsen(error, differences)
    real(dp), intent(inout) :: error
    complex(dp), intent(in) :: differences(:)
    if (.not. all(squares(differences) <= huge(error))) error = huge(error)
    if (size(differences) > 0) error = max(error, sqrt(maxval(squares(differences))))
  end subroutine worsen

  !> abs(number)**2, in a fraction of the time of abs.
  elemental function squares(number) result(square)
    complex(dp), intent(in) :: number
    real(dp) :: square
    square = real(number)**2 + aimag(number)**2
  end function squares

  !> False where the library was built without what the method needs.
  logical(c_bool) function applicable(address, method, why, why_size) result(can) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, why_size
    character(kind=c_char), intent(inout) :: why(why_size)
    type(state_t), pointer :: s
    type(bx_exchange_t) :: exchange
    character(:), allocatable :: reason
    call c_f_pointer(address, s)
    exchange = bx_make_exchange(s%layout(1)%fft, name_of(method), reason)
    call bx_free_exchange(exchange)
    can = bx_without(reason, why)
  end function applicable

  subroutine verify(address, method, point, verification) bind(C)
    type(c_ptr), value :: address, verification
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    type(bx_exchange_t) :: exchange
    character(:), allocatable :: why
    integer :: i
    call c_f_pointer(address, s)
    if (point /= 0) return ! there is one
    do i = 1, layouts
      exchange = bx_make_exchange(s%layout(i)%fft, name_of(method), why)
      if (why /= "") error stop why
      call verify_operator(s%layout(i), exchange, trim(names(i)), verification)
      call verify_transforms(s%layout(i), exchange, name_of(method), trim(names(i)), verification)
      call MPI_Barrier(s%layout(i)%team)
      call bx_free_exchange(exchange)
    end do
  end subroutine verify

  !> Rounding errors relative to the largest element of what is expected; two transforms.
  pure function rounding(grid) result(tolerance)
    complex(dp), intent(in) :: grid(:, :, :)
    real(dp) :: tolerance
    tolerance = 8*epsilon(1.0_dp)*(1 + log(real(size(grid), dp))/log(2.0_dp)) &
                *sqrt(maxval(squares(grid)))
  end function rounding

  !> All bands but the last, and at once an inverse: ranks without columns are there long before
  !> the others have read theirs.
  subroutine verify_operator(l, exchange, name, verification)
    type(layout_t), intent(in) :: l
    type(bx_exchange_t), intent(in) :: exchange
    character(*), intent(in) :: name
    type(c_ptr), intent(in) :: verification
    complex(c_double_complex), pointer, contiguous :: planes(:, :, :)
    complex(c_double_complex), allocatable :: grid(:, :, :)
    real(dp) :: error, tolerance
    integer :: band
    allocate (grid(l%n(1), l%n(2), l%n(3)))
    do band = 0, bands - 1
      call fill(l, band)
    end do
    planes => bx_planes(l%fft, 0)
    call bx_apply(exchange, applied, &
                  l%field(:, :, l%fft%first_plane + 1:l%fft%first_plane + l%fft%planes))
    planes = 1
    call bx_transform(exchange, bx_way_inverse, bands - 1, 0)
    grid = 0
    grid(1, 1, 1) = product(l%n)
    error = column_error(l, bands - 1, grid)/product(l%n)
    tolerance = 0
    do band = 0, applied - 1
      call dense_forward(l, band, grid)
      grid = l%field*grid
      call dense(grid, 1)
      tolerance = rounding(grid)
      if (tolerance > 0) error = max(error, column_error(l, band, grid)/tolerance)
    end do
    call bx_check(verification, name//": operator", error, 1.0_dp, "of rounding")
  end subroutine verify_operator

  !> Forward and back, counted; what an operator does not reach stays as it is.
  subroutine verify_transforms(l, exchange, method, name, verification)
    type(layout_t), intent(in) :: l
    type(bx_exchange_t), intent(in) :: exchange
    character(*), intent(in) :: method, name
    type(c_ptr), intent(in) :: verification
    complex(c_double_complex), pointer, contiguous :: planes(:, :, :)
    complex(c_double_complex), allocatable :: grid(:, :, :)
    real(dp) :: error, miscounted, before(2)
    integer :: band, z
    allocate (grid(l%n(1), l%n(2), l%n(3)))
    error = 0
    miscounted = 0
    planes => bx_planes(l%fft, 0)
    do band = 0, 1
      call fill(l, band)
      call fill(l, bands - 1)
      call bx_apply(exchange, band, & ! of bands 0 and then 1
                    l%field(:, :, l%fft%first_plane + 1:l%fft%first_plane + l%fft%planes))
      call fill(l, band)
      before = sent()
      call bx_transform(exchange, bx_way_forward, band, 0)
      call count_wrong(l, method, bx_way_forward, before, miscounted)
      call dense_forward(l, band, grid)
      do z = 1, l%fft%planes
        call worsen(error, reshape(planes(:, :, z) - grid(:, :, l%fft%first_plane + z), &
                                   [l%n(1)*l%n(2)])/max(rounding(grid), tiny(error)))
      end do
      before = sent()
      call bx_transform(exchange, bx_way_inverse, band, 0)
      call count_wrong(l, method, bx_way_inverse, before, miscounted)
      call dense(grid, 1)
      error = max(error, column_error(l, band, grid)/max(rounding(grid), tiny(error)))
      error = max(error, untouched_error(l))
    end do
    call bx_check(verification, name//": transforms", error, 1.0_dp, "of rounding")
    call bx_check(verification, name//": counts", miscounted, 0.0_dp, "messages or bytes")
  end subroutine verify_transforms

  !> Not a bit of the last band may change.
  function untouched_error(l) result(error)
    type(layout_t), intent(in) :: l
    real(dp) :: error
    complex(c_double_complex), pointer, contiguous :: columns(:, :)
    integer :: i, z
    error = 0
    columns => bx_columns(l%fft, bands - 1)
    do i = 1, l%fft%columns
      if (any(abs(columns(:, i) - coefficient(bands - 1, int(l%mine(i)), &
                                              [(z, z=0, l%n(3) - 1)])) > 0)) error = huge(error)
    end do
  end function untouched_error

  !> Messages and bytes of this rank so far.
  function sent() result(total)
    real(dp) :: total(2)
    type(bx_traffic_t) :: traffic(bx_traffic_classes)
    call bx_traffic_read(traffic)
    total = [sum(traffic%messages), sum(traffic%bytes)]
  end function sent

  subroutine count_wrong(l, method, way, before, miscounted)
    type(layout_t), intent(in) :: l
    character(*), intent(in) :: method
    integer(c_int), intent(in) :: way
    real(dp), intent(in) :: before(2)
    real(dp), intent(inout) :: miscounted
    real(dp) :: now(2), planned(2)
    now = sent() - before
    call MPI_Allreduce(MPI_IN_PLACE, now, 2, MPI_DOUBLE_PRECISION, MPI_SUM, l%team)
    call bx_counts(l%fft, method, way, planned(1), planned(2))
    miscounted = max(miscounted, maxval(abs(now - planned)))
  end subroutine count_wrong

  subroutine begin(address, method, point) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    character(:), allocatable :: why
    integer :: band
    call c_f_pointer(address, s)
    if (s%method /= int(method)) then
      call bx_free_exchange(s%timed)
      s%timed = bx_make_exchange(s%layout(1)%fft, name_of(method), why)
      s%method = int(method)
    end if
    do band = 0, bands - 1
      call fill(s%layout(1), band + int(point))
    end do
  end subroutine begin

  subroutine step(address, method, point) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    call c_f_pointer(address, s)
    if (int(method) /= s%method .or. point /= 0) error stop "begin has not been called"
    associate (l => s%layout(1))
      call bx_apply(s%timed, bands, &
                    l%field(:, :, l%fft%first_plane + 1:l%fft%first_plane + l%fft%planes))
    end associate
  end subroutine step

  subroutine teardown(address) bind(C)
    type(c_ptr), value :: address
    type(state_t), pointer :: s
    integer :: i
    call c_f_pointer(address, s)
    call bx_free_exchange(s%timed)
    do i = 1, layouts
      call bx_free_fft(s%layout(i)%fft)
      call MPI_Comm_free(s%layout(i)%team)
    end do
  end subroutine teardown

end module library_kernel
