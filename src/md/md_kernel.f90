! bisection-md: molecular dynamics of three potentials, to find how many MPI ranks a node and how
! many threads a rank are best, and what its communication costs.
!
! After M. J. Chorley and D. W. Walker, Performance analysis of a hybrid MPI/OpenMP application on
! multi-core clusters (J. Comput. Sci. 1, 168, 2010), who asked it of DL_POLY 3.
module md_kernel
  use, intrinsic :: iso_c_binding, only: c_bool, c_char, c_double, c_funloc, c_int, c_int64_t, &
    c_loc, c_null_char, c_null_ptr, c_ptr, c_size_t, dp => c_double
  use, intrinsic :: iso_fortran_env, only: error_unit
  use mpi_f08, only: MPI_Allreduce, MPI_Comm, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, MPI_INTEGER8, &
    MPI_SUM
  use omp_lib, only: omp_get_wtime
  use bx_harness, only: bx_case, bx_case_is, bx_check, bx_choice_t, bx_claim_memory, bx_comm, &
    bx_detail, bx_kernel_t, bx_largest, bx_memory_used, bx_metric, bx_metric_value, bx_note, &
    bx_ok, bx_one_of, bx_option_t, bx_passed, bx_refuse, bx_seed, bx_selected, bx_string_at, &
    bx_text, bx_threads, bx_traffic_classes, bx_traffic_read, bx_traffic_t, bx_usage, bx_without, &
    real_number => bx_real_option, text => bx_text_option, whole => bx_integer_option
  use md_atoms, only: atoms_t
  use md_domain, only: hops_needed, make_domain, most_hops
  use md_lattice, only: crystal_atoms, crystal_box, crystals, fill_crystal, find_crystal, warm_up
  use md_potential, only: find_potential, potential_t, tersoff_kind
  use md_reference, only: reference_errors
  use md_restart, only: read_restart, write_restart
  use md_system, only: advance, cached_loops, failure_of_all, failure_t, find_forces, go_on_from, &
    observation_t, observe, phase_names, style_t, system_t, use_style
  use md_units, only: gigapascal
  use md_xyz, only: configuration_t, distribute, read_configuration, write_configuration
  implicit none (type, external)
  private
  public :: this_kernel

  type :: method_t
    character(16) :: name
    character(80) :: summary, wins
    type(style_t) :: style
    logical :: baseline = .false.
  end type method_t
  type(method_t), parameter :: methods(*) = [ &
    method_t("packed", "sizes known, one reduction a step, a list when atoms have moved", &
             "everywhere: the way to do it", style_t()), &
    method_t("dlpoly3", "sizes before payloads, 56 one-value reductions and a list a step", &
             "nowhere: it is what the paper's code sent", style_t(dlpoly3=.true.)), &
    method_t("recompute", "pair terms computed again for the forces, not kept (metals)", &
             "nodes whose memory is slower than their cores", style_t(recompute=.true.)), &
    method_t("cached", "the loops over pairs alone, on a few atoms again and again", "", &
             style_t(), baseline=.true.)]

  type :: option_values_t
    integer(c_int64_t) :: cells = 0, until = 10, steps = 20, save_every = 0
    real(c_double) :: timestep = 1, temperature = 600, skin = -1
    type(c_ptr) :: comm_style = c_null_ptr, input = c_null_ptr, dump = c_null_ptr, &
      restart = c_null_ptr, save = c_null_ptr
  end type option_values_t
  type(option_values_t), target :: given

  type(bx_kernel_t), target :: kernel
  type(bx_choice_t), target :: case_choices(size(crystals)), choices(size(methods))
  type(bx_option_t), target :: options(12)
  type(c_ptr), target :: phases(size(phase_names)), ratios(2)

  type(c_ptr) :: run = c_null_ptr
  type(MPI_Comm) :: world
  type(system_t), target :: system
  type(atoms_t) :: start !< what every method starts from
  real(dp), allocatable :: start_moved(:, :) !< of a restart: where atoms are since the list: A
  integer(c_int64_t) :: start_step = 0
  type(observation_t) :: seen !< of the first method, when its measurement began
  real(dp) :: ghosts = 0, neighbours = 0 !< mean over ranks, over atoms
  real(dp) :: memory_before = 0, predicted = 0
  type(observation_t) :: verified(size(methods)) !< of each method, when it was verified

  !> What the measured steps of a method have taken, means over the ranks: s, and sums of counts.
  type :: usage_t
    real(dp) :: steps = 0, wall = 0, regions = 0, forked = 0
    real(dp) :: seconds(bx_traffic_classes) = 0, bytes = 0, messages = 0
  end type usage_t
  type(usage_t) :: usage(size(methods)), block_start

  integer, parameter :: samples = 24 !< atoms whose forces are compared
  !> How much the energy may differ in steps of 1 fs, of the kinetic energy: Tersoff, metals.
  real(dp), parameter :: conserved(2) = [0.05_dp, 0.01_dp]

