! A system of atoms: its state, its style of communication, the clock of its phases, its failures.
module md_system
  use, intrinsic :: iso_c_binding, only: c_associated, c_int64_t, c_null_ptr, c_ptr, c_size_t, &
    dp => c_double
  use mpi_f08, only: MPI_Allreduce, MPI_Bcast, MPI_CHARACTER, MPI_IN_PLACE, MPI_INTEGER, MPI_MIN
  use omp_lib, only: omp_get_wtime, omp_set_num_threads
  use bx_harness, only: bx_lap
  use md_atoms, only: atoms_t, box_t
  use md_constraints, only: constraints_t, most_iterations
  use md_domain, only: domain_t, share_box
  use md_ionic, only: smooth_t
  use md_list, only: list_t, most_atoms
  use md_mesh, only: by_transpose, forget_mesh, mesh_t
  use md_potential, only: potential_t
  implicit none (type, external)
  private
  public :: system_t, use_style, skin_of, lap, account, failure_of_all, note_damage

  integer(c_size_t), parameter, public :: in_two_body = 0, in_density = 1, in_tersoff = 2, &
    in_halo = 3, in_list = 4, in_integrate = 5, in_reduce = 6, in_mesh = 7, in_fft = 8, &
    in_constraints = 9
  character(*), parameter, public :: phase_names(*) = [character(18) :: "two_body_forces", &
    "metal_ld_compute", "tersoff_forces", "halo", "list", "integrate", "reduce", "mesh", &
    "fft", "constraints"]

  !> How a system communicates and computes: one method of the kernel.
  type, public :: style_t
    !> The structure of DL_POLY_3's messages, a list a step, threads in the loops over pairs only.
    logical :: dlpoly3 = .false.
    logical :: recompute = .false. !< pair terms are computed again, not kept
    integer :: fft = by_transpose !< of ions: the method of the FFT
    logical :: replicated = .false. !< each rank has all atoms, and a share of their pairs
  end type style_t

  !> Kinds of failure; where ranks fail in different ways, all take the last of these.
  integer, parameter, public :: fine = 0, exploded = 1, too_dense = 2, lost_atoms = 3, &
    list_full = 4, constraint_diverged = 5, molecule_split = 6, damaged = 7
  !> A failure: A or atoms in `value` and `allowed`, by its kind.
  type, public :: failure_t
    integer :: kind = fine
    logical :: here = .false. !< found by this rank
    integer :: rank = 0
    integer(c_int64_t) :: step = 0, id = 0, other = 0
    real(dp) :: value = 0, allowed = 0
  contains
    procedure :: text => failure_text
  end type failure_t

  !> A system, and this rank's part of it.
  type :: system_t
    type(c_ptr) :: run = c_null_ptr !< the launch, or none
    type(box_t) :: box
    type(potential_t) :: potential
    type(domain_t) :: domain
    type(atoms_t) :: atoms
    type(list_t) :: list
    type(style_t) :: style
    type(mesh_t) :: mesh     !< of ions
    type(smooth_t) :: smooth !< likewise
    type(constraints_t) :: constraints !< of rigid molecules
    logical :: thread_lists = .false. !< also in the style dlpoly3
    integer(c_int64_t) :: total = 0 !< atoms
    integer(c_int64_t) :: step = 0
    real(dp) :: timestep = 1e-3_dp  !< ps
    real(dp) :: skin = 0            !< A
    real(dp), allocatable :: rho(:), slope(:) !< of metals: density, eV per density
    real(dp), allocatable :: sums(:) !< what ranks with copies of the box add up
    logical :: listed = .false.
    real(dp) :: energy = 0          !< of this rank's pairs and atoms: eV
    type(failure_t) :: failure
    !> Seconds of steps, of parallel regions, and in them when even the busiest thread was idle.
    real(dp) :: wall = 0, in_regions = 0, forked = 0
    real(dp) :: metal_ld = 0 !< s: from the densities to their exchange, communication included
  end type system_t

