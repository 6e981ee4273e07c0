! A launch: its options and methods, its crystal, and the state of each choice of NPAR.
module npar_launch
  use, intrinsic :: iso_c_binding, only: c_bool, c_double, c_int, c_int64_t, c_null_ptr, c_ptr
  use mpi_f08, only: MPI_Comm
  use bx_harness, only: bx_node_of, bx_selected, bx_string_at
  use npar_accuracy, only: accuracy_t, small_noise
  use npar_matrix, only: driver_of, matrix_bytes, why_no_driver
  use npar_model, only: crystal_t, spectrum_t
  use npar_state, only: knobs_t, state_t
  implicit none (type, external)
  private
  public :: bytes_of_matrices, compared, cuts_nodes, driver_with, exchanges_alone, fixed_npar, &
    is_near, is_run, is_wanted, knobs_of, list_methods, npar_of, state_of, why_not

  !> One method: a choice of NPAR, the base with one knob changed, or a published code.
  type, public :: method_t
    character(16) :: name = ""
    character(80) :: summary = "", wins = ""
    type(knobs_t) :: turned = knobs_t() !< what differs from a new knobs_t; of a published code all
    character(12) :: family = "" !< npar, published or none
    integer :: npar = 0 !< 0: the base's
  end type method_t

  !> The knobs, a line each.
  type(method_t), parameter :: knobs(*) = [ &
    method_t("emulated", "collectives by point-to-point messages", &
             "few ranks on slow clusters, at most: the 2010 report lost a factor 2 to 10", &
             knobs_t(emulated=.true., transpose="p2p")), &
    method_t("paw-alltoall", "sums of D_ij and exact exchange by all-to-all", &
             "never seen to win: the 2010 report lost a factor 1.9", &
             knobs_t(paw_alltoall=.true.)), &
    method_t("zeroing", "work arrays zeroed before they are written over", &
             "never: it shows what needless memory traffic costs", knobs_t(zeroing=.true.)), &
    method_t("scalapack", "matrices between bands on all ranks, diagonalised by ScaLAPACK", &
             "many bands: thousands; memory", knobs_t(linear_algebra="scalapack")), &
    method_t("elpa", "matrices between bands on all ranks, diagonalised by ELPA", "many bands", &
             knobs_t(linear_algebra="elpa")), &
    method_t("node-aware", "FFTs exchange through the node's memory (transpose method direct)", &
             "nodes of many cores", knobs_t(transpose="direct"))]

  !> Codes as published, whatever the base's knobs are.  VASP's changes of 2010, each with those
  !> before it, and their gains (tables 16 to 35 of the report); then exchanges of FFTs alone, as
  !> Bethune's (2010, table 2), and for machines without ScaLAPACK.
  type(method_t), parameter :: published(*) = [ &
    method_t("original", "messages for collectives, all-to-all sums, zeroing, LAPACK", &
             "never: the others are set against it", &
             knobs_t(emulated=.true., paw_alltoall=.true., zeroing=.true., transpose="p2p"), &
             family="published"), &
    method_t("collectives", "original with MPI collectives", &
             "report: 2.1 times as fast for benchmark 1 on 256 cores, 10 for 5 on 1024", &
             knobs_t(paw_alltoall=.true., zeroing=.true.), family="published"), &
    method_t("allreduce", "collectives with MPI_Allreduce in these sums", &
             "report: 1.9 times as fast for benchmark 2 on 128 cores", &
             knobs_t(zeroing=.true.), family="published"), &
    method_t("nozero", "allreduce without zeroing", &
             "report: for benchmark 1, on 256 cores twice as fast; not for 2 and 5", &
             knobs_t(), family="published"), &
    method_t("with-scalapack", "nozero with ScaLAPACK", &
             "report: 1.23 times as fast for benchmark 5 on 1024 cores, slower for 1", &
             knobs_t(linear_algebra="scalapack"), family="published"), &
    method_t("with-shm", "with-scalapack with FFT messages gathered in a node's shared memory", &
             "report: nodes of 24 cores, not nodes of 4", &
             knobs_t(linear_algebra="scalapack", transpose="shm"), family="published"), &
    method_t("shm", "nozero with FFT messages gathered in a node's shared memory", &
             "table 2 of Bethune: a stage of GWW takes 4 to 36% less", &
             knobs_t(transpose="shm"), family="published"), &
    method_t("padded", "nozero with FFT messages of one length", &
             "table 2 of Bethune: a stage of GWW takes 4 to 26% less, or 7% more", &
             knobs_t(transpose="padded"), family="published")]

  !> The options' values: Hartree, bohr; 0 or null: not given.
  type :: option_values_t
    integer(c_int64_t) :: npar = 0, kpoints = 0, bands = 0, atoms = 0, grid(3) = 0, inner = 2
    integer(c_int64_t) :: iterations = 2, split = 0
    real(c_double) :: cutoff = 0, noise = 1e-8_c_double
    logical(c_bool) :: gamma = .false._c_bool
    type(c_ptr) :: functional = c_null_ptr, box = c_null_ptr, collectives = c_null_ptr, &
      paw_reduce = c_null_ptr, zeroing = c_null_ptr, projectors = c_null_ptr, &
      linear_algebra = c_null_ptr, driver = c_null_ptr, transpose = c_null_ptr, &
      planner = c_null_ptr, checkpoint = c_null_ptr
  end type option_values_t
  type(option_values_t), target, public :: given

  type(method_t), allocatable, public :: methods(:)
  type(c_ptr), public :: run = c_null_ptr
  type(MPI_Comm), public :: world
  integer, public :: ranks = 1, base_npar = 1
  type(knobs_t), public :: base_knobs
  type(crystal_t), public :: crystal
  type(spectrum_t), allocatable, target, public :: spectra(:)
  integer, public :: occupied = 0 !< bands
  type(accuracy_t), public :: accuracy !< of the closed form
  type(state_t), allocatable, target, public :: states(:) !< of each divisor of the ranks

