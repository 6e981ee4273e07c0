! The kernel harness for Fortran kernels: bx.h through bind(C).
!
! A Fortran kernel is a module with a function `bx_kernel_get`, bind(C), that fills a saved
! bx_kernel_t and returns its address; its procedures take and return what bx.h says.  Fields left
! alone are C's NULL: no such procedure, no such list.
module bx_harness
  use, intrinsic :: iso_c_binding, only: c_associated, c_bool, c_char, c_double, c_f_pointer, &
    c_funptr, c_int, c_int64_t, c_loc, c_null_char, c_null_funptr, c_null_ptr, c_ptr, c_size_t
  use, intrinsic :: ieee_arithmetic, only: ieee_is_nan, ieee_positive_inf, ieee_value
  implicit none (type, external)
  private

  public :: bx_agree, bx_block_steps, bx_case, bx_case_given, bx_case_is, bx_check, &
    bx_check_count, bx_check_always, bx_choice_t, bx_claim_file, bx_claim_memory, bx_claim_time, &
    bx_comm, bx_detail, bx_fortran_sees_nan, bx_integer_option, bx_kernel_t, bx_lap, bx_largest, &
    bx_memory_used, bx_metric, bx_metric_value, bx_node_of, bx_note, bx_one_of, bx_option_t, &
    bx_passed, bx_real_option, bx_refuse, bx_region_enter, bx_region_leave, bx_region_read, &
    bx_seed, bx_selected, bx_shown_calls, bx_string_at, bx_text, bx_text_option, bx_threads, &
    bx_traffic_read, bx_traffic_t, bx_uniform, bx_without

  integer(c_int), parameter, public :: bx_ok = 0, bx_wrong = 1, bx_usage = 2, bx_resources = 3
  integer(c_int), parameter, public :: bx_file_read = 0, bx_file_written = 1, bx_file_updated = 2
  integer(c_int), parameter, public :: bx_flag = 0, bx_integer = 1, bx_real = 2, &
    bx_string = 3, bx_grid = 4

  !> A case or a method, as bx.h's bx_choice.
  type, bind(C) :: bx_choice_t
    type(c_ptr) :: name = c_null_ptr, summary = c_null_ptr, wins = c_null_ptr
    logical(c_bool) :: baseline = .false._c_bool
    type(c_ptr) :: family = c_null_ptr, calls = c_null_ptr
  end type bx_choice_t

  !> What one rank has sent in one class of MPI calls, as bx.h's bx_traffic.
  type, bind(C) :: bx_traffic_t
    real(c_double) :: calls, messages, off_node_messages, bytes, off_node_bytes, seconds, waiting
  end type bx_traffic_t
  integer, parameter, public :: bx_traffic_classes = 5 !< p2p, collective, barrier, one-sided, file

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
    type(c_ptr) :: baselines = c_null_ptr, excluded_family = c_null_ptr, sampling = c_null_ptr
    type(c_funptr) :: arrange = c_null_funptr, applicable = c_null_funptr
    type(c_funptr) :: comparable = c_null_funptr
    type(c_funptr) :: point_count = c_null_funptr, point = c_null_funptr, has_point = c_null_funptr
    type(c_funptr) :: begin = c_null_funptr, prepare = c_null_funptr
    type(c_funptr) :: inspect = c_null_funptr, end = c_null_funptr, promise = c_null_funptr
    type(c_funptr) :: items = c_null_funptr, metrics = c_null_funptr
    type(c_funptr) :: report = c_null_funptr, teardown = c_null_funptr
  end type bx_kernel_t

  interface
    !> Fortran handle of the kernel's communicator, for MPI_Comm%MPI_VAL.
    integer(c_int) function bx_comm(run) bind(C, name="bx_run_comm_f")
      import :: c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
    end function bx_comm

    type(c_ptr) function c_node_of(run) bind(C, name="bx_run_node_of")
      import :: c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
    end function c_node_of

    type(c_ptr) function c_case(run) bind(C, name="bx_run_case")
      import :: c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
    end function c_case

    !> Whether --case names the case; else it is the default.
    logical(c_bool) function bx_case_given(run) bind(C, name="bx_run_case_is_given")
      import :: c_bool, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
    end function bx_case_given

    !> Steps of a block, warm-up included.  Local.
    integer(c_int64_t) function bx_block_steps(run) bind(C, name="bx_run_block_steps")
      import :: c_int64_t, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
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

    real(c_double) function c_metric_value(metrics, name) bind(C, name="bx_metrics_value")
      import :: c_char, c_double, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: metrics
      character(kind=c_char), intent(in) :: name(*)
    end function c_metric_value

    !> Whether every outcome so far is within its tolerance, on all ranks.  Collective.
    logical(c_bool) function bx_passed(run, verification) bind(C, name="bx_verification_passed")
      import :: c_bool, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run, verification
    end function bx_passed

    integer(c_size_t) function c_strlen(text) bind(C, name="strlen")
      import :: c_ptr, c_size_t
      implicit none (type, external)
      type(c_ptr), value :: text
    end function c_strlen

    subroutine c_detail_number(details, name, value) bind(C, name="bx_json_number")
      import :: c_char, c_double, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: details
      character(kind=c_char), intent(in) :: name(*)
      real(c_double), value :: value
    end subroutine c_detail_number

    subroutine c_detail_text(details, name, value) bind(C, name="bx_json_text")
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

    !> Threads per rank.  Local.
    integer(c_int) function bx_threads(run) bind(C, name="bx_run_threads")
      import :: c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
    end function bx_threads

    !> Value of --seed.  Local.
    integer(c_int64_t) function bx_seed(run) bind(C, name="bx_run_seed")
      import :: c_int64_t, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
    end function bx_seed

    !> The largest code of any rank's refusal, or bx_ok.  Collective.
    integer(c_int) function bx_agree(run) bind(C, name="bx_run_agree")
      import :: c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
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
    real(c_double) function bx_uniform(seed, index) bind(C, name="bx_random_uniform_f")
      import :: c_double, c_int64_t
      implicit none (type, external)
      integer(c_int64_t), value :: seed, index
    end function bx_uniform

    !> Bytes that this process has in memory, without what it shares; 0 if unknown.
    real(c_double) function bx_memory_used() bind(C, name="bx_host_memory_used")
      import :: c_double
      implicit none (type, external)
    end function bx_memory_used

    !> Ends a region.  Local.
    subroutine bx_region_leave() bind(C, name="bx_profile_leave_region")
      implicit none (type, external)
    end subroutine bx_region_leave

    logical(c_bool) function c_selected(run, method) bind(C, name="bx_run_is_selected")
      import :: c_bool, c_char, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      character(kind=c_char), intent(in) :: method(*)
    end function c_selected

    integer(c_int) function c_refuse(run, code, text) bind(C, name="bx_run_refuse_text")
      import :: c_char, c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      integer(c_int), value :: code
      character(kind=c_char), intent(in) :: text(*)
    end function c_refuse

    integer(c_int) function c_claim_memory(run, bytes, sized_by) &
      bind(C, name="bx_resources_claim_memory")
      import :: c_char, c_double, c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      real(c_double), value :: bytes
      character(kind=c_char), intent(in) :: sized_by(*)
    end function c_claim_memory

    integer(c_int) function c_claim_time(run, setup_seconds, round_seconds, sized_by) &
      bind(C, name="bx_resources_claim_time")
      import :: c_char, c_double, c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      real(c_double), value :: setup_seconds, round_seconds
      character(kind=c_char), intent(in) :: sized_by(*)
    end function c_claim_time

    integer(c_int) function c_claim_file(run, option, path, use) bind(C, name="bx_file_claim")
      import :: c_char, c_int, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: run
      character(kind=c_char), intent(in) :: option(*), path(*)
      integer(c_int), value :: use
    end function c_claim_file

    subroutine c_check(verification, name, error, tolerance, unit) &
      bind(C, name="bx_verification_check")
      import :: c_char, c_double, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: verification
      character(kind=c_char), intent(in) :: name(*), unit(*)
      real(c_double), value :: error, tolerance
    end subroutine c_check

    subroutine c_check_sent(verification, name, error, tolerance, unit) &
      bind(C, name="bx_verification_check_always")
      import :: c_char, c_double, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: verification
      character(kind=c_char), intent(in) :: name(*), unit(*)
      real(c_double), value :: error, tolerance
    end subroutine c_check_sent

    subroutine c_count(verification, name, shown, least, most) &
      bind(C, name="bx_verification_count")
      import :: c_char, c_double, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: verification
      character(kind=c_char), intent(in) :: name(*)
      real(c_double), value :: shown, least, most
    end subroutine c_count

    real(c_double) function c_shown_calls(shown, routine, region) &
      bind(C, name="bx_shown_calls_text")
      import :: c_char, c_double, c_ptr
      implicit none (type, external)
      type(c_ptr), value :: shown
      character(kind=c_char), intent(in) :: routine(*), region(*)
    end function c_shown_calls

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

  !> The largest magnitude of an array of one or three dimensions, 0 of an empty one; infinite if a
  !> number is not finite (maxval passes over NaNs).
  interface bx_largest
    module procedure largest_of_line, largest_of_block
  end interface bx_largest

  !> Inside `report`: an entry of the result's details, a number or a text.
  interface bx_detail
    module procedure detail_number, detail_text
  end interface bx_detail