contains

  !> The message of a failure; "" of none.
  function failure_text(self) result(text)
    class(failure_t), intent(in) :: self
    character(:), allocatable :: text
    character(240) :: line
    select case (self%kind)
    case (exploded)
      write (line, "('step ', i0, ': atom ', i0, ' on rank ', i0, ' has moved ', g0.4, &
        &' A since the list was made, of ', g0.4, ' at most: a shorter time step?')") self%step, &
        self%id, self%rank, self%value, self%allowed
    case (too_dense)
      write (line, "('step ', i0, ': atoms ', i0, ' and ', i0, ' on rank ', i0, ' are ', g0.4, &
        &' A apart; below ', g0.4, ' A the density is negative')") self%step, self%id, self%other, &
        self%rank, self%value, self%allowed
    case (list_full)
      write (line, "('step ', i0, ': rank ', i0, ' has ', i0, ' atoms and ghosts; a list takes ', &
        &i0, ' entries per thread, and ', i0, ' atoms per rank: use more ranks or threads')") &
        self%step, self%rank, self%id, nint(self%allowed, c_int64_t), most_atoms
    case (damaged)
      write (line, "('step ', i0, ': a message from rank ', i0, ' reached rank ', i0, &
        &' with other bits than were sent')") self%step, self%other, self%rank
    case (constraint_diverged)
      write (line, "('step ', i0, ': bonds are not right after ', i0, ' iterations')") self%step, &
        most_iterations
    case (molecule_split)
      write (line, "('step ', i0, ': the molecule of atom ', i0, ' is torn apart')") self%step, &
        self%id
    case (lost_atoms)
      write (line, "('step ', i0, ': ', i0, ' atoms are lost')") self%step, nint(self%value, &
                                                                                 c_int64_t)
    case default
      line = ""
    end select
    text = trim(line)
  end function failure_text

  !> Sets the style; a change to or from dlpoly3 makes a new list in the next step.  In dlpoly3, a
  !> parallel region that names no number of threads has one.  A change to or from replicated leaves
  !> it to the caller to set the atoms.
  subroutine use_style(system, style)
    type(system_t), intent(inout) :: system
    type(style_t), intent(in) :: style
    if (style%dlpoly3 .neqv. system%style%dlpoly3) system%listed = .false.
    if (style%fft /= system%style%fft) system%listed = .false. ! and the mesh with it
    if (style%replicated .neqv. system%style%replicated) then
      call share_box(system%domain, .not. style%replicated)
      call forget_mesh(system%mesh)
      system%listed = .false.
    end if
    system%style = style
    system%domain%one_by_one = style%dlpoly3
    call omp_set_num_threads(merge(1, size(system%list%work), style%dlpoly3))
  end subroutine use_style

  !> The skin of the lists in the present style: A.
  pure real(dp) function skin_of(system) result(skin)
    type(system_t), intent(in) :: system
    skin = merge(0.0_dp, system%skin, system%style%dlpoly3)
  end function skin_of

  !> Adds the time since the last lap to a phase (in_...); nothing without a launch.
  subroutine lap(system, phase)
    type(system_t), intent(in) :: system
    integer(c_size_t), intent(in) :: phase
    if (c_associated(system%run)) call bx_lap(system%run, phase)
  end subroutine lap

  !> Adds a parallel region that began at `start`, whose busiest thread computed `busy` seconds.
  subroutine account(system, start, busy)
    type(system_t), intent(inout) :: system
    real(dp), intent(in) :: start, busy
    real(dp) :: wall
    wall = omp_get_wtime() - start
    system%in_regions = system%in_regions + wall
    system%forked = system%forked + max(0.0_dp, wall - busy)
  end subroutine account

  !> The failure of the lowest rank that has one, as text on every rank; "" of none.  Collective.
  subroutine failure_of_all(system, text)
    type(system_t), intent(inout) :: system
    character(*), intent(out) :: text
    integer :: lowest
    call note_damage(system)
    associate (domain => system%domain)
      lowest = merge(domain%world_rank, domain%world_size, system%failure%here)
      call MPI_Allreduce(MPI_IN_PLACE, lowest, 1, MPI_INTEGER, MPI_MIN, domain%world)
      text = ""
      if (lowest == domain%world_size) return
      if (lowest == domain%world_rank) text = system%failure%text()
      call MPI_Bcast(text, len(text), MPI_CHARACTER, lowest, domain%world)
      call MPI_Bcast(system%failure%kind, 1, MPI_INTEGER, lowest, domain%world)
    end associate
  end subroutine failure_of_all

  !> Notes a message that arrived with other bits: it is the cause of all later failures.
  subroutine note_damage(system)
    type(system_t), intent(inout) :: system
    if (system%domain%damaged_from < 0 .or. system%failure%kind == damaged) return
    system%failure = failure_t(damaged, .true., system%domain%world_rank, system%step, &
                               other=int(system%domain%damaged_from, c_int64_t))
  end subroutine note_damage

end module md_system
