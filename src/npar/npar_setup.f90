! From the command line to the states of all choices of NPAR.  Calculations that are impossible, or
! whose answer is not known, are refused before they cost time.
module npar_setup
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_ptr, dp => c_double
  use bx_charges, only: bx_is_hollow
  use bx_harness, only: bx_agree, bx_case, bx_case_is, bx_claim_file, bx_claim_memory, &
    bx_claim_time, bx_file_read, bx_file_written, bx_node_of, bx_ok, bx_one_of, bx_refuse, &
    bx_resources, bx_selected, bx_string_at, bx_threads, bx_usage
  use bx_transpose, only: bx_fft_bytes, bx_transpose_methods
  use npar_accuracy, only: accuracy_of, accuracy_t, exchange_response, small_noise
  use npar_cases, only: find_case, nice_size, number, read_box
  use npar_checkpoint, only: read_checkpoint
  use npar_launch, only: accuracy, base_knobs, base_npar, bytes_of_matrices, crystal, cuts_nodes, &
    driver_with, fixed_npar, given, is_near, is_run, is_wanted, knobs_of, methods, occupied, &
    ranks, run, spectra, state_of, states, why_not, world
  use npar_matrix, only: libraries, why_no_driver
  use npar_model, only: about_half, crystal_t, grid_of_pairs, solve_spectra, spectrum_t
  use npar_scf, only: largest_count, make_state, place_ranks, state_bytes, step_seconds
  use npar_state, only: bands_of, batch, state_t
  implicit none (type, external)
  private
  public :: nodes_of_team, set_up

  real(dp), public :: predicted = 0 !< bytes of this rank
  !> Largest exchange_response, which neglects second orders: at 6.7, errors grow by 9 per step.
  real(dp), parameter :: largest_response = 0.7_dp
  integer, parameter :: largest_small = 64 !< atoms; the rules are of 32, 64 and 750
  integer, parameter :: most_iterations = 100 !< almost every start converges in fewer

