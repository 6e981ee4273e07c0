! bisection-npar: one self-consistent-field step of a plane-wave code with PAW, on every
! two-dimensional grid of ranks, and with each knob changed in turn.
!
! After A. Turner et al., Optimising the performance of the VASP 5.2.2 code on HECToR (2010).
module npar_kernel
  use, intrinsic :: iso_c_binding, only: c_associated, c_bool, c_char, c_funloc, c_int, c_loc, &
    c_null_ptr, c_ptr, c_size_t, dp => c_double
  use mpi_f08, only: MPI_Allreduce, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, MPI_MAX
  use bx_charges, only: bx_hollow_messages, bx_is_hollow
  use bx_harness, only: bx_check, bx_check_count, bx_choice_t, bx_comm, bx_detail, bx_flag, &
    bx_grid, bx_kernel_t, bx_largest, bx_memory_used, bx_metric, bx_note, bx_ok, bx_option_t, &
    bx_passed, bx_refuse, bx_seed, bx_shown_calls, bx_string_at, bx_text, bx_threads, bx_usage, &
    bx_without, &
    real_number => bx_real_option, text => bx_text_option, whole => bx_integer_option
  use bx_transpose, only: bx_exchange_t, bx_free_exchange, bx_make_exchange, bx_transpose_calls, &
    bx_transpose_methods, bx_transpose_number
  use npar_basis, only: count_plane_waves
  use npar_cases, only: cases, number
  use npar_check, only: check_exchange, check_orthonormality, check_step, note_density
  use npar_checkpoint, only: write_checkpoint
  use npar_collectives, only: traffic_so_far, traffic_t, operator(+), operator(*)
  use npar_exchange, only: free_pair_ffts, make_pair_ffts, pair_ffts_t
  use npar_launch, only: accuracy, base_npar, compared, crystal, driver_with, exchanges_alone, &
    given, is_near, knobs_of, list_methods, methods, occupied, ranks, run, state_of, &
    states, why_not, world
  use npar_matrix, only: most_bands
  use npar_paw, only: idle_ranks
  use npar_sampling, only: left_out
  use npar_scf, only: evaluate, exchange_step, free_state, scf_step, start_state
  use npar_setup, only: nodes_of_team, predicted, set_up
  use npar_state, only: exchange_by, knobs_t, phase_names, state_t
  use npar_traffic, only: all_traffic, traffic_of_exchange_step, traffic_of_step, traffic_since
  implicit none (type, external)
  private
  public :: this_kernel

  !> Phases that the papers' profiles count as libraries: FFTW, BLAS, LAPACK.
  character(*), parameter :: in_libraries(*) = [character(16) :: "fft1d", "fft2d", "nonlocal", &
    "subspace", "diagonalise", "rotate"]

  type(bx_kernel_t), target :: kernel
  type(bx_choice_t), target :: case_choices(size(cases))
  type(bx_choice_t), allocatable, target :: choices(:)
  type(bx_option_t), target :: options(22)
  type(c_ptr), target :: phases(size(phase_names)), groups(size(phase_names)), ratios(2)

  type(bx_exchange_t), allocatable :: exchanges(:, :) !< (states, methods), of applicable ones
  type(bx_exchange_t), allocatable :: pair_exchanges(:) !< (methods), likewise
  type(pair_ffts_t) :: ffts
  real(dp), allocatable :: agreed(:, :) !< eigenvalues that the first method verified had
  real(dp), allocatable :: largest_matrix(:) !< of each method: bytes on a rank, 0 if not known
  real(dp) :: resident_before = 0
  real(dp) :: exact_exchange = 0, exchange_mine = 0 !< of all and of my occupied bands: Hartree
  type(traffic_t) :: sent_mine !< by this rank in the last step of a hollow run
  real(dp), parameter :: converged = 1e-10_dp !< residual, Hartree; density, of the mean

  interface
    subroutine npar_name_libraries() bind(C)
      implicit none (type, external)
    end subroutine npar_name_libraries

    subroutine npar_set_blas_threads(threads) bind(C, name="bx_blas_set_threads")
      import :: c_int
      implicit none (type, external)
      integer(c_int), value :: threads
    end subroutine npar_set_blas_threads
  end interface