contains

  !> An option with a whole number from `low` to `high`.
  type(bx_option_t) function bx_integer_option(name, metavar, help, low, high, value) result(option)
    character(*), intent(in) :: name, metavar, help
    real(c_double), intent(in) :: low, high
    integer(c_int64_t), target, intent(in) :: value
    option = bx_option_t(bx_text(name), bx_text(metavar), bx_text(help), bx_integer, low, high, &
                         c_loc(value))
  end function bx_integer_option

  !> An option with a real number from `low` to `high`.
  type(bx_option_t) function bx_real_option(name, metavar, help, low, high, value) result(option)
    character(*), intent(in) :: name, metavar, help
    real(c_double), intent(in) :: low, high
    real(c_double), target, intent(in) :: value
    option = bx_option_t(bx_text(name), bx_text(metavar), bx_text(help), bx_real, low, high, &
                         c_loc(value))
  end function bx_real_option

  !> An option with a text.
  type(bx_option_t) function bx_text_option(name, metavar, help, value) result(option)
    character(*), intent(in) :: name, metavar, help
    type(c_ptr), target, intent(in) :: value
    option = bx_option_t(bx_text(name), bx_text(metavar), bx_text(help), bx_string, 0.0_c_double, &
                         0.0_c_double, c_loc(value))
  end function bx_text_option

  !> Inside `applicable`: true if `reason` is empty; else writes the reason to `why`.
  logical(c_bool) function bx_without(reason, why) result(can)
    character(*), intent(in) :: reason
    character(kind=c_char), intent(inout) :: why(:)
    integer :: i, length
    can = logical(reason == "", c_bool)
    if (size(why) == 0) return
    length = min(len_trim(reason), size(why) - 1)
    do i = 1, length
      why(i) = reason(i:i)
    end do
    why(length + 1) = c_null_char
  end function bx_without

  !> Refuses the value of a text option that is none of the choices.  The message omits an empty
  !> choice.  Returns bx_ok or bx_usage.
  integer(c_int) function bx_one_of(run, option, given, choices) result(code)
    type(c_ptr), intent(in) :: run, given
    character(*), intent(in) :: option, choices(:)
    character(:), allocatable :: value, list
    integer :: i
    code = bx_ok
    value = bx_string_at(given)
    if (any(choices == value)) return
    list = ""
    do i = 1, size(choices)
      if (choices(i) == "") cycle
      if (list /= "") list = list//","
      list = list//" "//trim(choices(i))
    end do
    code = bx_refuse(run, bx_usage, "--"//option//" "//value//": unknown; choose from"//list)
  end function bx_one_of

  pure real(c_double) function largest_of_line(values) result(largest)
    real(c_double), intent(in) :: values(:)
    largest = 0
    if (size(values) > 0) largest = maxval(abs(values))
    if (.not. all(abs(values) <= huge(largest))) largest = ieee_value(largest, ieee_positive_inf)
  end function largest_of_line

  pure real(c_double) function largest_of_block(values) result(largest)
    real(c_double), intent(in) :: values(:, :, :)
    integer :: k
    largest = 0
    do k = 1, size(values, 3)
      largest = max(largest, largest_of_line([values(:, :, k)]))
    end do
  end function largest_of_block

  !> Whether the compiler has left tests for NaN in; `nan` must be one.
  logical(c_bool) function bx_fortran_sees_nan(nan) result(sees) bind(C, name="bx_harness_sees_nan")
    real(c_double), value :: nan
    sees = logical(ieee_is_nan(nan) .and. .not. nan <= 1 .and. bx_largest([nan]) > 1, c_bool)
  end function bx_fortran_sees_nan

  !> The address of a C string that lives as long as the program: names in tables are kept by it.
  type(c_ptr) function bx_text(text) result(address)
    character(*), intent(in) :: text
    character(kind=c_char), pointer :: copy(:)
    integer :: i
    allocate (copy(len_trim(text) + 1))
    do i = 1, len_trim(text)
      copy(i) = text(i:i)
    end do
    copy(size(copy)) = c_null_char
    address = c_loc(copy)
  end function bx_text

  !> The case's name.
  function bx_case(run) result(name)
    type(c_ptr), intent(in) :: run
    character(:), allocatable :: name
    name = bx_string_at(c_case(run))
  end function bx_case

  !> Renames the case in the result, where options have changed it.
  subroutine bx_case_is(run, name)
    type(c_ptr), intent(in) :: run
    character(*), intent(in) :: name
    call c_case_is(run, bx_text(name))
  end subroutine bx_case_is

  !> The text at the address of a C string; "" at none.
  function bx_string_at(address) result(text)
    type(c_ptr), intent(in) :: address
    character(:), allocatable :: text
    character(kind=c_char), pointer :: characters(:)
    integer :: i, length
    text = ""
    if (.not. c_associated(address)) return
    length = int(c_strlen(address))
    call c_f_pointer(address, characters, [length])
    text = repeat(" ", length)
    do i = 1, length
      text(i:i) = characters(i)
    end do
  end function bx_string_at

  !> Node of every rank, (ranks), counted from 0.
  function bx_node_of(run, ranks) result(nodes)
    type(c_ptr), intent(in) :: run
    integer, intent(in) :: ranks
    integer(c_int), pointer :: nodes(:)
    call c_f_pointer(c_node_of(run), nodes, [ranks])
  end function bx_node_of

  !> Inside `metrics`: adds one of the kernel's own; `better` is "lower" or "higher".
  subroutine bx_metric(metrics, name, value, unit, better)
    type(c_ptr), intent(in) :: metrics
    character(*), intent(in) :: name, unit, better
    real(c_double), intent(in) :: value
    call c_metric(metrics, trim(name)//c_null_char, value, trim(unit)//c_null_char, &
                  trim(better)//c_null_char)
  end subroutine bx_metric

  !> Inside `metrics`: the value of a metric that exists already; NaN if it does not.
  real(c_double) function bx_metric_value(metrics, name) result(value)
    type(c_ptr), intent(in) :: metrics
    character(*), intent(in) :: name
    value = c_metric_value(metrics, trim(name)//c_null_char)
  end function bx_metric_value

  subroutine detail_number(details, name, value)
    type(c_ptr), intent(in) :: details
    character(*), intent(in) :: name
    real(c_double), intent(in) :: value
    call c_detail_number(details, trim(name)//c_null_char, value)
  end subroutine detail_number

  subroutine detail_text(details, name, value)
    type(c_ptr), intent(in) :: details
    character(*), intent(in) :: name, value
    call c_detail_text(details, trim(name)//c_null_char, trim(value)//c_null_char)
  end subroutine detail_text

  !> Reads what this rank has sent inside a region, by class.  Local.
  subroutine bx_region_read(name, traffic)
    character(*), intent(in) :: name
    type(bx_traffic_t), intent(out) :: traffic(bx_traffic_classes)
    call c_region_read(trim(name)//c_null_char, traffic)
  end subroutine bx_region_read

  !> Whether --method or --baseline names `method`.
  logical function bx_selected(run, method) result(selected)
    type(c_ptr), intent(in) :: run
    character(*), intent(in) :: method
    selected = c_selected(run, trim(method)//c_null_char)
  end function bx_selected

  !> Refuses to run, with an exit code and a line that names the value and what is allowed.  Returns
  !> the code of this rank's first refusal.  Local.
  integer(c_int) function bx_refuse(run, code, text) result(same_code)
    type(c_ptr), intent(in) :: run
    integer(c_int), intent(in) :: code
    character(*), intent(in) :: text
    same_code = c_refuse(run, code, trim(text)//c_null_char)
  end function bx_refuse

  !> Claims `bytes` for this rank: refuses with bx_resources where the ranks of a node need more
  !> than it has free; `sized_by` names the options in the message.  Returns as bx_agree.
  !> Collective.
  integer(c_int) function bx_claim_memory(run, bytes, sized_by) result(code)
    type(c_ptr), intent(in) :: run
    real(c_double), intent(in) :: bytes
    character(*), intent(in) :: sized_by
    code = c_claim_memory(run, bytes, trim(sized_by)//c_null_char)
  end function bx_claim_memory

  !> Claims time: seconds of the rest of setup, and of one step of each selected method, on this
  !> rank.  Refuses with bx_resources where the launch would take longer than --limit.  Returns as
  !> bx_agree.  Collective, once, in setup.
  integer(c_int) function bx_claim_time(run, setup_seconds, round_seconds, sized_by) result(code)
    type(c_ptr), intent(in) :: run
    real(c_double), intent(in) :: setup_seconds, round_seconds
    character(*), intent(in) :: sized_by
    code = c_claim_time(run, setup_seconds, round_seconds, trim(sized_by)//c_null_char)
  end function bx_claim_time

  !> Refuses a file that cannot be read or written later, see bx.h.  Every rank calls it.  Returns
  !> bx_ok or bx_usage.
  integer(c_int) function bx_claim_file(run, option, path, use) result(code)
    type(c_ptr), intent(in) :: run
    character(*), intent(in) :: option, path
    integer(c_int), intent(in) :: use !< bx_file_read, bx_file_written or bx_file_updated
    code = c_claim_file(run, trim(option)//c_null_char, path//c_null_char, use)
  end function bx_claim_file

  !> Adds one outcome: error and tolerance, in `unit`.  Every rank adds the same names in the same
  !> order.
  subroutine bx_check(verification, name, error, tolerance, unit)
    type(c_ptr), intent(in) :: verification
    character(*), intent(in) :: name, unit
    real(c_double), intent(in) :: error, tolerance
    call c_check(verification, trim(name)//c_null_char, error, tolerance, trim(unit)//c_null_char)
  end subroutine bx_check

  !> The same of what was sent, which dry runs verify too.
  subroutine bx_check_always(verification, name, error, tolerance, unit)
    type(c_ptr), intent(in) :: verification
    character(*), intent(in) :: name, unit
    real(c_double), intent(in) :: error, tolerance
    call c_check_sent(verification, trim(name)//c_null_char, error, tolerance, &
                      trim(unit)//c_null_char)
  end subroutine bx_check_always

  !> Adds one count: `shown` must be from `least` to `most`, as the method's name promises; also in
  !> dry runs.  huge(most): no upper limit.  Every rank adds the same names in the same order.
  subroutine bx_check_count(verification, name, shown, least, most)
    type(c_ptr), intent(in) :: verification
    character(*), intent(in) :: name
    real(c_double), intent(in) :: shown, least, most
    call c_count(verification, trim(name)//c_null_char, shown, least, &
                 merge(ieee_value(most, ieee_positive_inf), most, most >= huge(most)))
  end subroutine bx_check_count

  !> Inside `promise`: calls of a routine of MPI, "Isend", per sample, outside of regions or inside
  !> the one named; "" is any routine, and no region.
  real(c_double) function bx_shown_calls(shown, routine, region) result(calls)
    type(c_ptr), intent(in) :: shown
    character(*), intent(in) :: routine, region
    calls = c_shown_calls(shown, trim(routine)//c_null_char, trim(region)//c_null_char)
  end function bx_shown_calls

  !> Adds a line under the table, of rank 0.  Local.
  subroutine bx_note(run, text)
    type(c_ptr), intent(in) :: run
    character(*), intent(in) :: text
    call c_note(run, trim(text)//c_null_char)
  end subroutine bx_note

  !> Begins a region: what is sent until bx_region_leave is also counted under `name`.  Local.
  subroutine bx_region_enter(name)
    character(*), intent(in) :: name
    call c_region_enter(trim(name)//c_null_char)
  end subroutine bx_region_enter

end module bx_harness
