! Forces and energies of a system: the passes of its potential, shared by threads, and the exchanges
! of ghosts between and after them.
!
! Where other threads add too, a thread adds to sums of its own, which are joined after each pass.
module md_forces
  use, intrinsic :: iso_c_binding, only: c_bool, c_int64_t, dp => c_double
  use bx_charges, only: bx_charge, bx_charge_fork, bx_copy, bx_pairs, by_all_threads, by_one_thread
  use mpi_f08, only: MPI_SUM
  use omp_lib, only: omp_get_wtime
  use md_domain, only: check_room, reduce
  use md_halo, only: forward, reverse
  use md_ionic, only: ionic_energies, ionic_pass
  use md_list, only: find_closest, list_t, worker_t
  use md_mesh, only: gather_forces, solve, spread_charges
  use md_metal, only: density_pass, force_pass
  use md_potential, only: ionic_kind, tersoff_kind
  use md_system, only: account, failure_t, fine, in_density, in_fft, in_halo, in_integrate, &
    in_mesh, in_reduce, in_tersoff, in_two_body, lap, system_t, too_dense
  use md_tersoff, only: tersoff_pass
  implicit none (type, external)
  private
  public :: cached_loops, charge_list, find_forces, reserve_sums

  !> Passes over the lists of pairs.
  integer, parameter :: bonds = 1, ions = 2, densities = 3, embedding = 4
  !> Flop of each per entry of a list, about, and per further neighbour of the entry's atom; of the
  !> last with the pair's terms kept; of making the list.
  real(dp), parameter :: per_entry(4) = [40, 90, 50, 60], per_triple(4) = [80, 0, 0, 0], &
    of_kept_terms = 25, of_list = 60

