! Your first kernel in Fortran: first_kernel.c once more, the sum of a vector over all ranks.
module reduce_kernel
  use, intrinsic :: iso_c_binding, only: c_double, c_f_pointer, c_funloc, c_int, c_int64_t, c_loc, &
    c_null_ptr, c_ptr, c_size_t
  use, intrinsic :: ieee_arithmetic, only: ieee_quiet_nan, ieee_value
  use mpi_f08, only: MPI_Allreduce, MPI_Comm, MPI_Comm_rank, MPI_Comm_size, MPI_DOUBLE_PRECISION, &
    MPI_Sendrecv, MPI_STATUS_IGNORE, MPI_SUM
  use bx_harness, only: bx_check, bx_choice_t, bx_claim_memory, bx_comm, bx_integer_option, &
    bx_kernel_t, bx_largest, bx_metric, bx_metric_value, bx_ok, bx_option_t, bx_refuse, bx_text, &
    bx_usage
  implicit none (type, external)
  private
  public :: this_kernel

  type :: state_t
    type(MPI_Comm) :: comm
    integer :: rank, ranks
    real(c_double), allocatable :: mine(:), moving(:), arriving(:), total(:)
  end type state_t

  ! What C keeps addresses of lives as long as the program.
  type(bx_kernel_t), target :: kernel
  type(bx_choice_t), target :: cases(1), methods(2)
  type(bx_option_t), target :: options(1)
  type(c_ptr), target :: ratios(1)
  integer(c_int64_t), target :: numbers = 1000 !< the command line's, with its default

contains

  function this_kernel() result(address) bind(C, name="bx_kernel_get")
    type(c_ptr) :: address
    cases(1) = bx_choice_t(bx_text("ranks"), bx_text("sums of rank numbers"))
    methods(1) = bx_choice_t(bx_text("allreduce"), bx_text("MPI_Allreduce"), &
                             bx_text("nearly always"), calls=bx_text("Allreduce"))
    methods(2) = bx_choice_t(bx_text("ring"), bx_text("all vectors round a ring"), &
                             bx_text("on two ranks, perhaps"), calls=bx_text("Sendrecv"))
    options(1) = bx_integer_option("numbers", "N", "length of the vector", 1.0_c_double, &
                                   1e6_c_double, numbers)
    ratios(1) = bx_text("allreduce")
    kernel = bx_kernel_t(name=bx_text("reduce"), &
                         summary=bx_text("the sum of a vector over all ranks"), &
                         cases=c_loc(cases), case_count=1, methods=c_loc(methods), method_count=2, &
                         setup=c_funloc(setup), verify=c_funloc(verify), step=c_funloc(step), &
                         options=c_loc(options), option_count=1, ratios=c_loc(ratios), &
                         ratio_count=1, metrics=c_funloc(metrics), teardown=c_funloc(teardown))
    address = c_loc(kernel)
  end function this_kernel

  function setup(run, address) result(code) bind(C)
    type(c_ptr), value :: run
    type(c_ptr), intent(out) :: address
    integer(c_int) :: code
    type(state_t), pointer :: s
    integer :: i
    address = c_null_ptr
    if (numbers == 13) then
      code = bx_refuse(run, bx_usage, "--numbers 13: unlucky; take another")
      return
    end if
    code = bx_claim_memory(run, 4*8*real(numbers, c_double), "--numbers")
    if (code /= bx_ok) return
    allocate (s)
    s%comm%MPI_VAL = bx_comm(run)
    call MPI_Comm_rank(s%comm, s%rank)
    call MPI_Comm_size(s%comm, s%ranks)
    s%mine = [(real(s%rank + i, c_double), i=0, int(numbers) - 1)]
    allocate (s%moving, s%arriving, s%total, mold=s%mine)
    address = c_loc(s)
  end function setup

  !> The timed work: `method` is 0 or 1, an index into the table of methods.
  subroutine step(address, method, point) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    integer :: hop
    call c_f_pointer(address, s)
    if (method == 0) then
      call MPI_Allreduce(s%mine, s%total, size(s%mine), MPI_DOUBLE_PRECISION, MPI_SUM, s%comm)
      return
    end if
    s%moving = s%mine
    s%total = s%mine
    do hop = 1, s%ranks - 1
      call MPI_Sendrecv(s%moving, size(s%mine), MPI_DOUBLE_PRECISION, modulo(s%rank + 1, s%ranks), &
                        0, s%arriving, size(s%mine), MPI_DOUBLE_PRECISION, &
                        modulo(s%rank - 1, s%ranks), 0, s%comm, MPI_STATUS_IGNORE)
      s%moving = s%arriving
      s%total = s%total + s%arriving
    end do
  end subroutine step

  !> Compares with the closed form, which no method uses.  Integers of doubles are exact.
  subroutine verify(address, method, point, verification) bind(C)
    type(c_ptr), value :: address, verification
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    integer :: i
    call c_f_pointer(address, s)
    s%total = ieee_value(s%total, ieee_quiet_nan) ! what no method has written fails
    call step(address, method, point)
    do i = 1, size(s%total)
      s%total(i) = s%total(i) - (0.5_c_double*(s%ranks - 1) + i - 1)*s%ranks
    end do
    call bx_check(verification, "sum", bx_largest(s%total), 0.0_c_double, "units")
  end subroutine verify

  subroutine metrics(address, method, point, list) bind(C)
    type(c_ptr), value :: address, list
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    call c_f_pointer(address, s)
    call bx_metric(list, "rate", size(s%mine)/bx_metric_value(list, "time"), "operations/s", &
                   "higher")
  end subroutine metrics

  subroutine teardown(address) bind(C)
    type(c_ptr), value :: address
    type(state_t), pointer :: s
    call c_f_pointer(address, s)
    deallocate (s)
  end subroutine teardown

end module reduce_kernel
