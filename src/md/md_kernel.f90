! bisection-md: molecular dynamics of four potentials, to find the best numbers of MPI ranks per
! node and threads per rank, and the cost of communication.
!
! After M. J. Chorley and D. W. Walker, Performance analysis of a hybrid MPI/OpenMP application on
! multi-core clusters (J. Comput. Sci. 1, 168, 2010), who measured DL_POLY 3.
module md_kernel
  use, intrinsic :: iso_c_binding, only: c_bool, c_char, c_double, c_funloc, c_int, c_int64_t, &
    c_loc, c_null_ptr, c_ptr, c_size_t, dp => c_double
  use mpi_f08, only: MPI_Allreduce, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, MPI_SUM
  use omp_lib, only: omp_get_wtime
  use bx_harness, only: bx_check_count, bx_choice_t, bx_comm, bx_detail, bx_flag, bx_kernel_t, &
    bx_memory_used, bx_metric, bx_metric_value, bx_note, bx_option_t, bx_shown_calls, bx_text, &
    bx_without, &
    real_number => bx_real_option, text => bx_text_option, whole => bx_integer_option
  use md_forces, only: cached_loops
  use md_lattice, only: crystals
  use md_launch, only: ghosts, given, methods, neighbours, objection, run, seen, system, world
  use md_potential, only: gigapascal, ionic_kind, is_rigid, tersoff_kind
  use md_setup, only: predicted, set_up
  use md_system, only: phase_names
  use md_verify, only: check_repeat, restore, verify_cached, verify_method
  use md_verlet, only: advance
  implicit none (type, external)
  private
  public :: this_kernel

  type(bx_kernel_t), target :: kernel
  type(bx_choice_t), target :: case_choices(size(crystals)), choices(size(methods))
  type(bx_option_t), target :: options(12)
  type(c_ptr), target :: phases(size(phase_names)), ratios(2)

  real(dp) :: memory_before = 0
  real(dp) :: cached_atoms = 0 !< whose loops the baseline has done in this block

  !> Of each method, the steps so far, and means over ranks: seconds of all, in parallel regions, in
  !> these beyond the busiest thread, in metal_ld; iterations.
  real(dp) :: used(6, size(methods)) = 0
  real(dp) :: at_begin(5) = 0 !< what clocks() was when the block began

