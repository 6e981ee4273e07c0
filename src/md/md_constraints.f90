! Rigid molecules: bonds of fixed length, by SHAKE (J. P. Ryckaert, G. Ciccotti and H. J. C.
! Berendsen, J. Comput. Phys. 23, 327 (1977)) for positions and RATTLE (H. C. Andersen, J. Comput.
! Phys. 52, 24 (1983)) for velocities.
!
! Atoms of a molecule may be on several ranks.  An iteration corrects all bonds by what both of
! their atoms had before it; each rank corrects its own atoms, and sends them to the ranks that have
! a bond to them.  So the number of iterations is the same on any number of ranks.  Chebyshev's
! weights make it smaller (G. H. Golub and R. S. Varga, Numerische Mathematik 3, 147 (1961)).
module md_constraints
  use, intrinsic :: iso_c_binding, only: c_bool, c_int64_t, dp => c_double
  use bx_charges, only: bx_charge, bx_pairs, by_one_thread
  use bx_harness, only: bx_largest
  use mpi_f08, only: MPI_Allreduce, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, MPI_Irecv, MPI_Isend, &
    MPI_MAX, MPI_Request, MPI_STATUSES_IGNORE, MPI_SUM, MPI_Waitall
  use md_atoms, only: atoms_t
  use md_domain, only: arrived_whole, count_messages, domain_t, reduce, seal_payload
  use md_halo, only: forward
  use md_potential, only: potential_t
  implicit none (type, external)
  private
  public :: make_constraints, constrain_positions, constrain_velocities, bond_error, bonds_of_all

  !> What is exchanged with a rank in each iteration: own atoms, in the order of ids, and ghosts,
  !> with the place of each one's owner in the message.  Images of an atom share a place.
  type :: peer_t
    integer :: rank = 0
    integer :: leaving = 0, arriving = 0, ghosts = 0 !< atoms that leave, that arrive; their ghosts
    integer, allocatable :: atom(:), ghost(:), place(:) !< (leaving), (ghosts), (ghosts), and room
    real(dp), allocatable :: outgoing(:), incoming(:)
  end type peer_t

  type, public :: constraints_t
    integer :: bonds = 0
    integer, allocatable :: ends(:, :)      !< (2, bonds): own atom; own atom or ghost
    real(dp), allocatable :: length(:)      !< (bonds): A
    type(peer_t), allocatable :: peers(:)
    real(dp), allocatable :: before(:, :)   !< (3, all): A; positions that a step begins with
    real(dp), allocatable :: value(:, :)    !< (3, all): A or A/ps; what iterations correct
    real(dp), allocatable :: change(:, :)   !< (3, own and room): likewise; of one iteration
    real(dp), allocatable :: earlier(:, :)  !< likewise; before the last iteration
    real(dp) :: iterations = 0              !< so far
  end type constraints_t

  !> Largest error of a bond, relative to its length; of velocities, what it would be a step later.
  real(dp), parameter :: bond_tolerance = 1e-8_dp
  integer, parameter, public :: most_iterations = 500
  real(dp), parameter :: per_bond = 40 !< flop of an iteration, about
  real(dp), parameter :: radius = 0.802_dp !< of the iteration's spectrum: water's
  real(dp), parameter :: hopeless = 1e3_dp !< an error from which iterations do not recover

