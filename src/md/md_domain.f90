! Domain decomposition: which rank owns an atom, and the messages to its neighbours.
!
! Ranks form a grid over the box.  Atoms that leave a domain are passed on from neighbour to
! neighbour, one direction after the other.  Or each rank has a copy of the box, with all atoms: it
! is alone in its domain then, and nothing here sends a message but sums over the world.
module md_domain
  use, intrinsic :: iso_c_binding, only: dp => c_double, c_int64_t
  use bx_charges, only: bx_charge, bx_copy, by_one_thread
  use mpi_f08, only: MPI_Allgather, MPI_Allgatherv, MPI_Allreduce, MPI_Comm, MPI_Comm_rank, &
    MPI_COMM_SELF, MPI_Comm_size, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, MPI_INTEGER, MPI_INTEGER8, &
    MPI_Irecv, MPI_Isend, MPI_MAX, MPI_MIN, MPI_Op, MPI_Request, MPI_STATUSES_IGNORE, MPI_SUM, &
    MPI_Waitall
  use md_atoms, only: atoms_t, box_t, copy_own, reserve
  implicit none (type, external)
  private
  public :: domain_t, swap_t, make_domain, share_box, place_of, hops_needed, home_of, neighbour
  public :: migrate, collect_atoms, offsets_of
  public :: exchange, check_room, make_room, reduce, count_messages, seal_payload, arrived_whole
  integer, parameter, public :: lower = 1, higher = 2 !< the two sides of a direction

  integer, parameter, public :: most_hops = 3 !< domains that a halo may reach over

  !> One shift: it sends atoms `index`, moved by `shift` (A), to rank `to`, and brings `count`
  !> ghosts of rank `from`, which follow atom `first`.
  type :: swap_t
    integer :: to = 0, from = 0, first = 0, count = 0
    integer, allocatable :: index(:)
    real(dp) :: shift(3) = 0
  end type swap_t

  !> Messages and bytes that were meant to be sent, to be compared with those that were sent.
  type, public :: tally_t
    real(dp) :: messages = 0, bytes = 0
  end type tally_t

  type :: domain_t
    type(MPI_Comm) :: world !< all ranks
    integer :: world_rank = 0, world_size = 1
    integer :: grid(3) = 1 !< of the ranks of the world over the box
    !> Copies of the box, and this rank's: the world's ranks share one, or each has its own.
    integer :: copies = 1, copy = 0
    type(MPI_Comm) :: comm !< the ranks that share this rank's copy
    integer :: rank = 0, ranks = 1
    integer :: dims(3) = 1, at(3) = 0
    real(dp) :: low(3) = 0, high(3) = 1 !< in fractions of the box
    !> As DL_POLY_3's metal_ld_export: to one side after the other, a check of all ranks, the size,
    !> another check, the payload.
    logical :: one_by_one = .false.
    type(swap_t), allocatable :: swaps(:, :) !< (2: to lower, to higher; hops of all directions)
    integer :: hops = 0
    type(tally_t) :: tally
    real(dp), allocatable :: outgoing(:, :), incoming(:, :) !< (size, 2)
    !> Payloads end with a checksum that the receiver compares: in verification, not in timed steps.
    logical :: sealed = .false.
    integer :: damaged_from = -1 !< rank whose payload arrived with other bits; -1: none
  end type domain_t

  integer, parameter :: migrant_words = 11 !< reals that an atom is sent in
  integer, parameter, public :: most_copied = int(huge(0)/real(migrant_words, dp)) !< atoms

