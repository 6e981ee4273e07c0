! The halo of a domain: ghosts, copies of other ranks' atoms near its faces.
!
! Ghosts come from the neighbours in six shifts, two for each direction, ghosts of earlier
! directions included, so that edges and corners need no messages of their own (S. Plimpton,
! J. Comput. Phys. 117, 1 (1995)).  A halo wider than a domain is passed on in further hops.  What a
! rank would send to itself is copied, and not counted as a message.
!
!   y y y y y y y     A domain in the plane of x and y, and its halo, as wide as lists reach.
!   x +-------+ x     Letters are the direction in which ghosts come: those of y that are
!   x |  own  | x     corners are ghosts of x on the rank that sends them.  Arrays hold own
!   x +-------+ x     atoms, then ghosts in the order of the shifts:
!   y y y y y y y     own | x, from higher, from lower | y, from higher, from lower | z ...
module md_halo
  use, intrinsic :: iso_c_binding, only: dp => c_double, c_int64_t
  use md_atoms, only: atoms_t, box_t, reserve
  use md_domain, only: check_room, domain_t, exchange, higher, hops_needed, lower, make_room, &
    neighbour, swap_t
  implicit none (type, external)
  private
  public :: make_halo, forward, reverse

  integer, parameter :: ghost_words = 5 !< reals that a new ghost is sent in
  integer, parameter :: worth_threads = 1500 !< atoms, from which on threads share a copy

