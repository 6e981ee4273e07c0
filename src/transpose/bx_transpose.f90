! The distributed 3D FFT of the transpose library for Fortran: a team's plan over any columns of a
! grid, with any of its exchange methods.  transform.h and plan.h say what each does.
module bx_transpose
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_double, c_double_complex, &
    c_f_pointer, c_int, c_null_char, c_null_ptr, c_ptr
  use bx_harness, only: bx_string_at
  use mpi_f08, only: MPI_Comm
  implicit none (type, external)
  private
  public :: bx_fft_t, bx_exchange_t, bx_make_fft, bx_free_fft, bx_make_exchange, bx_free_exchange
  public :: bx_columns, bx_planes, bx_transform, bx_apply
  public :: bx_transpose_calls, bx_transpose_methods, bx_transpose_number, bx_fft_bytes, bx_counts

  integer(c_int), parameter, public :: bx_way_forward = 0, bx_way_inverse = 1

  !> A team's grid and fields.
  type :: bx_fft_t
    type(c_ptr) :: geometry = c_null_ptr, plan = c_null_ptr
    integer :: grid(3) = 0, columns = 0, planes = 0
    integer :: first_plane = 0 !< counted from 0
  end type bx_fft_t

  !> An exchange method made ready for a plan.
  type, bind(C) :: bx_exchange_t
    type(c_ptr) :: handle = c_null_ptr
  end type bx_exchange_t

  interface
    type(c_ptr) function c_geometry(grid, columns, xy, owner, ranks, node_of) &
      bind(C, name="bxf_geometry")
      import :: c_int, c_ptr
      implicit none (type, external)
      integer(c_int), intent(in) :: grid(3), xy(*), owner(*), node_of(*)
      integer(c_int), value :: columns, ranks
    end function c_geometry

    subroutine c_geometry_free(geometry) bind(C, name="bx_geometry_free")
      import :: c_ptr
      implicit none (type, external)
      type(c_ptr), value :: geometry
    end subroutine c_geometry_free

    type(c_ptr) function c_plan(run, team, geometry, bands, planner) bind(C, name="bxf_plan")
      import :: c_char, c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run, geometry
      integer(c_int), value :: team, bands
      character(kind=c_char), intent(in) :: planner(*)
    end function c_plan

    subroutine c_plan_free(plan) bind(C, name="bx_plan_free")
      import :: c_ptr
      implicit none (type, external)
      type(c_ptr), value :: plan
    end subroutine c_plan_free

    subroutine c_shape(plan, shape) bind(C, name="bxf_shape")
      import :: c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: plan
      integer(c_int), intent(out) :: shape(6)
    end subroutine c_shape

    type(c_ptr) function c_columns(plan, band) bind(C, name="bx_plan_columns")
      import :: c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: plan
      integer(c_int), value :: band
    end function c_columns

    type(c_ptr) function c_planes(plan, way, slot) bind(C, name="bx_plan_planes")
      import :: c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: plan
      integer(c_int), value :: way, slot
    end function c_planes

    !> Bytes of the fields of a rank with so many columns, planes, bands and threads, without the
    !> methods' buffers.
    real(c_double) function bx_fft_bytes(grid, columns, planes, bands, threads) &
      bind(C, name="bx_plan_field_bytes")
      import :: c_double, c_int
      implicit none (type, external)
      integer(c_int), intent(in) :: grid(3)
      integer(c_int), value :: columns, planes, bands, threads
    end function bx_fft_bytes

    integer(c_int) function c_method_count() bind(C, name="bxf_method_count")
      import :: c_int
      implicit none (type, external)
    end function c_method_count

    type(c_ptr) function c_method_name(number) bind(C, name="bxf_method_name")
      import :: c_int, c_ptr
      implicit none (type, external)
      integer(c_int), value :: number
    end function c_method_name

    type(c_ptr) function c_method_calls(number) bind(C, name="bxf_method_calls")
      import :: c_int, c_ptr
      implicit none (type, external)
      integer(c_int), value :: number
    end function c_method_calls

    type(c_ptr) function c_exchange(plan, number) bind(C, name="bxf_exchange")
      import :: c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: plan
      integer(c_int), value :: number
    end function c_exchange

    type(c_ptr) function c_exchange_why() bind(C, name="bxf_exchange_why")
      import :: c_ptr
      implicit none (type, external)
    end function c_exchange_why

    subroutine c_exchange_free(exchange) bind(C, name="bx_exchange_free")
      import :: c_ptr
      implicit none (type, external)
      type(c_ptr), value :: exchange
    end subroutine c_exchange_free

    !> Forward: transforms a band's columns to the planes of a slot, the sum over G of
    !> c(G) exp(-i G r).  Inverse: back, times the number of points; the planes are then undefined.
    !> Collective over the team.
    subroutine bx_transform(exchange, way, band, slot) bind(C, name="bxf_transform")
      import :: bx_exchange_t, c_int
      implicit none (type, external)
      type(bx_exchange_t), value :: exchange
      integer(c_int), value :: way, band, slot
    end subroutine bx_transform

    !> Applies a local operator: transforms bands 0..count-1 forward, multiplies by the real field
    !> (nx, ny, my planes), transforms back, times the number of points.  Collective over the team.
    subroutine bx_apply(exchange, count, field) bind(C, name="bxf_apply")
      import :: bx_exchange_t, c_double, c_int
      implicit none (type, external)
      type(bx_exchange_t), value :: exchange
      integer(c_int), value :: count
      real(c_double), intent(in) :: field(*)
    end subroutine bx_apply

    subroutine c_counts(geometry, number, way, messages, bytes) bind(C, name="bxf_counts")
      import :: c_double, c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: geometry
      integer(c_int), value :: number, way
      real(c_double), intent(out) :: messages, bytes
    end subroutine c_counts
  end interface