contains

  !> Makes this rank's domain, in the grid of ranks with the least volume of domains and their halos
  !> of `reach` (A).  Local.
  subroutine make_domain(comm, box, reach, domain)
    type(MPI_Comm), intent(in) :: comm
    type(box_t), intent(in) :: box
    real(dp), intent(in) :: reach
    type(domain_t), intent(out) :: domain
    domain%world = comm
    call MPI_Comm_rank(comm, domain%world_rank)
    call MPI_Comm_size(comm, domain%world_size)
    domain%grid = best_grid(domain%world_size, box, reach)
    call share_box(domain, .true.)
    allocate (domain%swaps(2, 0), domain%outgoing(0, 2), domain%incoming(0, 2))
  end subroutine make_domain

  !> Lets the ranks share out one box, or gives a copy of it to each.  Local.
  subroutine share_box(domain, shared)
    type(domain_t), intent(inout) :: domain
    logical, intent(in) :: shared
    domain%copies = merge(1, domain%world_size, shared)
    domain%copy = merge(0, domain%world_rank, shared)
    domain%comm = merge(domain%world, MPI_COMM_SELF, shared)
    domain%rank = domain%world_rank - domain%copy
    domain%ranks = domain%world_size/domain%copies
    domain%dims = merge(domain%grid, 1, shared)
    domain%at = place_of(domain, domain%rank)
    domain%low = real(domain%at, dp)/domain%dims
    domain%high = real(domain%at + 1, dp)/domain%dims
  end subroutine share_box

  !> Place of a rank in the grid of the ranks that share a box: (3), from 0.
  pure function place_of(domain, rank) result(at)
    type(domain_t), intent(in) :: domain
    integer, intent(in) :: rank
    integer :: at(3)
    at = [mod(rank, domain%dims(1)), mod(rank/domain%dims(1), domain%dims(2)), &
          rank/(domain%dims(1)*domain%dims(2))]
  end function place_of

  !> The factors of `ranks` whose domains, with halos of `reach` (A), have the least volume.
  pure function best_grid(ranks, box, reach) result(dims)
    integer, intent(in) :: ranks
    type(box_t), intent(in) :: box
    real(dp), intent(in) :: reach
    integer :: dims(3), try(3), j, k
    real(dp) :: volume, least
    least = huge(least)
    dims = [ranks, 1, 1]
    do k = 1, ranks
      if (mod(ranks, k) /= 0) cycle
      do j = 1, ranks/k
        if (mod(ranks/k, j) /= 0) cycle
        try = [ranks/k/j, j, k]
        volume = product(box%height/try + 2*reach)
        if (volume < least*(1 - 1e-12_dp)) then
          least = volume
          dims = try
        end if
      end do
    end do
  end function best_grid

  !> Number of domains that a halo of `reach` (A) extends over, by direction: (3), at least 1.
  pure function hops_needed(domain, box, reach) result(hops)
    type(domain_t), intent(in) :: domain
    type(box_t), intent(in) :: box
    real(dp), intent(in) :: reach
    integer :: hops(3)
    hops = max(1, ceiling(min(reach/box%height*domain%dims, 1e6_dp) - 1e-9_dp))
  end function hops_needed

  !> Place in the grid of ranks, (3), of the owner of a point `s` (fractions of the box, 0 to 1).
  pure function home_of(domain, s) result(at)
    type(domain_t), intent(in) :: domain
    real(dp), intent(in) :: s(3)
    integer :: at(3)
    at = max(0, min(domain%dims - 1, int(s*domain%dims)))
  end function home_of

  !> The rank of the domain `step` domains further in direction d.
  pure function neighbour(domain, d, step) result(rank)
    type(domain_t), intent(in) :: domain
    integer, intent(in) :: d, step
    integer :: rank, at(3)
    at = domain%at
    at(d) = modulo(at(d) + step, domain%dims(d))
    rank = at(1) + domain%dims(1)*(at(2) + domain%dims(2)*at(3))
  end function neighbour

  ! ---- messages ----

  !> Exchanges with both sides, at once or one by one: sends words(side) reals of domain%outgoing to
  !> rank to(side), receives from rank from(side) into domain%incoming.  On return `words` counts
  !> what was received.  Collective over the neighbours.
  subroutine exchange(domain, to, from, words, known)
    type(domain_t), intent(inout) :: domain
    integer, intent(in) :: to(2), from(2)
    integer, intent(inout) :: words(2)
    integer, intent(in), optional :: known(2) !< reals to be received; without, sizes are sent first
    integer :: coming(2), seal, side
    seal = 0
    if (domain%sealed) then
      seal = 1
      call make_room(domain%outgoing, maxval(words) + seal)
      do side = 1, 2
        call seal_payload(domain, domain%outgoing(:words(side) + 1, side))
      end do
    end if
    words = words + seal
    if (domain%one_by_one) then
      do side = 1, 2
        call check_room(domain, 1)
        call send_sizes(domain, to, from, words, side, side, coming)
        call check_room(domain, 1)
        call send_payloads(domain, to, from, words, side, side, coming)
      end do
    else
      if (present(known)) then
        coming = known + seal
      else
        call send_sizes(domain, to, from, words, 1, 2, coming)
      end if
      call send_payloads(domain, to, from, words, 1, 2, coming)
    end if
    ! packed before, and to be unpacked
    call bx_charge(bx_copy, 8.0_dp*(sum(words) + sum(coming)), by_one_thread)
    words = coming - seal
    do side = 1, 2
      call arrived_whole(domain, from(side), domain%incoming(:coming(side), side))
    end do
  end subroutine exchange

  !> Where payloads are sealed, writes the checksum of a payload to its last word.
  subroutine seal_payload(domain, payload)
    type(domain_t), intent(in) :: domain
    real(dp), intent(inout) :: payload(:)
    if (domain%sealed) payload(size(payload)) = checksum(payload, size(payload) - 1)
  end subroutine seal_payload

  !> Where payloads are sealed, notes one of rank `from` whose last word is not its checksum.
  subroutine arrived_whole(domain, from, payload)
    type(domain_t), intent(inout) :: domain
    integer, intent(in) :: from
    real(dp), intent(in) :: payload(:)
    if (.not. domain%sealed) return
    if (.not. same_bits(payload(size(payload)), checksum(payload, size(payload) - 1))) then
      domain%damaged_from = from
    end if
  end subroutine arrived_whole

  !> Exchanges the sizes of the payloads with sides first..last.
  subroutine send_sizes(domain, to, from, words, first, last, coming)
    type(domain_t), intent(inout) :: domain
    integer, intent(in) :: to(2), from(2), first, last
    integer, intent(in), asynchronous :: words(2)
    integer, intent(inout), asynchronous :: coming(2)
    type(MPI_Request) :: requests(4)
    integer :: side, n
    n = last - first + 1
    do side = first, last
      call MPI_Irecv(coming(side), 1, MPI_INTEGER, from(side), side, domain%comm, &
                     requests(side - first + 1))
    end do
    do side = first, last
      call MPI_Isend(words(side), 1, MPI_INTEGER, to(side), side, domain%comm, &
                     requests(side - first + 1 + n))
    end do
    call MPI_Waitall(2*n, requests, MPI_STATUSES_IGNORE)
    call count_messages(domain, n, 4*n)
  end subroutine send_sizes

  !> Exchanges the payloads, whose sizes are known, with sides first..last.
  subroutine send_payloads(domain, to, from, words, first, last, coming)
    type(domain_t), intent(inout), asynchronous :: domain
    integer, intent(in) :: to(2), from(2), words(2), first, last, coming(2)
    type(MPI_Request) :: requests(4)
    integer :: side, n
    n = last - first + 1
    call make_room(domain%incoming, maxval(coming(first:last)))
    do side = first, last
      call MPI_Irecv(domain%incoming(:, side), coming(side), MPI_DOUBLE_PRECISION, from(side), &
                     side, domain%comm, requests(side - first + 1))
    end do
    do side = first, last
      call MPI_Isend(domain%outgoing(:, side), words(side), MPI_DOUBLE_PRECISION, to(side), side, &
                     domain%comm, requests(side - first + 1 + n))
    end do
    call MPI_Waitall(2*n, requests, MPI_STATUSES_IGNORE)
    call count_messages(domain, n, 8*sum(words(first:last)))
  end subroutine send_payloads

  !> Where messages go one by one, all ranks agree that their arrays are large enough, `times`
  !> times: a logical each, as DL_POLY_3's gcheck.  Arrays grow here, so that it is true.
  !> Collective.
  subroutine check_room(domain, times)
    type(domain_t), intent(inout) :: domain
    integer, intent(in) :: times
    integer :: n, safe
    if (.not. domain%one_by_one .or. domain%ranks == 1) return
    safe = 1
    do n = 1, times
      call MPI_Allreduce(MPI_IN_PLACE, safe, 1, MPI_INTEGER, MPI_MIN, domain%comm)
    end do
    call count_messages(domain, times, 4*times)
  end subroutine check_room

  !> Reduces values over all ranks of the world; nothing on one rank.  Collective.
  subroutine reduce(domain, values, operation)
    type(domain_t), intent(inout) :: domain
    real(dp), intent(inout) :: values(:)
    type(MPI_Op), intent(in) :: operation
    if (domain%world_size == 1) return
    call MPI_Allreduce(MPI_IN_PLACE, values, size(values), MPI_DOUBLE_PRECISION, operation, &
                       domain%world)
    call count_messages(domain, 1, 8*size(values))
  end subroutine reduce

  !> A checksum of the first `words` reals, which any flipped bit and any other order change.
  pure real(dp) function checksum(buffer, words)
    real(dp), intent(in) :: buffer(:)
    integer, intent(in) :: words
    integer(c_int64_t) :: mixed
    integer :: k
    mixed = words + 1 ! so that the seal of an empty payload is not 0, as of a lost one
    do k = 1, words
      mixed = ieor(ishftc(mixed, 1), transfer(buffer(k), mixed))
    end do
    checksum = transfer(mixed, checksum)
  end function checksum

  !> Whether two reals have the same bits, also where they are NaNs.
  pure logical function same_bits(a, b)
    real(dp), intent(in) :: a, b
    same_bits = transfer(a, 0_c_int64_t) == transfer(b, 0_c_int64_t)
  end function same_bits

  !> Adds messages and bytes to the tally of those that were meant to be sent.
  subroutine count_messages(domain, messages, bytes)
    type(domain_t), intent(inout) :: domain
    integer, intent(in) :: messages, bytes
    domain%tally%messages = domain%tally%messages + messages
    domain%tally%bytes = domain%tally%bytes + bytes
  end subroutine count_messages

  !> Enlarges a pair of buffers, (size, 2), to at least `words` reals each.
  subroutine make_room(buffers, words)
    real(dp), allocatable, intent(inout) :: buffers(:, :)
    integer, intent(in) :: words
    real(dp), allocatable :: wider(:, :)
    if (words <= size(buffers, 1)) return
    allocate (wider(words + words/8, 2), source=0.0_dp)
    wider(:size(buffers, 1), :) = buffers
    call move_alloc(wider, buffers)
  end subroutine make_room

  ! ---- who owns what ----

  !> Wraps own atoms into the box and sends those that have left the domain to their owners.
  !> Collective.
  subroutine migrate(domain, box, atoms, total, lost)
    type(domain_t), intent(inout) :: domain
    type(box_t), intent(in) :: box
    type(atoms_t), intent(inout) :: atoms
    integer(c_int64_t), intent(in) :: total !< atoms of all ranks
    integer(c_int64_t), intent(out) :: lost !< atoms of `total` that no rank has
    integer :: d, k, hop, way(3), most(3), away(3), here, count
    real(dp) :: s(3)
    most = 0
    !$omp parallel do private(s, away, d) reduction(max:most) schedule(static)
    do k = 1, atoms%own
      s = box%fractions(atoms%x(1:3, k))
      away = floor(s)
      if (any(away /= 0)) then
        atoms%image(:, k) = atoms%image(:, k) + away
        do d = 1, 3
          if (away(d) /= 0) atoms%x(1:3, k) = atoms%x(1:3, k) - away(d)*box%edge(:, d)
        end do
        s = box%fractions(atoms%x(1:3, k))
      end if
      most = max(most, abs(way_home(domain, s)))
    end do
    !$omp end parallel do
    if (domain%one_by_one) then
      most = merge(1, 0, domain%dims > 1) ! none goes further, or it is lost
    else if (domain%ranks > 1) then
      call MPI_Allreduce(MPI_IN_PLACE, most, 3, MPI_INTEGER, MPI_MAX, domain%comm)
      call count_messages(domain, 1, 3*4)
    end if
    do d = 1, 3
      if (domain%dims(d) == 1) call check_room(domain, 4)
      do hop = 1, most(d)
        here = atoms%own
        count = 0
        block
          integer :: leaving(2), side
          leaving = 0
          do k = 1, here
            way = way_home(domain, box%fractions(atoms%x(1:3, k)))
            if (way(d) /= 0) leaving(1) = leaving(1) + migrant_words
          end do
          call make_room(domain%outgoing, leaving(1))
          leaving = 0
          do k = 1, here
            way = way_home(domain, box%fractions(atoms%x(1:3, k)))
            if (way(d) == 0) then
              count = count + 1
              if (count /= k) call move_atom(atoms, k, count)
            else
              side = merge(lower, higher, way(d) < 0)
              domain%outgoing(leaving(side) + 1:leaving(side) + migrant_words, side) = &
                words_of(atoms, k)
              leaving(side) = leaving(side) + migrant_words
            end if
          end do
          atoms%own = count
          call exchange(domain, [neighbour(domain, d, -1), neighbour(domain, d, 1)], &
                        [neighbour(domain, d, 1), neighbour(domain, d, -1)], leaving)
          call reserve(atoms, count + sum(leaving)/migrant_words)
          do side = 1, 2
            do k = 1, leaving(side), migrant_words
              call settle(atoms, domain%incoming(k:k + migrant_words - 1, side))
            end do
          end do
        end block
      end do
    end do
    atoms%all = atoms%own
    lost = atoms%own
    if (domain%one_by_one) then ! they may have had further to go
      do k = 1, atoms%own
        if (any(way_home(domain, box%fractions(atoms%x(1:3, k))) /= 0)) lost = lost - 1
      end do
    end if
    if (domain%ranks > 1) then
      call MPI_Allreduce(MPI_IN_PLACE, lost, 1, MPI_INTEGER8, MPI_SUM, domain%comm)
      call count_messages(domain, 1, 8)
    end if
    lost = total - lost
  end subroutine migrate

  !> Hops to the owner of `s`, the shorter way round, by direction.
  pure function way_home(domain, s) result(way)
    type(domain_t), intent(in) :: domain
    real(dp), intent(in) :: s(3)
    integer :: way(3), home(3)
    home = home_of(domain, s)
    way = modulo(home - domain%at + domain%dims/2, domain%dims) - domain%dims/2
  end function way_home

  !> Moves an atom to another place in the arrays.
  subroutine move_atom(atoms, from, to)
    type(atoms_t), intent(inout) :: atoms
    integer, intent(in) :: from, to
    atoms%x(:, to) = atoms%x(:, from)
    atoms%v(:, to) = atoms%v(:, from)
    atoms%image(:, to) = atoms%image(:, from)
    atoms%id(to) = atoms%id(from)
    atoms%species(to) = atoms%species(from)
  end subroutine move_atom

  !> An atom in words, for a message.
  pure function words_of(atoms, k) result(words)
    type(atoms_t), intent(in) :: atoms
    integer, intent(in) :: k
    real(dp) :: words(migrant_words)
    words = [atoms%x(1:3, k), atoms%v(:, k), real(atoms%image(:, k), dp), real(atoms%id(k), dp), &
             real(atoms%species(k), dp)]
  end function words_of

  !> Appends an atom that has come in `words`.
  subroutine settle(atoms, words)
    type(atoms_t), intent(inout) :: atoms
    real(dp), intent(in) :: words(migrant_words)
    integer :: k
    k = atoms%own + 1
    atoms%x(:, k) = [words(1:3), 0.0_dp]
    atoms%v(:, k) = words(4:6)
    atoms%image(:, k) = nint(words(7:9))
    atoms%id(k) = nint(words(10), c_int64_t)
    atoms%species(k) = nint(words(11))
    atoms%own = k
  end subroutine settle

  !> Gives this rank the own atoms of all ranks of the world, without forces; those of `atoms` alone
  !> if they are all already.  At most most_copied atoms.  Collective over the world.
  subroutine collect_atoms(domain, total, atoms, all)
    type(domain_t), intent(in) :: domain
    integer(c_int64_t), intent(in) :: total !< atoms of the system
    type(atoms_t), intent(in) :: atoms
    type(atoms_t), intent(inout) :: all
    real(dp), allocatable :: mine(:, :), words(:, :)
    integer, dimension(domain%world_size) :: counts, offsets
    integer :: k
    call MPI_Allgather(migrant_words*atoms%own, 1, MPI_INTEGER, counts, 1, MPI_INTEGER, &
                       domain%world)
    if (minval(counts) == migrant_words*total) then ! on every rank
      call copy_own(atoms, all)
      return
    end if
    allocate (mine(migrant_words, atoms%own), words(migrant_words, total))
    do k = 1, atoms%own
      mine(:, k) = words_of(atoms, k)
    end do
    offsets = offsets_of(counts)
    call MPI_Allgatherv(mine, size(mine), MPI_DOUBLE_PRECISION, words, counts, offsets, &
                        MPI_DOUBLE_PRECISION, domain%world)
    all%own = 0
    call reserve(all, int(total))
    do k = 1, int(total)
      call settle(all, words(:, k))
    end do
    all%all = all%own
  end subroutine collect_atoms

  !> Where each of the parts stands that follow each other, from 0.
  pure function offsets_of(counts) result(offsets)
    integer, intent(in) :: counts(:)
    integer :: offsets(size(counts)), i
    if (size(counts) > 0) offsets(1) = 0
    do i = 2, size(counts)
      offsets(i) = offsets(i - 1) + counts(i - 1)
    end do
  end function offsets_of

end module md_domain
