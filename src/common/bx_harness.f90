! The kernel harness for Fortran kernels: bx.h through bind(C).
!
! A Fortran kernel is a module with a function `bx_kernel_get`, bind(C), that fills a saved
! bx_kernel_t and returns its address; its procedures take and return what bx.h says.  Fields left
! alone are C's NULL: no such procedure, no such list.
module bx_harness
  use, intrinsic :: iso_c_binding, only: c_associated, c_bool, c_char, c_double, c_f_pointer, &
    c_int, c_int64_t, c_loc, c_new_line, c_null_char, c_ptr, c_size_t
  use, intrinsic :: ieee_arithmetic, only: ieee_is_nan, ieee_positive_inf, ieee_value
  use bx_interface, only: bx_agree, bx_block_steps, bx_choice_t, bx_comm, bx_file_read, &
    bx_file_updated, bx_file_written, bx_flag, bx_grid, bx_integer, bx_kernel_t, bx_lap, &
    bx_memory_used, bx_node_comm, bx_node_count, bx_ok, bx_option_t, bx_real, bx_region_leave, &
    bx_resources, bx_seed, bx_string, bx_threads, bx_traffic_classes, bx_traffic_read, &
    bx_traffic_t, bx_uniform, bx_usage, bx_wrong, c_case, c_case_given, c_case_is, c_check, &
    c_claim_file, c_claim_memory, c_claim_time, c_detail_number, c_detail_text, c_file_close, &
    c_file_open, c_file_put, c_library, c_metric, c_metric_value, c_node_of, c_note, c_passed, &
    c_refuse, c_region_enter, c_region_read, c_selected, c_strlen
  implicit none (type, external)
  private

  public :: bx_choice_t, bx_option_t, bx_kernel_t, bx_traffic_t
  public :: bx_fortran_sees_nan, bx_block_steps, bx_detail
  public :: bx_case, bx_case_given, bx_case_is, bx_node_of, bx_metric, bx_metric_value, bx_library
  public :: bx_traffic_read, bx_region_read, bx_string_at
  public :: bx_text, bx_comm, bx_node_comm, bx_node_count, bx_threads, bx_seed, bx_selected
  public :: bx_refuse, bx_agree, bx_claim_memory, bx_claim_time, bx_lap, bx_check, bx_note
  public :: bx_claim_file, bx_file_open, bx_file_put, bx_file_close
  public :: bx_region_enter, bx_region_leave, bx_uniform, bx_memory_used
  public :: bx_largest, bx_passed, bx_one_of, bx_without
  public :: bx_integer_option, bx_real_option, bx_text_option
  public :: bx_ok, bx_wrong, bx_usage, bx_resources, bx_file_read, bx_file_written, &
    bx_file_updated, bx_flag, bx_integer, bx_real, bx_string, bx_grid, bx_traffic_classes

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
  function bx_integer_option(name, metavar, help, low, high, value) result(option)
    character(*), intent(in) :: name, metavar, help
    real(c_double), intent(in) :: low, high
    integer(c_int64_t), target, intent(in) :: value
    type(bx_option_t) :: option
    option = bx_option_t(bx_text(name), bx_text(metavar), bx_text(help), bx_integer, low, high, &
                         c_loc(value))
  end function bx_integer_option

  !> An option with a real number from `low` to `high`.
  function bx_real_option(name, metavar, help, low, high, value) result(option)
    character(*), intent(in) :: name, metavar, help
    real(c_double), intent(in) :: low, high
    real(c_double), target, intent(in) :: value
    type(bx_option_t) :: option
    option = bx_option_t(bx_text(name), bx_text(metavar), bx_text(help), bx_real, low, high, &
                         c_loc(value))
  end function bx_real_option

  !> An option with a text.
  function bx_text_option(name, metavar, help, value) result(option)
    character(*), intent(in) :: name, metavar, help
    type(c_ptr), target, intent(in) :: value
    type(bx_option_t) :: option
    option = bx_option_t(bx_text(name), bx_text(metavar), bx_text(help), bx_string, 0.0_c_double, &
                         0.0_c_double, c_loc(value))
  end function bx_text_option

  !> Inside `applicable`: true if `reason` is empty; else writes the reason to `why`.
  function bx_without(reason, why) result(can)
    character(*), intent(in) :: reason
    character(kind=c_char), intent(inout) :: why(:)
    logical(c_bool) :: can
    integer :: i, length
    can = logical(reason == "", c_bool)
    length = min(len_trim(reason), size(why) - 1)
    do i = 1, length
      why(i) = reason(i:i)
    end do
    why(length + 1) = c_null_char
  end function bx_without

  !> Refuses the value of a text option that is none of the choices.  The message omits an empty
  !> choice.  Returns bx_ok or bx_usage.
  function bx_one_of(run, option, given, choices) result(code)
    type(c_ptr), intent(in) :: run, given
    character(*), intent(in) :: option, choices(:)
    integer(c_int) :: code
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

  !> Whether every outcome so far is within its tolerance, on all ranks.  Collective.
  logical function bx_passed(run, verification)
    type(c_ptr), intent(in) :: run, verification
    bx_passed = c_passed(run, verification)
  end function bx_passed

  !> Whether the compiler has left tests for NaN in; `nan` must be one.
  function bx_fortran_sees_nan(nan) result(sees) bind(C, name="bx_harness_sees_nan")
    real(c_double), value :: nan
    logical(c_bool) :: sees
    sees = logical(ieee_is_nan(nan) .and. .not. nan <= 1 .and. bx_largest([nan]) > 1, c_bool)
  end function bx_fortran_sees_nan

  !> The address of a C string that lives as long as the program: names in tables are kept by it.
  function bx_text(text) result(address)
    character(*), intent(in) :: text
    type(c_ptr) :: address
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

  !> Whether --case names the case; else it is the default.
  logical function bx_case_given(run)
    type(c_ptr), intent(in) :: run
    bx_case_given = c_case_given(run)
  end function bx_case_given

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
  function bx_metric_value(metrics, name) result(value)
    type(c_ptr), intent(in) :: metrics
    character(*), intent(in) :: name
    real(c_double) :: value
    value = c_metric_value(metrics, trim(name)//c_null_char)
  end function bx_metric_value

  !> Adds a library and its version to the result.  Local.
  subroutine bx_library(name, version)
    character(*), intent(in) :: name, version
    call c_library(trim(name)//c_null_char, trim(version)//c_null_char)
  end subroutine bx_library

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
  function bx_selected(run, method) result(selected)
    type(c_ptr), intent(in) :: run
    character(*), intent(in) :: method
    logical :: selected
    selected = c_selected(run, trim(method)//c_null_char)
  end function bx_selected

  !> Refuses to run, with an exit code and a line that names the value and what is allowed.  Returns
  !> the code of this rank's first refusal.  Local.
  function bx_refuse(run, code, text) result(same_code)
    type(c_ptr), intent(in) :: run
    integer(c_int), intent(in) :: code
    character(*), intent(in) :: text
    integer(c_int) :: same_code
    same_code = c_refuse(run, code, trim(text)//c_null_char)
  end function bx_refuse

  !> Claims `bytes` for this rank: refuses with bx_resources where the ranks of a node need more
  !> than it has free; `sized_by` names the options in the message.  Returns as bx_agree.
  !> Collective.
  function bx_claim_memory(run, bytes, sized_by) result(code)
    type(c_ptr), intent(in) :: run
    real(c_double), intent(in) :: bytes
    character(*), intent(in) :: sized_by
    integer(c_int) :: code
    code = c_claim_memory(run, bytes, trim(sized_by)//c_null_char)
  end function bx_claim_memory

  !> Claims time: seconds of the rest of setup, and of one step of each selected method, on this
  !> rank.  Refuses with bx_resources where the launch would take longer than --limit.  Returns as
  !> bx_agree.  Collective, once, in setup.
  function bx_claim_time(run, setup_seconds, round_seconds, sized_by) result(code)
    type(c_ptr), intent(in) :: run
    real(c_double), intent(in) :: setup_seconds, round_seconds
    character(*), intent(in) :: sized_by
    integer(c_int) :: code
    code = c_claim_time(run, setup_seconds, round_seconds, trim(sized_by)//c_null_char)
  end function bx_claim_time

  !> Refuses a file that cannot be read or written later, see bx.h.  Every rank calls it.  Returns
  !> bx_ok or bx_usage.
  function bx_claim_file(run, option, path, use) result(code)
    type(c_ptr), intent(in) :: run
    character(*), intent(in) :: option, path
    integer(c_int), intent(in) :: use !< bx_file_read, bx_file_written or bx_file_updated
    integer(c_int) :: code
    code = c_claim_file(run, trim(option)//c_null_char, path//c_null_char, use)
  end function bx_claim_file

  !> A file that takes the place of `path` when it is closed; null if it cannot be created.  Local.
  function bx_file_open(path) result(file)
    character(*), intent(in) :: path
    type(c_ptr) :: file
    file = c_file_open(path//c_null_char)
  end function bx_file_open

  !> Appends a line; failures show when the file is closed.  Local.
  subroutine bx_file_put(file, line)
    type(c_ptr), intent(in) :: file
    character(*), intent(in) :: line
    call c_file_put(file, line//c_new_line, len(line, c_size_t) + 1)
  end subroutine bx_file_put

  !> Puts the file in its place; `reason` is empty, or why it failed, and `path` is then as it was.
  !> `file` is the value of bx_file_open, also where it is null.  Local.
  subroutine bx_file_close(file, path, reason)
    type(c_ptr), intent(in) :: file
    character(*), intent(in) :: path
    character(:), allocatable, intent(out) :: reason
    character(kind=c_char), target :: text(256)
    call c_file_close(file, path//c_null_char, text, size(text, kind=c_size_t))
    reason = bx_string_at(c_loc(text))
  end subroutine bx_file_close

  !> Adds one outcome: error and tolerance, in `unit`.  Every rank adds the same names in the same
  !> order.
  subroutine bx_check(verification, name, error, tolerance, unit)
    type(c_ptr), intent(in) :: verification
    character(*), intent(in) :: name, unit
    real(c_double), intent(in) :: error, tolerance
    call c_check(verification, trim(name)//c_null_char, error, tolerance, &
                 trim(unit)//c_null_char)
  end subroutine bx_check

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
