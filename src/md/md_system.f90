! A system of atoms in time: velocity Verlet (NVE), with its forces and lists.
module md_system
  use, intrinsic :: iso_c_binding, only: c_associated, c_int64_t, c_null_ptr, c_ptr, c_size_t, &
    dp => c_double
  use mpi_f08, only: MPI_Allreduce, MPI_Bcast, MPI_CHARACTER, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, &
    MPI_INTEGER, MPI_MAX, MPI_MIN, MPI_SUM
  use omp_lib, only: omp_get_thread_num, omp_get_wtime
  use bx_harness, only: bx_lap
  use md_atoms, only: atoms_t
  use md_box, only: box_t
  use md_domain, only: domain_t, forward, make_halo, migrate, reverse
  use md_list, only: find_closest, list_t, make_list, most_atoms, sort_atoms, worker_t
  use md_metal, only: density_pass, force_pass
  use md_potential, only: potential_t, tersoff_kind
  use md_tersoff, only: tersoff_pass
  use md_units, only: boltzmann, mass_to_energy
  implicit none (type, external)
  private
  public :: system_t, use_style, make_lists, find_forces, advance, observe, observation_t, &
    failure_of_all, cached_loops, go_on_from, skin_of

  integer(c_size_t), parameter, public :: in_two_body = 0, in_density = 1, in_tersoff = 2, &
    in_halo = 3, in_list = 4, in_integrate = 5, in_reduce = 6
  character(*), parameter, public :: phase_names(*) = [character(18) :: "two_body_forces", &
    "metal_ld_compute", "tersoff_forces", "halo", "list", "integrate", "reduce"]

  !> How it communicates and computes: one method of the kernel.
  type, public :: style_t
    logical :: dlpoly3 = .false.   !< sizes before payloads, single-value reductions, a list a step
    logical :: recompute = .false. !< pair terms are computed again, not kept
  end type style_t

  !> About as many one-value global sums are in a step of DL_POLY_3 with a metal potential.
  integer, parameter, public :: small_reductions = 56

  !> Where ranks fail in different ways, the last kind here is the one that all take note of.
  integer, parameter, public :: fine = 0, exploded = 1, too_dense = 2, lost_atoms = 3, &
    crowded = 4, damaged = 5
  type, public :: failure_t
    integer :: kind = fine
    logical :: here = .false. !< found by this rank
    integer :: rank = 0
    integer(c_int64_t) :: step = 0, id = 0, other = 0
    real(dp) :: value = 0, allowed = 0
  contains
    procedure :: text => failure_text
  end type failure_t

  type :: system_t
    type(c_ptr) :: run = c_null_ptr !< the launch, or none
    type(box_t) :: box
    type(potential_t) :: potential
    type(domain_t) :: domain
    type(atoms_t) :: atoms
    type(list_t) :: list
    type(style_t) :: style
    integer(c_int64_t) :: total = 0 !< atoms
    integer(c_int64_t) :: step = 0
    real(dp) :: timestep = 1e-3_dp  !< ps
    real(dp) :: skin = 0            !< A
    real(dp), allocatable :: rho(:), slope(:)
    logical :: listed = .false.
    real(dp) :: energy = 0          !< of this rank's pairs and atoms: eV
    type(failure_t) :: failure
    !> s: steps; parallel regions; of them, what the busiest thread was not computing.
    real(dp) :: wall = 0, in_regions = 0, forked = 0
  end type system_t

  !> Of all ranks: eV, eV/A^3, u A/ps, K.
  type :: observation_t
    real(dp) :: potential = 0, kinetic = 0, stress(3, 3) = 0, pressure = 0, momentum(3) = 0, &
      temperature = 0
  end type observation_t

