! bx.h as C declares it: constants, types, and C's functions.  Kernels use module bx_harness, which
! takes Fortran's texts and logicals where functions here take C's (c_...).
module bx_interface
  use, intrinsic :: iso_c_binding, only: c_bool, c_char, c_double, c_funptr, c_int, c_int64_t, &
    c_null_funptr, c_null_ptr, c_ptr, c_size_t
  implicit none (type, external)
  private

  public :: bx_choice_t, bx_option_t, bx_kernel_t, bx_traffic_t
  public :: bx_comm, bx_node_comm, bx_block_steps, bx_traffic_read, bx_node_count, bx_threads, &
    bx_seed, bx_agree, bx_lap, bx_uniform, bx_memory_used, bx_region_leave
  public :: c_node_of, c_case, c_case_given, c_case_is, c_metric, c_metric_value, c_passed, &
    c_strlen, c_library, c_detail_number, c_detail_text, c_region_read, c_selected, c_refuse, &
    c_claim_memory, c_claim_time, c_claim_file, c_file_open, c_file_put, c_file_close, c_check, &
    c_note, c_region_enter

  integer(c_int), parameter, public :: bx_ok = 0, bx_wrong = 1, bx_usage = 2, bx_resources = 3
  integer(c_int), parameter, public :: bx_file_read = 0, bx_file_written = 1, bx_file_updated = 2
  integer(c_int), parameter, public :: bx_flag = 0, bx_integer = 1, bx_real = 2, &
    bx_string = 3, bx_grid = 4

  !> A case or a method, as bx.h's bx_choice.
  type, bind(C) :: bx_choice_t
    type(c_ptr) :: name = c_null_ptr, summary = c_null_ptr, wins = c_null_ptr
    logical(c_bool) :: baseline = .false._c_bool
    type(c_ptr) :: family = c_null_ptr
  end type bx_choice_t

  !> What one rank has sent in one class of MPI calls, as bx.h's bx_traffic.
  type, bind(C) :: bx_traffic_t
    real(c_double) :: calls, messages, off_node_messages, bytes, off_node_bytes, seconds, waiting
  end type bx_traffic_t
  integer, parameter, public :: bx_traffic_classes = 4 !< p2p, collective, barrier, one-sided

  !> A long option; `value` is the address of a logical(c_bool), integer(c_int64_t),
  !> real(c_double), type(c_ptr) or integer(c_int64_t)(3), as its type says.
  type, bind(C) :: bx_option_t
    type(c_ptr) :: name = c_null_ptr, metavar = c_null_ptr, help = c_null_ptr
    integer(c_int) :: type = bx_flag
    real(c_double) :: low = 0, high = 0
    type(c_ptr) :: value = c_null_ptr
  end type bx_option_t

  !> See bx.h, whose members these are, in its order; tests compare the two.
  type, bind(C) :: bx_kernel_t
    type(c_ptr) :: name = c_null_ptr, summary = c_null_ptr
    type(c_ptr) :: cases = c_null_ptr
    integer(c_size_t) :: case_count = 0
    type(c_ptr) :: methods = c_null_ptr
    integer(c_size_t) :: method_count = 0
    type(c_funptr) :: setup = c_null_funptr, verify = c_null_funptr, step = c_null_funptr
    type(c_ptr) :: options = c_null_ptr
    integer(c_size_t) :: option_count = 0
    type(c_ptr) :: phases = c_null_ptr
    integer(c_size_t) :: phase_count = 0
    type(c_ptr) :: phase_groups = c_null_ptr
    type(c_ptr) :: ratios = c_null_ptr
    integer(c_size_t) :: ratio_count = 0
    type(c_ptr) :: baselines = c_null_ptr, apart = c_null_ptr, sampling = c_null_ptr
    type(c_funptr) :: arrange = c_null_funptr, applicable = c_null_funptr
    type(c_funptr) :: comparable = c_null_funptr
    type(c_funptr) :: point_count = c_null_funptr, point = c_null_funptr, measured = c_null_funptr
    type(c_funptr) :: begin = c_null_funptr, prepare = c_null_funptr
    type(c_funptr) :: inspect = c_null_funptr, end = c_null_funptr
    type(c_funptr) :: items = c_null_funptr, metrics = c_null_funptr
    type(c_funptr) :: report = c_null_funptr, teardown = c_null_funptr
  end type bx_kernel_t

  interface
    !> Fortran handle of the kernel's communicator, for MPI_Comm%MPI_VAL.
    function bx_comm(run) result(comm) bind(C, name="bx_run_comm_f")
      import :: c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      integer(c_int) :: comm
    end function bx_comm

    !> Fortran handle of the communicator of this rank's node.  Local.
    function bx_node_comm(run) result(comm) bind(C, name="bx_run_node_comm_f")
      import :: c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      integer(c_int) :: comm
    end function bx_node_comm

    function c_node_of(run) result(nodes) bind(C, name="bx_run_node_of")
      import :: c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      type(c_ptr) :: nodes
    end function c_node_of

    function c_case(run) result(name) bind(C, name="bx_run_case")
      import :: c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      type(c_ptr) :: name
    end function c_case

    function c_case_given(run) result(given) bind(C, name="bx_run_case_is_given")
      import :: c_bool, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      logical(c_bool) :: given
    end function c_case_given

    !> Steps of a block, warm-up included.  Local.
    function bx_block_steps(run) result(steps) bind(C, name="bx_run_block_steps")
      import :: c_int64_t, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      integer(c_int64_t) :: steps
    end function bx_block_steps

    subroutine c_case_is(run, name) bind(C, name="bx_run_set_case")
      import :: c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run, name
    end subroutine c_case_is

    subroutine c_metric(metrics, name, value, unit, better) bind(C, name="bx_metrics_add")
      import :: c_char, c_double, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: metrics
      real(c_double), value :: value
      character(kind=c_char), intent(in) :: name(*), unit(*), better(*)
    end subroutine c_metric

    function c_metric_value(metrics, name) result(value) bind(C, name="bx_metrics_value")
      import :: c_char, c_double, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: metrics
      character(kind=c_char), intent(in) :: name(*)
      real(c_double) :: value
    end function c_metric_value

    function c_passed(run, verification) result(passed) bind(C, name="bx_verification_passed")
      import :: c_bool, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run, verification
      logical(c_bool) :: passed
    end function c_passed

    function c_strlen(text) result(length) bind(C, name="strlen")
      import :: c_ptr, c_size_t
      implicit none (type, external)
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function c_strlen

    subroutine c_library(name, version) bind(C, name="bx_build_add_library")
      import :: c_char
      implicit none (type, external)
      character(kind=c_char), intent(in) :: name(*), version(*)
    end subroutine c_library

    subroutine c_detail_number(details, name, value) bind(C, name="bx_detail_number")
      import :: c_char, c_double, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: details
      character(kind=c_char), intent(in) :: name(*)
      real(c_double), value :: value
    end subroutine c_detail_number

    subroutine c_detail_text(details, name, value) bind(C, name="bx_detail_text")
      import :: c_char, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: details
      character(kind=c_char), intent(in) :: name(*), value(*)
    end subroutine c_detail_text

    !> Reads what this rank has sent since the start, by class.  Local.
    subroutine bx_traffic_read(traffic) bind(C, name="bx_profile_read")
      import :: bx_traffic_t
      implicit none (type, external)
      type(bx_traffic_t), intent(out) :: traffic(*)
    end subroutine bx_traffic_read

    subroutine c_region_read(name, traffic) bind(C, name="bx_profile_read_region")
      import :: bx_traffic_t, c_char
      implicit none (type, external)
      character(kind=c_char), intent(in) :: name(*)
      type(bx_traffic_t), intent(out) :: traffic(*)
    end subroutine c_region_read

    !> Number of nodes.  Local.
    function bx_node_count(run) result(count) bind(C, name="bx_run_node_count")
      import :: c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      integer(c_int) :: count
    end function bx_node_count

    !> Threads per rank.  Local.
    function bx_threads(run) result(threads) bind(C, name="bx_run_threads")
      import :: c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      integer(c_int) :: threads
    end function bx_threads

    !> Value of --seed.  Local.
    function bx_seed(run) result(seed) bind(C, name="bx_run_seed")
      import :: c_int64_t, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      integer(c_int64_t) :: seed
    end function bx_seed

    !> The largest code of any rank's refusal, or bx_ok.  Collective.
    function bx_agree(run) result(code) bind(C, name="bx_run_agree")
      import :: c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      integer(c_int) :: code
    end function bx_agree

    !> Inside `step`: the time since the last lap, or since the step's start, belongs to `phase`
    !> (from 0, as in bx.h).  Local.
    subroutine bx_lap(run, phase) bind(C, name="bx_run_lap")
      import :: c_ptr, c_size_t
      implicit none (type, external)
      type(c_ptr), value :: run
      integer(c_size_t), value :: phase
    end subroutine bx_lap

    !> Uniform in [-1, 1), the same for the same arguments everywhere.
    function bx_uniform(seed, index) result(x) bind(C, name="bx_random_uniform_f")
      import :: c_double, c_int64_t
      implicit none (type, external)
      integer(c_int64_t), value :: seed, index
      real(c_double) :: x
    end function bx_uniform

    !> Bytes that this process has in memory, without what it shares; 0 if unknown.
    function bx_memory_used() result(bytes) bind(C, name="bx_host_memory_used")
      import :: c_double
      implicit none (type, external)
      real(c_double) :: bytes
    end function bx_memory_used

    !> Ends a region.  Local.
    subroutine bx_region_leave() bind(C, name="bx_profile_leave_region")
      implicit none (type, external)
    end subroutine bx_region_leave

    function c_selected(run, method) result(selected) bind(C, name="bx_run_is_selected")
      import :: c_bool, c_char, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      character(kind=c_char), intent(in) :: method(*)
      logical(c_bool) :: selected
    end function c_selected

    function c_refuse(run, code, text) result(same_code) bind(C, name="bx_run_refuse_text")
      import :: c_char, c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      integer(c_int), value :: code
      character(kind=c_char), intent(in) :: text(*)
      integer(c_int) :: same_code
    end function c_refuse

    function c_claim_memory(run, bytes, sized_by) result(code) &
      bind(C, name="bx_resources_claim_memory")
      import :: c_char, c_double, c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      real(c_double), value :: bytes
      character(kind=c_char), intent(in) :: sized_by(*)
      integer(c_int) :: code
    end function c_claim_memory

    function c_claim_time(run, setup_seconds, round_seconds, sized_by) result(code) &
      bind(C, name="bx_resources_claim_time")
      import :: c_char, c_double, c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      real(c_double), value :: setup_seconds, round_seconds
      character(kind=c_char), intent(in) :: sized_by(*)
      integer(c_int) :: code
    end function c_claim_time

    function c_claim_file(run, option, path, use) result(code) bind(C, name="bx_file_claim")
      import :: c_char, c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      character(kind=c_char), intent(in) :: option(*), path(*)
      integer(c_int), value :: use
      integer(c_int) :: code
    end function c_claim_file

    function c_file_open(path) result(file) bind(C, name="bx_file_open")
      import :: c_char, c_ptr
      implicit none (type, external)
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr) :: file
    end function c_file_open

    subroutine c_file_put(file, text, length) bind(C, name="bx_file_put_text")
      import :: c_char, c_ptr, c_size_t
      implicit none (type, external)
      type(c_ptr), value :: file
      character(kind=c_char), intent(in) :: text(*)
      integer(c_size_t), value :: length
    end subroutine c_file_put

    subroutine c_file_close(file, path, why, why_size) bind(C, name="bx_file_close_text")
      import :: c_char, c_ptr, c_size_t
      implicit none (type, external)
      type(c_ptr), value :: file
      character(kind=c_char), intent(in) :: path(*)
      integer(c_size_t), value :: why_size
      character(kind=c_char), intent(out) :: why(*)
    end subroutine c_file_close

    subroutine c_check(verification, name, error, tolerance, unit) &
      bind(C, name="bx_verification_check")
      import :: c_char, c_double, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: verification
      character(kind=c_char), intent(in) :: name(*), unit(*)
      real(c_double), value :: error, tolerance
    end subroutine c_check

    subroutine c_note(run, text) bind(C, name="bx_run_note_text")
      import :: c_char, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      character(kind=c_char), intent(in) :: text(*)
    end subroutine c_note

    subroutine c_region_enter(name) bind(C, name="bx_profile_enter_region")
      import :: c_char
      implicit none (type, external)
      character(kind=c_char), intent(in) :: name(*)
    end subroutine c_region_enter
  end interface

end module bx_interface