contains

  !> Finds the bonds of own atoms to own atoms and ghosts, and who exchanges them; `missing` is an
  !> atom whose molecule is not within twice a bond's length, or whose number or owner cannot be, or
  !> 0.  If a rank misses one, or got a damaged message, no rank has bonds: ranks whose lists of
  !> messages disagree would wait for each other.  Collective.
  subroutine make_constraints(constraints, potential, domain, atoms, total, missing)
    type(constraints_t), intent(inout) :: constraints
    type(potential_t), intent(in) :: potential
    type(domain_t), intent(inout) :: domain
    type(atoms_t), intent(in) :: atoms
    integer(c_int64_t), intent(in) :: total
    integer(c_int64_t), intent(out) :: missing
    real(dp), allocatable :: owner(:)
    integer, allocatable :: order(:)  !< of atoms: by ids, own ones first
    logical, allocatable :: shared(:) !< (all): ghosts with a bond to an own atom
    real(dp) :: wrong(1)
    integer(c_int64_t) :: id
    integer :: n, first, k, j, other, site
    missing = 0
    allocate (owner(atoms%all), source=real(domain%rank, dp))
    call forward(domain, owner, 1, 1, .false.)
    do k = 1, atoms%all
      if (atoms%id(k) < 1 .or. atoms%id(k) > total .or. &
          .not. (owner(k) >= 0 .and. owner(k) < domain%ranks)) then
        missing = max(1_c_int64_t, atoms%id(k))
      end if
    end do
    constraints%bonds = 0
    if (allocated(constraints%ends)) deallocate (constraints%ends, constraints%length)
    if (allocated(constraints%peers)) deallocate (constraints%peers)
    allocate (constraints%ends(2, atoms%own*(potential%sites - 1)))
    allocate (constraints%length(atoms%own*(potential%sites - 1)))
    allocate (constraints%peers(0), order(0))
    allocate (shared(atoms%all), source=.false.)
    if (missing == 0) order = own_molecules(atoms, potential%sites)
    first = 1 ! of a molecule in the order
    do n = 1, size(order)
      k = order(n)
      id = atoms%id(k)
      site = int(mod(id - 1, int(potential%sites, c_int64_t))) + 1
      if (atoms%id(order(first)) <= id - site) first = n
      if (k > atoms%own) cycle
      do other = 1, potential%sites
        if (other == site) cycle
        associate (length => potential%bond(other, site))
          j = closest_of(id - site + other)
          if (j == 0) then
            missing = id
            cycle
          end if
          if (j <= atoms%own .and. other < site) cycle ! it has the bond
          constraints%bonds = constraints%bonds + 1
          constraints%ends(:, constraints%bonds) = [k, j]
          constraints%length(constraints%bonds) = length
          if (j > atoms%own) call share(nint(owner(j)))
        end associate
      end do
    end do
    do n = 1, size(order)
      j = order(n)
      if (shared(j)) call expect(nint(owner(j)))
    end do
    wrong = merge(1.0_dp, 0.0_dp, missing > 0 .or. domain%damaged_from >= 0)
    call reduce(domain, wrong, MPI_MAX)
    if (wrong(1) > 0) then
      constraints%bonds = 0
      constraints%peers = constraints%peers(:0)
    end if

  contains

    !> Of this molecule's atoms with an id, the one nearest to atom k, within twice the bond's
    !> length; or 0.
    integer function closest_of(wanted)
      integer(c_int64_t), intent(in) :: wanted
      real(dp) :: separation, least
      integer :: i
      closest_of = 0
      least = 2*potential%bond(other, site)
      do i = first, size(order)
        if (atoms%id(order(i)) > wanted) exit
        if (atoms%id(order(i)) < wanted) cycle
        separation = norm2(atoms%x(1:3, order(i)) - atoms%x(1:3, k))
        if (separation < least) then
          least = separation
          closest_of = order(i)
        end if
      end do
    end function closest_of

    !> Notes that a rank needs atom k, and this rank its ghost j.
    subroutine share(rank)
      integer, intent(in) :: rank
      integer :: place
      shared(j) = .true.
      place = number_of(constraints, rank)
      associate (peer => constraints%peers(place))
        if (peer%leaving > 0) then
          if (peer%atom(peer%leaving) == k) return
        end if
        call append(peer%atom, peer%leaving, k)
      end associate
    end subroutine share

    !> Notes the place of ghost j in the message of its owner.
    subroutine expect(rank)
      integer, intent(in) :: rank
      integer :: place, places
      place = number_of(constraints, rank)
      associate (peer => constraints%peers(place))
        if (peer%ghosts == 0) then
          peer%arriving = 1
        else if (atoms%id(peer%ghost(peer%ghosts)) /= atoms%id(j)) then
          peer%arriving = peer%arriving + 1
        end if
        places = peer%ghosts
        call append(peer%ghost, peer%ghosts, j)
        call append(peer%place, places, peer%arriving)
      end associate
    end subroutine expect

  end subroutine make_constraints

  !> The atoms of molecules that have an own atom, and few others, by ids; of an id own ones first.
  function own_molecules(atoms, sites) result(order)
    type(atoms_t), intent(in) :: atoms
    integer, intent(in) :: sites
    integer, allocatable :: order(:)
    logical(c_bool), allocatable :: has(:) !< of ids, several of which share a place
    integer(c_int64_t) :: mask, first
    integer :: count, k, site
    mask = 1
    do while (mask < 8*atoms%own)
      mask = 2*mask + 1
    end do
    allocate (has(0:mask), source=.false._c_bool)
    do k = 1, atoms%own
      first = atoms%id(k) - mod(atoms%id(k) - 1, int(sites, c_int64_t))
      do site = 0, sites - 1
        has(iand(first + site, mask)) = .true.
      end do
    end do
    allocate (order(atoms%all))
    count = 0
    do k = 1, atoms%all
      if (.not. has(iand(atoms%id(k), mask))) cycle
      count = count + 1
      order(count) = k
    end do
    order = order(:count)
    call sort_by_id(order, atoms%id)
  end function own_molecules

  !> Sorts a list of atoms by their ids, from 1; equal ones keep their order (radix sort).
  pure subroutine sort_by_id(order, id)
    integer, intent(inout) :: order(:)
    integer(c_int64_t), intent(in) :: id(:)
    integer, parameter :: bits = 11
    integer, allocatable :: sorted(:)
    integer(c_int64_t) :: largest
    integer :: ends(0:2**bits), n, digit, shift
    largest = 0
    do n = 1, size(order)
      largest = max(largest, id(order(n)))
    end do
    allocate (sorted(size(order)))
    do shift = 0, bit_size(largest) - 1, bits
      if (shiftr(largest, shift) == 0) exit
      ends = 0
      do n = 1, size(order)
        digit = int(iand(shiftr(id(order(n)), shift), 2_c_int64_t**bits - 1))
        ends(digit + 1) = ends(digit + 1) + 1
      end do
      do digit = 1, 2**bits
        ends(digit) = ends(digit) + ends(digit - 1)
      end do
      do n = 1, size(order)
        digit = int(iand(shiftr(id(order(n)), shift), 2_c_int64_t**bits - 1))
        ends(digit) = ends(digit) + 1
        sorted(ends(digit)) = order(n)
      end do
      order = sorted
    end do
  end subroutine sort_by_id

  !> Adds a value behind the first `count` of a list.
  pure subroutine append(list, count, value)
    integer, allocatable, intent(inout) :: list(:)
    integer, intent(inout) :: count
    integer, intent(in) :: value
    if (count == size(list)) list = [list, list, 0]
    count = count + 1
    list(count) = value
  end subroutine append

  !> Place of a rank among the peers; a new one, if it has none.
  integer function number_of(constraints, rank) result(n)
    type(constraints_t), intent(inout) :: constraints
    integer, intent(in) :: rank
    type(peer_t) :: peer
    do n = 1, size(constraints%peers)
      if (constraints%peers(n)%rank == rank) return
    end do
    peer%rank = rank
    allocate (peer%atom(0), peer%ghost(0), peer%place(0), peer%outgoing(0), peer%incoming(0))
    constraints%peers = [constraints%peers, peer]
  end function number_of

  !> Brings the values of own atoms to their ghosts on the ranks that have a bond to them.
  !> Collective over neighbours.
  subroutine exchange_shared(constraints, domain)
    type(constraints_t), intent(inout), asynchronous :: constraints
    type(domain_t), intent(inout) :: domain
    type(MPI_Request) :: requests(2*size(constraints%peers))
    integer, parameter :: tag = 5 !< beside those of md_domain, md_regrid and md_fft_columns
    integer :: n, k, count, seal, words
    seal = merge(1, 0, domain%sealed)
    count = 0
    do n = 1, size(constraints%peers)
      associate (peer => constraints%peers(n), value => constraints%value)
        if (size(peer%outgoing) < 3*peer%leaving + 1) peer%outgoing = &
          [(0.0_dp, k=1, 3*peer%leaving + 1)]
        if (size(peer%incoming) < 3*peer%arriving + 1) peer%incoming = &
          [(0.0_dp, k=1, 3*peer%arriving + 1)]
        do k = 1, peer%leaving
          peer%outgoing(3*k - 2:3*k) = value(:, peer%atom(k))
        end do
        if (peer%rank == domain%rank) then
          peer%incoming(:3*peer%arriving) = peer%outgoing(:3*peer%arriving)
          cycle
        end if
        words = 3*peer%arriving + seal
        call MPI_Irecv(peer%incoming, words, MPI_DOUBLE_PRECISION, peer%rank, tag, domain%comm, &
                       requests(count + 1))
        words = 3*peer%leaving + seal
        call seal_payload(domain, peer%outgoing(:words))
        call MPI_Isend(peer%outgoing, words, MPI_DOUBLE_PRECISION, peer%rank, tag, domain%comm, &
                       requests(count + 2))
        count = count + 2
        call count_messages(domain, 1, 8*words)
      end associate
    end do
    call MPI_Waitall(count, requests, MPI_STATUSES_IGNORE)
    do n = 1, size(constraints%peers)
      associate (peer => constraints%peers(n))
        if (peer%rank /= domain%rank) then
          call arrived_whole(domain, peer%rank, peer%incoming(:3*peer%arriving + seal))
        end if
        do k = 1, peer%ghosts
          constraints%value(:, peer%ghost(k)) = peer%incoming(3*peer%place(k) - 2:3*peer%place(k))
        end do
      end associate
    end do
  end subroutine exchange_shared

  !> SHAKE: corrects positions (A) and velocities (A/ps) of own atoms after a step of `timestep`
  !> (ps) that began at constraints%before, along the bonds there.  False if it did not converge.
  !> Collective.
  logical function constrain_positions(constraints, potential, domain, atoms, timestep)
    type(constraints_t), intent(inout) :: constraints
    type(potential_t), intent(in) :: potential
    type(domain_t), intent(inout) :: domain
    type(atoms_t), intent(inout) :: atoms
    real(dp), intent(in) :: timestep
    real(dp) :: moved(3)
    integer :: k
    call make_room(constraints, atoms)
    do k = 1, atoms%own
      constraints%value(:, k) = atoms%x(1:3, k) - constraints%before(:, k)
    end do
    constrain_positions = solved(constraints, potential, domain, atoms, constraints%before, 0.0_dp)
    do k = 1, atoms%own
      moved = constraints%before(:, k) + constraints%value(:, k)
      atoms%v(:, k) = atoms%v(:, k) + (moved - atoms%x(1:3, k))/timestep
      atoms%x(1:3, k) = moved
    end do
  end function constrain_positions

  !> RATTLE: takes the velocities (A/ps) of own atoms along bonds away, likewise.
  logical function constrain_velocities(constraints, potential, domain, atoms, timestep)
    type(constraints_t), intent(inout) :: constraints
    type(potential_t), intent(in) :: potential
    type(domain_t), intent(inout) :: domain
    type(atoms_t), intent(inout) :: atoms
    real(dp), intent(in) :: timestep
    call make_room(constraints, atoms)
    constraints%value(:, :atoms%own) = atoms%v(:, :atoms%own)
    constrain_velocities = solved(constraints, potential, domain, atoms, atoms%x(1:3, :), timestep)
    atoms%v(:, :atoms%own) = constraints%value(:, :atoms%own)
  end function constrain_velocities

  !> Makes room for the values of all atoms.
  subroutine make_room(constraints, atoms)
    type(constraints_t), intent(inout) :: constraints
    type(atoms_t), intent(in) :: atoms
    if (allocated(constraints%value)) then
      if (size(constraints%value, 2) >= atoms%all) return
      deallocate (constraints%value, constraints%change, constraints%earlier)
    end if
    allocate (constraints%value(3, atoms%all), constraints%change(3, atoms%all), &
              constraints%earlier(3, atoms%all), source=0.0_dp)
  end subroutine make_room

  !> Corrects the values of own atoms until no bond's error is above the tolerance, along the bonds
  !> of the positions `at` (3, all): displacements, or, with a `timestep` (ps) above 0, velocities.
  !> False after most_iterations.  Collective.
  logical function solved(constraints, potential, domain, atoms, at, timestep)
    type(constraints_t), intent(inout) :: constraints
    type(potential_t), intent(in) :: potential
    type(domain_t), intent(inout) :: domain
    type(atoms_t), intent(in) :: atoms
    real(dp), intent(in) :: at(:, :), timestep
    real(dp) :: worst(1), bond(3), separation(3), error, pull(3), per_mass(2), weight
    integer :: n, k, iteration
    solved = .false.
    weight = 1
    constraints%earlier(:, :atoms%own) = constraints%value(:, :atoms%own)
    do iteration = 1, most_iterations
      call exchange_shared(constraints, domain)
      worst = 0
      constraints%change(:, :atoms%own) = 0
      do n = 1, constraints%bonds
        associate (a => constraints%ends(1, n), b => constraints%ends(2, n))
          bond = at(1:3, a) - at(1:3, b)
          separation = constraints%value(:, a) - constraints%value(:, b)
          if (timestep > 0) then
            error = dot_product(bond, separation)/constraints%length(n)**2
            worst = max(worst, size_of(timestep*error))
          else
            separation = separation + bond
            error = (dot_product(separation, separation) - constraints%length(n)**2) &
                    /(2*dot_product(separation, bond))
            worst = max(worst, size_of(error))
          end if
          per_mass = 1/potential%mass(atoms%species([a, b]))
          pull = error/sum(per_mass)*bond
          constraints%change(:, a) = constraints%change(:, a) - per_mass(1)*pull
          if (b <= atoms%own) constraints%change(:, b) = constraints%change(:, b) + per_mass(2)*pull
        end associate
      end do
      call bx_charge(bx_pairs, per_bond*constraints%bonds, by_one_thread)
      call reduce(domain, worst, MPI_MAX)
      constraints%iterations = constraints%iterations + 1
      solved = worst(1) <= bond_tolerance
      if (solved .or. worst(1) >= hopeless) return
      do k = 1, atoms%own
        associate (value => constraints%value(:, k), earlier => constraints%earlier(:, k))
          separation = value
          value = earlier + weight*(value + constraints%change(:, k) - earlier)
          earlier = separation
        end associate
      end do
      weight = 1/(1 - radius**2*weight/merge(2, 4, iteration == 1))
    end do
  end function solved

  !> The size of an error; of a NaN, hopeless.
  pure real(dp) function size_of(error)
    real(dp), intent(in) :: error
    size_of = hopeless
    if (abs(error) < hopeless) size_of = abs(error)
  end function size_of

  !> The largest error of this rank's bonds, relative to their lengths; ghosts are where they are.
  pure real(dp) function bond_error(constraints, atoms) result(worst)
    type(constraints_t), intent(in) :: constraints
    type(atoms_t), intent(in) :: atoms
    integer :: n
    worst = 0
    do n = 1, constraints%bonds
      associate (a => constraints%ends(1, n), b => constraints%ends(2, n))
        worst = max(worst, bx_largest([norm2(atoms%x(1:3, a) - atoms%x(1:3, b)) &
                                       /constraints%length(n) - 1]))
      end associate
    end do
  end function bond_error

  !> The bonds of all ranks; those between ranks are on both.  Collective.
  real(dp) function bonds_of_all(constraints, domain, atoms) result(bonds)
    type(constraints_t), intent(in) :: constraints
    type(domain_t), intent(in) :: domain
    type(atoms_t), intent(in) :: atoms
    integer :: n
    bonds = sum([(merge(0.5_dp, 1.0_dp, constraints%ends(2, n) > atoms%own), &
                  n=1, constraints%bonds)])
    call MPI_Allreduce(MPI_IN_PLACE, bonds, 1, MPI_DOUBLE_PRECISION, MPI_SUM, domain%comm)
  end function bonds_of_all

end module md_constraints