contains

  !> Makes room for the sums of atoms and the kept terms of entries, of the system and each thread.
  subroutine reserve_sums(system)
    type(system_t), intent(inout) :: system
    integer :: t, room, entries
    room = system%atoms%all
    if (.not. allocated(system%rho)) allocate (system%rho(0), system%slope(0))
    if (size(system%rho) < room) then
      deallocate (system%rho, system%slope)
      allocate (system%rho(room + room/8), system%slope(room + room/8))
    end if
    !$omp parallel do schedule(static, 1) private(entries)
    do t = 1, size(system%list%work)
      associate (work => system%list%work(t))
        if (.not. allocated(work%repulsion)) then
          allocate (work%repulsion(0), work%density(0), work%rho(0), work%f(4, 0))
        end if
        entries = 0 ! kept terms are of metals; any style may be the next
        if (system%list%half .and. system%potential%kind /= ionic_kind) entries = size(work%entry)
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
  end subroutine reserve_sums

  !> Forces on own atoms (atoms%f, eV/A) and the energy (system%energy, eV) of the ranks' shares: of
  !> all atoms, where each rank has a copy of the box.  Collective.
  subroutine find_forces(system, pair_energy, virial)
    type(system_t), intent(inout) :: system
    real(dp), intent(inout), optional :: pair_energy(:) !< (own): energy of each atom, eV
    real(dp), intent(inout), optional :: virial(3, 3)   !< sum of x f over this rank's pairs: eV
    real(dp), allocatable :: shift(:, :) !< (4, all) of ghosts from their owners: A
    integer :: a, b
    if (present(pair_energy)) pair_energy = 0
    select case (system%potential%kind)
    case (tersoff_kind)
      call over_lists(system, bonds, pair_energy)
      call lap(system, in_tersoff)
    case (ionic_kind)
      call ionic_forces(system, pair_energy, present(virial))
    case default
      call metal_forces(system, pair_energy)
    end select
    if (present(virial)) then
      allocate (shift(4, system%atoms%all), source=0.0_dp)
      if (system%list%twice) call forward(system%domain, shift, 4, 3, .true.)
      associate (x => system%atoms%x, f => system%atoms%f, n => system%atoms%own, &
                 all => system%atoms%all)
        do b = 1, 3
          do a = 1, 3
            if (system%list%twice) then ! what crosses a border counts here and there
              virial(a, b) = dot_product(x(a, :n), f(b, :n)) &
                             + 0.5_dp*dot_product(shift(a, n + 1:), f(b, n + 1:all))
            else
              virial(a, b) = dot_product(x(a, :all), f(b, :all))
            end if
          end do
        end do
      end associate
      call lap(system, in_integrate)
    end if
    if (.not. system%list%twice) then
      call reverse(system%domain, system%atoms%f, 4, 3)
      call lap(system, in_halo)
    end if
    if (system%potential%kind == ionic_kind) call mesh_forces(system, pair_energy, virial)
    if (system%domain%copies > 1) call add_shares(system, pair_energy, virial)
  end subroutine find_forces

  !> Where each rank has a copy of the box, adds up what the ranks have computed of all atoms:
  !> forces, energy, and what else is asked for, in one sum.  Collective over the world.
  subroutine add_shares(system, pair_energy, virial)
    type(system_t), intent(inout) :: system
    real(dp), intent(inout), optional :: pair_energy(:), virial(3, 3)
    integer :: n, k, words
    n = system%atoms%own
    words = 3*n + 1
    if (present(virial)) words = words + 9
    if (present(pair_energy)) words = words + n
    if (allocated(system%sums)) then
      if (size(system%sums) < words) deallocate (system%sums)
    end if
    if (.not. allocated(system%sums)) allocate (system%sums(4*n + 10))
    associate (sums => system%sums, f => system%atoms%f)
      !$omp parallel do schedule(static)
      do k = 1, n
        sums(3*k - 2:3*k) = f(1:3, k)
      end do
      !$omp end parallel do
      sums(3*n + 1) = system%energy
      if (present(virial)) sums(3*n + 2:3*n + 10) = reshape(virial, [9])
      if (present(pair_energy)) sums(words - n + 1:words) = pair_energy
      call bx_charge(bx_copy, 16.0_dp*words, by_one_thread)
      call reduce(system%domain, sums(:words), MPI_SUM)
      !$omp parallel do schedule(static)
      do k = 1, n
        f(1:3, k) = sums(3*k - 2:3*k)
      end do
      !$omp end parallel do
      system%energy = sums(3*n + 1)
      if (present(virial)) virial = reshape(sums(3*n + 2:3*n + 10), [3, 3])
      if (present(pair_energy)) pair_energy = sums(words - n + 1:words)
    end associate
    call lap(system, in_reduce)
  end subroutine add_shares

  !> A pass of all threads over their lists: sets densities (system%rho) or forces (eV/A), those of
  !> ghosts not yet their owners'.  system%energy becomes that of bonds, or of the pairs of metals
  !> (eV); other passes leave it undefined.
  subroutine over_lists(system, pass, pair_energy, least)
    type(system_t), target, intent(inout) :: system
    integer, intent(in) :: pass
    real(dp), intent(inout), optional :: pair_energy(:) !< (own): of each centre's bonds, eV
    real(dp), intent(out), optional :: least !< the lowest density of a pair, if it is negative
    real(dp), pointer, contiguous :: rho(:), f(:, :) !< what a thread adds to: thread 1 to the sums
    real(dp) :: energy, mine, lowest, lowest_of_all, busy, start, began
    integer, allocatable :: own !< pairs with later atoms are counted on two ranks
    integer :: t
    logical :: keep
    keep = .not. system%style%recompute
    if (system%list%twice) own = system%atoms%own
    energy = 0
    lowest_of_all = 0
    busy = 0
    start = omp_get_wtime()
    !$omp parallel num_threads(size(system%list%work)) private(mine, lowest, t, began, rho, f) &
    !$omp& reduction(+:energy) reduction(max:busy) reduction(min:lowest_of_all)
    began = omp_get_wtime()
    !$omp do schedule(static, 1)
    do t = 1, size(system%list%work)
      rho => system%list%work(t)%rho
      if (t == 1) rho => system%rho
      f => system%list%work(t)%f
      if (t == 1) f => system%atoms%f
      lowest = 0
      associate (work => system%list%work(t), atoms => system%atoms, most => system%list%most)
        if (pass == densities) then
          call clear(work, 1, system%rho, work%rho)
        else
          call clear(work, 4, atoms%f, work%f)
        end if
        select case (pass)
        case (bonds)
          if (present(pair_energy)) then ! flang 22 takes none within a parallel region for one
            call tersoff_pass(system%potential, work%first, work%last, work%start, work%entry, &
                              max(1, most), atoms%x, atoms%species, work%direct, atoms%f, work%f, &
                              mine, pair_energy)
          else
            call tersoff_pass(system%potential, work%first, work%last, work%start, work%entry, &
                              max(1, most), atoms%x, atoms%species, work%direct, atoms%f, work%f, &
                              mine)
          end if
        case (ions)
          call ionic_pass(system%potential, system%smooth, work%first, work%last, work%start, &
                          work%entry, most, atoms%x, f, mine)
        case (densities)
          call density_pass(system%potential, work%first, work%last, work%start, work%entry, &
                            most, atoms%x, keep, rho, work%repulsion, work%density, mine, &
                            lowest, own=own)
        case default
          call force_pass(system%potential, work%first, work%last, work%start, work%entry, most, &
                          atoms%x, system%slope, keep, work%repulsion, work%density, f)
          mine = 0
        end select
      end associate
      energy = energy + mine
      lowest_of_all = min(lowest_of_all, lowest)
    end do
    !$omp end do nowait
    busy = omp_get_wtime() - began
    !$omp barrier
    if (pass == densities) then
      call join(system%list, 1, system%atoms%all, system%rho, busy)
    else
      call join(system%list, 4, system%atoms%all, system%atoms%f, busy)
    end if
    !$omp end parallel
    call account(system, start, busy)
    call charge_pass(system, pass)
    system%energy = energy
    if (present(least)) least = lowest_of_all
  end subroutine over_lists

  !> Forces of pairs of ions, and with `pair_energy` or `with_energy` their energy; forces on ghosts
  !> are not yet their owners'.
  subroutine ionic_forces(system, pair_energy, with_energy)
    type(system_t), intent(inout) :: system
    real(dp), intent(inout), optional :: pair_energy(:)
    logical, intent(in) :: with_energy
    real(dp), allocatable :: halves(:) !< (all): eV, half of each pair's energy
    integer, allocatable :: own !< pairs with later atoms are counted on two ranks
    real(dp) :: mine
    integer :: t
    call over_lists(system, ions)
    call lap(system, in_two_body)
    system%energy = 0
    if (.not. (present(pair_energy) .or. with_energy)) return
    allocate (halves(system%atoms%all), source=0.0_dp)
    if (system%list%twice) own = system%atoms%own
    do t = 1, size(system%list%work)
      associate (work => system%list%work(t))
        call ionic_energies(system%potential, system%smooth, work%first, work%last, work%start, &
                            work%entry, system%list%most, system%atoms%x, mine, halves, own)
        system%energy = system%energy + mine
      end associate
    end do
    if (.not. present(pair_energy)) return
    if (.not. system%list%twice) call reverse(system%domain, halves, 1, 1)
    pair_energy = halves(:system%atoms%own)
  end subroutine ionic_forces

  !> Adds the mesh's part of Ewald's sum to forces, energies (eV) and virial (eV).  Interpolated
  !> forces do not add up to nothing: each ion's share of their sum is taken from it.
  subroutine mesh_forces(system, pair_energy, virial)
    type(system_t), intent(inout) :: system
    real(dp), intent(inout), optional :: pair_energy(:), virial(3, 3)
    real(dp) :: energy, net(3)
    integer :: k
    call spread_charges(system%mesh, system%potential, system%box, system%atoms)
    call lap(system, in_mesh)
    call solve(system%mesh, system%box, system%domain, system%potential, system%style%fft, &
               present(virial))
    call lap(system, in_fft)
    call gather_forces(system%mesh, system%potential, system%box, system%list%first, &
                       system%list%last, system%atoms, energy, net, pair_energy)
    call lap(system, in_mesh)
    call reduce(system%domain, net, MPI_SUM)
    call lap(system, in_reduce)
    net = net/real(system%total, dp)
    do k = system%list%first, system%list%last
      system%atoms%f(1:3, k) = system%atoms%f(1:3, k) - net
    end do
    system%energy = system%energy + energy
    if (present(virial)) virial = virial + system%mesh%virial/system%domain%copies
    call lap(system, in_mesh)
  end subroutine mesh_forces

  !> Forces and energy by a metal's potential: densities, embedding, forces.  Where pairs are listed
  !> twice, what ghosts have got is their owners' to compute.
  subroutine metal_forces(system, pair_energy)
    type(system_t), intent(inout) :: system
    real(dp), intent(inout), optional :: pair_energy(:)
    real(dp), allocatable :: halves(:) !< (all): eV, half of each pair's energy
    real(dp) :: energy, least, fall, entered, virial(1)
    integer :: i
    if (present(pair_energy)) allocate (halves(system%atoms%all), source=0.0_dp)
    entered = omp_get_wtime()
    call over_lists(system, densities, least=least)
    energy = system%energy
    if (least < 0) call find_too_dense(system)
    if (allocated(halves)) call share_out(system, halves)
    call lap(system, in_density)
    if (.not. system%list%twice) call reverse(system%domain, system%rho, 1, 1)
    call lap(system, in_halo)
    if (system%domain%copies > 1) then
      call reduce(system%domain, system%rho(:system%atoms%own), MPI_SUM)
      call lap(system, in_reduce)
    end if
    fall = -0.5_dp*system%potential%scale
    !$omp parallel do num_threads(size(system%list%work)) schedule(static) reduction(+:energy)
    do i = 1, system%atoms%own
      if (system%rho(i) <= 0) then ! alone, or closer than the potential goes, which is a failure
        system%slope(i) = 0
      else ! a NaN goes on
        if (i >= system%list%first .and. i <= system%list%last) then
          energy = energy - system%potential%scale*sqrt(system%rho(i))
        end if
        system%slope(i) = fall/sqrt(system%rho(i))
      end if
    end do
    !$omp end parallel do
    if (present(pair_energy)) then
      if (.not. system%list%twice) call reverse(system%domain, halves, 1, 1)
      pair_energy = halves(:system%atoms%own)
      do i = system%list%first, system%list%last
        if (system%rho(i) <= 0) cycle
        pair_energy(i) = pair_energy(i) - system%potential%scale*sqrt(system%rho(i))
      end do
    end if
    call lap(system, in_density)
    if (system%style%dlpoly3) then ! metal_ld_compute's check of the densities, and its virial
      call check_room(system%domain, 1)
      virial = energy
      call reduce(system%domain, virial, MPI_SUM)
      call lap(system, in_reduce)
    end if
    call forward(system%domain, system%slope, 1, 1, .false.)
    call lap(system, in_halo)
    system%metal_ld = system%metal_ld + omp_get_wtime() - entered
    call over_lists(system, embedding)
    system%energy = energy
    call lap(system, in_two_body)
  end subroutine metal_forces

  !> Charges making the lists, on a simulated machine.
  subroutine charge_list(system)
    type(system_t), intent(in) :: system
    logical :: alone
    alone = system%style%dlpoly3 .and. .not. system%thread_lists
    call charge_pairs(system, of_list, 0.0_dp, merge(by_one_thread, by_all_threads, alone))
  end subroutine charge_list

  !> Charges a pass, likewise.
  subroutine charge_pass(system, pass)
    type(system_t), intent(in) :: system
    integer, intent(in) :: pass
    logical :: kept
    kept = pass == embedding .and. .not. system%style%recompute
    call charge_pairs(system, merge(of_kept_terms, per_entry(pass), kept), per_triple(pass), &
                      by_all_threads)
  end subroutine charge_pass

  !> Charges a pass over this rank's lists, on a simulated machine: flop per entry, and per triple
  !> of an entry and another neighbour of its atom.
  subroutine charge_pairs(system, per_entry, per_triple, by_threads)
    type(system_t), intent(in) :: system
    real(dp), intent(in) :: per_entry, per_triple
    logical(c_bool), intent(in) :: by_threads !< by_all_threads, or by_one_thread
    real(dp) :: entries, neighbours
    integer :: t
    entries = 0
    do t = 1, size(system%list%work)
      associate (work => system%list%work(t))
        if (work%last >= work%first) then
          entries = entries + real(work%start(work%last + 1) - work%start(work%first), dp)
        end if
      end associate
    end do
    neighbours = entries/max(1, system%list%last - system%list%first + 1)
    call bx_charge_fork()
    call bx_charge(bx_pairs, entries*(per_entry + per_triple*max(0.0_dp, neighbours - 1)), &
                   by_threads)
  end subroutine charge_pairs

  !> Sets to 0 the sums that a thread will add to, n reals per atom: the shared ones and its own.
  subroutine clear(work, n, sums, mine)
    type(worker_t), intent(in) :: work
    integer, intent(in) :: n
    real(dp), intent(inout) :: sums(*), mine(*)
    integer :: part
    do part = 1, size(work%unbuffered)
      sums(n*(work%unbuffered(part)%from - 1) + 1:n*work%unbuffered(part)%to) = 0
    end do
    do part = 1, size(work%buffered)
      mine(n*(work%buffered(part)%from - 1) + 1:n*work%buffered(part)%to) = 0
    end do
  end subroutine clear

  !> Adds the threads' own sums of atoms 1..all to `sums`, n reals per atom: forces (4, eV/A) or
  !> densities (1); and the seconds that this thread takes to `busy`.  In a parallel region.
  subroutine join(list, n, all, sums, busy)
    type(list_t), intent(in) :: list
    integer, intent(in) :: n, all
    real(dp), intent(inout) :: sums(n, *), busy
    real(dp) :: began
    integer :: t, other, from, to
    began = omp_get_wtime()
    !$omp do schedule(static, 1)
    do t = 1, size(list%work)
      call share_of(t, size(list%work), all, from, to)
      call clear_untouched(list, n, from, to, sums)
      do other = 1, size(list%work)
        associate (work => list%work(other))
          if (n == 1) then
            call add(work, 1, from, to, work%rho, sums)
          else
            call add(work, 4, from, to, work%f, sums)
          end if
        end associate
      end do
    end do
    !$omp end do nowait
    busy = busy + omp_get_wtime() - began
  end subroutine join

  !> Thread t's share of atoms 1..all: from..to.
  pure subroutine share_of(t, threads, all, from, to)
    integer, intent(in) :: t, threads, all
    integer, intent(out) :: from, to
    from = 1 + int(int(t - 1, c_int64_t)*all/threads)
    to = int(int(t, c_int64_t)*all/threads)
  end subroutine share_of

  !> Sets to 0 the sums of from..to that no thread adds to directly.
  subroutine clear_untouched(list, n, from, to, sums)
    type(list_t), intent(in) :: list
    integer, intent(in) :: n, from, to
    real(dp), intent(inout) :: sums(*)
    integer :: part
    do part = 1, size(list%untouched)
      associate (range => list%untouched(part))
        sums(n*(max(from, range%from) - 1) + 1:n*min(to, range%to)) = 0
      end associate
    end do
  end subroutine clear_untouched

  !> Adds a thread's own sums of from..to, n reals per atom.
  subroutine add(work, n, from, to, mine, sums)
    type(worker_t), intent(in) :: work
    integer, intent(in) :: n, from, to
    real(dp), intent(in) :: mine(n, *)
    real(dp), intent(inout) :: sums(n, *)
    integer :: part, k
    do part = 1, size(work%buffered)
      do k = max(from, work%buffered(part)%from), min(to, work%buffered(part)%to)
        sums(:, k) = sums(:, k) + mine(:, k)
      end do
    end do
  end subroutine add

  !> Adds half of each pair's energy (eV) to both of its atoms, ghosts included: halves(all).
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

  !> Notes a failure if this rank's closest pair is closer than the potential goes.
  subroutine find_too_dense(system)
    type(system_t), intent(inout) :: system
    real(dp) :: distance
    integer(c_int64_t) :: ids(2)
    if (system%failure%kind /= fine) return
    call find_closest(system%list, system%atoms, distance, ids)
    if (distance >= system%potential%closest) return
    system%failure = failure_t(too_dense, .true., system%domain%world_rank, system%step, ids(1), &
                               ids(2), distance, system%potential%closest)
  end subroutine find_too_dense

  ! ---- the baseline of a time step: the loops on a few atoms, from cache ----

  !> Does the loops over pairs of so many steps on a few atoms of each thread, repeated: from cache,
  !> without lists, messages or waiting threads.  The time of a step beyond it is the cost of memory
  !> and of parallelism.  Local.
  subroutine cached_loops(system, steps, energy, atoms)
    type(system_t), intent(in) :: system
    integer, intent(in) :: steps
    !> Of the pairs (of ions: the virial), the first time and the last: eV.
    real(dp), intent(out) :: energy(2)
    real(dp), intent(out) :: atoms !< whose loops were done, over the steps
    real(dp) :: mine(3), sums(3)
    integer :: t
    sums = 0
    !$omp parallel do num_threads(size(system%list%work)) schedule(static, 1) private(mine) &
    !$omp& reduction(+:sums)
    do t = 1, size(system%list%work)
      call repeat_loops(system, system%list%work(t), steps, mine(:2), mine(3))
      sums = sums + mine
    end do
    !$omp end parallel do
    energy = sums(:2)
    atoms = sums(3)
    do t = 1, steps ! on a simulated machine
      select case (system%potential%kind)
      case (tersoff_kind)
        call charge_pass(system, bonds)
      case (ionic_kind)
        call charge_pass(system, ions)
      case default
        call charge_pairs(system, per_entry(densities) + of_kept_terms, 0.0_dp, by_all_threads)
      end select
    end do
  end subroutine cached_loops

  !> The same for one thread.
  subroutine repeat_loops(system, work, steps, energy, atoms)
    type(system_t), intent(in) :: system
    type(worker_t), intent(in) :: work
    integer, intent(in) :: steps
    real(dp), intent(out) :: energy(2), atoms
    integer, parameter :: few = 128 !< atoms
    real(dp), allocatable :: rho(:), f(:, :), kept(:, :)
    real(dp) :: mine, lowest
    integer :: n, left, all, from, to, everything(2)
    energy = 0
    atoms = 0
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
          select case (system%potential%kind)
          case (tersoff_kind)
            call tersoff_pass(system%potential, from, to, work%start(from:), work%entry, most, x, &
                              system%atoms%species, everything, f, f, mine)
          case (ionic_kind)
            call ionic_pass(system%potential, system%smooth, from, to, work%start(from:), &
                            work%entry, most, x, f, mine)
          case default
            call density_pass(system%potential, from, to, work%start(from:), work%entry, most, x, &
                              .true., rho, kept(:, 1), kept(:, 2), mine, lowest)
            call force_pass(system%potential, from, to, work%start(from:), work%entry, most, x, &
                            system%slope, .true., kept(:, 1), kept(:, 2), f)
          end select
        end associate
        if (left == all) then ! the same atoms every time
          if (n == 1) energy(1) = mine
          energy(2) = mine
        end if
        atoms = atoms + to - from + 1
        left = left - few
      end do
    end do
  end subroutine repeat_loops

end module md_forces
