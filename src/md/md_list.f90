! Verlet lists, made from cells, and each thread's part of them.
!
! Own atoms are kept in the order of cells of half the list's reach, so that neighbours in space are
! neighbours in memory.  Threads have contiguous shares of the atoms, and lists of their own.
module md_list
  use, intrinsic :: iso_c_binding, only: dp => c_double, c_int64_t
  use md_atoms, only: atoms_t, box_t
  use md_domain, only: domain_t
  implicit none (type, external)
  private
  public :: list_t, worker_t, make_list, sort_atoms, entries_expected, find_closest

  !> Entries are counted in 32 bits, and hold 4 times an atom's index.
  integer, parameter, public :: most_entries = huge(0) - 1, most_atoms = 2**29 - 2

  !> Atoms from..to; none where to < from.
  type :: range_t
    integer :: from = 1, to = 0
  end type range_t

  !> A thread's atoms first..last and their neighbours: entry(start(i) : start(i+1)-1) of atom i.
  !> An entry is 4 times the neighbour's index plus, in half lists, the kind of the pair (the sum of
  !> both species, from 0), in full lists the neighbour's species, from 0.
  type :: worker_t
    logical :: full = .false. !< the list ends before its atoms do: it has reached its limit
    integer :: first = 1, last = 0
    integer, allocatable :: start(:), entry(:)
    !> Atoms direct(1)..direct(2): it adds to their sums directly.  Of its atoms and their
    !> neighbours, `unbuffered` are among these; `buffered` are others, with sums of its own that
    !> are joined later.
    integer :: direct(2) = [1, 0]
    type(range_t) :: unbuffered(2), buffered(3)
    real(dp), allocatable :: repulsion(:), density(:) !< -phi'/r and -rho'/r of each entry
    real(dp), allocatable :: rho(:), f(:, :) !< its own sums
  end type worker_t

  type :: list_t
    integer :: first = 1, last = 0 !< atoms that this rank has the lists of: all own ones, or,
                                   !< where ranks have copies of the box, a share of them
    logical :: half = .true.   !< each pair once
    logical :: twice = .false. !< of half lists: pairs across a border on both of its sides
    integer :: most = 0      !< neighbours of an atom
    real(dp) :: reach = 0    !< A
    integer :: limit = most_entries !< entries of a thread
    type(worker_t), allocatable :: work(:)
    type(range_t), allocatable :: untouched(:) !< where no thread adds directly
  end type list_t

  !> Cells over a domain and its halo: numbers, origin and cells per fraction of the box.
  type :: cells_t
    integer :: count(3) = 1
    real(dp) :: origin(3) = 0, per_fraction(3) = 1
  end type cells_t

  integer, parameter :: stencil = 2 !< cells, of half the reach
  integer, parameter :: most_cells = 2**24 !< of them most are empty where more would be needed