contains

  !> Makes the fields and FFTs of `bands` bands for a team of ranks.  xy(columns), y * nx + x, are
  !> the columns of all its ranks, owner(columns) the rank of each, from 0, node_of(ranks) the node
  !> of each rank.  Collective over the team.
  function bx_make_fft(run, team, grid, xy, owner, node_of, bands, planner) result(fft)
    type(c_ptr), intent(in) :: run
    type(MPI_Comm), intent(in) :: team
    integer, intent(in) :: grid(3), bands
    integer(c_int), intent(in) :: xy(:), owner(:), node_of(:)
    character(*), intent(in) :: planner !< estimate, measure or patient
    type(bx_fft_t) :: fft
    integer(c_int) :: shape(6)
    fft%geometry = c_geometry(int(grid, c_int), size(xy, kind=c_int), xy, owner, &
                              size(node_of, kind=c_int), node_of)
    fft%plan = c_plan(run, int(team%MPI_VAL, c_int), fft%geometry, int(bands, c_int), &
                      planner//c_null_char)
    call c_shape(fft%plan, shape)
    fft%grid = int(shape(1:3))
    fft%columns = int(shape(4))
    fft%planes = int(shape(5))
    fft%first_plane = int(shape(6))
  end function bx_make_fft

  !> Collective over the team.
  subroutine bx_free_fft(fft)
    type(bx_fft_t), intent(inout) :: fft
    if (.not. c_associated(fft%plan)) return
    call c_plan_free(fft%plan)
    call c_geometry_free(fft%geometry)
    fft = bx_fft_t()
  end subroutine bx_free_fft

  !> Makes the buffers of a method, by its name.  `why` is "", or the reason why it is not
  !> applicable or a window cannot be had; there is no exchange then.  Collective over the world.
  function bx_make_exchange(fft, name, why) result(exchange)
    type(bx_fft_t), intent(in) :: fft
    character(*), intent(in) :: name
    character(:), allocatable, intent(out) :: why
    type(bx_exchange_t) :: exchange
    integer :: number
    number = bx_transpose_number(name)
    if (number < 0) error stop "no such exchange method"
    exchange%handle = c_exchange(fft%plan, int(number, c_int))
    why = ""
    if (.not. c_associated(exchange%handle)) why = bx_string_at(c_exchange_why())
  end function bx_make_exchange

  !> Collective over the team.
  subroutine bx_free_exchange(exchange)
    type(bx_exchange_t), intent(inout) :: exchange
    call c_exchange_free(exchange%handle)
    exchange%handle = c_null_ptr
  end subroutine bx_free_exchange

  !> Columns of a band (from 0) on this rank: (0:nz-1, my columns), ascending in y * nx + x.
  function bx_columns(fft, band) result(field)
    type(bx_fft_t), intent(in) :: fft
    integer, intent(in) :: band
    complex(c_double_complex), pointer, contiguous :: field(:, :)
    complex(c_double_complex), pointer, contiguous :: flat(:)
    call c_f_pointer(c_columns(fft%plan, int(band, c_int)), flat, [fft%grid(3)*fft%columns])
    field(0:fft%grid(3) - 1, 1:fft%columns) => flat
  end function bx_columns

  !> Planes in a slot (from 0) on this rank: (nx, ny, my planes).
  function bx_planes(fft, slot) result(field)
    type(bx_fft_t), intent(in) :: fft
    integer, intent(in) :: slot
    complex(c_double_complex), pointer, contiguous :: field(:, :, :)
    call c_f_pointer(c_planes(fft%plan, bx_way_forward, int(slot, c_int)), field, &
                     [fft%grid(1:2), fft%planes])
  end function bx_planes

  !> Names of all exchange methods.
  function bx_transpose_methods() result(names)
    character(16), allocatable :: names(:)
    integer :: i
    allocate (names(c_method_count()))
    do i = 1, size(names)
      names(i) = bx_string_at(c_method_name(int(i - 1, c_int)))
    end do
  end function bx_transpose_methods

  !> The routines of MPI that transforms by a method call, as bx_choice_t has them; one way alone
  !> orders shared memory too.
  function bx_transpose_calls(name) result(calls)
    character(*), intent(in) :: name
    character(:), allocatable :: calls
    calls = bx_string_at(c_method_calls(int(bx_transpose_number(name), c_int)))//" Win_sync Barrier"
  end function bx_transpose_calls

  !> Number of a method, from 0; -1 of an unknown name.
  function bx_transpose_number(name) result(number)
    character(*), intent(in) :: name
    integer :: number
    number = findloc(bx_transpose_methods() == name, .true., 1) - 1
  end function bx_transpose_number

  !> Messages and bytes that one exchange of a method sends, all ranks of the team together.
  subroutine bx_counts(fft, name, way, messages, bytes)
    type(bx_fft_t), intent(in) :: fft
    character(*), intent(in) :: name
    integer(c_int), intent(in) :: way
    real(c_double), intent(out) :: messages, bytes
    call c_counts(fft%geometry, int(bx_transpose_number(name), c_int), way, messages, bytes)
  end subroutine bx_counts

end module bx_transpose
