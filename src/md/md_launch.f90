! A launch: its methods and options, its system, and the state that all blocks start from.
module md_launch
  use, intrinsic :: iso_c_binding, only: c_bool, c_double, c_int64_t, c_null_ptr, c_ptr, &
    dp => c_double
  use mpi_f08, only: MPI_Comm
  use bx_harness, only: bx_selected
  use md_atoms, only: atoms_t
  use md_domain, only: most_copied
  use md_judge, only: endpoint_t
  use md_mesh, only: by_columns
  use md_potential, only: ionic_kind, tersoff_kind
  use md_system, only: style_t, system_t
  use md_verlet, only: observation_t
  implicit none (type, external)
  private
  public :: census, is_under_test, objection

  !> A method of the kernel.
  type :: md_method_t
    character(16) :: name
    character(80) :: summary, wins
    type(style_t) :: style
    real(dp) :: cost !< of a step, relative to packed's: an estimate
    character(48) :: calls !< of MPI in a step: as bx_choice_t's
    logical :: baseline = .false.
  end type md_method_t
  type(md_method_t), parameter, public :: methods(*) = [ &
    md_method_t("packed", "sizes known, one reduction a step, a list when atoms have moved", &
             "everywhere: the way to do it", style_t(), 1.0_dp, &
             calls="Isend Irecv Waitall Alltoallv Allreduce"), &
    md_method_t("dlpoly3", "DL_POLY_3's messages, a list a step, threads in the loops over pairs", &
             "nowhere: for the study of that code, Chorley and Walker (2010)", &
             style_t(dlpoly3=.true., fft=by_columns), 3.0_dp, &
             calls="Isend Irecv Waitall Allreduce Barrier"), &
    md_method_t("recompute", "pair terms computed again for the forces, not kept (metals)", &
             "nodes whose memory is slower than their cores", style_t(recompute=.true.), 1.3_dp, &
             calls="Isend Irecv Waitall Alltoallv Allreduce"), &
    md_method_t("column-wise", "as packed, but DL_POLY 3's FFT between neighbours in rows (ions)", &
             "many ranks, where messages cost more than bytes", style_t(fft=by_columns), 1.1_dp, &
             calls="Isend Irecv Waitall Allreduce"), &
    md_method_t("replicated", "DL_POLY 2's: each rank has all atoms, one sum of all forces", &
             "nowhere: for the study of that code; small systems", style_t(replicated=.true.), &
             1.5_dp, calls="Isend Irecv Waitall Allreduce"), &
    md_method_t("cached", "the loops over pairs alone, on a few atoms again and again", "", &
             style_t(), 0.6_dp, baseline=.true., calls="")]

  !> The options' values: fs, K and A; a skin below 0 is the potential's.
  type :: md_option_values_t
    integer(c_int64_t) :: cells = 0, until = 10, steps = 20, save_every = 0
    real(c_double) :: timestep = 1, temperature = 600, skin = -1
    type(c_ptr) :: input = c_null_ptr, dump = c_null_ptr, restart = c_null_ptr, save = c_null_ptr
    logical(c_bool) :: thread_lists = .false._c_bool
  end type md_option_values_t
  type(md_option_values_t), target, public :: given

  type(c_ptr), public :: run = c_null_ptr
  type(MPI_Comm), public :: world
  type(system_t), target, public :: system
  character(4200), public :: sized_by = "" !< the option that sizes come from, for messages
  integer, public :: crystal = 0 !< place in the table of crystals; 0: --input

  type(atoms_t), public :: start !< where the run to --until starts
  logical, public :: warmed = .false. !< with velocities of --temperature
  real(dp), allocatable, public :: start_moved(:, :) !< (3, own): A; after a restart, the positions
  integer(c_int64_t), public :: start_step = 0
  integer(c_int64_t), public :: counted(3) = 0 !< census of the first atoms, of all ranks

  integer(c_int64_t), allocatable, public :: sampled(:) !< ids of the atoms that are compared
  real(dp), public :: parameters_differ = 0 !< relative to the stored energies
  logical, public :: settled = .false. !< --until is reached
  type(atoms_t), public :: origin !< the atoms at --until, from which every block starts
  logical, public :: origin_is_listed = .false. !< it has the list of an earlier step
  type(endpoint_t), public :: endpoints(size(methods)) !< where a method's verified block has ended
  type(observation_t), public :: seen !< at --until
  real(dp), public :: ghosts = 0, neighbours = 0 !< mean over ranks, over atoms: at --until

contains

  !> The reason why method m cannot run here; "" if it can.
  function objection(m) result(reason)
    integer, intent(in) :: m
    character(:), allocatable :: reason
    character(12) :: most
    reason = ""
    if (methods(m)%style%recompute .and. &
        any(system%potential%kind == [tersoff_kind, ionic_kind])) then
      reason = "this potential keeps no pair terms"
    else if (methods(m)%name == "column-wise" .and. system%potential%kind /= ionic_kind) then
      reason = "no FFT without charges"
    else if (methods(m)%style%replicated .and. system%domain%world_size == 1) then
      reason = "one rank has all atoms in any style"
    else if (methods(m)%style%replicated .and. system%total > most_copied) then
      write (most, "(i0)") most_copied
      reason = "a rank takes at most "//trim(most)//" atoms"
    end if
  end function objection

  !> Whether method m is measured and judged.
  logical function is_under_test(m)
    integer, intent(in) :: m
    is_under_test = .not. methods(m)%baseline
    if (is_under_test) is_under_test = bx_selected(run, methods(m)%name)
  end function is_under_test

  !> Three numbers of own atoms: their number, and the sums of their ids and of a hash of each.
  pure function census(atoms) result(sums)
    type(atoms_t), intent(in) :: atoms
    integer(c_int64_t) :: sums(3)
    integer :: k
    sums = [int(atoms%own, c_int64_t), 0_c_int64_t, 0_c_int64_t]
    do k = 1, atoms%own
      sums(2:) = sums(2:) + [atoms%id(k), mod(atoms%id(k), 1000003_c_int64_t)**2]
    end do
  end function census

end module md_launch