contains

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
    case (crowded)
      write (line, "('step ', i0, ': rank ', i0, ' has ', i0, ' atoms and ghosts; a list takes ', &
        &i0, ' entries per thread, and ', i0, ' atoms per rank: use more ranks or threads')") &
        self%step, self%rank, self%id, nint(self%allowed, c_int64_t), most_atoms
    case (damaged)
      write (line, "('step ', i0, ': a message from rank ', i0, ' reached rank ', i0, &
        &' with other bits than were sent')") self%step, self%other, self%rank
    case (lost_atoms)
      write (line, "('step ', i0, ': ', i0, ' atoms are lost')") self%step, nint(self%value, &
                                                                                 c_int64_t)
    case default
      line = ""
    end select
    text = trim(line)
  end function failure_text

  !> What the style says of lists and messages; the next step makes a new list.
  subroutine use_style(system, style)
    type(system_t), intent(inout) :: system
    type(style_t), intent(in) :: style
    if (style%dlpoly3 .neqv. system%style%dlpoly3) system%listed = .false.
    system%style = style
    system%domain%sizes_first = style%dlpoly3
  end subroutine use_style

  !> Time since the last lap is the phase's; without a launch there is nothing to tell.
  subroutine lap(system, phase)
    type(system_t), intent(in) :: system
    integer(c_size_t), intent(in) :: phase
    if (c_associated(system%run)) call bx_lap(system%run, phase)
  end subroutine lap

  pure real(dp) function skin_of(system) result(skin)
    type(system_t), intent(in) :: system
    skin = merge(0.0_dp, system%skin, system%style%dlpoly3)
  end function skin_of

  !> Migration, order, halo and lists, of the atoms as they are.  Collective.
  subroutine make_lists(system)
    type(system_t), intent(inout) :: system
    integer, allocatable :: offsets(:)
    integer(c_int64_t) :: lost
    real(dp) :: skin
    skin = skin_of(system)
    system%list%half = system%potential%kind /= tersoff_kind
    system%list%reach = system%potential%cutoff + skin
    call migrate(system%domain, system%box, system%atoms, system%total, lost)
    if (lost /= 0) system%failure = failure_t(lost_atoms, .true., system%domain%rank, &
                                              system%step, value=real(lost, dp))
    call sort_atoms(system%box, system%domain, system%atoms, system%list%reach, offsets)
    call lap(system, in_list)
    call make_halo(system%domain, system%box, system%atoms, system%list%reach)
    call lap(system, in_halo)
    call make_list(system%list, system%box, system%domain, system%atoms, offsets, &
                   system%potential%reach + skin)
    if (any(system%list%work%full)) then
      system%failure = failure_t(crowded, .true., system%domain%rank, system%step, &
                                 int(system%atoms%all, c_int64_t), &
                                 allowed=real(system%list%limit, dp))
    end if
    call make_room(system)
    system%listed = .true.
    call lap(system, in_list)
  end subroutine make_lists

  !> For what is kept of atoms and of entries, here and by each thread.
  subroutine make_room(system)
    type(system_t), intent(inout) :: system
    integer :: t, room, entries
    room = system%atoms%all
    if (.not. allocated(system%rho)) allocate (system%rho(0), system%slope(0))
    if (size(system%rho) < room) then
      deallocate (system%rho, system%slope)
      allocate (system%rho(room + room/8), system%slope(room + room/8))
    end if
    !$omp parallel do num_threads(size(system%list%work)) schedule(static, 1) private(entries)
    do t = 1, size(system%list%work)
      associate (work => system%list%work(t))
        if (.not. allocated(work%repulsion)) then
          allocate (work%repulsion(0), work%density(0), work%rho(0), work%f(4, 0))
        end if
        entries = merge(size(work%entry), 0, system%list%half) ! any style may be the next
        if (size(work%repulsion) < entries) then
          deallocate (work%repulsion, work%density)
          allocate (work%repulsion(entries), work%density(entries))
        end if
        if (size(system%list%work) > 1 .and. size(work%rho) < room) then
          deallocate (work%rho, work%f)
          allocate (work%rho(room + room/8), work%f(4, room + room/8))
        end if
      end associate
    end do
    !$omp end parallel do
  end subroutine make_room

  ! ---- forces ----

  !> Forces on own atoms (atoms%f), and energy; with `pair_energy` that of each own atom (eV), with
  !> `virial` the sum of x f over this rank's share (eV).
  subroutine find_forces(system, pair_energy, virial)
    type(system_t), intent(inout) :: system
    real(dp), intent(inout), optional :: pair_energy(:), virial(3, 3)
    integer :: a, b
    if (system%potential%kind == tersoff_kind) then
      call tersoff_forces(system, pair_energy)
    else
      call metal_forces(system, pair_energy)
    end if
    if (present(virial)) then
      associate (x => system%atoms%x(:, :system%atoms%all), f => system%atoms%f)
        do b = 1, 3
          do a = 1, 3
            virial(a, b) = dot_product(x(a, :), f(b, :system%atoms%all))
          end do
        end do
      end associate
      call lap(system, in_integrate)
    end if
    call reverse(system%domain, system%atoms%f, 4, 3)
    call lap(system, in_halo)
  end subroutine find_forces

  subroutine tersoff_forces(system, pair_energy)
    type(system_t), intent(inout) :: system
    real(dp), intent(inout), optional :: pair_energy(:)
    real(dp) :: energy, mine, busy, start, began
    integer :: t
    energy = 0
    busy = 0
    start = omp_get_wtime()
    !$omp parallel num_threads(size(system%list%work)) private(mine, t, began) &
    !$omp& reduction(+:energy) reduction(max:busy)
    began = omp_get_wtime()
    t = omp_get_thread_num() + 1
    associate (work => system%list%work(t), atoms => system%atoms)
      call clear(work, 4, atoms%f, work%f)
      call tersoff_pass(system%potential, work%first, work%last, work%start, work%entry, &
                        max(1, system%list%most), atoms%x, atoms%species, work%direct, atoms%f, &
                        work%f, mine, pair_energy)
      energy = mine
    end associate
    busy = omp_get_wtime() - began
    !$omp barrier
    began = omp_get_wtime()
    call join(system%list, t, system%atoms%all, system%atoms%f)
    busy = busy + omp_get_wtime() - began
    !$omp end parallel
    call account(system, start, busy)
    system%energy = energy
    call lap(system, in_tersoff)
  end subroutine tersoff_forces

  subroutine metal_forces(system, pair_energy)
    type(system_t), intent(inout) :: system
    real(dp), intent(inout), optional :: pair_energy(:)
    real(dp), allocatable :: halves(:) !< of pairs, ghosts too
    real(dp) :: energy, mine, lowest, least, busy, start, began, fall
    integer :: t, i
    logical :: keep
    keep = .not. system%style%recompute
    if (present(pair_energy)) allocate (halves(system%atoms%all), source=0.0_dp)
    energy = 0
    least = 0
    busy = 0
    start = omp_get_wtime()
    !$omp parallel num_threads(size(system%list%work)) private(mine, lowest, t, began) &
    !$omp& reduction(+:energy) reduction(max:busy) reduction(min:least)
    began = omp_get_wtime()
    t = omp_get_thread_num() + 1
    associate (work => system%list%work(t), x => system%atoms%x)
      call clear(work, 1, system%rho, work%rho)
      if (t == 1) then
        call density_pass(system%potential, work%first, work%last, work%start, work%entry, &
                          system%list%most, x, keep, system%rho, work%repulsion, work%density, &
                          mine, lowest)
      else
        call density_pass(system%potential, work%first, work%last, work%start, work%entry, &
                          system%list%most, x, keep, work%rho, work%repulsion, work%density, &
                          mine, lowest)
      end if
      energy = mine
      least = lowest
    end associate
    busy = omp_get_wtime() - began
    !$omp barrier
    began = omp_get_wtime()
    call join_densities(system%list, t, system%atoms%all, system%rho)
    busy = busy + omp_get_wtime() - began
    !$omp end parallel
    call account(system, start, busy)
    if (least < 0) call find_too_dense(system)
    if (allocated(halves)) call share_out(system, halves)
    call lap(system, in_density)
    call reverse(system%domain, system%rho, 1, 1)
    call lap(system, in_halo)
    fall = -0.5_dp*system%potential%scale
    !$omp parallel do schedule(static) reduction(+:energy)
    do i = 1, system%atoms%own
      if (system%rho(i) <= 0) then ! alone, or closer than the potential goes, which is told
        system%slope(i) = 0
      else ! a NaN goes on
        energy = energy - system%potential%scale*sqrt(system%rho(i))
        system%slope(i) = fall/sqrt(system%rho(i))
      end if
    end do
    !$omp end parallel do
    system%energy = energy
    if (present(pair_energy)) then
      call reverse(system%domain, halves, 1, 1)
      do i = 1, system%atoms%own
        pair_energy(i) = halves(i)
        if (system%rho(i) <= 0) cycle
        pair_energy(i) = halves(i) - system%potential%scale*sqrt(system%rho(i))
      end do
    end if
    call lap(system, in_density)
    call forward(system%domain, system%slope, 1, 1, .false.)
    call lap(system, in_halo)
    busy = 0
    start = omp_get_wtime()
    !$omp parallel num_threads(size(system%list%work)) private(t, began) reduction(max:busy)
    began = omp_get_wtime()
    t = omp_get_thread_num() + 1
    associate (work => system%list%work(t), atoms => system%atoms)
      call clear(work, 4, atoms%f, work%f)
      if (t == 1) then
        call force_pass(system%potential, work%first, work%last, work%start, work%entry, &
                        system%list%most, atoms%x, system%slope, keep, work%repulsion, &
                        work%density, atoms%f)
      else
        call force_pass(system%potential, work%first, work%last, work%start, work%entry, &
                        system%list%most, atoms%x, system%slope, keep, work%repulsion, &
                        work%density, work%f)
      end if
    end associate
    busy = omp_get_wtime() - began
    !$omp barrier
    began = omp_get_wtime()
    call join(system%list, t, system%atoms%all, system%atoms%f)
    busy = busy + omp_get_wtime() - began
    !$omp end parallel
    call account(system, start, busy)
    call lap(system, in_two_body)
  end subroutine metal_forces

  subroutine account(system, start, busy)
    type(system_t), intent(inout) :: system
    real(dp), intent(in) :: start, busy
    real(dp) :: wall
    wall = omp_get_wtime() - start
    system%in_regions = system%in_regions + wall
    system%forked = system%forked + max(0.0_dp, wall - busy)
  end subroutine account

  !> Makes sums start at 0 where a thread will add to them: the sums themselves, or its own.
  subroutine clear(work, n, sums, mine)
    type(worker_t), intent(in) :: work
    integer, intent(in) :: n
    real(dp), intent(inout) :: sums(n, *), mine(n, *)
    integer :: part, k
    do part = 1, size(work%alone)
      do k = work%alone(part)%from, work%alone(part)%to
        sums(:, k) = 0
      end do
    end do
    do part = 1, size(work%beside)
      do k = work%beside(part)%from, work%beside(part)%to
        mine(:, k) = 0
      end do
    end do
  end subroutine clear

  !> Thread t's share of joining the threads' own sums to the sums: forces.
  subroutine join(list, t, all, f)
    type(list_t), intent(in) :: list
    integer, intent(in) :: t, all
    real(dp), intent(inout) :: f(4, *)
    integer :: other, from, to
    call share_of(t, size(list%work), all, from, to)
    call clear_untouched(list, 4, from, to, f)
    do other = 1, size(list%work)
      call add(list%work(other), 4, from, to, list%work(other)%f, f)
    end do
  end subroutine join

  !> The same for densities.
  subroutine join_densities(list, t, all, rho)
    type(list_t), intent(in) :: list
    integer, intent(in) :: t, all
    real(dp), intent(inout) :: rho(*)
    integer :: other, from, to
    call share_of(t, size(list%work), all, from, to)
    call clear_untouched(list, 1, from, to, rho)
    do other = 1, size(list%work)
      call add(list%work(other), 1, from, to, list%work(other)%rho, rho)
    end do
  end subroutine join_densities

  pure subroutine share_of(t, threads, all, from, to)
    integer, intent(in) :: t, threads, all
    integer, intent(out) :: from, to
    from = 1 + int(int(t - 1, c_int64_t)*all/threads)
    to = int(int(t, c_int64_t)*all/threads)
  end subroutine share_of

  subroutine clear_untouched(list, n, from, to, sums)
    type(list_t), intent(in) :: list
    integer, intent(in) :: n, from, to
    real(dp), intent(inout) :: sums(n, *)
    integer :: part, k
    do part = 1, size(list%untouched)
      do k = max(from, list%untouched(part)%from), min(to, list%untouched(part)%to)
        sums(:, k) = 0
      end do
    end do
  end subroutine clear_untouched

  subroutine add(work, n, from, to, mine, sums)
    type(worker_t), intent(in) :: work
    integer, intent(in) :: n, from, to
    real(dp), intent(in) :: mine(n, *)
    real(dp), intent(inout) :: sums(n, *)
    integer :: part, k
    do part = 1, size(work%beside)
      do k = max(from, work%beside(part)%from), min(to, work%beside(part)%to)
        sums(:, k) = sums(:, k) + mine(:, k)
      end do
    end do
  end subroutine add

  !> Each atom's half of its pairs' energies (eV), ghosts by themselves.
  subroutine share_out(system, halves)
    type(system_t), intent(in) :: system
    real(dp), intent(inout) :: halves(:)
    real(dp), allocatable :: rho(:)
    real(dp) :: energy, lowest, none(1)
    integer :: t
    allocate (rho(system%atoms%all), source=0.0_dp)
    none = 0
    do t = 1, size(system%list%work)
      associate (work => system%list%work(t))
        call density_pass(system%potential, work%first, work%last, work%start, work%entry, &
                          system%list%most, system%atoms%x, .false., rho, none, none, &
                          energy, lowest, halves)
      end associate
    end do
  end subroutine share_out

  !> Notes the closest pair of this rank's atoms, if it is closer than the potential goes.
  subroutine find_too_dense(system)
    type(system_t), intent(inout) :: system
    real(dp) :: distance
    integer(c_int64_t) :: ids(2)
    if (system%failure%kind /= fine) return
    call find_closest(system%list, system%atoms, distance, ids)
    if (distance >= system%potential%closest) return
    system%failure = failure_t(too_dense, .true., system%domain%rank, system%step, ids(1), ids(2), &
                               distance, system%potential%closest)
  end subroutine find_too_dense

  ! ---- time ----

  !> So many steps of velocity Verlet; stops early where the system has failed.  Collective.
  subroutine advance(system, steps)
    type(system_t), intent(inout) :: system
    integer, intent(in) :: steps
    integer :: n
    real(dp) :: moved
    if (.not. system%listed) then
      call make_lists(system)
      call find_forces(system)
    end if
    do n = 1, steps
      system%step = system%step + 1
      call kick_and_drift(system, moved)
      call lap(system, in_integrate)
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
    end do
  end subroutine advance

  !> After a restart: the list is made where it was made, atoms then go to where they were.
  subroutine go_on_from(system, moved)
    type(system_t), intent(inout) :: system
    real(dp), intent(in) :: moved(:, :) !< (3, own): A
    call make_lists(system)
    system%atoms%x(1:3, :system%atoms%own) = moved
    call forward(system%domain, system%atoms%x, 4, 3, .true.)
    call find_forces(system)
  end subroutine go_on_from

  !> Velocities half a step on, positions a whole; `moved` (A) is the furthest since the list.
  subroutine kick_and_drift(system, moved)
    type(system_t), intent(inout) :: system
    real(dp), intent(out) :: moved
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
    call account(system, start, busy)
    moved = sqrt(furthest)
    ! what has failed first is told; all ranks must get to agree on it
    if (bad > 0 .and. system%failure%kind == fine) call find_exploded(system, sqrt(limit))
  end subroutine kick_and_drift

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
    call account(system, start, busy)
  end subroutine kick

  !> Velocity that half a step gives per force, by species: A/ps / (eV/A).
  pure function half_kick(system) result(half)
    type(system_t), intent(in) :: system
    real(dp) :: half(size(system%potential%mass))
    half = 0
    associate (n => system%potential%species)
      half(:n) = 0.5_dp*system%timestep/(mass_to_energy*system%potential%mass(:n))
    end associate
  end function half_kick

  subroutine find_exploded(system, allowed)
    type(system_t), intent(inout) :: system
    real(dp), intent(in) :: allowed
    real(dp) :: moved
    integer :: k
    do k = 1, system%atoms%own
      moved = norm2(system%atoms%x(1:3, k) - system%atoms%listed(:, k))
      if (moved <= allowed) cycle
      system%failure = failure_t(exploded, .true., system%domain%rank, system%step, &
                                 system%atoms%id(k), value=moved, allowed=allowed)
      return
    end do
  end subroutine find_exploded

  !> What has gone wrong on the lowest rank where something has; "" if nothing has.  Collective.
  subroutine failure_of_all(system, text)
    type(system_t), intent(inout) :: system
    character(*), intent(out) :: text
    integer :: lowest
    call note_damage(system)
    lowest = merge(system%domain%rank, system%domain%ranks, system%failure%here)
    call MPI_Allreduce(MPI_IN_PLACE, lowest, 1, MPI_INTEGER, MPI_MIN, system%domain%comm)
    text = ""
    if (lowest == system%domain%ranks) return
    if (lowest == system%domain%rank) text = system%failure%text()
    call MPI_Bcast(text, len(text), MPI_CHARACTER, lowest, system%domain%comm)
    call MPI_Bcast(system%failure%kind, 1, MPI_INTEGER, lowest, system%domain%comm)
  end subroutine failure_of_all

  !> A message that arrived with other bits is the cause of whatever else has gone wrong.
  subroutine note_damage(system)
    type(system_t), intent(inout) :: system
    if (system%domain%damaged_from < 0 .or. system%failure%kind == damaged) return
    system%failure = failure_t(damaged, .true., system%domain%rank, system%step, &
                               other=int(system%domain%damaged_from, c_int64_t))
  end subroutine note_damage

  !> The furthest that any atom has moved, and whether any rank has failed: on all ranks.
  subroutine agree(system, moved)
    type(system_t), intent(inout) :: system
    real(dp), intent(inout) :: moved
    real(dp) :: both(2)
    integer :: i
    call note_damage(system)
    both = [moved, real(system%failure%kind, dp)]
    if (system%domain%ranks > 1) then
      if (system%style%dlpoly3) then
        do i = 1, small_reductions
          call MPI_Allreduce(MPI_IN_PLACE, both(merge(2, 1, i == 2)), 1, MPI_DOUBLE_PRECISION, &
                             MPI_MAX, system%domain%comm)
        end do
        call count_reductions(system, small_reductions, 1)
      else
        call MPI_Allreduce(MPI_IN_PLACE, both, 2, MPI_DOUBLE_PRECISION, MPI_MAX, &
                           system%domain%comm)
        call count_reductions(system, 1, 2)
      end if
    end if
    moved = both(1)
    system%failure%kind = max(system%failure%kind, nint(both(2)))
  end subroutine agree

  subroutine count_reductions(system, count, values)
    type(system_t), intent(inout) :: system
    integer, intent(in) :: count, values
    system%domain%tally%messages = system%domain%tally%messages + count
    system%domain%tally%bytes = system%domain%tally%bytes + 8*count*values
  end subroutine count_reductions

  !> The work of so many steps' loops over pairs, on a few atoms of each thread, again and again:
  !> from cache, without lists, messages or threads that wait.  What a step takes beyond it is the
  !> price of memory and of parallelism.  `energy` (eV) is the pairs', the first time and the last.
  subroutine cached_loops(system, steps, energy)
    type(system_t), intent(in) :: system
    integer, intent(in) :: steps
    real(dp), intent(out) :: energy(2)
    real(dp) :: first, last, mine(2)
    integer :: t
    first = 0
    last = 0
    !$omp parallel do num_threads(size(system%list%work)) schedule(static, 1) private(mine) &
    !$omp& reduction(+:first, last)
    do t = 1, size(system%list%work)
      call repeat_loops(system, system%list%work(t), steps, mine)
      first = first + mine(1)
      last = last + mine(2)
    end do
    !$omp end parallel do
    energy = [first, last]
  end subroutine cached_loops

  subroutine repeat_loops(system, work, steps, energy)
    type(system_t), intent(in) :: system
    type(worker_t), intent(in) :: work
    integer, intent(in) :: steps
    real(dp), intent(out) :: energy(2)
    integer, parameter :: few = 128 !< atoms
    real(dp), allocatable :: rho(:), f(:, :), kept(:, :)
    real(dp) :: mine, lowest
    integer :: n, left, all, from, to, everything(2)
    energy = 0
    everything = [1, system%atoms%all]
    all = work%last - work%first + 1
    if (all < 1) return
    allocate (rho(system%atoms%all), f(4, system%atoms%all), source=0.0_dp)
    from = work%first + max(0, all - few)/2 ! from the middle: at the faces lists differ
    to = from + min(few, all) - 1
    allocate (kept(max(1, work%start(to + 1)), 2), source=0.0_dp)
    do n = 1, steps
      left = all
      do while (left > 0)
        to = from + min(few, left) - 1
        associate (most => max(1, system%list%most), x => system%atoms%x)
          if (system%potential%kind == tersoff_kind) then
            call tersoff_pass(system%potential, from, to, work%start(from:), work%entry, most, x, &
                              system%atoms%species, everything, f, f, mine)
          else
            call density_pass(system%potential, from, to, work%start(from:), work%entry, most, x, &
                              .true., rho, kept(:, 1), kept(:, 2), mine, lowest)
            call force_pass(system%potential, from, to, work%start(from:), work%entry, most, x, &
                            system%slope, .true., kept(:, 1), kept(:, 2), f)
          end if
        end associate
        if (left == all) then ! the same atoms every time
          if (n == 1) energy(1) = mine
          energy(2) = mine
        end if
        left = left - few
      end do
    end do
  end subroutine repeat_loops

  !> Energies and stress now.  Collective; forces are found again.
  function observe(system) result(seen)
    type(system_t), intent(inout) :: system
    type(observation_t) :: seen
    real(dp) :: virial(3, 3), all(14), squared
    integer :: k
    call find_forces(system, virial=virial)
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
      seen%temperature = 2*seen%kinetic/(3*real(system%total - 1, dp)*boltzmann)
    end if
  end function observe

end module md_system
