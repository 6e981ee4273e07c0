! The least Fortran kernel, to test the harness's Fortran side: sums of rank numbers by mpi_f08, as
! a reduction or round a ring, with what is sent known in advance.
module fortran_kernel
  use, intrinsic :: iso_c_binding, only: c_double, c_f_pointer, c_funloc, c_int, c_int64_t, c_loc, &
    c_ptr, c_size_t
  use mpi_f08, only: MPI_Allreduce, MPI_Comm, MPI_Comm_rank, MPI_Comm_size, &
    MPI_DOUBLE_PRECISION, MPI_Sendrecv, MPI_STATUS_IGNORE, MPI_SUM
  use bx_harness, only: bx_check, bx_choice_t, bx_comm, bx_integer, bx_kernel_t, bx_lap, &
    bx_note, bx_ok, bx_option_t, bx_refuse, bx_region_enter, bx_region_leave, bx_text, bx_usage
  implicit none (type, external)
  private
  public :: this_kernel

  type :: state_t
    type(c_ptr) :: run
    type(MPI_Comm) :: comm
    integer :: rank, ranks
    real(c_double) :: total
  end type state_t

  type(state_t), target :: state
  type(bx_kernel_t), target :: kernel
  type(bx_choice_t), target :: cases(1), methods(2)
  type(bx_option_t), target :: options(1)
  type(c_ptr), target :: phases(1), ratios(1)
  integer(c_int64_t), target :: factor = 1

contains

  function this_kernel() result(address) bind(C, name="bx_this_kernel")
    type(c_ptr) :: address
    cases(1) = bx_choice_t(bx_text("sum"), bx_text("the sum of all rank numbers"))
    methods(1) = bx_choice_t(bx_text("allreduce"), bx_text("a reduction"), bx_text("always"))
    methods(2) = bx_choice_t(bx_text("ring"), bx_text("round a ring"), bx_text("never"))
    options(1) = bx_option_t(bx_text("factor"), bx_text("N"), bx_text("times N"), bx_integer, &
                             1.0_c_double, 10.0_c_double, c_loc(factor))
    phases(1) = bx_text("exchange")
    ratios(1) = bx_text("allreduce")
    kernel = bx_kernel_t(name=bx_text("fortran"), summary=bx_text("a test of the harness"), &
                         cases=c_loc(cases), case_count=1, methods=c_loc(methods), method_count=2, &
                         options=c_loc(options), option_count=1, &
                         phases=c_loc(phases), phase_count=1, &
                         ratios=c_loc(ratios), ratio_count=1, setup=c_funloc(setup), &
                         verify=c_funloc(verify), step=c_funloc(step), teardown=c_funloc(teardown))
    address = c_loc(kernel)
  end function this_kernel

  function setup(run, address) result(code) bind(C)
    type(c_ptr), value :: run
    type(c_ptr), intent(out) :: address
    integer(c_int) :: code
    state%run = run
    state%comm%MPI_VAL = bx_comm(run)
    call MPI_Comm_rank(state%comm, state%rank)
    call MPI_Comm_size(state%comm, state%ranks)
    address = c_loc(state)
    code = bx_ok
    if (factor == 7) code = bx_refuse(run, bx_usage, "--factor 7: unlucky; take another")
    call bx_note(run, "a note from Fortran")
  end function setup

  subroutine step(address, method, point) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    real(c_double) :: moving, arriving
    integer :: i
    call c_f_pointer(address, s)
    call bx_region_enter("sum")
    moving = real(s%rank*factor, c_double)
    if (method == 0) then
      call MPI_Allreduce(moving, s%total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, s%comm)
    else
      s%total = moving
      do i = 1, s%ranks - 1
        call MPI_Sendrecv(moving, 1, MPI_DOUBLE_PRECISION, modulo(s%rank + 1, s%ranks), 0, &
                          arriving, 1, MPI_DOUBLE_PRECISION, modulo(s%rank - 1, s%ranks), 0, &
                          s%comm, MPI_STATUS_IGNORE)
        s%total = s%total + arriving
        moving = arriving
      end do
    end if
    call bx_region_leave()
    call bx_lap(s%run, point) ! the one phase, number 0, as the one point is
  end subroutine step

  subroutine verify(address, method, point, verification) bind(C)
    type(c_ptr), value :: address, verification
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    call c_f_pointer(address, s)
    call step(address, method, point)
    call bx_check(verification, "sum", &
                  abs(s%total - 0.5_c_double*factor*s%ranks*(s%ranks - 1)), 0.0_c_double, "units")
  end subroutine verify

  subroutine teardown(address) bind(C)
    type(c_ptr), value :: address
    type(state_t), pointer :: s
    call c_f_pointer(address, s)
    s%total = 0
  end subroutine teardown

end module fortran_kernel
