! bisection-npar: one self-consistent-field step of a plane-wave code with PAW, on every
! two-dimensional grid of ranks and with each of its choices changed in turn.
!
! After A. Turner et al., Optimising the performance of the VASP 5.2.2 code on HECToR (2010).
module npar_kernel
  use, intrinsic :: iso_c_binding, only: c_associated, c_bool, c_char, c_double, c_funloc, c_int, &
    c_int64_t, c_loc, c_null_char, c_null_ptr, c_ptr, c_size_t, dp => c_double
  use mpi_f08, only: MPI_Allreduce, MPI_Comm, MPI_Comm_rank, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, &
    MPI_MAX
  use bx_harness, only: bx_agree, bx_case, bx_case_is, bx_check, bx_choice_t, bx_claim_file, &
    bx_claim_memory, bx_claim_time, bx_comm, bx_file_read, bx_file_written, bx_resources, &
    bx_detail, bx_flag, bx_grid, bx_kernel_t, bx_largest, bx_memory_used, bx_passed, bx_metric, &
    bx_node_of, bx_note, bx_ok, bx_one_of, bx_option_t, bx_refuse, bx_seed, bx_selected, &
    bx_string_at, bx_text, bx_threads, bx_usage, bx_without, &
    real_number => bx_real_option, text => bx_text_option, whole => bx_integer_option
  use bx_transpose, only: bx_exchange_t, bx_fft_bytes, bx_free_exchange, bx_make_exchange, &
    bx_transpose_methods, bx_transpose_number
  use npar_accuracy, only: accuracy_of, accuracy_t, small_noise
  use npar_basis, only: count_plane_waves
  use npar_cost, only: step_seconds
  use npar_check, only: check_exchange, check_orthonormality, check_step
  use npar_collectives, only: traffic_t
  use npar_eigensolver, only: eigensolver_names, why_no_eigensolver
  use npar_cases, only: cases, find_case, nice_size, number, read_box
  use npar_exchange, only: free_pair_ffts, make_pair_ffts, pair_ffts_t
  use npar_model, only: about_half, crystal_t, grid_of_pairs, solve_spectra, spectrum_t
  use npar_paw, only: idle_ranks
  use npar_scf, only: evaluate, exchange_step, free_state, make_state, place_ranks, scf_step, &
    start_state, state_bytes
  use npar_state, only: batch, knobs_t, state_t
  use npar_traffic, only: traffic_of_step, traffic_since, traffic_so_far
  implicit none (type, external)
  private
  public :: this_kernel

  character(*), parameter :: phase_names(*) = [character(16) :: "fft1d", "pack", "exchange", &
    "unpack", "fft2d", "kinetic", "nonlocal", "redistribute", "subspace", "reduce", "diagonalise", &
    "rotate", "update", "paw", "paw-sum", "density", "zeroing", "exact-exchange", &
    "pair-fft"]
  !> What the reports' profiles call library routines: FFTW, BLAS, LAPACK.
  character(*), parameter :: in_libraries(*) = [character(16) :: "fft1d", "fft2d", "nonlocal", &
    "subspace", "diagonalise", "rotate", "pair-fft"]

  type :: knob_t
    character(16) :: name
    character(80) :: summary, wins
  end type knob_t
  type(knob_t), parameter :: knobs(*) = [ &
    knob_t("emulated", "collectives by point-to-point messages", &
           "few ranks on slow clusters, at most: V01 lost a factor 2 to 10 by it"), &
    knob_t("paw-alltoall", "the PAW sum by two all-to-all exchanges", &
           "never seen to win: V02 lost a factor 1.9 by it"), &
    knob_t("zeroing", "work arrays zeroed before they are written over", &
           "never: it shows what needless memory traffic costs"), &
    knob_t("scalapack", "the subspace matrix diagonalised by ScaLAPACK on all ranks", &
           "many bands: thousands"), &
    knob_t("elpa", "the subspace matrix diagonalised by ELPA on all ranks", "many bands"), &
    knob_t("node-aware", "FFTs exchange through the node's memory (transpose method direct)", &
           "nodes of many cores: V05, V06")]

  !> One method: a choice of NPAR, or the base with one knob turned.
  type :: method_t
    integer :: npar = 0 !< 0: the base's
    character(16) :: knob = ""
  end type method_t

  type :: option_values_t
    integer(c_int64_t) :: npar = 0, kpoints = 0, bands = 0, atoms = 0, grid(3) = 0, inner = 2
    integer(c_int64_t) :: iterations = 2, split = 0
    real(c_double) :: cutoff = 0, noise = 1e-8_c_double
    logical(c_bool) :: gamma = .false._c_bool
    type(c_ptr) :: functional = c_null_ptr, box = c_null_ptr, collectives = c_null_ptr, &
      paw_reduce = c_null_ptr, zeroing = c_null_ptr, linear_algebra = c_null_ptr, &
      transpose = c_null_ptr, planner = c_null_ptr, checkpoint = c_null_ptr
  end type option_values_t
  type(option_values_t), target :: given

  type(bx_kernel_t), target :: kernel
  type(bx_choice_t), target :: case_choices(size(cases))
  type(bx_choice_t), allocatable, target :: choices(:)
  type(bx_option_t), target :: options(20)
  type(c_ptr), target :: phases(size(phase_names)), groups(size(phase_names)), ratios(1)
  type(method_t), allocatable :: methods(:)

  !> The launch.
  type(c_ptr) :: run = c_null_ptr
  type(MPI_Comm) :: world
  integer :: ranks = 1, rank = 0, base_npar = 1
  type(crystal_t) :: crystal
  type(knobs_t) :: base_knobs
  type(spectrum_t), allocatable, target :: spectra(:)
  integer :: occupied = 0
  type(state_t), allocatable, target :: states(:) !< of each NPAR among the methods
  type(bx_exchange_t), allocatable :: exchanges(:, :) !< (ranks, methods), made when first used
  type(pair_ffts_t) :: ffts
  real(dp), allocatable :: agreed(:, :) !< eigenvalues that the first method verified had
  real(dp) :: resident_before = 0, predicted = 0

  type(accuracy_t) :: accuracy !< of the closed form
  real(dp) :: exact_exchange = 0, exchange_mine = 0 !< of all and of my occupied bands: Hartree
  real(dp), parameter :: converged = 1e-10_dp !< residual, Hartree; density, of the mean
  integer, parameter :: most_iterations = 100 !< every start tried converges in fewer

  !> What a checkpoint is of, as npar_checkpoint.h has it.
  type, bind(C) :: npar_checkpoint_t
    integer(c_int) :: bands, occupied, atoms, plane_waves, grid(3), ranks, seed
    real(c_double) :: box(3), cutoff, noise
  end type npar_checkpoint_t

  interface
    subroutine npar_name_libraries() bind(C)
      implicit none (type, external)
    end subroutine npar_name_libraries

    subroutine npar_set_blas_threads(threads) bind(C)
      import :: c_int
      implicit none (type, external)
      integer(c_int), value :: threads
    end subroutine npar_set_blas_threads

    function npar_checkpoint_write(path, comm, about, mine, waves, energies, why, why_size) &
      result(failed) bind(C)
      import :: c_char, c_double, c_int, npar_checkpoint_t
      implicit none (type, external)
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: comm, mine, why_size
      type(npar_checkpoint_t), intent(in) :: about
      real(c_double), intent(in) :: waves(*), energies(*)
      character(kind=c_char), intent(out) :: why(*)
      integer(c_int) :: failed
    end function npar_checkpoint_write

    function npar_checkpoint_read(path, comm, about, mine, waves, energies, why, why_size) &
      result(failed) bind(C)
      import :: c_char, c_double, c_int, npar_checkpoint_t
      implicit none (type, external)
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: comm, mine, why_size
      type(npar_checkpoint_t), intent(in) :: about
      real(c_double), intent(out) :: waves(*), energies(*)
      character(kind=c_char), intent(out) :: why(*)
      integer(c_int) :: failed
    end function npar_checkpoint_read
  end interface