contains

  ! The procedures of bx_kernel_t; bx.h describes each.

  !> The kernel's table.
  type(c_ptr) function this_kernel() result(address) bind(C, name="bx_kernel_get")
    integer :: i
    do i = 1, size(crystals)
      case_choices(i) = bx_choice_t(bx_text(crystals(i)%name), bx_text(crystals(i)%summary))
    end do
    do i = 1, size(methods)
      choices(i) = bx_choice_t(bx_text(methods(i)%name), bx_text(methods(i)%summary), &
                               bx_text(methods(i)%wins), logical(methods(i)%baseline, c_bool), &
                               calls=bx_text(methods(i)%calls))
    end do
    do i = 1, size(phase_names)
      phases(i) = bx_text(phase_names(i))
    end do
    ratios = [bx_text("packed"), bx_text("cached")]
    given%input = bx_text("")
    given%dump = bx_text("")
    given%restart = bx_text("")
    given%save = bx_text("")
    options = [ &
      whole("cells", "N", "lattice cells along each edge", 1.0_dp, 1e5_dp, given%cells), &
      text("input", "FILE", "start from a file that --dump has written", given%input), &
      text("dump", "FILE", "write the state at --until to an extended XYZ file", given%dump), &
      text("restart", "FILE", "start from a restart file", given%restart), &
      text("save", "FILE", "write a restart file at --until", given%save), &
      whole("save-every", "N", "write it every N time steps before --until, too", 1.0_dp, 1e15_dp, &
            given%save_every), &
      whole("until", "STEP", "run up to this time step, then measure", 0.0_dp, 1e15_dp, &
            given%until), &
      whole("steps", "N", "time steps in each sample", 1.0_dp, 1e9_dp, given%steps), &
      real_number("timestep", "FS", "time step, femtoseconds", 1e-6_dp, 1e3_dp, given%timestep), &
      real_number("temperature", "K", "temperature of the start; a crystal keeps half of it", &
                  0.0_dp, 1e6_dp, given%temperature), &
      real_number("skin", "A", "skin of the lists beyond the cutoff, angstrom", 0.0_dp, 10.0_dp, &
                  given%skin), &
      bx_option_t(bx_text("thread-lists"), c_null_ptr, &
                  bx_text("dlpoly3: threads make the lists, too"), bx_flag, 0.0_dp, 0.0_dp, &
                  c_loc(given%thread_lists))]
    kernel = bx_kernel_t(name=bx_text("md"), summary=bx_text( &
      "molecular dynamics: Tersoff, Gupta, Finnis-Sinclair, ions, rigid water"), &
      cases=c_loc(case_choices), case_count=size(crystals, kind=c_size_t), &
      methods=c_loc(choices), method_count=size(methods, kind=c_size_t), &
      options=c_loc(options), option_count=size(options, kind=c_size_t), &
      phases=c_loc(phases), phase_count=size(phases, kind=c_size_t), &
      ratios=c_loc(ratios), ratio_count=size(ratios, kind=c_size_t), &
      baselines=bx_text("cached"), &
      setup=c_funloc(setup), applicable=c_funloc(applicable), verify=c_funloc(verify), &
      begin=c_funloc(begin), step=c_funloc(step), end=c_funloc(finish), &
      promise=c_funloc(promise), items=c_funloc(items), metrics=c_funloc(metrics), &
      report=c_funloc(report))
    address = c_loc(kernel)
  end function this_kernel

  integer(c_int) function setup(this_run, address) result(code) bind(C)
    type(c_ptr), value :: this_run
    type(c_ptr), intent(out) :: address
    run = this_run
    address = c_loc(kernel)
    world%MPI_VAL = bx_comm(run)
    memory_before = bx_memory_used()
    code = set_up()
  end function setup

  logical(c_bool) function applicable(address, method, why, why_size) result(can) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, why_size
    character(kind=c_char), intent(out) :: why(why_size)
    can = bx_without(objection(int(method) + 1), why)
  end function applicable

  subroutine verify(address, method, point, verification) bind(C)
    type(c_ptr), value :: address, verification
    integer(c_size_t), value :: method, point
    if (methods(method + 1)%baseline) then
      call verify_cached(verification, 0_c_int64_t, 0.0_dp)
    else
      call verify_method(int(method) + 1, verification)
    end if
  end subroutine verify

  !> One reduction per time step, two of ions; two or three of all forces of replicated data; of
  !> DL_POLY_3 a barrier, and for each of six directions of an exchange two checks.
  subroutine promise(address, method, point, shown, verification) bind(C)
    type(c_ptr), value :: address, shown, verification
    integer(c_size_t), value :: method, point
    real(dp) :: least, most, steps
    logical :: ions
    if (system%domain%world_size == 1) return
    steps = real(given%steps, dp)
    ions = system%potential%kind == ionic_kind
    associate (style => methods(method + 1)%style)
      least = merge(2, 1, ions)
      if (style%replicated) least = merge(2, 3, system%potential%kind == tersoff_kind)
      if (style%dlpoly3) least = 12*merge(2, 3, ions)
      most = steps*(least + 2) ! with a new list in each step
      if (style%dlpoly3 .or. is_rigid(system%potential)) most = huge(most)
      call bx_check_count(verification, "reductions", bx_shown_calls(shown, "Allreduce", ""), &
                          steps*least, most)
      least = merge(steps, 0.0_dp, style%dlpoly3)
      call bx_check_count(verification, "barriers", bx_shown_calls(shown, "Barrier", ""), least, &
                          least)
    end associate
  end subroutine promise

  ! ---- measurement ----

  subroutine begin(address, method, point) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, point
    if (methods(method + 1)%baseline) then
      call advance(system, 0)
      cached_atoms = 0
    else
      call restore(int(method) + 1)
    end if
    at_begin = clocks()
  end subroutine begin

  subroutine step(address, method, point) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, point
    real(dp) :: began, energy(2), atoms
    if (methods(method + 1)%baseline) then
      call cached_loops(system, int(given%steps), energy, atoms)
      cached_atoms = cached_atoms + atoms
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
    real(dp) :: spent(5)
    if (methods(method + 1)%baseline) then
      call verify_cached(verification, steps*given%steps, cached_atoms)
      return
    end if
    spent = clocks() - at_begin
    call MPI_Allreduce(MPI_IN_PLACE, spent, 5, MPI_DOUBLE_PRECISION, MPI_SUM, world)
    used(:, method + 1) = used(:, method + 1) + [real(steps*given%steps, dp), &
                                                 spent/system%domain%world_size]
    call check_repeat(int(method) + 1, verification)
  end subroutine finish

  !> What this rank has used so far, in the order of `used`.
  function clocks() result(all)
    real(dp) :: all(5)
    all = [system%wall, system%in_regions, system%forked, system%metal_ld, &
           system%constraints%iterations]
  end function clocks

  real(c_double) function items(address, method, point) result(count) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, point
    count = real(given%steps, dp)
  end function items

  !> Metrics of a time step: rate, traffic of all ranks, shares of time outside the loops.
  subroutine metrics(address, method, point, list) bind(C)
    type(c_ptr), value :: address, list
    integer(c_size_t), value :: method, point
    character(*), parameter :: classes(*) = [character(10) :: "p2p", "collective", "barrier"]
    real(dp) :: messages, bytes, share, shares
    integer :: i
    messages = 0
    bytes = 0
    shares = 0
    call bx_metric(list, "atom_steps", real(system%total, dp)/bx_metric_value(list, "time"), &
                   "atom-steps/s", "higher")
    if (.not. bx_metric_value(list, "p2p.bytes") >= 0) return ! not all is measured
    do i = 1, size(classes)
      messages = messages + bx_metric_value(list, trim(classes(i))//".messages")/given%steps
      bytes = bytes + bx_metric_value(list, trim(classes(i))//".bytes")/given%steps
      share = bx_metric_value(list, trim(classes(i))//".seconds") &
              /(bx_metric_value(list, "time_mean")*given%steps)
      call bx_metric(list, trim(classes(i))//"_share", share, "share", "lower")
      shares = shares + share
    end do
    associate (steps => used(1, method + 1), wall => used(2, method + 1), &
               regions => used(3, method + 1), forked => used(4, method + 1), &
               metal_ld => used(5, method + 1), iterations => used(6, method + 1))
      call bx_metric(list, "bytes_per_rank", bytes, "B", "lower")
      call bx_metric(list, "bytes", bytes*system%domain%world_size, "B", "lower")
      call bx_metric(list, "messages", messages*system%domain%world_size, "messages", "lower")
      call bx_metric(list, "communication_share", shares, "share", "lower")
      if (metal_ld > 0) call bx_metric(list, "metal_ld_routine_share", metal_ld/wall, "share", &
                                       "lower")
      if (iterations > 0) call bx_metric(list, "iterations", iterations/steps, "iterations", &
                                         "lower")
      call bx_metric(list, "fork_join_share", forked/wall, "share", "lower")
      call bx_metric(list, "serial_share", max(0.0_dp, 1 - regions/wall - shares), "share", "lower")
    end associate
  end subroutine metrics

  subroutine report(address, this_run, details) bind(C)
    type(c_ptr), value :: address, this_run, details
    character(240) :: line
    real(dp) :: used
    logical :: has_pressure
    used = bx_memory_used() - memory_before
    has_pressure = .not. is_rigid(system%potential) ! the part of bonds is not computed
    if (ghosts > 0) then
      write (line, "(i0, ' atoms; domains ', i0, 'x', i0, 'x', i0, '; ', i0, ' ghosts per rank; ', &
        &f0.1, ' entries of lists an atom; cutoff ', f0.2, ' A, skin ', f0.2, ' A')") &
        system%total, system%domain%grid, nint(ghosts), neighbours, system%potential%cutoff, &
        system%skin
      call bx_note(run, line)
      write (line, "('step ', i0, ': ', f0.3, ' eV, ', f0.2, ' K')") given%until, &
        seen%potential + seen%kinetic, seen%temperature
      if (has_pressure) write (line(len_trim(line) + 1:), "(', pressure ', f0.3, ' GPa')") &
        seen%pressure*gigapascal
      call bx_note(run, line)
    end if
    call bx_detail(details, "atoms", real(system%total, dp))
    call bx_detail(details, "domains_a", real(system%domain%grid(1), dp))
    call bx_detail(details, "domains_b", real(system%domain%grid(2), dp))
    call bx_detail(details, "domains_c", real(system%domain%grid(3), dp))
    call bx_detail(details, "cutoff", system%potential%cutoff)
    call bx_detail(details, "skin", system%skin)
    call bx_detail(details, "ghosts", ghosts)
    call bx_detail(details, "list_entries", neighbours)
    call bx_detail(details, "potential_energy", seen%potential)
    call bx_detail(details, "kinetic_energy", seen%kinetic)
    call bx_detail(details, "temperature", seen%temperature)
    if (has_pressure) then
      call bx_detail(details, "pressure", seen%pressure)
      call bx_detail(details, "static_pressure", (seen%stress(1, 1) + seen%stress(2, 2) &
                                                  + seen%stress(3, 3))/3)
    end if
    call bx_detail(details, "memory_predicted", predicted)
    call bx_detail(details, "memory_resident", used)
    call bx_detail(details, "memory_per_atom", used*system%domain%world_size/real(system%total, dp))
  end subroutine report

end module md_kernel
