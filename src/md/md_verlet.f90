! Time steps of a system: velocity Verlet (NVE; W. C. Swope et al., J. Chem. Phys. 76, 637 (1982)),
! with new lists when atoms have moved.
module md_verlet
  use, intrinsic :: iso_c_binding, only: c_int64_t, dp => c_double
  use mpi_f08, only: MPI_Allreduce, MPI_Barrier, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, MPI_MAX, &
    MPI_SUM
  use omp_lib, only: omp_get_wtime, omp_set_num_threads
  use md_constraints, only: constrain_positions, constrain_velocities, make_constraints
  use md_domain, only: check_room, migrate, reduce
  use md_forces, only: charge_list, find_forces, reserve_sums
  use md_halo, only: forward, make_halo
  use md_ionic, only: find_smooth
  use md_list, only: make_list, sort_atoms
  use md_mesh, only: fit_mesh
  use md_potential, only: boltzmann, ionic_kind, is_rigid, mass_to_energy, tersoff_kind
  use md_system, only: account, constraint_diverged, damaged, exploded, failure_t, fine, &
    in_constraints, in_halo, in_integrate, in_list, in_reduce, lap, list_full, lost_atoms, &
    molecule_split, note_damage, skin_of, system_t
  implicit none (type, external)
  private
  public :: make_lists, advance, resume_from, hold_velocities, observe, observation_t

  !> Values in the global sum of DL_POLY_3's two_body_forces: a flag, energies and virials.
  integer, parameter :: summed = 15

  !> Observables of all ranks: eV, eV/A^3 (stress, pressure), u A/ps, K.
  type :: observation_t
    real(dp) :: potential = 0, kinetic = 0, stress(3, 3) = 0, pressure = 0, momentum(3) = 0, &
      temperature = 0
  end type observation_t