contains

  !> Finds and exchanges all ghosts within `reach` (A) of the domain: atoms own+1..all.  Collective.
  subroutine make_halo(domain, box, atoms, reach)
    type(domain_t), intent(inout) :: domain
    type(box_t), intent(in) :: box
    type(atoms_t), intent(inout) :: atoms
    real(dp), intent(in) :: reach
    real(dp) :: width(3), edge(3)
    integer :: need(3), d, hop, side, from(2), to(2), words(2)
    integer :: first(2), last(2) !< atoms that may be sent to each side
    need = hops_needed(domain, box, reach)
    width = reach/box%height*(1 + 1e-12_dp)
    if (size(domain%swaps, 2) < sum(need)) then
      deallocate (domain%swaps)
      allocate (domain%swaps(2, sum(need)))
    end if
    domain%hops = 0
    atoms%all = atoms%own
    do d = 1, 3
      first = 1
      last = atoms%all
      to = [neighbour(domain, d, -1), neighbour(domain, d, 1)]
      from = [to(2), to(1)]
      do hop = 1, need(d)
        domain%hops = domain%hops + 1
        do side = 1, 2
          edge = 0
          if (side == lower .and. domain%at(d) == 0) edge = box%edge(:, d)
          if (side == higher .and. domain%at(d) == domain%dims(d) - 1) edge = -box%edge(:, d)
          associate (swap => domain%swaps(side, domain%hops))
            swap%to = to(side)
            swap%from = from(side)
            swap%shift = edge
            swap%index = near_face(domain, box, atoms, d, side, width(d), first(side), last(side))
            words(side) = ghost_words*size(swap%index)
          end associate
        end do
        call make_room(domain%outgoing, maxval(words))
        do side = 1, 2
          call pack_ghosts(atoms, domain%swaps(side, domain%hops), domain%outgoing(:, side))
        end do
        if (domain%dims(d) == 1) then
          call make_room(domain%incoming, maxval(words))
          do side = 1, 2
            domain%incoming(:words(side), side) = domain%outgoing(:words(side), side)
          end do
          call check_room(domain, 4)
        else
          call exchange(domain, to, from, words)
        end if
        call reserve(atoms, atoms%all + sum(words)/ghost_words)
        do side = 1, 2
          associate (swap => domain%swaps(side, domain%hops))
            swap%first = atoms%all
            swap%count = words(side)/ghost_words
            call unpack_ghosts(atoms, swap, domain%incoming(:, side))
            first(side) = swap%first + 1
            last(side) = atoms%all
          end associate
        end do
      end do
    end do
  end subroutine make_halo

  !> The atoms of first..last within `width` (fraction of the box) of one face of the domain.
  pure function near_face(domain, box, atoms, d, side, width, first, last) result(index)
    type(domain_t), intent(in) :: domain
    type(box_t), intent(in) :: box
    type(atoms_t), intent(in) :: atoms
    integer, intent(in) :: d, side, first, last
    real(dp), intent(in) :: width
    integer, allocatable :: index(:)
    integer :: k, count
    real(dp) :: s, low, high
    integer, allocatable :: near(:)
    allocate (near(max(0, last - first + 1)))
    low = merge(-huge(low), domain%high(d) - width, side == lower)
    high = merge(domain%low(d) + width, huge(high), side == lower)
    count = 0
    do k = first, last
      s = box%inverse(d, 1)*atoms%x(1, k) + box%inverse(d, 2)*atoms%x(2, k) &
          + box%inverse(d, 3)*atoms%x(3, k)
      if (s < low .or. s > high) cycle
      count = count + 1
      near(count) = k
    end do
    index = near(:count)
  end function near_face

  !> Writes the atoms of a shift to a buffer: positions, ids, species.
  subroutine pack_ghosts(atoms, swap, buffer)
    type(atoms_t), intent(in) :: atoms
    type(swap_t), intent(in) :: swap
    real(dp), intent(inout) :: buffer(:)
    integer :: i, k
    do i = 1, size(swap%index)
      k = swap%index(i)
      buffer(ghost_words*(i - 1) + 1:ghost_words*i) = &
        [atoms%x(1:3, k) + swap%shift, real(atoms%id(k), dp), real(atoms%species(k), dp)]
    end do
  end subroutine pack_ghosts

  !> Appends the ghosts that a shift has brought in a buffer.
  subroutine unpack_ghosts(atoms, swap, buffer)
    type(atoms_t), intent(inout) :: atoms
    type(swap_t), intent(in) :: swap
    real(dp), intent(in) :: buffer(:)
    integer :: i, k, at
    do i = 1, swap%count
      k = swap%first + i
      at = ghost_words*(i - 1)
      atoms%x(1:3, k) = buffer(at + 1:at + 3)
      atoms%x(4, k) = 0
      atoms%id(k) = nint(buffer(at + 4), c_int64_t)
      atoms%species(k) = nint(buffer(at + 5))
    end do
    atoms%all = atoms%all + swap%count
  end subroutine unpack_ghosts

  !> Copies owners' values to ghosts: the first `n` (1 or 3) of the `stride` reals of each atom,
  !> moved by the shift of the box if they are `positions` (A).  Collective.
  subroutine forward(domain, values, stride, n, positions)
    type(domain_t), intent(inout) :: domain
    integer, intent(in) :: stride, n
    real(dp), intent(inout) :: values(stride, *)
    logical, intent(in) :: positions
    integer :: hop, side, words(2), coming(2), to(2), from(2)
    real(dp) :: shift(3)
    do hop = 1, domain%hops
      associate (swaps => domain%swaps(:, hop))
        if (swaps(1)%to == domain%rank) then
          !$omp parallel do private(shift) schedule(static, 1) &
          !$omp& if (swaps(1)%count + swaps(2)%count > worth_threads)
          do side = 1, 2
            shift = merge(swaps(side)%shift, 0.0_dp, positions)
            call copy_to_ghosts(values, stride, n, swaps(side), shift)
          end do
          !$omp end parallel do
          call check_room(domain, 4)
        else
          do side = 1, 2
            words(side) = n*size(swaps(side)%index)
            coming(side) = n*swaps(side)%count
            to(side) = swaps(side)%to
            from(side) = swaps(side)%from
          end do
          call make_room(domain%outgoing, maxval(words))
          do side = 1, 2
            shift = merge(swaps(side)%shift, 0.0_dp, positions)
            call gather(values, stride, n, swaps(side), shift, domain%outgoing(:, side))
          end do
          call exchange(domain, to, from, words, coming)
          do side = 1, 2
            call spread_out(values, stride, n, swaps(side), domain%incoming(:, side))
          end do
        end if
      end associate
    end do
  end subroutine forward

  !> The copy of one shift where both ends are this rank.
  subroutine copy_to_ghosts(values, stride, n, swap, shift)
    integer, intent(in) :: stride, n
    real(dp), intent(inout) :: values(stride, *)
    type(swap_t), intent(in) :: swap
    real(dp), intent(in) :: shift(3)
    integer :: i
    if (n == 1) then
      do i = 1, swap%count
        values(1, swap%first + i) = values(1, swap%index(i))
      end do
    else
      do i = 1, swap%count
        values(1:3, swap%first + i) = values(1:3, swap%index(i)) + shift
      end do
    end if
  end subroutine copy_to_ghosts

  !> Writes the values that a shift sends to a buffer, (n, atoms).
  subroutine gather(values, stride, n, swap, shift, buffer)
    integer, intent(in) :: stride, n
    real(dp), intent(in) :: values(stride, *), shift(3)
    type(swap_t), intent(in) :: swap
    real(dp), intent(inout) :: buffer(n, *)
    integer :: i
    if (n == 1) then
      !$omp parallel do schedule(static) if (size(swap%index) > worth_threads)
      do i = 1, size(swap%index)
        buffer(1, i) = values(1, swap%index(i))
      end do
      !$omp end parallel do
    else
      !$omp parallel do schedule(static) if (size(swap%index) > worth_threads)
      do i = 1, size(swap%index)
        buffer(1:3, i) = values(1:3, swap%index(i)) + shift
      end do
      !$omp end parallel do
    end if
  end subroutine gather

  !> Writes the values that a shift has brought, (n, ghosts), to the ghosts.
  subroutine spread_out(values, stride, n, swap, buffer)
    integer, intent(in) :: stride, n
    real(dp), intent(inout) :: values(stride, *)
    type(swap_t), intent(in) :: swap
    real(dp), intent(in) :: buffer(n, *)
    integer :: i
    !$omp parallel do schedule(static) if (swap%count > worth_threads)
    do i = 1, swap%count
      values(1:n, swap%first + i) = buffer(1:n, i)
    end do
    !$omp end parallel do
  end subroutine spread_out

  !> Adds ghosts' values to their owners', in the opposite order: the first `n` (1 or 3) of the
  !> `stride` reals of each atom.  Collective.
  subroutine reverse(domain, values, stride, n)
    type(domain_t), intent(inout) :: domain
    integer, intent(in) :: stride, n
    real(dp), intent(inout) :: values(stride, *)
    integer :: hop, side, words(2), coming(2), to(2), from(2)
    do hop = domain%hops, 1, -1
      associate (swaps => domain%swaps(:, hop))
        if (swaps(1)%to == domain%rank) then
          do side = 2, 1, -1
            call add_to_owners(values, stride, n, swaps(side), values(1, swaps(side)%first + 1), &
                               stride)
          end do
          call check_room(domain, 4)
        else
          do side = 1, 2 ! the other way round
            words(side) = n*swaps(side)%count
            coming(side) = n*size(swaps(side)%index)
            to(side) = swaps(side)%from
            from(side) = swaps(side)%to
          end do
          call make_room(domain%outgoing, maxval(words))
          do side = 1, 2
            call take_ghosts(values, stride, n, swaps(side), domain%outgoing(:, side))
          end do
          call exchange(domain, to, from, words, coming)
          do side = 2, 1, -1
            call add_to_owners(values, stride, n, swaps(side), domain%incoming(1, side), n)
          end do
        end if
      end associate
    end do
  end subroutine reverse

  !> Writes the ghosts' values of a shift to a buffer, (n, ghosts).
  subroutine take_ghosts(values, stride, n, swap, buffer)
    integer, intent(in) :: stride, n
    real(dp), intent(in) :: values(stride, *)
    type(swap_t), intent(in) :: swap
    real(dp), intent(inout) :: buffer(n, *)
    integer :: i
    do i = 1, swap%count
      buffer(1:n, i) = values(1:n, swap%first + i)
    end do
  end subroutine take_ghosts

  !> Adds the ghosts' values of a shift, added(step, ghosts), to their owners.  A shift has at most
  !> one ghost of an atom, so that no two threads add to one owner.
  subroutine add_to_owners(values, stride, n, swap, added, step)
    integer, intent(in) :: stride, n, step
    real(dp), intent(inout) :: values(stride, *)
    type(swap_t), intent(in) :: swap
    real(dp), intent(in) :: added(step, *)
    integer :: i
    if (n == 1) then
      !$omp parallel do schedule(static) if (size(swap%index) > worth_threads)
      do i = 1, size(swap%index)
        values(1, swap%index(i)) = values(1, swap%index(i)) + added(1, i)
      end do
      !$omp end parallel do
    else
      !$omp parallel do schedule(static) if (size(swap%index) > worth_threads)
      do i = 1, size(swap%index)
        values(1:3, swap%index(i)) = values(1:3, swap%index(i)) + added(1:3, i)
      end do
      !$omp end parallel do
    end if
  end subroutine add_to_owners

end module md_halo