contains

  type(c_ptr) function this_kernel() result(address) bind(C, name="bx_kernel_get")
    integer :: i
    do i = 1, size(cases)
      case_choices(i) = bx_choice_t(bx_text(cases(i)%name), bx_text(cases(i)%summary))
    end do
    given%functional = bx_text("")
    given%collectives = bx_text("mpi")
    given%paw_reduce = bx_text("allreduce")
    given%zeroing = bx_text("off")
    given%projectors = bx_text("together")
    given%linear_algebra = bx_text("lapack")
    given%driver = bx_text("")
    given%transpose = bx_text("alltoallv")
    given%planner = bx_text("measure")
    options = [ &
      whole("npar", "N", "measure this number of band groups only", 1.0_dp, 1e7_dp, given%npar), &
      text("functional", "gga|hybrid", "hybrid adds exact exchange", given%functional), &
      whole("kpoints", "N", "complex waves at N k-points", 1.0_dp, 1e4_dp, given%kpoints), &
      bx_option_t(bx_text("gamma"), c_null_ptr, bx_text("real waves at the gamma point"), bx_flag, &
                  0.0_dp, 0.0_dp, c_loc(given%gamma)), &
      text("collectives", "mpi|emulated", "MPI collectives, or point-to-point messages", &
           given%collectives), &
      text("paw-reduce", "allreduce|alltoall", "MPI call that sums D_ij and exact exchange", &
           given%paw_reduce), &
      text("zeroing", "on|off", "zero work arrays before they are written over", given%zeroing), &
      text("projectors", "together|by-atom", &
           "all projectors on all bands at once, or an atom's on a band", given%projectors), &
      text("linear-algebra", "lapack|scalapack|elpa", &
           "matrices between bands whole on each rank, or distributed", given%linear_algebra), &
      text("driver", "NAME", "solver of scalapack or elpa: a method of bisection-eigen", &
           given%driver), &
      text("transpose", "METHOD", "exchange of the FFTs: a method of bisection-transpose", &
           given%transpose), &
      whole("bands", "N", "number of bands; about half are occupied", 2.0_dp, &
            real(most_bands, dp), given%bands), &
      whole("atoms", "N", "number of atoms", 1.0_dp, 1e5_dp, given%atoms), &
      real_number("cutoff", "E", "cutoff of the plane waves, Hartree", 1e-3_dp, 1e6_dp, &
           given%cutoff), &
      bx_option_t(bx_text("grid"), bx_text("NX,NY,NZ"), bx_text("grid of the FFTs"), bx_grid, &
                  4.0_dp, 2000.0_dp, c_loc(given%grid)), &
      text("box", "L|LX,LY,LZ", "edges of the box, bohr", given%box), &
      whole("minimisations", "N", "residual minimisations per step; a hybrid makes one", 1.0_dp, &
            100.0_dp, given%inner), &
      whole("iterations", "N", "most steps before the answer is compared", 1.0_dp, 1e4_dp, &
            given%iterations), &
      real_number("noise", "X", "noise added to the exact states at the start", 0.0_dp, 1.0_dp, &
                  given%noise), &
      whole("split-calculation", "0|1|2", &
            "0: all; 1: the bands, to a checkpoint; 2: exchange, from it", 0.0_dp, 2.0_dp, &
            given%split), &
      text("checkpoint", "FILE", "checkpoint of --split-calculation 1 and 2", given%checkpoint), &
      text("planner", "estimate|measure|patient", &
           "FFTW's planner; estimate gives the same bits in every run", given%planner)]
    do i = 1, size(phase_names)
      phases(i) = bx_text(phase_names(i))
      groups(i) = bx_text(merge("library", "user   ", any(in_libraries == phase_names(i))))
    end do
    call arrange(1_c_int)
    kernel = bx_kernel_t(name=bx_text("npar"), summary=bx_text( &
      "the step of a plane-wave code with PAW, on every grid of ranks"), &
      cases=c_loc(case_choices), case_count=size(cases, kind=c_size_t), &
      methods=c_loc(choices), method_count=size(choices, kind=c_size_t), &
      options=c_loc(options), option_count=size(options, kind=c_size_t), &
      phases=c_loc(phases), phase_count=size(phases, kind=c_size_t), phase_groups=c_loc(groups), &
      ratios=c_loc(ratios), ratio_count=size(ratios, kind=c_size_t), &
      arrange=c_funloc(arrange), setup=c_funloc(setup), applicable=c_funloc(applicable), &
      verify=c_funloc(verify), begin=c_funloc(begin), step=c_funloc(step), &
      inspect=c_funloc(inspect), promise=c_funloc(promise), metrics=c_funloc(metrics), &
      report=c_funloc(report), teardown=c_funloc(teardown), excluded_family=bx_text("published"))
    address = c_loc(kernel)
  end function this_kernel

  !> The methods for so many ranks.
  subroutine arrange(count) bind(C)
    integer(c_int), value :: count
    type(bx_choice_t) :: choice
    integer :: i
    ranks = int(count)
    call list_methods()
    choices = [bx_choice_t ::]
    do i = 1, size(methods)
      choice = bx_choice_t(bx_text(methods(i)%name), bx_text(methods(i)%summary), &
                           bx_text(methods(i)%wins))
      if (methods(i)%family /= "") choice%family = bx_text(trim(methods(i)%family))
      choices = [choices, choice]
    end do
    kernel%methods = c_loc(choices)
    kernel%method_count = size(choices, kind=c_size_t)
  end subroutine arrange

  integer(c_int) function setup(this_run, address) result(code) bind(C)
    type(c_ptr), value :: this_run
    type(c_ptr), intent(out) :: address
    integer :: m
    run = this_run
    address = c_loc(kernel)
    world%MPI_VAL = bx_comm(run)
    resident_before = bx_memory_used()
    call npar_set_blas_threads(bx_threads(run))
    call npar_name_libraries()
    code = set_up()
    if (code /= bx_ok) return
    ratios = [bx_text("base="//trim(methods(findloc(methods%npar, base_npar, 1))%name)), &
              bx_text("original=original")]
    allocate (exchanges(size(states), size(bx_transpose_methods())), &
              pair_exchanges(size(bx_transpose_methods())))
    allocate (largest_matrix(size(methods)), source=0.0_dp)
    do m = 1, size(methods)
      choices(m)%calls = bx_text(calls_of(knobs_of(m)))
    end do
    associate (base => states(findloc(methods%npar, base_npar, dim=1)))
      if (crystal%hybrid) call make_pair_ffts(base, nodes_of_team(base), &
                                              bx_string_at(given%planner), ffts)
    end associate
  end function setup

  !> The calls of MPI of a step with these knobs, as bx_choice_t's: those of the FFTs' exchange, and
  !> of collectives.
  function calls_of(k) result(calls)
    type(knobs_t), intent(in) :: k
    character(:), allocatable :: calls
    calls = bx_transpose_calls(trim(k%transpose))//" Bcast"
    if (k%emulated) then
      calls = calls//" Isend Irecv Waitall"
    else
      calls = calls//" Allreduce Alltoall Alltoallv Reduce_scatter Allgatherv"
    end if
  end function calls_of

  !> The libraries of matrices between bands call MPI where the method has one, and nowhere else.
  subroutine promise(address, method, point, shown, verification) bind(C)
    type(c_ptr), value :: address, shown, verification
    integer(c_size_t), value :: method, point
    type(knobs_t) :: knobs
    real(dp) :: calls
    logical :: has_library
    if (bx_is_hollow() .or. exchanges_alone() .or. ranks == 1) return
    knobs = knobs_of(int(method) + 1)
    has_library = knobs%linear_algebra /= "lapack"
    calls = bx_shown_calls(shown, "", "ScaLAPACK") + bx_shown_calls(shown, "", "ELPA")
    call bx_check_count(verification, "calls of libraries", calls, &
                        merge(1.0_dp, 0.0_dp, has_library), &
                        merge(huge(calls), 0.0_dp, has_library))
  end subroutine promise

  logical(c_bool) function applicable(address, method, why, why_size) result(can) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, why_size
    character(kind=c_char), intent(out) :: why(why_size)
    character(:), allocatable :: reason
    reason = trim(why_not(int(method) + 1))
    if (reason == "") call make_exchanges(int(method) + 1, reason)
    can = bx_without(reason, why)
  end function applicable

  !> Makes what a method exchanges with, unless another method has; `why` is "", or the reason why
  !> it cannot be had.
  subroutine make_exchanges(m, why)
    integer, intent(in) :: m
    character(:), allocatable, intent(out) :: why
    integer :: number
    why = ""
    associate (knobs => knobs_of(m))
      number = bx_transpose_number(trim(knobs%transpose)) + 1
      associate (exchange => exchanges(state_of(m), number), pairs => pair_exchanges(number))
        if (.not. c_associated(exchange%handle)) then
          exchange = bx_make_exchange(states(state_of(m))%fft, trim(knobs%transpose), why)
        end if
        if (why /= "" .or. .not. crystal%hybrid .or. c_associated(pairs%handle)) return
        pairs = bx_make_exchange(ffts%fft, trim(knobs%transpose), why)
      end associate
    end associate
  end subroutine make_exchanges

  !> The state of a method, with its knobs set.
  function prepared(m) result(s)
    integer, intent(in) :: m
    type(state_t), pointer :: s
    integer :: number
    s => states(state_of(m))
    s%knobs = knobs_of(m)
    number = bx_transpose_number(trim(s%knobs%transpose)) + 1
    call exchange_by(s, exchanges(state_of(m), number))
    if (crystal%hybrid) ffts%exchange = pair_exchanges(number)
    if (s%matrix%driver == driver_with(s%knobs)) return
    call s%matrix%destroy()
    call s%matrix%create(run, world, trim(driver_with(s%knobs)), s%crystal%bands, s%factor())
  end function prepared

  subroutine verify(address, method, point, verification) bind(C)
    type(c_ptr), value :: address, verification
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    type(traffic_t) :: sent
    real(dp) :: before(1), after(2), allowed
    integer :: steps
    s => prepared(int(method) + 1)
    if (bx_is_hollow()) return ! its messages alone are verified: see inspect
    ! the exchange step leaves the checkpoint's bands as they are
    if (given%split /= 2) call start_state(s, bx_seed(run), given%noise)
    if (exchanges_alone()) then
      call verify_exchange(s, verification)
      return
    end if
    call evaluate(s, ffts, before(1))
    after = 0
    do steps = 1, int(given%iterations)
      call note_density(s)
      sent = traffic_so_far()
      call scf_step(s, ffts)
      sent = traffic_since(sent, world)
      call evaluate(s, ffts, after(1))
      after(2) = bx_largest(s%density_out - s%density)/(2*occupied)
      call MPI_Allreduce(MPI_IN_PLACE, after, 2, MPI_DOUBLE_PRECISION, MPI_MAX, world)
      if (all(after < converged)) exit
    end do
    steps = min(steps, int(given%iterations))
    call MPI_Allreduce(MPI_IN_PLACE, before, 1, MPI_DOUBLE_PRECISION, MPI_MAX, world)
    ! the larger the fewer minimisations there were
    allowed = max(0.5_dp, 0.9_dp**(steps*s%inner))
    if (.not. is_near() .and. any(after >= converged) .and. after(1) < allowed*before(1)) then
      if (bx_refuse(run, bx_usage, "--noise "//number(given%noise)//": "// &
                    trim(methods(int(method) + 1)%name)//" converges, but needs more &
                    &--iterations") /= bx_ok) return
    end if
    call check_step(s, accuracy, compared(), verification)
    call check_orthonormality(s, verification)
    if (.not. allocated(agreed)) agreed = s%energy(:occupied, :)
    call bx_check(verification, "agreement", bx_largest([s%energy(:occupied, :) - agreed]), &
                  1e-10_dp*max(1.0_dp, crystal%cutoff/100), "Hartree")
    call bx_check(verification, "residual", after(1)/max(before(1), converged), allowed, &
                  "of the start")
    largest_matrix(int(method) + 1) = s%matrix%bytes
    call MPI_Allreduce(MPI_IN_PLACE, largest_matrix(int(method) + 1), 1, MPI_DOUBLE_PRECISION, &
                       MPI_MAX, world)
    call check_traffic(sent, traffic_of_step(s, ffts), verification)
    if (crystal%hybrid .and. given%split == 0) call verify_exchange(s, verification)
    if (given%split == 1) then
      if (bx_passed(run, verification)) then
        call write_checkpoint(s)
      else
        call bx_note(run, "--checkpoint "//bx_string_at(given%checkpoint)// &
                     ": not written, as the answer is wrong")
      end if
    end if
  end subroutine verify

  !> What was sent, against the sizes.
  subroutine check_traffic(sent, expected, verification)
    type(traffic_t), intent(in) :: sent, expected
    type(c_ptr), intent(in) :: verification
    call bx_check_count(verification, "messages", sent%messages, expected%messages, &
                        expected%messages)
    call bx_check_count(verification, "bytes", sent%bytes, expected%bytes, expected%bytes)
  end subroutine check_traffic

  subroutine verify_exchange(s, verification)
    type(state_t), intent(inout) :: s
    type(c_ptr), intent(in) :: verification
    type(traffic_t) :: sent
    sent = traffic_so_far()
    exchange_mine = exchange_step(s, ffts)
    sent = traffic_since(sent, world)
    if (exchanges_alone()) call check_traffic(sent, traffic_of_exchange_step(s, ffts), verification)
    exact_exchange = check_exchange(s, exchange_mine, accuracy, compared(), verification)
  end subroutine verify_exchange

  subroutine begin(address, method, point) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    logical :: hollow_before
    s => prepared(int(method) + 1)
    hollow_before = bx_hollow_messages(.true._c_bool)
    if (given%split == 2) return
    call start_state(s, bx_seed(run), given%noise)
    if (.not. bx_is_hollow()) call note_density(s)
  end subroutine begin

  subroutine step(address, method, point) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    s => states(state_of(int(method) + 1))
    left_out = traffic_t()
    if (bx_is_hollow()) sent_mine = traffic_so_far()
    if (exchanges_alone()) then
      exchange_mine = exchange_step(s, ffts)
    else
      call scf_step(s, ffts)
    end if
    if (bx_is_hollow()) sent_mine = traffic_so_far() + left_out + sent_mine*(-1)
  end subroutine step

  !> Checks that every step gives the result of the verified ones.
  subroutine inspect(address, method, point, verification) bind(C)
    type(c_ptr), value :: address, verification
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    type(traffic_t) :: expected
    logical :: hollow_before
    s => states(state_of(int(method) + 1))
    hollow_before = bx_hollow_messages(.false._c_bool)
    if (bx_is_hollow()) then
      if (exchanges_alone()) then
        expected = traffic_of_exchange_step(s, ffts)
      else
        expected = traffic_of_step(s, ffts)
      end if
      call check_traffic(all_traffic(sent_mine, world), expected, verification)
      return
    end if
    if (exchanges_alone()) then
      exact_exchange = check_exchange(s, exchange_mine, accuracy, compared(), verification)
    else
      call check_step(s, accuracy, merge(crystal%bands, 0, is_near()), verification)
    end if
  end subroutine inspect

  subroutine metrics(address, method, point, list) bind(C)
    type(c_ptr), value :: address, list
    integer(c_size_t), value :: method, point
    if (largest_matrix(int(method) + 1) > 0) call bx_metric(list, "matrix_bytes_per_rank", &
      largest_matrix(int(method) + 1), "B", "lower")
    call bx_metric(list, "idle_share", real(idle_ranks(crystal%atoms, ranks), dp)/ranks, "share", &
                   "lower")
  end subroutine metrics

  subroutine report(address, this_run, details) bind(C)
    type(c_ptr), value :: address, this_run, details
    character(200) :: line
    real(dp) :: resident
    resident = bx_memory_used() - resident_before
    write (line, "(i0, ' bands, ', i0, ' occupied; ', i0, ' plane waves', a, ', ', i0, 'x', i0, &
      &'x', i0, ' points, ', i0, ' k-point', a)") crystal%bands, occupied, &
      count_plane_waves(crystal), &
      trim(merge(" (half the sphere)", "                  ", crystal%gamma)), crystal%grid, &
      crystal%kpoints, trim(merge("s", " ", crystal%kpoints > 1))
    call bx_note(run, line)
    write (line, "(i0, ' atoms: ', i0, ' of ', i0, ' ranks have none in the one-centre terms')") &
      crystal%atoms, idle_ranks(crystal%atoms, ranks), ranks
    call bx_note(run, line)
    call bx_detail(details, "bands", real(crystal%bands, dp))
    call bx_detail(details, "occupied", real(occupied, dp))
    call bx_detail(details, "atoms", real(crystal%atoms, dp))
    call bx_detail(details, "plane_waves", real(count_plane_waves(crystal), dp))
    call bx_detail(details, "kpoints", real(crystal%kpoints, dp))
    call bx_detail(details, "grid_points", product(real(crystal%grid, dp)))
    call bx_detail(details, "base_npar", real(base_npar, dp))
    call bx_detail(details, "idle_ranks", real(idle_ranks(crystal%atoms, ranks), dp))
    call bx_detail(details, "memory_predicted", predicted)
    call bx_detail(details, "memory_resident", resident)
    if (crystal%hybrid) call bx_detail(details, "exchange_energy", exact_exchange)
  end subroutine report

  subroutine teardown(address) bind(C)
    type(c_ptr), value :: address
    integer :: i, m
    do i = 1, size(states)
      if (.not. associated(states(i)%psi)) cycle
      do m = 1, size(exchanges, 2)
        call bx_free_exchange(exchanges(i, m))
      end do
      call free_state(states(i))
    end do
    do m = 1, size(pair_exchanges)
      call bx_free_exchange(pair_exchanges(m))
    end do
    call free_pair_ffts(ffts)
  end subroutine teardown

end module npar_kernel