contains

  !> Fills `methods` for the number of ranks: every divisor, every knob, every published code.
  subroutine list_methods()
    character(16) :: name
    integer :: i
    methods = [method_t ::]
    do i = 1, ranks
      if (mod(ranks, i) /= 0) cycle
      write (name, "('npar-', i0)") i
      methods = [methods, method_t(name, "band groups as many", merge( &
                 "one team: only the FFTs communicate within bands ", &
                 "more groups: smaller FFT teams, larger exchanges ", i == 1), family="npar", &
                 npar=i)]
    end do
    methods = [methods, knobs, published]
  end subroutine list_methods

  !> Number of band groups of method m.
  pure integer function npar_of(m) result(npar)
    integer, intent(in) :: m
    npar = merge(methods(m)%npar, base_npar, methods(m)%npar > 0)
  end function npar_of

  !> Place of method m's number of groups among the divisors, which are the first methods.
  pure integer function state_of(m)
    integer, intent(in) :: m
    state_of = findloc(methods%npar, npar_of(m), dim=1)
  end function state_of

  !> The base's knobs, with the one that method m changes; the knobs of a published code, which had
  !> projectors in real space or, by atom, in reciprocal space.
  pure function knobs_of(m) result(k)
    integer, intent(in) :: m
    type(knobs_t) :: k, unturned
    k = base_knobs
    associate (turned => methods(m)%turned)
      if (methods(m)%family == "published") then
        k = turned
        k%by_atom = base_knobs%by_atom
        return
      end if
      k%emulated = k%emulated .or. turned%emulated
      k%paw_alltoall = k%paw_alltoall .or. turned%paw_alltoall
      k%zeroing = k%zeroing .or. turned%zeroing
      if (turned%linear_algebra /= unturned%linear_algebra) k%linear_algebra = turned%linear_algebra
      if (turned%transpose /= unturned%transpose) k%transpose = turned%transpose
    end associate
  end function knobs_of

  !> The driver of the matrices between bands, with these knobs.
  character(16) function driver_with(k) result(driver)
    type(knobs_t), intent(in) :: k
    driver = driver_of(trim(k%linear_algebra), bx_string_at(given%driver))
  end function driver_with

  !> Bytes of the largest matrix between bands on this rank, among the methods with so many groups.
  !> Collective.
  real(c_double) function bytes_of_matrices(npar) result(bytes)
    integer, intent(in) :: npar
    integer :: m
    bytes = 0
    do m = 1, size(methods)
      if (npar_of(m) /= npar) cycle
      if (.not. is_run(m)) cycle
      bytes = max(bytes, matrix_bytes(run, world, driver_with(knobs_of(m)), crystal%bands, &
                                      merge(1, 2, crystal%gamma)))
    end do
  end function bytes_of_matrices

  !> The reason why method m cannot run in this launch; "" if it can.
  character(160) function why_not(m) result(why)
    integer, intent(in) :: m
    type(knobs_t) :: k
    why = ""
    k = knobs_of(m)
    if (methods(m)%npar > 0 .and. given%npar > 0 .and. methods(m)%npar /= given%npar) then
      write (why, "('--npar ', i0, ' alone is asked for')") given%npar
    else if (crystal%hybrid .and. npar_of(m) /= fixed_npar()) then
      why = "a hybrid functional fixes NPAR at "//merge("the number of ranks", &
                                                        "1 in this case     ", crystal%npar == 0)
    else if (methods(m)%family == "" .and. same(k, base_knobs)) then
      why = "the options ask for it already: it is the base"
    else if (k%transpose(:3) == "shm" .and. cuts_nodes(npar_of(m))) then
      write (why, "('NPAR ', i0, ': teams of ', i0, ' ranks cut nodes; ', a, ' needs teams of &
        &whole nodes, or within one')") npar_of(m), ranks/npar_of(m), trim(k%transpose)
    else
      why = why_no_driver(driver_with(k), crystal%bands, crystal%gamma, ranks)
    end if
  end function why_not

  !> Whether a team of so many groups lies on several nodes and shares one with another team.
  logical function cuts_nodes(npar) result(cuts)
    integer, intent(in) :: npar
    integer(c_int), pointer :: node_of(:)
    logical, allocatable :: mine(:) !< whether the team has ranks on a node
    integer :: first, last
    node_of => bx_node_of(run, ranks)
    allocate (mine(0:maxval(node_of)))
    cuts = .false.
    do first = 1, ranks, ranks/npar
      last = first + ranks/npar - 1
      mine = .false.
      mine(node_of(first:last)) = .true.
      cuts = cuts .or. (count(mine) > 1 .and. &
                        any([mine(node_of(:first - 1)), mine(node_of(last + 1:))]))
    end do
  end function cuts_nodes

  !> Whether method m is selected and can run.
  logical function is_run(m) result(run_)
    integer, intent(in) :: m
    run_ = bx_selected(run, methods(m)%name)
    if (run_) run_ = why_not(m) == ""
  end function is_run

  !> Whether two sets of knobs are equal.
  pure logical function same(a, b) result(equal)
    type(knobs_t), intent(in) :: a, b
    equal = (a%emulated .eqv. b%emulated) .and. (a%paw_alltoall .eqv. b%paw_alltoall) .and. &
            (a%zeroing .eqv. b%zeroing) .and. a%linear_algebra == b%linear_algebra .and. &
            a%transpose == b%transpose
  end function same

  !> Whether a selected method has this number of groups.
  logical function is_wanted(npar) result(wanted)
    integer, intent(in) :: npar
    integer :: m
    wanted = .false.
    if (mod(ranks, npar) /= 0) return
    do m = 1, size(methods)
      if (npar_of(m) /= npar) cycle
      if (is_run(m)) wanted = .true.
    end do
  end function is_wanted

  !> The number of groups that exact exchange has: VASP's has whole bands on each rank; a case may
  !> name another, of a code whose ranks share its FFTs.
  integer function fixed_npar()
    fixed_npar = merge(crystal%npar, ranks, crystal%npar > 0)
  end function fixed_npar

  !> Whether a step is the exchange alone.
  logical function exchanges_alone()
    exchanges_alone = given%split == 2 .or. crystal%exchange_alone
  end function exchanges_alone

  !> Whether the start is near enough to the exact states to compare every step with them.
  logical function is_near()
    is_near = given%noise <= small_noise
  end function is_near

  !> The number of bands to compare after convergence: with a large noise the occupied ones alone.
  integer function compared()
    compared = merge(crystal%bands, occupied, is_near())
  end function compared

end module npar_launch