contains

  !> Migrates, sorts and lists the atoms, and makes their halo.  Collective.
  subroutine make_lists(system)
    type(system_t), intent(inout) :: system
    integer, allocatable :: offsets(:)
    integer(c_int64_t) :: lost, missing
    real(dp) :: skin
    skin = skin_of(system)
    system%list%half = system%potential%kind /= tersoff_kind
    system%list%twice = system%list%half .and. system%style%dlpoly3
    system%list%reach = system%potential%cutoff + skin
    call migrate(system%domain, system%box, system%atoms, system%total, lost)
    if (lost /= 0) system%failure = failure_t(lost_atoms, .true., system%domain%world_rank, &
                                              system%step, value=real(lost, dp))
    call sort_atoms(system%box, system%domain, system%atoms, system%list%reach, offsets)
    call lap(system, in_list)
    call make_halo(system%domain, system%box, system%atoms, system%list%reach)
    call lap(system, in_halo)
    if (system%thread_lists) call omp_set_num_threads(size(system%list%work))
    call make_list(system%list, system%box, system%domain, system%atoms, offsets, &
                   system%potential%reach + skin)
    call omp_set_num_threads(merge(1, size(system%list%work), system%style%dlpoly3))
    if (any(system%list%work%full)) then
      system%failure = failure_t(list_full, .true., system%domain%world_rank, system%step, &
                                 int(system%atoms%all, c_int64_t), &
                                 allowed=real(system%list%limit, dp))
    end if
    call reserve_sums(system)
    if (is_rigid(system%potential)) then
      call make_constraints(system%constraints, system%potential, system%domain, system%atoms, &
                            system%total, missing)
      if (missing > 0 .and. system%failure%kind == fine) system%failure = &
        failure_t(molecule_split, .true., system%domain%world_rank, system%step, missing)
    end if
    if (system%potential%kind == ionic_kind) then
      if (.not. system%smooth%per_r2 > 0) system%smooth = find_smooth(system%potential)
      call fit_mesh(system%mesh, system%potential, system%box, system%domain, skin/2, &
                    size(system%list%work), system%style%fft)
    end if
    system%listed = .true.
    call charge_list(system)
    call lap(system, in_list)
    call check_room(system%domain, 1)
    call lap(system, in_reduce)
  end subroutine make_lists

  !> Advances by `steps` steps of velocity Verlet; stops early if the system fails.  Collective.
  subroutine advance(system, steps)
    type(system_t), intent(inout) :: system
    integer, intent(in) :: steps
    integer :: n
    logical :: rigid
    real(dp) :: moved
    if (.not. system%listed) then
      call make_lists(system)
      call find_forces(system)
    end if
    rigid = is_rigid(system%potential)
    do n = 1, steps
      system%step = system%step + 1
      if (rigid) system%constraints%before = system%atoms%x(1:3, :system%atoms%all)
      call kick_and_drift(system, moved)
      call lap(system, in_integrate)
      if (rigid) call hold_positions(system, moved)
      call agree(system, moved)
      call lap(system, in_reduce)
      if (system%failure%kind /= fine) return
      if (moved > skin_of(system)/2 .or. system%style%dlpoly3) then
        call make_lists(system)
      else
        call forward(system%domain, system%atoms%x, 4, 3, .true.)
        call lap(system, in_halo)
      end if
      call find_forces(system)
      call kick(system)
      call lap(system, in_integrate)
      if (rigid) call hold_velocities(system)
    end do
  end subroutine advance

  !> Puts the atoms of molecules at their distances after a step; `moved` (A) is as of
  !> kick_and_drift.  Collective.
  subroutine hold_positions(system, moved)
    type(system_t), intent(inout) :: system
    real(dp), intent(out) :: moved
    integer :: k
    call note_divergence(system, constrain_positions(system%constraints, system%potential, &
                         system%domain, system%atoms, system%timestep))
    moved = 0
    do k = 1, system%atoms%own
      moved = max(moved, norm2(system%atoms%x(1:3, k) - system%atoms%listed(:, k)))
    end do
    call lap(system, in_constraints)
  end subroutine hold_positions

  !> Takes velocities along the bonds of molecules away.  Collective.
  subroutine hold_velocities(system)
    type(system_t), intent(inout) :: system
    call note_divergence(system, constrain_velocities(system%constraints, system%potential, &
                         system%domain, system%atoms, system%timestep))
    call lap(system, in_constraints)
  end subroutine hold_velocities

  !> Notes a failure where iterations have not `converged`.
  subroutine note_divergence(system, converged)
    type(system_t), intent(inout) :: system
    logical, intent(in) :: converged
    if (converged .or. system%failure%kind /= fine) return
    system%failure = failure_t(constraint_diverged, .true., system%domain%world_rank, system%step)
  end subroutine note_divergence

  !> Continues after a restart: makes the lists at the positions that they were made at, then moves
  !> the atoms.  Collective.
  subroutine resume_from(system, moved)
    type(system_t), intent(inout) :: system
    real(dp), intent(in) :: moved(:, :) !< (3, own): A
    call make_lists(system)
    system%atoms%x(1:3, :system%atoms%own) = moved
    call forward(system%domain, system%atoms%x, 4, 3, .true.)
    call find_forces(system)
  end subroutine resume_from

  !> Advances velocities by half a step and positions by a step.
  subroutine kick_and_drift(system, moved)
    type(system_t), intent(inout) :: system
    real(dp), intent(out) :: moved !< A: the furthest of own atoms since the list was made
    real(dp) :: half(size(system%potential%mass)), furthest, d(3), limit, squared
    real(dp) :: start, busy, began
    integer :: k, bad
    half = half_kick(system)
    limit = system%potential%cutoff**2
    furthest = 0
    bad = 0
    busy = 0
    start = omp_get_wtime()
    !$omp parallel private(d, squared, began) reduction(max:furthest, busy) reduction(+:bad)
    began = omp_get_wtime()
    !$omp do schedule(static)
    do k = 1, system%atoms%own
      system%atoms%v(:, k) = system%atoms%v(:, k) &
                             + half(system%atoms%species(k))*system%atoms%f(1:3, k)
      system%atoms%x(1:3, k) = system%atoms%x(1:3, k) + system%timestep*system%atoms%v(:, k)
      d = system%atoms%x(1:3, k) - system%atoms%listed(:, k)
      squared = d(1)*d(1) + d(2)*d(2) + d(3)*d(3)
      furthest = max(furthest, squared)
      bad = bad + merge(0, 1, squared <= limit) ! a NaN is no less than anything
    end do
    !$omp end do nowait
    busy = omp_get_wtime() - began
    !$omp end parallel
    if (.not. system%style%dlpoly3) call account(system, start, busy)
    moved = sqrt(furthest)
    ! the first failure counts; all ranks go on, and agree on it
    if (bad > 0 .and. system%failure%kind == fine) call find_exploded(system, sqrt(limit))
  end subroutine kick_and_drift

  !> Advances velocities by half a step.
  subroutine kick(system)
    type(system_t), intent(inout) :: system
    real(dp) :: half(size(system%potential%mass)), start, busy, began
    integer :: k
    half = half_kick(system)
    busy = 0
    start = omp_get_wtime()
    !$omp parallel private(began) reduction(max:busy)
    began = omp_get_wtime()
    !$omp do schedule(static)
    do k = 1, system%atoms%own
      system%atoms%v(:, k) = system%atoms%v(:, k) &
                             + half(system%atoms%species(k))*system%atoms%f(1:3, k)
    end do
    !$omp end do nowait
    busy = omp_get_wtime() - began
    !$omp end parallel
    if (.not. system%style%dlpoly3) call account(system, start, busy)
  end subroutine kick

  !> Velocity per force that half a step gives, by species: A/ps / (eV/A).
  pure function half_kick(system) result(half)
    type(system_t), intent(in) :: system
    real(dp) :: half(size(system%potential%mass))
    half = 0
    associate (n => system%potential%species)
      half(:n) = 0.5_dp*system%timestep/(mass_to_energy*system%potential%mass(:n))
    end associate
  end function half_kick

  !> Notes the first own atom that has moved further than `allowed` (A).
  subroutine find_exploded(system, allowed)
    type(system_t), intent(inout) :: system
    real(dp), intent(in) :: allowed
    real(dp) :: moved
    integer :: k
    do k = 1, system%atoms%own
      moved = norm2(system%atoms%x(1:3, k) - system%atoms%listed(:, k))
      if (moved <= allowed) cycle
      system%failure = failure_t(exploded, .true., system%domain%world_rank, system%step, &
                                 system%atoms%id(k), value=moved, allowed=allowed)
      return
    end do
  end subroutine find_exploded

  !> Makes `moved` (A) and the kind of failure the largest of all ranks.  In the style of DL_POLY_3,
  !> a barrier comes first, and the failure is one of the values of a sum.  Collective.
  subroutine agree(system, moved)
    type(system_t), intent(inout) :: system
    real(dp), intent(inout) :: moved
    real(dp) :: moved_and_kind(2), sums(summed)
    integer :: kind
    call note_damage(system)
    if (system%style%dlpoly3) then ! lists are new in every step, however far atoms have moved
      if (system%domain%world_size > 1) call MPI_Barrier(system%domain%world)
      sums = 0
      do kind = exploded, damaged
        if (system%failure%kind == kind) sums(kind) = 1
      end do
      sums(summed) = system%energy
      call reduce(system%domain, sums, MPI_SUM)
      do kind = exploded, damaged
        if (sums(kind) > 0) system%failure%kind = kind
      end do
    else
      moved_and_kind = [moved, real(system%failure%kind, dp)]
      call reduce(system%domain, moved_and_kind, MPI_MAX)
      moved = moved_and_kind(1)
      system%failure%kind = max(system%failure%kind, nint(moved_and_kind(2)))
    end if
  end subroutine agree

  !> Energies, stress and momentum now; finds the forces again.  Collective.
  type(observation_t) function observe(system, pair_energy) result(seen)
    type(system_t), intent(inout) :: system
    real(dp), intent(inout), optional :: pair_energy(:) !< (own): energy of each atom, eV
    real(dp) :: virial(3, 3), all(14), squared
    integer :: k
    call find_forces(system, pair_energy, virial)
    all = 0
    all(1) = system%energy
    all(3:11) = reshape(virial, [9])
    do k = 1, system%atoms%own
      associate (m => system%potential%mass(system%atoms%species(k)), v => system%atoms%v(:, k))
        squared = dot_product(v, v)
        all(2) = all(2) + 0.5_dp*mass_to_energy*m*squared
        all(12:14) = all(12:14) + m*v
      end associate
    end do
    call MPI_Allreduce(MPI_IN_PLACE, all, size(all), MPI_DOUBLE_PRECISION, MPI_SUM, &
                       system%domain%comm)
    seen%potential = all(1)
    seen%kinetic = all(2)
    seen%stress = reshape(all(3:11), [3, 3])/system%box%volume
    seen%momentum = all(12:14)
    seen%pressure = (seen%stress(1, 1) + seen%stress(2, 2) + seen%stress(3, 3))/3 &
                    + 2*seen%kinetic/(3*system%box%volume)
    if (system%total > 1) then
      seen%temperature = 2*seen%kinetic/(freedoms(system)*boltzmann)
    end if
  end function observe

  !> Degrees of freedom: without those of the whole and, of molecules, without bonds.
  pure real(dp) function freedoms(system)
    type(system_t), intent(in) :: system
    freedoms = 3*real(system%total - 1, dp) &
               - 0.5_dp*real(system%total, dp)*(system%potential%sites - 1)
  end function freedoms

end module md_verlet