contains

  !> Puts own atoms into the order of their cells, and notes their positions in atoms%listed.
  subroutine sort_atoms(box, domain, atoms, reach, offsets)
    type(box_t), intent(in) :: box
    type(domain_t), intent(in) :: domain
    type(atoms_t), intent(inout) :: atoms
    real(dp), intent(in) :: reach !< A
    integer, allocatable, intent(out) :: offsets(:) !< atoms before a cell, (0:cells)
    integer, allocatable :: cell(:), order(:)
    integer :: k
    call bin(cells_of(box, domain, reach), box, atoms%x(:, :atoms%own), cell, offsets, order)
    !$omp parallel
    !$omp sections
    !$omp section
    atoms%x(:, :atoms%own) = atoms%x(:, order)
    !$omp section
    atoms%v(:, :atoms%own) = atoms%v(:, order)
    !$omp section
    atoms%image(:, :atoms%own) = atoms%image(:, order)
    !$omp section
    atoms%id(:atoms%own) = atoms%id(order)
    atoms%species(:atoms%own) = atoms%species(order)
    !$omp end sections
    !$omp do schedule(static)
    do k = 1, atoms%own
      atoms%listed(:, k) = atoms%x(1:3, k)
    end do
    !$omp end do
    !$omp end parallel
  end subroutine sort_atoms

  !> Cells of at least half the reach over a domain and its halo.
  pure type(cells_t) function cells_of(box, domain, reach) result(cells)
    type(box_t), intent(in) :: box
    type(domain_t), intent(in) :: domain
    real(dp), intent(in) :: reach
    real(dp) :: width(3), extent(3)
    width = reach/box%height
    extent = domain%high - domain%low + 2*width
    cells%count = max(1, int(min(extent*box%height/(reach/stencil), real(most_cells, dp))))
    do while (product(real(cells%count, dp)) > most_cells) ! mostly empty: larger cells will do
      where (cells%count == maxval(cells%count)) cells%count = (cells%count + 1)/2
    end do
    cells%origin = domain%low - width
    cells%per_fraction = cells%count/extent
  end function cells_of

  !> The cell of a point (A), from 0; the nearest one of a point outside.
  pure function cell_at(cells, box, x) result(cell)
    type(cells_t), intent(in) :: cells
    type(box_t), intent(in) :: box
    real(dp), intent(in) :: x(3)
    integer :: cell, at(3)
    at = max(0, min(cells%count - 1, int((box%fractions(x) - cells%origin)*cells%per_fraction)))
    cell = at(1) + cells%count(1)*(at(2) + cells%count(2)*at(3))
  end function cell_at

  !> A stable sort by cell: `order` lists the points of cell c at offsets(c)+1 .. offsets(c+1).
  subroutine bin(cells, box, x, cell, offsets, order)
    type(cells_t), intent(in) :: cells
    type(box_t), intent(in) :: box
    real(dp), intent(in) :: x(:, :)
    integer, allocatable, intent(out) :: cell(:), offsets(:), order(:)
    integer :: k, c, n
    n = product(cells%count)
    allocate (cell(size(x, 2)), order(size(x, 2)))
    allocate (offsets(0:n + 1), source=0)
    !$omp parallel do schedule(static)
    do k = 1, size(x, 2)
      cell(k) = cell_at(cells, box, x(1:3, k))
    end do
    !$omp end parallel do
    do k = 1, size(x, 2)
      offsets(cell(k) + 2) = offsets(cell(k) + 2) + 1
    end do
    do c = 2, n + 1
      offsets(c) = offsets(c) + offsets(c - 1)
    end do
    ! offsets(c+1) is now where cell c's next point goes, and ends where cell c+1 begins
    do k = 1, size(x, 2)
      c = cell(k) + 1
      offsets(c) = offsets(c) + 1
      order(offsets(c)) = k
    end do
  end subroutine bin

  !> Lists all pairs of own atoms within `reach` (A, by species, at most list%reach).  Before it,
  !> sort_atoms puts the atoms in order and make_halo makes their ghosts.  A list that reaches its
  !> limit sets work%full.
  subroutine make_list(list, box, domain, atoms, offsets, reach)
    type(list_t), intent(inout) :: list
    type(box_t), intent(in) :: box
    type(domain_t), intent(inout) :: domain
    type(atoms_t), intent(inout) :: atoms
    integer, intent(in) :: offsets(0:)
    real(dp), intent(in) :: reach(:, :)
    type(cells_t) :: cells
    integer, allocatable :: cell(:), ghost_offsets(:), ghost(:)
    real(dp), allocatable :: ghost_x(:, :)
    integer :: t, threads, most, last(0:size(list%work))
    cells = cells_of(box, domain, list%reach)
    call bin(cells, box, atoms%x(:, atoms%own + 1:atoms%all), cell, ghost_offsets, ghost)
    allocate (ghost_x(4, size(ghost)))
    ghost_x = atoms%x(:, atoms%own + ghost)
    threads = size(list%work)
    most = 0
    last = shares(list, box, domain, atoms)
    list%first = last(0) + 1
    list%last = last(threads)
    !$omp parallel do schedule(static, 1) reduction(max:most)
    do t = 1, threads
      list%work(t)%first = last(t - 1) + 1
      list%work(t)%last = last(t)
      ! A choice for each pair costs more than it saves, but where pairs are few (full lists).
      list%work(t)%direct = [1, merge(atoms%all, 0, t == 1)]
      if (.not. list%half .and. threads > 1) then
        list%work(t)%direct = [list%work(t)%first, list%work(t)%last]
      end if
      call fill(list%work(t), list%half, list%twice, list%limit, cells, box, atoms, offsets, &
                ghost_offsets, ghost, ghost_x, reach**2, most)
    end do
    !$omp end parallel do
    list%most = most
    call find_untouched(list, atoms%own, atoms%all)
  end subroutine make_list

  !> Expected entries of all lists of `own` atoms, in an even density (atoms/A^3), within `reach`
  !> (A).
  pure real(dp) function entries_expected(own, density, reach, half)
    real(dp), intent(in) :: own, density, reach
    logical, intent(in) :: half
    real(dp), parameter :: unit_sphere = 4*acos(-1.0_dp)/3
    entries_expected = own*density*unit_sphere*reach**3*merge(0.5_dp, 1.0_dp, half)
  end function entries_expected

  !> The last atom of each thread's share, from the atom before the first thread's, so that all
  !> threads, also of other copies of the box, have as many pairs in an even density.  In half lists
  !> pairs are the first atom's in the order of cells, so that atoms have more at the low
  !> face of the last direction and fewer at the high one, by the part of their sphere beyond it
  !> (half of the pairs with ghosts are another rank's, unless they are listed twice).
  function shares(list, box, domain, atoms) result(last)
    type(list_t), intent(in) :: list
    type(box_t), intent(in) :: box
    type(domain_t), intent(in) :: domain
    type(atoms_t), intent(in) :: atoms
    integer :: last(0:size(list%work))
    integer :: ends(0:size(list%work)*domain%copies) !< the last atom of every thread of these ranks
    integer :: k, t, threads
    threads = size(list%work)*domain%copies
    ends = [(int(int(t, c_int64_t)*atoms%own/threads), t=0, threads)]
    if (threads > 1 .and. list%half .and. atoms%own > 0) call balance()
    last = ends(size(list%work)*domain%copy:size(list%work)*(domain%copy + 1))

  contains

    !> Sets the ends by numbers of pairs in the place of atoms.
    subroutine balance()
      real(dp), allocatable :: before(:) !< pairs of the atoms up to each: 1 of an inner one
      real(dp) :: s, low, high
      allocate (before(atoms%own))
      !$omp parallel do private(s, low, high) schedule(static)
      do k = 1, atoms%own
        s = dot_product(box%inverse(3, :), atoms%x(1:3, k))
        low = max(0.0_dp, min(1.0_dp, (s - domain%low(3))*box%height(3)/list%reach))
        high = max(0.0_dp, min(1.0_dp, (domain%high(3) - s)*box%height(3)/list%reach))
        before(k) = merge(1 + 2*cap(low), 1 + cap(low) - cap(high), list%twice)
      end do
      !$omp end parallel do
      do k = 2, atoms%own
        before(k) = before(k) + before(k - 1)
      end do
      t = 1
      do k = 1, atoms%own
        do while (t < threads .and. before(k)*threads >= t*before(atoms%own))
          ends(t) = k
          t = t + 1
        end do
      end do
    end subroutine balance

  end function shares

  !> The part of a unit sphere beyond a plane at distance d of its centre.
  elemental real(dp) function cap(d)
    real(dp), intent(in) :: d
    cap = (2 - 3*d + d**3)/4
  end function cap

  !> Sets list%untouched: the gaps between the threads' ranges, which are in order.
  subroutine find_untouched(list, own, all)
    type(list_t), intent(inout) :: list
    integer, intent(in) :: own, all
    integer :: t, part, next, last(2)
    list%untouched = [range_t ::]
    last = [own, all]
    do part = 1, 2
      next = merge(1, own + 1, part == 1)
      do t = 1, size(list%work)
        associate (range => list%work(t)%unbuffered(part))
          if (range%to < range%from) cycle
          if (range%from > next) list%untouched = [list%untouched, range_t(next, range%from - 1)]
          next = range%to + 1
        end associate
      end do
      if (next <= last(part)) list%untouched = [list%untouched, range_t(next, last(part))]
    end do
  end subroutine find_untouched

  !> Fills a thread's list: neighbours of its atoms in the cells around each; `most` becomes at
  !> least the largest number of neighbours.
  subroutine fill(work, half, twice, limit_of_entries, cells, box, atoms, offsets, ghost_offsets, &
                  ghost, ghost_x, reach2, most)
    type(worker_t), intent(inout) :: work
    logical, intent(in) :: half, twice
    integer, intent(in) :: limit_of_entries
    type(cells_t), intent(in) :: cells
    type(box_t), intent(in) :: box
    type(atoms_t), intent(in) :: atoms
    integer, intent(in) :: offsets(0:), ghost_offsets(0:), ghost(:)
    real(dp), intent(in) :: ghost_x(:, :), reach2(:, :)
    integer, intent(inout) :: most
    integer :: i, j, q, n, c, at(3), y, z, from, to, row, tag, g, low(2), high(2)
    real(dp) :: xi(4), d(3), limit(size(reach2, 1))
    if (.not. allocated(work%entry)) allocate (work%entry(0))
    if (allocated(work%start)) deallocate (work%start)
    allocate (work%start(work%first:work%last + 1))
    n = 0
    work%full = atoms%all > most_atoms
    do i = work%first, work%last
      work%start(i) = n + 1
      xi = atoms%x(:, i)
      limit = reach2(:, atoms%species(i))
      tag = merge(atoms%species(i) - 2, -1, half)
      c = cell_at(cells, box, xi(1:3))
      at = [mod(c, cells%count(1)), mod(c/cells%count(1), cells%count(2)), &
            c/(cells%count(1)*cells%count(2))]
      from = max(0, at(1) - stencil)
      to = min(cells%count(1) - 1, at(1) + stencil)
      do z = max(0, at(3) - stencil), min(cells%count(3) - 1, at(3) + stencil)
        do y = max(0, at(2) - stencil), min(cells%count(2) - 1, at(2) + stencil)
          row = cells%count(1)*(y + cells%count(2)*z)
          j = max(offsets(row + from), merge(i, 0, half)) + 1
          q = offsets(row + to + 1)
          g = ghost_offsets(row + to + 1) - ghost_offsets(row + from)
          if (j > q .and. g == 0) cycle
          if (work%full .or. max(0, q - j + 1) + g > limit_of_entries - n) then
            work%full = .true.
            cycle
          end if
          if (n + max(0, q - j + 1) + g >= size(work%entry)) then
            call extend(work%entry, n, max(0, q - j + 1) + g)
          end if
          if (j <= q) then
            call append_own(xi, j, q, i, atoms%x, atoms%species, limit, tag, n, work%entry)
          end if
          do q = ghost_offsets(row + from) + 1, ghost_offsets(row + to + 1)
            d = xi(1:3) - ghost_x(1:3, q)
            j = atoms%own + ghost(q)
            if (sum(d*d) >= limit(atoms%species(j))) cycle
            if (half .and. .not. twice) then
              if (.not. mine(atoms%id(i), atoms%id(j), d)) cycle
            end if
            n = n + 1
            work%entry(n) = 4*j + atoms%species(j) + tag
          end do
        end do
      end do
      most = max(most, n + 1 - work%start(i))
    end do
    work%start(work%last + 1) = n + 1
    low = [work%first, atoms%all + 1] ! its own atoms, whether or not they have neighbours
    high = [work%last, atoms%own]
    do q = 1, n
      j = work%entry(q)/4
      if (j <= atoms%own) then
        low(1) = min(low(1), j)
        high(1) = max(high(1), j)
      else
        low(2) = min(low(2), j)
        high(2) = max(high(2), j)
      end if
    end do
    work%unbuffered(1) = range_t(max(low(1), work%direct(1)), min(high(1), work%direct(2)))
    work%unbuffered(2) = range_t(max(low(2), work%direct(1)), min(high(2), work%direct(2)))
    work%buffered(1) = range_t(low(1), min(high(1), work%direct(1) - 1))
    work%buffered(2) = range_t(max(low(1), work%direct(2) + 1), high(1))
    work%buffered(3) = range_t(max(low(2), work%direct(2) + 1), high(2))
  end subroutine fill

  !> Appends own atoms from..to that are within the limit (A^2, by species) of the point xi.
  subroutine append_own(xi, from, to, self, x, species, limit, tag, n, entry)
    real(dp), intent(in) :: xi(4), x(4, *), limit(*)
    integer, intent(in) :: from, to, self, species(*), tag
    integer, intent(inout) :: n, entry(*)
    real(dp) :: dx, dy, dz
    integer :: j
    do j = from, to ! without branches, which would be mispredicted
      dx = xi(1) - x(1, j)
      dy = xi(2) - x(2, j)
      dz = xi(3) - x(3, j)
      entry(n + 1) = 4*j + species(j) + tag
      n = n + merge(1, 0, dx*dx + dy*dy + dz*dz < limit(species(j)) .and. j /= self)
    end do
  end subroutine append_own

  !> Whether the owner of atom i lists the pair with ghost j, or else the owner of j: ids decide by
  !> turns, in the same way on both ranks.  d (A) is the vector between them.
  pure logical function mine(i, j, d)
    integer(c_int64_t), intent(in) :: i, j
    real(dp), intent(in) :: d(3)
    integer :: c
    if (i /= j) then
      mine = (i < j) .neqv. (iand(i + j, 1_c_int64_t) == 1_c_int64_t)
      return
    end if
    mine = .false. ! an atom and its image: one of the two
    do c = 3, 1, -1
      if (abs(d(c)) > 1e-6_dp) then
        mine = d(c) > 0
        return
      end if
    end do
  end function mine

  !> The two closest atoms in the lists of this rank; the first such pair where several are.
  subroutine find_closest(list, atoms, distance, ids)
    type(list_t), intent(in) :: list
    type(atoms_t), intent(in) :: atoms
    real(dp), intent(out) :: distance         !< A; huge if no list has an entry
    integer(c_int64_t), intent(out) :: ids(2) !< in ascending order; 0 if no list has an entry
    real(dp) :: separation
    integer :: t, i, j, k
    distance = huge(distance)
    ids = 0
    do t = 1, size(list%work)
      associate (work => list%work(t))
        do i = work%first, work%last
          do k = work%start(i), work%start(i + 1) - 1
            j = work%entry(k)/4
            separation = norm2(atoms%x(1:3, i) - atoms%x(1:3, j))
            if (separation >= distance) cycle
            distance = separation
            ids = [min(atoms%id(i), atoms%id(j)), max(atoms%id(i), atoms%id(j))]
          end do
        end do
      end associate
    end do
  end subroutine find_closest

  !> Enlarges a list for `more` entries, and one that append_own writes in advance.
  subroutine extend(entry, used, more)
    integer, allocatable, intent(inout) :: entry(:)
    integer, intent(in) :: used, more
    integer, allocatable :: longer(:)
    integer(c_int64_t) :: room
    room = int(used, c_int64_t) + more
    allocate (longer(room + room/4 + 1024))
    longer(:used) = entry(:used)
    call move_alloc(longer, entry)
  end subroutine extend

end module md_list