contains

  function this_kernel() result(address) bind(C, name="bx_this_kernel")
    type(c_ptr) :: address
    integer :: i
    do i = 1, size(cases)
      case_choices(i) = bx_choice_t(bx_text(cases(i)%name), bx_text(cases(i)%summary))
    end do
    given%functional = bx_text("")
    given%collectives = bx_text("mpi")
    given%paw_reduce = bx_text("allreduce")
    given%zeroing = bx_text("off")
    given%linear_algebra = bx_text("lapack")
    given%transpose = bx_text("alltoallv")
    given%planner = bx_text("measure")
    options = [ &
      whole("npar", "N", "measure this number of band groups only", 1.0_dp, 1e7_dp, given%npar), &
      text("functional", "gga|hybrid", "hybrid adds exact exchange", given%functional), &
      whole("kpoints", "N", "complex waves at N k-points", 1.0_dp, 1e4_dp, given%kpoints), &
      bx_option_t(bx_text("gamma"), c_null_ptr, bx_text("real waves at the gamma point"), bx_flag, &
                  0.0_dp, 0.0_dp, c_loc(given%gamma)), &
      text("collectives", "mpi|emulated", "or by point-to-point messages", given%collectives), &
      text("paw-reduce", "allreduce|alltoall", "how D_ij is summed", given%paw_reduce), &
      text("zeroing", "on|off", "zero work arrays needlessly", given%zeroing), &
      text("linear-algebra", "lapack|scalapack|elpa", "for the subspace matrix", &
           given%linear_algebra), &
      text("transpose", "METHOD", "how FFTs exchange: a method of bisection-transpose", &
           given%transpose), &
      whole("bands", "N", "bands, about half of them occupied", 2.0_dp, 32767.0_dp, given%bands), &
      whole("atoms", "N", "atoms", 1.0_dp, 1e5_dp, given%atoms), &
      real_number("cutoff", "E", "of the plane waves, Hartree", 1e-3_dp, 1e6_dp, given%cutoff), &
      bx_option_t(bx_text("grid"), bx_text("NX,NY,NZ"), bx_text("of the FFTs"), bx_grid, &
                  4.0_dp, 2000.0_dp, c_loc(given%grid)), &
      text("box", "L|LX,LY,LZ", "edges, bohr", given%box), &
      whole("minimisations", "N", "residual minimisations per step; a hybrid makes one", 1.0_dp, &
            100.0_dp, given%inner), &
      whole("iterations", "N", "steps at most before the answer is compared", 1.0_dp, 1e4_dp, &
            given%iterations), &
      real_number("noise", "X", "of the start, about the exact states", 0.0_dp, 1.0_dp, &
                  given%noise), &
      whole("split-calculation", "0|1|2", "all; the bands, to a checkpoint; exchange, from it", &
            0.0_dp, 2.0_dp, given%split), &
      text("checkpoint", "FILE", "of --split-calculation 1 and 2", given%checkpoint), &
      text("planner", "estimate|measure|patient", &
           "FFTW's effort; estimate: the same bits in every run", given%planner)]
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
      ratios=c_loc(ratios), ratio_count=1_c_size_t, &
      arrange=c_funloc(arrange), setup=c_funloc(setup), applicable=c_funloc(applicable), &
      verify=c_funloc(verify), begin=c_funloc(begin), step=c_funloc(step), &
      inspect=c_funloc(inspect), metrics=c_funloc(metrics), report=c_funloc(report), &
      teardown=c_funloc(teardown))
    address = c_loc(kernel)
  end function this_kernel

  !> The methods for so many ranks: every divisor, then every knob.
  subroutine arrange(count) bind(C)
    integer(c_int), value :: count
    character(16) :: name
    integer :: i
    ranks = int(count)
    methods = [method_t ::]
    choices = [bx_choice_t ::]
    do i = 1, ranks
      if (mod(ranks, i) /= 0) cycle
      write (name, "('npar-', i0)") i
      methods = [methods, method_t(i, "")]
      choices = [choices, bx_choice_t(bx_text(name), bx_text("band groups as many"), &
                 bx_text(merge("one team: only the FFTs communicate within bands ", &
                               "more groups: smaller FFT teams, larger exchanges ", i == 1)), &
                 family=bx_text("npar"))]
    end do
    do i = 1, size(knobs)
      methods = [methods, method_t(0, knobs(i)%name)]
      choices = [choices, bx_choice_t(bx_text(knobs(i)%name), bx_text(knobs(i)%summary), &
                                      bx_text(knobs(i)%wins))]
    end do
    kernel%methods = c_loc(choices)
    kernel%method_count = size(choices, kind=c_size_t)
  end subroutine arrange

  ! ---- setup ----

  function setup(this_run, address) result(code) bind(C)
    type(c_ptr), value :: this_run
    type(c_ptr), intent(out) :: address
    integer(c_int) :: code
    character(16) :: name
    integer :: i
    run = this_run
    address = c_loc(kernel)
    world%MPI_VAL = bx_comm(run)
    call MPI_Comm_rank(world, rank)
    resident_before = bx_memory_used()
    call npar_set_blas_threads(bx_threads(run))
    call npar_name_libraries()
    code = settle_knobs()
    if (code == bx_ok) code = settle_crystal()
    if (code == bx_ok) code = settle_noise()
    if (code == bx_ok) code = settle_npar()
    if (code == bx_ok) code = settle_methods()
    if (code == bx_ok) code = settle_split()
    if (code /= bx_ok) return
    code = bx_claim_memory(run, 40*4.2_dp*product(crystal%quantum()**(-0.5_dp)) &
                           *crystal%cutoff**1.5_dp, sizes()//" (the closed form)")
    if (code /= bx_ok) return
    call solve_spectra(crystal, spectra, occupied)
    code = check_spectra()
    if (code /= bx_ok) return
    write (name, "('npar-', i0)") base_npar
    ratios(1) = bx_text("base="//trim(name))
    allocate (states(ranks))
    allocate (exchanges(ranks, size(bx_transpose_methods())))
    do i = 1, ranks
      if (.not. wanted(i)) cycle
      states(i)%run = run
      states(i)%world = world
      states(i)%crystal = crystal
      states(i)%spectra => spectra
      states(i)%occupied = occupied
      states(i)%inner = merge(1, int(given%inner), crystal%hybrid)
      call place_ranks(states(i), i)
      predicted = predicted + state_bytes(states(i)) + grid_bytes(states(i))
    end do
    code = bx_claim_memory(run, predicted, sizes()//" (the bands)")
    if (code == bx_ok) code = claim_time()
    if (code /= bx_ok) return
    do i = 1, ranks
      if (wanted(i)) then
        call make_state(states(i), nodes_of_team(states(i)), bx_string_at(given%planner))
      end if
    end do
    if (crystal%hybrid) call make_pair_ffts(states(ranks), bx_string_at(given%planner), ffts)
    if (given%split == 2) code = read_checkpoint(states(ranks))
  end function setup

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
  function claim_time() result(code)
    integer(c_int) :: code
    real(dp) :: round, verification
    integer :: m
    round = 0
    do m = 1, size(methods)
      if (.not. bx_selected(run, method_name(m)) .or. why_not(m) /= "") cycle
      associate (s => states(npar_of(m)))
        s%knobs = knobs_of(m)
        round = round + step_seconds(s, int(bx_threads(run)))
      end associate
    end do
    verification = merge(0.0_dp, 40*round, near()) ! most starts converge in so many iterations
    code = bx_claim_time(run, verification, round, sizes())
  end function claim_time

  function about_this() result(about)
    type(npar_checkpoint_t) :: about
    about = npar_checkpoint_t(crystal%bands, occupied, crystal%atoms, count_plane_waves(crystal), &
                              crystal%grid, ranks, int(bx_seed(run)), crystal%box, crystal%cutoff, &
                              given%noise)
  end function about_this

  !> Into the state's bands; refuses what is not a checkpoint of this calculation.
  function read_checkpoint(s) result(code)
    type(state_t), intent(inout) :: s
    integer(c_int) :: code
    character(kind=c_char), target :: why(500)
    code = bx_ok
    why = c_null_char
    if (npar_checkpoint_read(bx_string_at(given%checkpoint)//c_null_char, &
                             int(world%MPI_VAL, c_int), about_this(), &
                             size(s%band, kind=c_int), s%psi, s%energy, why, &
                             size(why, kind=c_int)) /= 0) then
      code = bx_refuse(run, bx_usage, "--checkpoint "//bx_string_at(c_loc(why)))
    end if
  end function read_checkpoint

  subroutine write_checkpoint(s)
    type(state_t), intent(in) :: s
    character(kind=c_char), target :: why(500)
    integer(c_int) :: failed
    why = c_null_char
    failed = npar_checkpoint_write(bx_string_at(given%checkpoint)//c_null_char, &
                                   int(world%MPI_VAL, c_int), about_this(), &
                                   size(s%band, kind=c_int), s%psi, s%energy, why, &
                                   size(why, kind=c_int))
    if (failed /= 0) then
      failed = bx_refuse(run, bx_resources, "--checkpoint "//bx_string_at(c_loc(why)))
    end if
  end subroutine write_checkpoint

  !> Whether a method that will run has this number of groups.
  function wanted(npar) result(found)
    integer, intent(in) :: npar
    logical :: found
    integer :: m
    found = .false.
    if (mod(ranks, npar) /= 0) return
    do m = 1, size(methods)
      if (npar_of(m) /= npar) cycle
      if (bx_selected(run, method_name(m)) .and. why_not(m) == "") found = .true.
    end do
  end function wanted

  pure function npar_of(m) result(npar)
    integer, intent(in) :: m
    integer :: npar
    npar = merge(methods(m)%npar, base_npar, methods(m)%npar > 0)
  end function npar_of

  pure function method_name(m) result(name)
    integer, intent(in) :: m
    character(16) :: name
    name = methods(m)%knob
    if (methods(m)%npar > 0) write (name, "('npar-', i0)") methods(m)%npar
  end function method_name

  !> The base's knobs with that of the method turned.
  pure function knobs_of(m) result(k)
    integer, intent(in) :: m
    type(knobs_t) :: k
    k = base_knobs
    select case (methods(m)%knob)
    case ("emulated")
      k%emulated = .true.
      k%transpose = "p2p"
    case ("paw-alltoall")
      k%paw_alltoall = .true.
    case ("zeroing")
      k%zeroing = .true.
    case ("scalapack", "elpa")
      k%linear_algebra = methods(m)%knob
    case ("node-aware")
      k%transpose = "direct"
    case default ! a choice of NPAR
    end select
  end function knobs_of

  !> Why a method is not for this launch; "" if it is.
  function why_not(m) result(why)
    integer, intent(in) :: m
    character(160) :: why
    type(knobs_t) :: k
    why = ""
    k = knobs_of(m)
    if (methods(m)%npar > 0 .and. given%npar > 0 .and. methods(m)%npar /= given%npar) then
      write (why, "('--npar ', i0, ' alone is asked for')") given%npar
    else if (crystal%hybrid .and. npar_of(m) /= ranks) then
      why = "a hybrid functional fixes NPAR at the number of ranks"
    else if (methods(m)%npar == 0 .and. same(k, base_knobs)) then
      why = "the options ask for it already: it is the base"
    else
      why = why_no_eigensolver(trim(k%linear_algebra), crystal%bands, ranks)
    end if
  end function why_not

  pure function same(a, b) result(equal)
    type(knobs_t), intent(in) :: a, b
    logical :: equal
    equal = (a%emulated .eqv. b%emulated) .and. (a%paw_alltoall .eqv. b%paw_alltoall) .and. &
            (a%zeroing .eqv. b%zeroing) .and. a%linear_algebra == b%linear_algebra .and. &
            a%transpose == b%transpose
  end function same

  function settle_knobs() result(code)
    integer(c_int) :: code
    base_knobs%linear_algebra = bx_string_at(given%linear_algebra)
    base_knobs%transpose = bx_string_at(given%transpose)
    code = bx_one_of(run, "functional", given%functional, [character(16) :: "", "gga", "hybrid"])
    if (code == bx_ok) then
      code = bx_one_of(run, "collectives", given%collectives, [character(16) :: "mpi", "emulated"])
    end if
    if (code == bx_ok) then
      code = bx_one_of(run, "paw-reduce", given%paw_reduce, &
                       [character(16) :: "allreduce", "alltoall"])
    end if
    if (code == bx_ok) then
      code = bx_one_of(run, "zeroing", given%zeroing, [character(16) :: "on", "off"])
    end if
    if (code == bx_ok) then
      code = bx_one_of(run, "linear-algebra", given%linear_algebra, eigensolver_names())
    end if
    if (code == bx_ok) code = bx_one_of(run, "transpose", given%transpose, bx_transpose_methods())
    if (code == bx_ok) then
      code = bx_one_of(run, "planner", given%planner, &
                       [character(16) :: "estimate", "measure", "patient"])
    end if
    base_knobs%emulated = bx_string_at(given%collectives) == "emulated"
    base_knobs%paw_alltoall = bx_string_at(given%paw_reduce) == "alltoall"
    base_knobs%zeroing = bx_string_at(given%zeroing) == "on"
    if (base_knobs%emulated .and. base_knobs%transpose == "alltoallv") base_knobs%transpose = "p2p"
  end function settle_knobs

  !> Refuses a value that is none of the choices.

  !> The case's crystal, with what the options change.
  function settle_crystal() result(code)
    integer(c_int) :: code
    character(300) :: line
    real(dp) :: box(3)
    character(:), allocatable :: functional
    integer :: i, smallest(3)
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
      crystal%grid = [(nice_size(4*int(sqrt(crystal%cutoff/q_of(i))) + 1), i=1, 3)]
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

  function q_of(direction) result(q)
    integer, intent(in) :: direction
    real(dp) :: q, all(3)
    all = crystal%quantum()
    q = all(direction)
  end function q_of

  !> The rule of Appendix B: cores / 8, here the divisor next below.
  function settle_npar() result(code)
    integer(c_int) :: code
    character(400) :: line
    character(12) :: word
    integer :: i
    code = bx_ok
    base_npar = 1
    do i = 1, max(1, ranks/8)
      if (mod(ranks, i) == 0) base_npar = i
    end do
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
    if (crystal%hybrid .and. given%npar > 0 .and. base_npar /= ranks) then
      write (line, "('--npar ', i0, ': a hybrid functional fixes NPAR at the number of ranks, ', &
        &i0)") base_npar, ranks
      code = bx_refuse(run, bx_usage, line)
    else if (crystal%hybrid) then
      base_npar = ranks
    end if
  end function settle_npar

  !> Refuses a launch none of whose methods can run.
  function settle_methods() result(code)
    integer(c_int) :: code
    character(120) :: reason
    integer :: m
    code = bx_ok
    reason = why_no_eigensolver(trim(base_knobs%linear_algebra), crystal%bands, ranks)
    if (reason /= "") then
      code = bx_refuse(run, bx_usage, "--linear-algebra "//trim(base_knobs%linear_algebra)//": "// &
                       reason)
      return
    end if
    do m = 1, size(methods)
      if (.not. bx_selected(run, method_name(m))) cycle
      if (why_not(m) == "") return
    end do
    do m = size(methods), 1, -1
      if (bx_selected(run, method_name(m))) exit
    end do
    code = bx_refuse(run, bx_usage, "--method "//trim(method_name(m))//": "//why_not(m))
  end function settle_methods

  !> Refuses too few iterations for a large noise, which must converge before it is compared.
  function settle_noise() result(code)
    integer(c_int) :: code
    character(200) :: line
    code = bx_ok
    if (near() .or. given%iterations >= most_iterations) return
    write (line, "('--noise ', a, ' --iterations ', i0, ': may not converge; a noise above ', a, &
      &' needs --iterations ', i0, ' or more')") number(given%noise), given%iterations, &
      number(small_noise), most_iterations
    code = bx_refuse(run, bx_usage, line)
  end function settle_noise

  function settle_split() result(code)
    integer(c_int) :: code
    character(200) :: line
    character(80) :: reason
    integer :: m, selected
    code = bx_ok
    if (given%split == 0) then
      if (bx_string_at(given%checkpoint) /= "") code = bx_refuse(run, bx_usage, "--checkpoint "// &
        bx_string_at(given%checkpoint)//": goes with --split-calculation 1 or 2")
      return
    end if
    selected = count([(bx_selected(run, method_name(m)) .and. why_not(m) == "", &
                       m=1, size(methods))])
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

  !> Refuses what the closed form does not cover.
  function check_spectra() result(code)
    integer(c_int) :: code
    character(300) :: line
    character(160) :: reason
    character(120) :: sizes
    integer :: better, smallest(3)
    code = bx_ok
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

  !> Why the answer is not known, "" if it is; and how exactly it is known.
  function why_unknown(c, s, n, known) result(reason)
    type(crystal_t), intent(in) :: c
    type(spectrum_t), intent(in) :: s(:)
    integer, intent(in) :: n !< occupied bands
    type(accuracy_t), intent(out) :: known
    character(160) :: reason
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
  function other_bands() result(bands)
    integer :: bands
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

  !> Nodes of a team's ranks.
  function nodes_of_team(s) result(nodes)
    type(state_t), intent(in) :: s
    integer(c_int), allocatable :: nodes(:)
    integer(c_int), pointer :: all(:)
    all => bx_node_of(run, ranks)
    nodes = all(s%group*s%ncore + 1:(s%group + 1)*s%ncore)
  end function nodes_of_team

  !> Of the plan and of what stands on the grid: bytes, before the plan exists.
  function grid_bytes(s) result(bytes)
    type(state_t), intent(in) :: s
    real(dp) :: bytes, plane
    integer :: planes
    plane = real(s%crystal%grid(1), dp)*s%crystal%grid(2)
    planes = (s%crystal%grid(3) + s%ncore - 1 - s%member)/s%ncore
    bytes = 5*8*plane*planes
    bytes = bytes + bx_fft_bytes(s%crystal%grid, s%basis%columns, planes, batch, &
                                 int(bx_threads(run)))
    if (s%crystal%hybrid) bytes = bytes + plane*planes*(16 + 8 + 2*8*size(s%band))
  end function grid_bytes

  function applicable(address, method, why, why_size) result(can) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, why_size
    character(kind=c_char), intent(out) :: why(why_size)
    logical(c_bool) :: can
    can = bx_without(why_not(int(method) + 1), why)
  end function applicable

  !> The state of a method, with its knobs set.
  function prepared(m) result(s)
    integer, intent(in) :: m
    type(state_t), pointer :: s
    integer :: number
    s => states(npar_of(m))
    s%knobs = knobs_of(m)
    number = bx_transpose_number(trim(s%knobs%transpose)) + 1
    if (.not. c_associated(exchanges(s%npar, number)%self)) then
      exchanges(s%npar, number) = bx_make_exchange(s%fft, trim(s%knobs%transpose))
    end if
    s%exchange = exchanges(s%npar, number)
  end function prepared

  ! ---- verification ----

  subroutine verify(address, method, point, verification) bind(C)
    type(c_ptr), value :: address, verification
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    type(traffic_t) :: sent, expected
    real(dp) :: before(1), after(2), allowed
    integer :: steps
    s => prepared(int(method) + 1)
    if (given%split == 2) then
      call verify_exchange(s, verification)
      return
    end if
    call start_state(s, bx_seed(run), given%noise)
    call evaluate(s, ffts, before(1))
    after = 0
    do steps = 1, int(given%iterations)
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
    if (.not. near() .and. any(after >= converged) .and. after(1) < allowed*before(1)) then
      if (bx_refuse(run, bx_usage, "--noise "//number(given%noise)//": "// &
                    trim(method_name(int(method) + 1))//" converges, but needs more &
                    &--iterations") /= bx_ok) return
    end if
    call check_step(s, accuracy, compared(), verification)
    call check_orthonormality(s, verification)
    if (.not. allocated(agreed)) agreed = s%energy(:occupied, :)
    call bx_check(verification, "agreement", bx_largest([s%energy(:occupied, :) - agreed]), &
                  1e-10_dp*max(1.0_dp, crystal%cutoff/100), "Hartree")
    call bx_check(verification, "residual", after(1)/max(before(1), converged), allowed, &
                  "of the start")
    expected = traffic_of_step(s)
    call bx_check(verification, "messages", abs(sent%messages - expected%messages), 0.0_dp, &
                  "messages")
    call bx_check(verification, "bytes", abs(sent%bytes - expected%bytes), 0.0_dp, "bytes")
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

  !> Whether the start is so near to the exact states that every step is compared with them.
  logical function near()
    near = given%noise <= small_noise
  end function near

  !> The number of bands to compare after convergence: with a large noise the occupied ones alone.
  integer function compared()
    compared = merge(crystal%bands, occupied, near())
  end function compared

  subroutine verify_exchange(s, verification)
    type(state_t), intent(inout) :: s
    type(c_ptr), intent(in) :: verification
    exchange_mine = exchange_step(s, ffts)
    exact_exchange = check_exchange(s, exchange_mine, accuracy, compared(), verification)
  end subroutine verify_exchange

  ! ---- measurement ----

  subroutine begin(address, method, point) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    s => prepared(int(method) + 1)
    ! the exchange step leaves the checkpoint's bands as they are
    if (given%split /= 2) call start_state(s, bx_seed(run), given%noise)
  end subroutine begin

  subroutine step(address, method, point) bind(C)
    type(c_ptr), value :: address
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    s => states(npar_of(int(method) + 1))
    if (given%split == 2) then
      exchange_mine = exchange_step(s, ffts)
    else
      call scf_step(s, ffts)
    end if
  end subroutine step

  !> Every step must leave what verification found after the first ones.
  subroutine inspect(address, method, point, verification) bind(C)
    type(c_ptr), value :: address, verification
    integer(c_size_t), value :: method, point
    type(state_t), pointer :: s
    s => states(npar_of(int(method) + 1))
    if (given%split == 2) then
      exact_exchange = check_exchange(s, exchange_mine, accuracy, compared(), verification)
    else
      call check_step(s, accuracy, merge(crystal%bands, 0, near()), verification)
    end if
  end subroutine inspect

  subroutine metrics(address, method, point, list) bind(C)
    type(c_ptr), value :: address, list
    integer(c_size_t), value :: method, point
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
    call free_pair_ffts(ffts)
  end subroutine teardown

end module npar_kernel