contains

  function this_kernel() result(address) bind(C, name="bx_this_kernel")
    type(c_ptr) :: address
    integer :: i
    do i = 1, size(crystals)
      case_choices(i) = bx_choice_t(bx_text(crystals(i)%name), bx_text(crystals(i)%summary))
    end do
    do i = 1, size(methods)
      choices(i) = bx_choice_t(bx_text(methods(i)%name), bx_text(methods(i)%summary), &
                               bx_text(methods(i)%wins), logical(methods(i)%baseline, c_bool))
    end do
    do i = 1, size(phase_names)
      phases(i) = bx_text(phase_names(i))
    end do
    ratios = [bx_text("packed"), bx_text("cached")]
    given%comm_style = bx_text("")
    given%input = bx_text("")
    given%dump = bx_text("")
    given%restart = bx_text("")
    given%save = bx_text("")
    options = [ &
      whole("cells", "N", "lattice cells an edge", 1.0_dp, 1e5_dp, given%cells), &
      text("input", "FILE", "start from an extended XYZ file", given%input), &
      text("dump", "FILE", "write the state at --until to an extended XYZ file", given%dump), &
      text("restart", "FILE", "go on from a restart file", given%restart), &
      text("save", "FILE", "write a restart file at --until", given%save), &
      whole("save-every", "N", "and every so many time steps before", 1.0_dp, 1e15_dp, &
            given%save_every), &
      whole("until", "STEP", "run up to this time step, then measure", 0.0_dp, 1e15_dp, &
            given%until), &
      whole("steps", "N", "time steps in a sample", 1.0_dp, 1e9_dp, given%steps), &
      real_number("timestep", "FS", "femtoseconds", 1e-6_dp, 1e3_dp, given%timestep), &
      real_number("temperature", "K", "of the start; a crystal takes up half of it", 0.0_dp, &
                  1e6_dp, given%temperature), &
      real_number("skin", "A", "that lists reach beyond the cutoff", 0.0_dp, 10.0_dp, given%skin), &
      text("comm-style", "packed|dlpoly3", "measure this way of communicating only", &
           given%comm_style)]
    kernel = bx_kernel_t(name=bx_text("md"), summary=bx_text( &
      "molecular dynamics: Tersoff, Gupta, Finnis-Sinclair"), &
      cases=c_loc(case_choices), case_count=size(crystals, kind=c_size_t), &
      methods=c_loc(choices), method_count=size(methods, kind=c_size_t), &
      options=c_loc(options), option_count=size(options, kind=c_size_t), &
      phases=c_loc(phases), phase_count=size(phases, kind=c_size_t), &
      ratios=c_loc(ratios), ratio_count=size(ratios, kind=c_size_t), &
      baselines=bx_text("cached"), &
      setup=c_funloc(setup), applicable=c_funloc(applicable), verify=c_funloc(verify), &
      begin=c_funloc(begin), step=c_funloc(step), end=c_funloc(finish), items=c_funloc(items), &
      metrics=c_funloc(metrics), report=c_funloc(report), teardown=c_funloc(teardown))
    address = c_loc(kernel)
  end function this_kernel

  ! ---- setup ----

  function setup(this_run, address) result(code) bind(C)
    type(c_ptr), value :: this_run
    type(c_ptr), intent(out) :: address
    integer(c_int) :: code
    type(configuration_t) :: configuration
    integer :: number, cells
    run = this_run
    address = c_loc(kernel)
    world%MPI_VAL = bx_comm(run)
    memory_before = bx_memory_used()
    code = settle_options()
    if (code /= bx_ok) return
    number = find_crystal(bx_case(run))
    cells = crystals(number)%cells
    if (given%cells > 0) cells = int(given%cells)
    system%run = run
    system%timestep = given%timestep*1e-3_dp
    if (bx_string_at(given%input) /= "") then
      code = read_input(configuration)
      if (code /= bx_ok) return
      system%potential = configuration%potential
      system%box = configuration%box
      system%total = configuration%atoms
    else
      system%potential = find_potential(crystals(number)%species)
      system%box = crystal_box(crystals(number), cells)
      system%total = crystal_atoms(crystals(number), cells)
      if (cells /= crystals(number)%cells) call bx_case_is(run, "custom")
    end if
    system%skin = merge(given%skin, system%potential%skin, given%skin >= 0)
    call make_domain(world, system%box, system%potential%cutoff + system%skin, system%domain)
    code = check_halo()
    if (code /= bx_ok) return
    predicted = bytes_needed()
    code = bx_claim_memory(run, predicted, "the atoms")
    if (code /= bx_ok) return
    allocate (system%list%work(bx_threads(run)))
    if (bx_string_at(given%restart) /= "") then
      code = go_on()
    else if (bx_string_at(given%input) /= "") then
      call distribute(configuration, system%domain, start)
    else
      call fill_crystal(crystals(number), cells, system%box, system%domain, start)
    end if
    if (code /= bx_ok) return
    if (.not. (allocated(start_moved) .or. configuration%moving)) then
      call warm_up(world, system%potential, bx_seed(run), given%temperature, system%total, start)
    end if
    system%atoms = start ! for the baseline, which may be alone
  end function setup

  function settle_options() result(code)
    integer(c_int) :: code
    integer :: m, selected
    logical :: styled, saves, reads
    character(:), allocatable :: alone
    code = bx_one_of(run, "comm-style", given%comm_style, &
                     [character(16) :: "", "packed", "dlpoly3"])
    if (code /= bx_ok) return
    alone = ""
    if (bx_string_at(given%dump) /= "") alone = "--dump "//bx_string_at(given%dump)
    if (bx_string_at(given%restart) /= "") alone = "--restart "//bx_string_at(given%restart)
    if (bx_string_at(given%save) /= "") alone = "--save "//bx_string_at(given%save)
    selected = 0
    do m = 1, size(methods)
      if (is_under_test(m)) selected = selected + 1
    end do
    styled = bx_string_at(given%comm_style) /= ""
    saves = bx_string_at(given%save) /= ""
    reads = bx_string_at(given%input) /= ""
    if (selected == 0 .and. styled) then
      code = bx_refuse(run, bx_usage, "--comm-style "//bx_string_at(given%comm_style)// &
                       ": leaves none of the methods of --method")
    else if (alone /= "" .and. selected /= 1) then
      code = bx_refuse(run, bx_usage, alone//": needs one method; choose it with --method")
    else if (given%save_every > 0 .and. .not. saves) then
      code = bx_refuse(run, bx_usage, "--save-every: needs --save FILE")
    else if (reads .and. given%cells > 0) then
      code = bx_refuse(run, bx_usage, "--cells: not with --input, which has its own box")
    end if
  end function settle_options

  !> Whether --comm-style lets it be.
  logical function asked_for(m)
    integer, intent(in) :: m
    character(:), allocatable :: style
    style = bx_string_at(given%comm_style)
    asked_for = style == "" .or. methods(m)%baseline .or. &
                ((style == "dlpoly3") .eqv. methods(m)%style%dlpoly3)
  end function asked_for

  !> Whether a method will be measured, and judged.
  logical function is_under_test(m)
    integer, intent(in) :: m
    is_under_test = .not. methods(m)%baseline
    if (is_under_test) is_under_test = bx_selected(run, methods(m)%name)
    if (is_under_test) is_under_test = asked_for(m)
  end function is_under_test

  function read_input(configuration) result(code)
    type(configuration_t), intent(out) :: configuration
    integer(c_int) :: code
    character(400) :: why
    code = bx_ok
    call read_configuration(bx_string_at(given%input), world, configuration, why)
    if (why /= "") code = bx_refuse(run, bx_usage, "--input "//trim(why))
    call bx_case_is(run, "custom")
  end function read_input

  !> A halo may reach over some domains, not over any number of them.
  function check_halo() result(code)
    integer(c_int) :: code
    character(240) :: line
    integer :: hops(3), d
    code = bx_ok
    associate (reach => system%potential%cutoff + system%skin)
      hops = hops_needed(system%domain, system%box, reach)
      d = maxloc(hops, 1)
      if (hops(d) <= most_hops) return
      write (line, "('the box is too small for a cutoff of ', f0.2, ' A and a skin of ', f0.2, &
        &' A on these ', i0, ' ranks: domains are ', f0.2, ' A thick along vector ', a, &
        &', at least ', f0.2, ' A are needed')") system%potential%cutoff, system%skin, &
        system%domain%ranks, system%box%height(d)/system%domain%dims(d), "abc"(d:d), reach/most_hops
    end associate
    code = bx_refuse(run, bx_usage, line)
  end function check_halo

  !> Of this rank, for an even density: atoms with their copy, ghosts, lists, what is kept of pairs.
  real(dp) function bytes_needed()
    real(dp) :: density, own, all, entries, reach
    density = real(system%total, dp)/system%box%volume
    reach = system%potential%cutoff + system%skin
    own = density*product(system%box%height/system%domain%dims)
    all = density*product(system%box%height/system%domain%dims + 2*reach)
    entries = own*density*4.19_dp*reach**3
    if (system%potential%kind == tersoff_kind) then
      bytes_needed = 5*entries
    else
      bytes_needed = (5 + 2*8)*entries/2*1.25_dp
    end if
    bytes_needed = bytes_needed + 2*140*own + (all - own)*140 + all*(16 + 40*(bx_threads(run) - 1))
  end function bytes_needed

  !> The restart file's atoms, as they were when their list was made, and its step.
  function go_on() result(code)
    integer(c_int) :: code
    character(500) :: why
    integer :: m
    do m = 1, size(methods) ! the one that is selected
      if (is_under_test(m)) call use_style(system, methods(m)%style)
    end do
    call read_restart(bx_string_at(given%restart), system, start, start_moved, start_step, why)
    code = bx_ok
    if (why /= "") code = bx_refuse(run, bx_usage, "--restart "//trim(why))
    if (code == bx_ok .and. start_step > given%until) code = bx_refuse(run, bx_usage, &
      "--until: is before the step of --restart "//bx_string_at(given%restart))
  end function go_on

  function applicable(address, method, why, why_size) result(can) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, why_size
    character(kind=c_char), intent(out) :: why(why_size)
    logical(c_bool) :: can
    character(160) :: reason
    reason = ""
    if (methods(method + 1)%style%recompute .and. system%potential%kind == tersoff_kind) reason = &
      "Tersoff's potential keeps no pair terms"
    if (.not. asked_for(int(method) + 1)) reason = "--comm-style "// &
      bx_string_at(given%comm_style)//" alone is asked for"
    can = bx_without(reason, why)
  end function applicable

  ! ---- verification ----

  subroutine verify(address, method, point, verification) bind(C)
    type(c_ptr), value :: address, verification
    integer(c_size_t), value :: method, point
    type(observation_t) :: first, last
    real(dp) :: sent(2), errors(2)
    real(dp), allocatable :: energies(:)
    integer(c_int64_t) :: stop_at
    if (methods(method + 1)%baseline) then
      call verify_cached(verification)
      return
    end if
    call use_style(system, methods(method + 1)%style)
    system%atoms = start
    system%step = start_step
    system%listed = .false.
    system%failure = failure_t()
    if (allocated(start_moved)) then
      call go_on_from(system, start_moved)
    else
      call advance(system, 0)
    end if
    if (failed(verification)) return
    first = observe(system)
    sent = 0
    do while (system%step < given%until)
      stop_at = given%until
      if (given%save_every > 0) stop_at = min(stop_at, (system%step/given%save_every + 1) &
                                              *given%save_every)
      sent = sent - traffic_less_tally()
      call advance(system, int(min(stop_at - system%step, 1000000000_c_int64_t)))
      sent = sent + traffic_less_tally()
      if (failed(verification)) return
      if (given%save_every > 0 .and. system%step < given%until) call save(verification)
    end do
    call MPI_Allreduce(MPI_IN_PLACE, sent, 2, MPI_DOUBLE_PRECISION, MPI_SUM, world)
    call bx_check(verification, "messages", abs(sent(1)), 0.0_dp, "messages")
    call bx_check(verification, "bytes", abs(sent(2)), 0.0_dp, "bytes")
    allocate (energies(system%atoms%own))
    call find_forces(system, energies)
    call reference_errors(system, energies, samples, bx_seed(run), errors(1), errors(2))
    call bx_check(verification, "forces", errors(1), 1e-12_dp, "of the largest")
    call bx_check(verification, "energies", errors(2), 1e-12_dp, "of each")
    call sum_energies(energies, verification)
    last = observe(system)
    call check_conserved(verification, first, last)
    call check_atoms(verification)
    verified(method + 1) = last
    if (bx_string_at(given%dump) /= "") call dump(energies, verification)
    if (bx_string_at(given%save) /= "") then
      if (bx_passed(run, verification)) then
        call save(verification)
      else
        call bx_note(run, "--save "//bx_string_at(given%save)//": not written, as the answer is &
          &wrong")
      end if
    end if
    if (ghosts > 0) return ! the others' are the same
    seen = last
    call describe()
  end subroutine verify

  !> The loops must be those of the step, every time.
  subroutine verify_cached(verification)
    type(c_ptr), intent(in) :: verification
    real(dp) :: energy(2)
    call advance(system, 0)
    call cached_loops(system, 2, energy)
    call bx_check(verification, "repeat", abs(energy(1) - energy(2)), 0.0_dp, "eV")
  end subroutine verify_cached

  !> Notes what has gone wrong, if anything has.
  logical function failed(verification)
    type(c_ptr), intent(in) :: verification
    character(240) :: line
    call failure_of_all(system, line)
    failed = line /= ""
    call bx_check(verification, "trajectory", merge(1.0_dp, 0.0_dp, failed), 0.0_dp, "failures")
    if (.not. failed) return
    call bx_note(run, line)
    if (system%domain%rank == 0) write (error_unit, "(2a)") "bisection-md: ", trim(line)
  end function failed

  !> What this rank has sent beyond what it meant to: messages, bytes.
  function traffic_less_tally() result(excess)
    real(dp) :: excess(2)
    type(bx_traffic_t) :: traffic(bx_traffic_classes)
    call bx_traffic_read(traffic)
    excess = [sum(traffic%messages) - system%domain%tally%messages, &
              sum(traffic%bytes) - system%domain%tally%bytes]
  end function traffic_less_tally

  !> Atoms' energies add up to that of the system.
  subroutine sum_energies(energies, verification)
    real(dp), intent(in) :: energies(:)
    type(c_ptr), intent(in) :: verification
    real(dp) :: sums(2)
    sums = [sum(energies), system%energy]
    call MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE_PRECISION, MPI_SUM, world)
    call bx_check(verification, "sum", abs(sums(1) - sums(2))/max(1.0_dp, abs(sums(2))), &
                  1e-12_dp, "of the energy")
  end subroutine sum_energies

  !> Energy and momentum since `before`.
  subroutine check_conserved(verification, before, now)
    type(c_ptr), intent(in) :: verification
    type(observation_t), intent(in) :: before, now
    real(dp) :: tolerance
    tolerance = merge(conserved(1), conserved(2), system%potential%kind == tersoff_kind) &
                *max(1.0_dp, given%timestep**2)
    call bx_check(verification, "conserved", abs(now%potential + now%kinetic &
                  - before%potential - before%kinetic) &
                  /max(now%kinetic, 1e-6_dp*abs(now%potential), 1e-9_dp), &
                  tolerance, "of the kinetic energy")
    call bx_check(verification, "momentum", bx_largest(now%momentum - before%momentum) &
                  /real(system%total, dp), 1e-9_dp, "u A/ps an atom")
  end subroutine check_conserved

  !> All are there, once: their number, and the sum of their ids and of a hash of each.
  subroutine check_atoms(verification)
    type(c_ptr), intent(in) :: verification
    integer(c_int64_t) :: found(3), wanted(3), id
    integer :: k
    found = [int(system%atoms%own, c_int64_t), 0_c_int64_t, 0_c_int64_t]
    wanted = [int(start%own, c_int64_t), 0_c_int64_t, 0_c_int64_t]
    do k = 1, system%atoms%own
      id = system%atoms%id(k)
      found(2:) = found(2:) + [id, mod(id, 1000003_c_int64_t)**2]
    end do
    do k = 1, start%own
      id = start%id(k)
      wanted(2:) = wanted(2:) + [id, mod(id, 1000003_c_int64_t)**2]
    end do
    found = found - wanted
    call MPI_Allreduce(MPI_IN_PLACE, found, 3, MPI_INTEGER8, MPI_SUM, world)
    call bx_check(verification, "atoms", real(maxval(abs(found)), dp), 0.0_dp, &
                  "other than at first")
  end subroutine check_atoms

  subroutine dump(energies, verification)
    real(dp), intent(in) :: energies(:)
    type(c_ptr), intent(in) :: verification
    character(500) :: why
    call write_configuration(bx_string_at(given%dump), system%box, system%potential, &
                             system%domain, system%atoms, energies, system%step, system%total, why)
    call tell(verification, "dump", why)
  end subroutine dump

  subroutine save(verification)
    type(c_ptr), intent(in) :: verification
    character(500) :: why
    call write_restart(bx_string_at(given%save), system, why)
    call tell(verification, "save", why)
  end subroutine save

  subroutine tell(verification, option, why)
    type(c_ptr), intent(in) :: verification
    character(*), intent(in) :: option, why
    call bx_check(verification, option, merge(1.0_dp, 0.0_dp, why /= ""), 0.0_dp, "failed")
    if (why /= "") call bx_note(run, "--"//option//" "//why)
  end subroutine tell

  subroutine describe()
    real(dp) :: sums(2)
    integer :: t
    sums = real([system%atoms%all - system%atoms%own, 0], dp)
    do t = 1, size(system%list%work)
      associate (work => system%list%work(t))
        sums(2) = sums(2) + work%start(work%last + 1) - 1
      end associate
    end do
    call MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE_PRECISION, MPI_SUM, world)
    ghosts = sums(1)/system%domain%ranks
    neighbours = sums(2)/real(system%total, dp)
  end subroutine describe

  ! ---- measurement ----

  subroutine begin(address, method, point) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, point
    if (.not. methods(method + 1)%baseline) call use_style(system, methods(method + 1)%style)
    call advance(system, 0)
    block_start = usage_so_far()
  end subroutine begin

  subroutine step(address, method, point) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, point
    real(dp) :: began, energy(2)
    if (methods(method + 1)%baseline) then
      call cached_loops(system, int(given%steps), energy)
      return
    end if
    began = omp_get_wtime()
    call advance(system, int(given%steps))
    system%wall = system%wall + omp_get_wtime() - began
  end subroutine step

  subroutine finish(address, method, point, steps, verification) bind(C)
    type(c_ptr), value :: address, verification
    integer(c_size_t), value :: method, point
    integer(c_int64_t), value :: steps
    type(usage_t) :: more
    if (methods(method + 1)%baseline) then
      call verify_cached(verification)
      return
    end if
    more = usage_of_all()
    associate (mine => usage(method + 1))
      mine%steps = mine%steps + real(steps*given%steps, dp)
      mine%wall = mine%wall + more%wall
      mine%regions = mine%regions + more%regions
      mine%forked = mine%forked + more%forked
      mine%seconds = mine%seconds + more%seconds
      mine%bytes = mine%bytes + more%bytes
      mine%messages = mine%messages + more%messages
    end associate
    if (failed(verification)) return
    call check_conserved(verification, verified(method + 1), observe(system))
  end subroutine finish

  !> This rank's, so far.
  function usage_so_far() result(mine)
    type(usage_t) :: mine
    type(bx_traffic_t) :: traffic(bx_traffic_classes)
    call bx_traffic_read(traffic)
    mine = usage_t(0.0_dp, system%wall, system%in_regions, system%forked, traffic%seconds, &
                   sum(traffic%bytes), sum(traffic%messages))
  end function usage_so_far

  !> Since the block began: times are means over the ranks, counts are sums.
  function usage_of_all() result(total)
    type(usage_t) :: total, now
    real(dp) :: all(5 + bx_traffic_classes)
    now = usage_so_far()
    all = [now%wall - block_start%wall, now%regions - block_start%regions, &
           now%forked - block_start%forked, now%bytes - block_start%bytes, &
           now%messages - block_start%messages, now%seconds - block_start%seconds]
    call MPI_Allreduce(MPI_IN_PLACE, all, size(all), MPI_DOUBLE_PRECISION, MPI_SUM, world)
    associate (ranks => system%domain%ranks)
      total = usage_t(0.0_dp, all(1)/ranks, all(2)/ranks, all(3)/ranks, all(6:)/ranks, all(4), &
                      all(5))
    end associate
  end function usage_of_all

  function items(address, method, point) result(count) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, point
    real(c_double) :: count
    count = real(given%steps, dp)
  end function items

  !> A time step's: rate, traffic of all ranks, where the time goes outside the loops.
  subroutine metrics(address, method, point, list) bind(C)
    type(c_ptr), value :: address, list
    integer(c_size_t), value :: method, point
    character(*), parameter :: classes(*) = [character(10) :: "p2p", "collective", "barrier"]
    integer :: i
    associate (all => usage(method + 1))
      if (.not. all%steps > 0) return
      call bx_metric(list, "atom_steps", real(system%total, dp)/bx_metric_value(list, "time"), &
                     "atom-steps/s", "higher")
      call bx_metric(list, "bytes_per_rank", all%bytes/all%steps/system%domain%ranks, "B", "lower")
      call bx_metric(list, "bytes", all%bytes/all%steps, "B", "lower")
      call bx_metric(list, "messages", all%messages/all%steps, "messages", "lower")
      do i = 1, size(classes)
        call bx_metric(list, trim(classes(i))//"_share", all%seconds(i)/all%wall, "share", "lower")
      end do
      call bx_metric(list, "communication_share", sum(all%seconds)/all%wall, "share", "lower")
      call bx_metric(list, "fork_join_share", all%forked/all%wall, "share", "lower")
      call bx_metric(list, "serial_share", max(0.0_dp, all%wall - all%regions &
                                               - sum(all%seconds))/all%wall, "share", "lower")
    end associate
  end subroutine metrics

  subroutine report(address, this_run, details) bind(C)
    type(c_ptr), value :: address, this_run, details
    character(240) :: line
    real(dp) :: used
    used = bx_memory_used() - memory_before
    if (ghosts > 0) then
      write (line, "(i0, ' atoms; domains ', i0, 'x', i0, 'x', i0, '; ', i0, ' ghosts a rank; ', &
        &f0.1, ' entries of lists an atom; cutoff ', f0.2, ' A, skin ', f0.2, ' A')") &
        system%total, system%domain%dims, nint(ghosts), neighbours, system%potential%cutoff, &
        system%skin
      call bx_note(run, line)
      write (line, "('step ', i0, ': ', f0.3, ' eV, ', f0.2, ' K, pressure ', f0.3, ' GPa')") &
        given%until, seen%potential + seen%kinetic, seen%temperature, seen%pressure*gigapascal
      call bx_note(run, line)
    end if
    call bx_detail(details, "atoms", real(system%total, dp))
    call bx_detail(details, "domains_a", real(system%domain%dims(1), dp))
    call bx_detail(details, "domains_b", real(system%domain%dims(2), dp))
    call bx_detail(details, "domains_c", real(system%domain%dims(3), dp))
    call bx_detail(details, "cutoff", system%potential%cutoff)
    call bx_detail(details, "skin", system%skin)
    call bx_detail(details, "ghosts", ghosts)
    call bx_detail(details, "list_entries", neighbours)
    call bx_detail(details, "potential_energy", seen%potential)
    call bx_detail(details, "kinetic_energy", seen%kinetic)
    call bx_detail(details, "temperature", seen%temperature)
    call bx_detail(details, "pressure", seen%pressure)
    call bx_detail(details, "static_pressure", (seen%stress(1, 1) + seen%stress(2, 2) &
                                                + seen%stress(3, 3))/3)
    call bx_detail(details, "memory_predicted", predicted)
    call bx_detail(details, "memory_resident", used)
    call bx_detail(details, "memory_per_atom", used*system%domain%ranks/real(system%total, dp))
  end subroutine report

  subroutine teardown(address) bind(C)
    type(c_ptr), value :: address
  end subroutine teardown

end module md_kernel
