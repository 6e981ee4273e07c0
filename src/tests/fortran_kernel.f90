! The least Fortran kernel, to test the harness's Fortran side: sums of rank numbers by mpi_f08, as
! a reduction, round a ring, or through rank 0, with what is sent known in advance.
module fortran_kernel
  use, intrinsic :: iso_c_binding, only: c_double, c_f_pointer, c_funloc, c_int, c_int64_t, c_loc, &
    c_null_ptr, c_ptr, c_size_t
  use mpi_f08, only: MPI_Allreduce, MPI_Barrier, MPI_Bcast, MPI_Comm, MPI_Comm_rank, &
    MPI_Comm_size, MPI_DOUBLE_PRECISION, MPI_Recv, MPI_Sendrecv, MPI_Ssend, &
    MPI_STATUS_IGNORE, MPI_SUM
  use bx_harness, only: bx_case, bx_case_is, bx_check, bx_choice_t, bx_comm, bx_detail, &
    bx_integer, bx_kernel_t, bx_lap, bx_metric, bx_node_of, bx_note, bx_ok, &
    bx_option_t, bx_refuse, bx_region_enter, bx_region_leave, bx_region_read, bx_text, &
    bx_traffic_classes, bx_traffic_read, bx_traffic_t, bx_usage
  implicit none (type, external)
  private
  public :: this_kernel

  type :: state_t
    type(c_ptr) :: run
    type(MPI_Comm) :: comm
    integer :: rank, ranks
    logical :: verified = .false. !< a method is
    real(c_double) :: total
  end type state_t

  type(state_t), target :: state
  type(bx_kernel_t), target :: kernel
  type(bx_choice_t), target :: cases(1), methods(3)
  type(bx_option_t), target :: options(1)
  type(c_ptr), target :: phases(2), groups(2), ratios(2)
  integer(c_int64_t), target :: factor = 1

contains

  function this_kernel() result(address) bind(C, name="bx_kernel_get")
    type(c_ptr) :: address
    cases(1) = bx_choice_t(bx_text("sum"), bx_text("the sum of all rank numbers"))
    ! what is called inside the region is not listed
    methods(1) = bx_choice_t(bx_text("allreduce"), bx_text("a reduction"), bx_text("always"), &
                             calls=bx_text(""))
    methods(2) = bx_choice_t(bx_text("ring"), bx_text("round a ring"), bx_text("never"), &
                             family=bx_text("hand-made"), calls=bx_text(""))
    methods(3) = methods(2) ! until it is known how many ranks there are
    options(1) = bx_option_t(bx_text("factor"), bx_text("N"), bx_text("times N"), bx_integer, &
                             1.0_c_double, 10.0_c_double, c_loc(factor))
    phases = [bx_text("input"), bx_text("exchange")]
    groups = [bx_text("library"), bx_text("user")]
    ratios = [bx_text("allreduce"), bx_text("base=ring")]
    kernel = bx_kernel_t(name=bx_text("fortran"), summary=bx_text("a test of the harness"), &
                         cases=c_loc(cases), case_count=1, methods=c_loc(methods), method_count=3, &
                         options=c_loc(options), option_count=1, &
                         phases=c_loc(phases), phase_count=2, phase_groups=c_loc(groups), &
                         ratios=c_loc(ratios), ratio_count=2, arrange=c_funloc(arrange), &
                         setup=c_funloc(setup), verify=c_funloc(verify), step=c_funloc(step), &
                         report=c_funloc(report), metrics=c_funloc(metrics), &
                         teardown=c_funloc(teardown))
    address = c_loc(kernel)
  end function this_kernel

  subroutine arrange(ranks) bind(C)
    integer(c_int), value :: ranks
    character(16) :: name
    write (name, "(a, i0)") "root-", ranks
    methods(3)%name = bx_text(name)
    methods(3)%summary = bx_text("through rank 0")
  end subroutine arrange

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
    if (factor == 8) methods(2)%calls = c_null_ptr
    call bx_note(run, "a note from Fortran")
    if (factor > 1) call bx_case_is(run, "multiple")
  end function setup

  subroutine report(address, run, details) bind(C)
    type(c_ptr), value :: address, run, details
    type(state_t), pointer :: s
    call c_f_pointer(address, s)
    call bx_detail(details, "case", bx_case(run))
    call bx_detail(details, "nodes", real(maxval(bx_node_of(run, s%ranks)) + 1, c_double))
  end subroutine report

  subroutine metrics(address, method, point, list) bind(C)
    type(c_ptr), value :: address, list
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    call c_f_pointer(address, s)
    call bx_metric(list, "useful_share", real(method + point + 1, c_double)/s%ranks, "share", &
                   "higher")
  end subroutine metrics

  subroutine step(address, method, point) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    real(c_double) :: moving, arriving
    integer :: i
    call c_f_pointer(address, s)
    moving = real(s%rank*factor, c_double)
    s%total = moving
    call bx_lap(s%run, point) ! the first phase, number 0, as the one point is
    if (factor == 9 .and. method == 0 .and. s%verified) call MPI_Barrier(s%comm)
    call bx_region_enter("sum")
    select case (method)
    case (0)
      call MPI_Allreduce(moving, s%total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, s%comm)
    case (1)
      do i = 1, s%ranks - 1
        call MPI_Sendrecv(moving, 1, MPI_DOUBLE_PRECISION, modulo(s%rank + 1, s%ranks), 0, &
                          arriving, 1, MPI_DOUBLE_PRECISION, modulo(s%rank - 1, s%ranks), 0, &
                          s%comm, MPI_STATUS_IGNORE)
        s%total = s%total + arriving
        moving = arriving
      end do
    case default ! rank 0 calls other routines than the rest
      if (s%rank > 0) call MPI_Ssend(moving, 1, MPI_DOUBLE_PRECISION, 0, 0, s%comm)
      do i = 1, merge(s%ranks - 1, 0, s%rank == 0)
        call MPI_Recv(arriving, 1, MPI_DOUBLE_PRECISION, i, 0, s%comm, MPI_STATUS_IGNORE)
        s%total = s%total + arriving
      end do
      call MPI_Bcast(s%total, 1, MPI_DOUBLE_PRECISION, 0, s%comm)
    end select
    call bx_region_leave()
    call bx_lap(s%run, 1 + point)
  end subroutine step

  subroutine verify(address, method, point, verification) bind(C)
    type(c_ptr), value :: address, verification
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    type(bx_traffic_t), dimension(bx_traffic_classes) :: before, after, region_before, region_after
    call c_f_pointer(address, s)
    call bx_traffic_read(before)
    call bx_region_read("sum", region_before)
    call step(address, method, point)
    call bx_traffic_read(after)
    call bx_region_read("sum", region_after)
    call bx_check(verification, "sum", &
                  abs(s%total - 0.5_c_double*factor*s%ranks*(s%ranks - 1)), 0.0_c_double, "units")
    call bx_check(verification, "one call or more", &
                  merge(0.0_c_double, 1.0_c_double, sum(after%calls - before%calls) > 0), &
                  0.0_c_double, "missing")
    call bx_check(verification, "all within the region", &
                  sum(abs(after%calls - before%calls - region_after%calls + region_before%calls)) &
                  + sum(abs(after%bytes - before%bytes - region_after%bytes &
                            + region_before%bytes)), 0.0_c_double, "calls and bytes")
    s%verified = .true.
  end subroutine verify

  subroutine teardown(address) bind(C)
    type(c_ptr), value :: address
    type(state_t), pointer :: s
    call c_f_pointer(address, s)
    s%total = 0
  end subroutine teardown

end module fortran_kernel