contains

  !> Sets everything up to the first step.  Returns bx_ok or the code of a refusal.  Collective.
  integer(c_int) function set_up() result(code)
    !> Bytes of a product state while solve_spectra sorts them: energy, numbers, order, scratch.
    real(dp), parameter :: state = 40
    real(dp), parameter :: sphere = 4.2_dp !< volume of the unit sphere: states within the cutoff
    integer :: i
    code = settle_knobs()
    if (code == bx_ok) code = settle_crystal()
    if (code == bx_ok) code = settle_noise()
    if (code == bx_ok) code = settle_npar()
    if (code == bx_ok) code = settle_methods()
    if (code == bx_ok) code = settle_split()
    if (code /= bx_ok) return
    code = bx_claim_memory(run, state*sphere*product(crystal%quantum()**(-0.5_dp)) &
                           *crystal%cutoff**1.5_dp, sizes()//" (the closed form)")
    if (code /= bx_ok) return
    call solve_spectra(crystal, spectra, occupied)
    code = check_spectra()
    if (code /= bx_ok) return
    allocate (states(count(methods%npar > 0)))
    do i = 1, size(states)
      if (.not. is_wanted(methods(i)%npar)) cycle
      states(i)%run = run
      states(i)%world = world
      states(i)%crystal = crystal
      states(i)%spectra => spectra
      states(i)%occupied = occupied
      states(i)%inner = merge(1, int(given%inner), crystal%hybrid)
      call place_ranks(states(i), methods(i)%npar)
      predicted = predicted + state_bytes(states(i)) + bytes_of_matrices(methods(i)%npar) &
                  + grid_bytes(states(i))
      if (largest_count(states(i)) > huge(i)) then
        code = bx_refuse(run, bx_resources, sizes()//": the bands of a rank are over MPI's count &
          &limit of 2^31 - 1 numbers; use more ranks")
      end if
    end do
    code = bx_agree(run)
    if (.not. bx_is_hollow()) then ! which touches no bands, and whose errors are not looked at
      if (code == bx_ok) code = bx_claim_memory(run, predicted, sizes()//" (the bands)")
      if (code == bx_ok) code = claim_time()
      if (code == bx_ok) code = check_stability()
    end if
    if (code /= bx_ok) return
    do i = 1, size(states)
      if (is_wanted(methods(i)%npar)) then
        call make_state(states(i), nodes_of_team(states(i)), bx_string_at(given%planner))
      end if
    end do
    if (given%split == 2) code = read_checkpoint(states(size(states)))
  end function set_up

  !> The sizes of this calculation as options, for messages.
  function sizes() result(text)
    character(:), allocatable :: text
    character(200) :: line
    text = "--case "//bx_case(run)
    if (bx_case(run) == "custom") then
      write (line, "('--bands ', i0, ' --atoms ', i0, ' --cutoff ', a, ' --grid ', i0, 2(',', &
        &i0))") crystal%bands, crystal%atoms, number(crystal%cutoff), crystal%grid
      text = trim(line)
    end if
    if (crystal%hybrid) text = text//" --functional hybrid"
    if (crystal%gamma) return
    write (line, "(' --kpoints ', i0)") crystal%kpoints
    text = text//trim(line)
  end function sizes

  !> Refuses a launch that takes longer than --limit.
  integer(c_int) function claim_time() result(code)
    real(dp) :: round, verification
    integer :: m
    round = 0
    do m = 1, size(methods)
      if (.not. is_run(m)) cycle
      associate (s => states(state_of(m)))
        s%knobs = knobs_of(m)
        round = round + step_seconds(s, int(bx_threads(run)))
      end associate
    end do
    verification = merge(0.0_dp, 40*round, is_near()) ! most starts converge in so many iterations
    code = bx_claim_time(run, verification, round, sizes())
  end function claim_time

  !> Sets the base's knobs from the options; refuses unknown ones.
  integer(c_int) function settle_knobs() result(code)
    base_knobs%linear_algebra = bx_string_at(given%linear_algebra)
    base_knobs%transpose = bx_string_at(given%transpose)
    code = bx_ok
    call choose("functional", given%functional, [character(16) :: "", "gga", "hybrid"])
    call choose("collectives", given%collectives, [character(16) :: "mpi", "emulated"])
    call choose("paw-reduce", given%paw_reduce, [character(16) :: "allreduce", "alltoall"])
    call choose("zeroing", given%zeroing, [character(16) :: "on", "off"])
    call choose("projectors", given%projectors, [character(16) :: "together", "by-atom"])
    call choose("linear-algebra", given%linear_algebra, libraries)
    call choose("transpose", given%transpose, bx_transpose_methods())
    call choose("planner", given%planner, [character(16) :: "estimate", "measure", "patient"])
    base_knobs%emulated = bx_string_at(given%collectives) == "emulated"
    base_knobs%paw_alltoall = bx_string_at(given%paw_reduce) == "alltoall"
    base_knobs%zeroing = bx_string_at(given%zeroing) == "on"
    base_knobs%by_atom = bx_string_at(given%projectors) == "by-atom"
    if (base_knobs%emulated .and. base_knobs%transpose == "alltoallv") base_knobs%transpose = "p2p"

  contains

    !> Refuses the value of an option that is none of the choices, unless another was refused.
    subroutine choose(option, value, choices)
      character(*), intent(in) :: option, choices(:)
      type(c_ptr), intent(in) :: value
      if (code == bx_ok) code = bx_one_of(run, option, value, choices)
    end subroutine choose

  end function settle_knobs

  !> Sets the case's crystal, with the changes of the options.
  integer(c_int) function settle_crystal() result(code)
    character(300) :: line
    real(dp) :: box(3)
    character(:), allocatable :: functional
    integer :: smallest(3)
    logical :: boxed
    code = bx_ok
    crystal = find_case(bx_case(run))
    if (given%gamma .and. given%kpoints > 0) then
      write (line, "('--gamma --kpoints ', i0, ': one or the other')") given%kpoints
      code = bx_refuse(run, bx_usage, line)
      return
    end if
    if (given%gamma) then
      crystal%gamma = .true.
      crystal%kpoints = 1
    else if (given%kpoints > 0) then
      crystal%gamma = .false.
      crystal%kpoints = int(given%kpoints)
    end if
    functional = bx_string_at(given%functional)
    if (functional /= "") crystal%hybrid = functional == "hybrid"
    if (crystal%hybrid .and. .not. crystal%gamma) then
      code = bx_refuse(run, bx_usage, "--functional hybrid: for real waves only; add --gamma")
      return
    end if
    if (given%bands > 0) crystal%bands = int(given%bands)
    if (given%atoms > 0) crystal%atoms = int(given%atoms)
    if (any([given%bands, given%atoms, given%grid] > 0) .or. given%cutoff > 0) then
      call bx_case_is(run, "custom")
    end if
    boxed = bx_string_at(given%box) /= ""
    if (boxed) then
      call bx_case_is(run, "custom")
      box = read_box(bx_string_at(given%box))
      if (any(box <= 0)) then
        code = bx_refuse(run, bx_usage, "--box "//bx_string_at(given%box)// &
                         ": not L or LX,LY,LZ, each above 0 and below 10000")
        return
      end if
      crystal%box = box
    end if
    if (given%cutoff > 0) crystal%cutoff = given%cutoff
    if (given%grid(1) > 0) then
      crystal%grid = int(given%grid)
      ! the largest sphere whose pair products the grid holds
      if (.not. given%cutoff > 0) then
        crystal%cutoff = minval(crystal%quantum()*(real((crystal%grid - 1)/4, dp))**2)*(1 + 1e-9_dp)
      end if
    else if (given%cutoff > 0 .or. boxed) then
      crystal%grid = nice_size(4*int(crystal%radius()) + 1)
    end if
    smallest = 2*int(crystal%radius()) + 2
    line = ""
    if (any(crystal%grid < smallest) .and. given%grid(1) > 0) then
      write (line, "('--grid ', i0, ',', i0, ',', i0, ': too small for the cutoff; at least ', i0, &
        &',', i0, ',', i0)") crystal%grid, smallest
    else if (any(int(crystal%radius()) == 0)) then
      line = shape_options()//": along one edge the cutoff, "//number(crystal%cutoff)// &
             " Hartree, holds no plane wave but G = 0"
    else if (any(crystal%grid >= 2048)) then
      write (line, "(a, ': the grid would have ', i0, ' points an edge; 2047 at most')") &
        shape_options(), maxval(crystal%grid)
    end if
    if (line /= "") code = bx_refuse(run, bx_usage, line)
  end function settle_crystal

  !> The options given for box, cutoff and grid.
  function shape_options() result(text)
    character(:), allocatable :: text
    character(40) :: points
    text = ""
    if (bx_string_at(given%box) /= "") text = " --box "//bx_string_at(given%box)
    if (given%cutoff > 0) text = text//" --cutoff "//number(given%cutoff)
    write (points, "(i0, 2(',', i0))") given%grid
    if (given%grid(1) > 0) text = text//" --grid "//trim(points)
    text = trim(adjustl(text))
  end function shape_options

  !> The case's number of groups, or the rule of Appendix B: cores / 8, here the divisor next below;
  !> of large crystals cores / 32, where teams cut no nodes.
  integer(c_int) function settle_npar() result(code)
    character(400) :: line
    character(12) :: word
    logical :: large
    integer :: i
    code = bx_ok
    base_npar = 1
    large = crystal%atoms > largest_small
    do i = 2, ranks/merge(32, 8, large)
      if (mod(ranks, i) /= 0) cycle
      if (large) then
        if (cuts_nodes(i)) cycle
      end if
      base_npar = i
    end do
    if (crystal%npar > 0) base_npar = crystal%npar
    if (given%npar > 0) then
      if (mod(int(ranks, c_int64_t), given%npar) /= 0) then
        write (line, "('--npar ', i0, ': does not divide the ', i0, ' ranks; choose from')") &
          given%npar, ranks
        do i = 1, ranks
          if (mod(ranks, i) /= 0) cycle
          write (word, "(i0)") i
          line = trim(line)//trim(merge("  ", ", ", i == 1))//" "//trim(word)
        end do
        code = bx_refuse(run, bx_usage, line)
        return
      end if
      base_npar = int(given%npar)
    end if
    if (crystal%hybrid .and. given%npar > 0 .and. base_npar /= fixed_npar()) then
      write (line, "('--npar ', i0, ': a hybrid functional fixes NPAR at', a, ' ', i0)") &
        base_npar, trim(merge(" the number of ranks,", repeat(" ", 21), crystal%npar == 0)), &
        fixed_npar()
      code = bx_refuse(run, bx_usage, line)
    else if (crystal%hybrid) then
      base_npar = fixed_npar()
    end if
  end function settle_npar

  !> Refuses a launch none of whose methods can run.
  integer(c_int) function settle_methods() result(code)
    character(120) :: reason
    character(:), allocatable :: driver
    integer :: m
    code = bx_ok
    driver = bx_string_at(given%driver)
    reason = ""
    if (driver == "lapack") reason = "the solver of whole matrices: see --linear-algebra"
    if (driver /= "" .and. reason == "") then
      reason = why_no_driver(driver, crystal%bands, crystal%gamma, ranks)
    end if
    if (reason /= "") then
      code = bx_refuse(run, bx_usage, "--driver "//driver//": "//reason)
      return
    end if
    reason = why_no_driver(trim(driver_with(base_knobs)), crystal%bands, crystal%gamma, ranks)
    if (reason /= "") then
      code = bx_refuse(run, bx_usage, "--linear-algebra "//trim(base_knobs%linear_algebra)//": "// &
                       reason)
      return
    end if
    do m = 1, size(methods)
      if (.not. bx_selected(run, methods(m)%name)) cycle
      if (why_not(m) == "") return
    end do
    do m = size(methods), 1, -1
      if (bx_selected(run, methods(m)%name)) exit
    end do
    code = bx_refuse(run, bx_usage, "--method "//trim(methods(m)%name)//": "//why_not(m))
  end function settle_methods

  !> Refuses too few iterations for a large noise, which must converge before it is compared.
  integer(c_int) function settle_noise() result(code)
    character(200) :: line
    code = bx_ok
    if (is_near() .or. given%iterations >= most_iterations) return
    write (line, "('--noise ', a, ' --iterations ', i0, ': may not converge; a noise above ', a, &
      &' needs --iterations ', i0, ' or more')") number(given%noise), given%iterations, &
      number(small_noise), most_iterations
    code = bx_refuse(run, bx_usage, line)
  end function settle_noise

  !> Sets up --split-calculation: refuses it without a checkpoint or a hybrid functional.
  integer(c_int) function settle_split() result(code)
    character(200) :: line
    character(80) :: reason
    integer :: m, selected
    code = bx_ok
    if (given%split == 0) then
      if (bx_string_at(given%checkpoint) /= "") code = bx_refuse(run, bx_usage, "--checkpoint "// &
        bx_string_at(given%checkpoint)//": goes with --split-calculation 1 or 2")
      return
    end if
    selected = count([(is_run(m), m=1, size(methods))])
    reason = ""
    if (selected /= 1) reason = "needs one method; choose it with --method"
    if (bx_string_at(given%checkpoint) == "") reason = "needs --checkpoint FILE"
    if (.not. crystal%hybrid) reason = "has an exchange step only with --functional hybrid"
    if (reason == "") then
      code = bx_claim_file(run, "checkpoint", bx_string_at(given%checkpoint), &
                           merge(bx_file_written, bx_file_read, given%split == 1))
      code = bx_agree(run)
      return
    end if
    write (line, "('--split-calculation ', i0, ': ', a)") given%split, trim(reason)
    code = bx_refuse(run, bx_usage, line)
  end function settle_split

  !> Refuses calculations that the closed form does not cover.
  integer(c_int) function check_spectra() result(code)
    character(300) :: line
    character(160) :: reason
    character(120) :: sizes
    integer :: better, smallest(3)
    code = bx_ok
    if (bx_is_hollow()) return ! nobody looks at the answer
    reason = why_unknown(crystal, spectra, occupied, accuracy)
    if (reason == "") then
      if (.not. crystal%hybrid) return
      smallest = grid_of_pairs(spectra(1), crystal%bands, occupied)
      if (all(crystal%grid >= smallest)) return
      write (line, "('--grid ', i0, 2(',', i0), ': too small for exact exchange between so many &
        &bands; at least ', i0, 2(',', i0))") crystal%grid, smallest
      code = bx_refuse(run, bx_usage, line)
      return
    end if
    if (index(reason, "too many") > 0) then
      write (sizes, "('--bands ', i0, ' --atoms ', i0)") crystal%bands, crystal%atoms
    else
      write (sizes, "(a, '--bands ', i0)") merge("--functional hybrid ", &
        repeat(" ", 20), crystal%hybrid), crystal%bands
      better = other_bands()
      if (better > 0) write (reason(len_trim(reason) + 1:), "('; try --bands ', i0)") better
    end if
    line = trim(adjustl(sizes))//": "//reason
    code = bx_refuse(run, bx_usage, line)
  end function check_spectra

  !> Refuses exact exchange that multiplies errors from step to step.
  integer(c_int) function check_stability() result(code)
    character(200) :: line
    real(dp) :: response
    code = bx_ok
    if (.not. crystal%hybrid .or. crystal%exchange_alone) return ! which takes no second step
    response = exchange_response(crystal, spectra(1), occupied)
    if (response <= largest_response) return
    write (line, "('--functional hybrid --bands ', i0, ': exact exchange may multiply errors by ', &
      &f0.1, ' a step, as the gap above band ', i0, ' is small; choose another --box or &
      &--bands')") crystal%bands, response, occupied
    code = bx_refuse(run, bx_usage, line)
  end function check_stability

  !> The reason why the answer is not known, "" if it is; `known`: how exactly it is known.
  character(160) function why_unknown(c, s, n, known) result(reason)
    type(crystal_t), intent(in) :: c
    type(spectrum_t), intent(in) :: s(:)
    integer, intent(in) :: n !< occupied bands
    type(accuracy_t), intent(out) :: known
    integer :: k
    logical :: covered
    covered = minval([(size(s(k)%energy), k=1, size(s))]) > c%projectors() + c%bands
    reason = ""
    if (covered .and. n > 0) known = accuracy_of(c, s, n, given%noise)
    if (.not. covered .or. .not. known%converged) then
      write (reason, "('too many for a cutoff of ', f0.2, ' Hartree: the answer would not be known &
        &to 1e-10; raise --cutoff or --grid')") c%cutoff
    else if (n == 0) then
      write (reason, "('exact exchange is known only for closed shells of plane waves, and none &
        &has ', i0, ' to ', i0, ' bands')") about_half(c)
    else if (.not. known%distinct) then
      write (reason, "('the gap above bands ', i0, ' to ', i0, ' is too small: the density of the &
        &bands below would not be known')") about_half(c)
    end if
  end function why_unknown

  !> The nearest number of bands whose answer is known, 0 if none is near.
  integer function other_bands() result(bands)
    type(crystal_t) :: other
    type(spectrum_t), allocatable :: of_other(:)
    type(accuracy_t) :: known
    integer :: n, step, way
    other = crystal
    do step = 1, 32
      do way = 1, -1, -2
        bands = crystal%bands + way*step
        other%bands = bands
        if (bands < 2) cycle
        call solve_spectra(other, of_other, n)
        if (why_unknown(other, of_other, n, known) == "") return
      end do
    end do
    bands = 0
  end function other_bands

  !> Node of each rank of a team.
  function nodes_of_team(s) result(nodes)
    type(state_t), intent(in) :: s
    integer(c_int), allocatable :: nodes(:)
    integer(c_int), pointer :: all(:)
    all => bx_node_of(run, ranks)
    nodes = all(s%group*s%ncore + 1:(s%group + 1)*s%ncore)
  end function nodes_of_team

  !> Bytes of the plan and of the arrays on the grid, before the plan exists.
  function grid_bytes(s) result(bytes)
    type(state_t), intent(in) :: s
    real(dp) :: bytes, plane
    integer :: planes, columns
    plane = real(s%crystal%grid(1), dp)*s%crystal%grid(2)
    columns = (s%crystal%grid(1)*s%crystal%grid(2) - 1)/s%ncore + 1 ! of pair densities
    planes = (s%crystal%grid(3) + s%ncore - 1 - s%member)/s%ncore
    bytes = 5*8*plane*planes
    bytes = bytes + bx_fft_bytes(s%crystal%grid, s%basis%columns, planes, batch, &
                                 int(bx_threads(run)))
    if (s%crystal%hybrid) then
      bytes = bytes + 8*plane*planes*(3 + size(s%band) + 2*((count(s%band <= s%occupied) + 1)/2)) &
              + 16.0_dp*s%waves()*bands_of(s%crystal%bands, s%npar, 0) &
              + bx_fft_bytes(s%crystal%grid, columns, planes, 1, int(bx_threads(run)))
    end if
  end function grid_bytes

end module npar_setup
