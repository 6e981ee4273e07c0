! Grids whose points are spread over ranks in boxes, and the messages between two distributions of
! one grid.
!
! A patch is a rank's box of points.  Outer patches may overlap and reach beyond the grid, which is
! periodic; inner ones have each point once.
module md_regrid
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use bx_charges, only: bx_charge, bx_copy, by_all_threads
  use mpi_f08, only: MPI_Alltoallv, MPI_DOUBLE_PRECISION, MPI_Irecv, MPI_Isend, MPI_Request, &
    MPI_STATUSES_IGNORE, MPI_Waitall
  use md_domain, only: arrived_whole, count_messages, domain_t, seal_payload
  implicit none (type, external)
  private
  public :: make_regrid, move, set_limits, share_of_points

  !> Points low..high of each direction, counted from 0; none where high < low.
  type, public :: patch_t
    integer :: low(3) = 0, high(3) = -1
  contains
    procedure :: extent
  end type patch_t

  !> Points low..high of a direction, by the place of a rank.
  type :: limits_t
    integer, allocatable :: low(:), high(:)
  end type limits_t

  !> The patches of all ranks, which are places of a grid of ranks.
  type, public :: patches_t
    integer :: every(3) = 1 !< ranks from one place of a direction to the next
    type(limits_t) :: along(3)
  contains
    procedure :: of_rank
  end type patches_t

  !> A part of a patch: points low..high, counted from 1 in the patch's array.
  type :: piece_t
    integer :: low(3) = 1, high(3) = 0
  end type piece_t

  !> What is exchanged with one rank, in this order.
  type :: md_part_t
    integer :: peer = 0, points = 0
    type(piece_t), allocatable :: pieces(:)
  end type md_part_t

  type, public :: regrid_t
    logical :: all_to_all = .false. !< by one MPI_Alltoallv, or by a message to each rank concerned
    type(md_part_t), allocatable :: outer(:), inner(:) !< of this rank's patches, by peer
    real(dp), allocatable :: outgoing(:), incoming(:)
  end type regrid_t

contains

  !> Points of a patch along each direction.
  pure function extent(self) result(points)
    class(patch_t), intent(in) :: self
    integer :: points(3)
    points = max(0, self%high - self%low + 1)
  end function extent

  !> A rank's patch; one without points in a direction has none at all.
  pure type(patch_t) function of_rank(self, rank) result(patch)
    class(patches_t), intent(in) :: self
    integer, intent(in) :: rank
    integer :: d, place
    do d = 1, 3
      place = 1 + mod(rank/self%every(d), size(self%along(d)%low))
      patch%low(d) = self%along(d)%low(place)
      patch%high(d) = self%along(d)%high(place)
    end do
    if (any(patch%high < patch%low)) patch = patch_t()
  end function of_rank

  !> Sets the limits of a direction: one place is `every` ranks from the next, (2, places).
  pure subroutine set_limits(patches, direction, every, limits)
    type(patches_t), intent(inout) :: patches
    integer, intent(in) :: direction, every, limits(:, :)
    patches%every(direction) = every
    associate (along => patches%along(direction))
      along%low = limits(1, :)
      along%high = limits(2, :)
    end associate
  end subroutine set_limits

  !> Share number `part` (from 0) of `points` points dealt out to `parts` ranks: first, last.
  pure function share_of_points(points, parts, part) result(share)
    integer, intent(in) :: points, parts, part
    integer :: share(2)
    share = [part*points/parts, (part + 1)*points/parts - 1]
  end function share_of_points

  !> Plans the moves between the outer and inner patches of all ranks.  Local.
  subroutine make_regrid(domain, grid, outer, inner, all_to_all, plan)
    type(domain_t), intent(in) :: domain
    integer, intent(in) :: grid(3)
    type(patches_t), intent(in) :: outer, inner
    logical, intent(in) :: all_to_all
    type(regrid_t), intent(out) :: plan
    type(md_part_t) :: here, there
    integer :: r
    plan%all_to_all = all_to_all
    allocate (plan%outer(0), plan%inner(0), plan%outgoing(0), plan%incoming(0))
    do r = 0, domain%ranks - 1
      call find_overlap(grid, outer%of_rank(domain%rank), inner%of_rank(r), r, here, there)
      if (here%points > 0) plan%outer = [plan%outer, here]
      call find_overlap(grid, outer%of_rank(r), inner%of_rank(domain%rank), r, there, here)
      if (here%points > 0) plan%inner = [plan%inner, here]
    end do
  end subroutine make_regrid

  !> The points that two patches share, as pieces of the one and of the other.
  subroutine find_overlap(grid, outer, inner, peer, in_outer, in_inner)
    integer, intent(in) :: grid(3), peer
    type(patch_t), intent(in) :: outer, inner
    type(md_part_t), intent(out) :: in_outer, in_inner
    integer :: image(3), low(3), high(3), first(3), last(3), a, b, c
    in_outer%peer = peer
    in_inner%peer = peer
    allocate (in_outer%pieces(0), in_inner%pieces(0))
    first = (outer%low - modulo(outer%low, grid))/grid
    last = (outer%high - modulo(outer%high, grid))/grid
    do c = first(3), last(3)
      do b = first(2), last(2)
        do a = first(1), last(1)
          image = [a, b, c]*grid
          low = max(outer%low, inner%low + image)
          high = min(outer%high, inner%high + image)
          if (any(high < low)) cycle
          in_outer%pieces = [in_outer%pieces, piece_t(low - outer%low + 1, high - outer%low + 1)]
          in_inner%pieces = [in_inner%pieces, piece_t(low - image - inner%low + 1, &
                                                      high - image - inner%low + 1)]
          in_outer%points = in_outer%points + product(high - low + 1)
        end do
      end do
    end do
    in_inner%points = in_outer%points
  end subroutine find_overlap

  !> Adds up what the outer patches have at each point of this rank's inner patch, or, not `inward`,
  !> copies the points of inner patches to its outer one: the first `words` of the reals of a point.
  !> Collective over the ranks concerned.
  subroutine move(plan, domain, words, inward, from, to)
    type(regrid_t), intent(inout) :: plan
    type(domain_t), intent(inout) :: domain
    integer, intent(in) :: words
    logical, intent(in) :: inward
    real(dp), intent(in) :: from(:, :, :, :)
    real(dp), intent(inout) :: to(:, :, :, :)
    if (inward) then
      call move_parts(plan, domain, words, plan%outer, from, plan%inner, to)
    else
      call move_parts(plan, domain, words, plan%inner, from, plan%outer, to)
    end if
  end subroutine move

  !> Sends parts of one patch, and adds up in another one the parts that arrive.
  subroutine move_parts(plan, domain, words, sending, from, receiving, to)
    type(regrid_t), intent(inout) :: plan
    type(domain_t), intent(inout) :: domain
    integer, intent(in) :: words
    type(md_part_t), intent(in) :: sending(:), receiving(:)
    real(dp), intent(in) :: from(:, :, :, :)
    real(dp), intent(inout) :: to(:, :, :, :)
    integer, dimension(size(sending)) :: leaving, leaving_at
    integer, dimension(size(receiving)) :: coming, coming_at
    integer :: r, part, at, z
    call lay_out(domain, words, sending, leaving, leaving_at)
    call lay_out(domain, words, receiving, coming, coming_at)
    call reserve(plan%outgoing, sum(leaving))
    call reserve(plan%incoming, sum(coming))
    do part = 1, size(sending)
      if (sending(part)%peer == domain%rank) cycle
      at = leaving_at(part)
      call pack_part(sending(part), words, from, plan%outgoing(at + 1:))
      call seal_payload(domain, plan%outgoing(at + 1:at + leaving(part)))
    end do
    if (domain%ranks > 1) then
      if (plan%all_to_all) then
        call exchange_all(plan, domain, sending, leaving, leaving_at, receiving, coming, coming_at)
      else
        call send_parts(plan, domain, sending, leaving, leaving_at, receiving, coming, coming_at)
      end if
    end if
    call bx_charge(bx_copy, 8.0_dp*(sum(leaving) + sum(coming)), by_all_threads)
    !$omp parallel do schedule(static)
    do z = 1, size(to, 4)
      to(:, :, :, z) = 0
    end do
    !$omp end parallel do
    do part = 1, size(receiving)
      r = receiving(part)%peer
      at = coming_at(part)
      if (r == domain%rank) then
        call add_own(sending(findloc(sending%peer, r, dim=1)), receiving(part), words, from, to)
      else
        call arrived_whole(domain, r, plan%incoming(at + 1:at + coming(part)))
        call add_part(receiving(part), words, plan%incoming(at + 1:), to)
      end if
    end do
  end subroutine move_parts

  !> Adds the part that a rank has of both patches.
  subroutine add_own(sent, received, words, from, to)
    type(md_part_t), intent(in) :: sent, received
    integer, intent(in) :: words
    real(dp), intent(in) :: from(:, :, :, :)
    real(dp), intent(inout) :: to(:, :, :, :)
    integer :: n, x, y, z, by(3)
    do n = 1, size(received%pieces)
      by = sent%pieces(n)%low - received%pieces(n)%low
      associate (low => received%pieces(n)%low, high => received%pieces(n)%high)
        !$omp parallel do private(x, y) schedule(static)
        do z = low(3), high(3)
          do y = low(2), high(2)
            do x = low(1), high(1)
              to(:words, x, y, z) = to(:words, x, y, z) &
                                    + from(:words, x + by(1), y + by(2), z + by(3))
            end do
          end do
        end do
        !$omp end parallel do
      end associate
    end do
  end subroutine add_own

  !> Reals of each part in a buffer, of this rank's own none, and where they stand, from 0.
  subroutine lay_out(domain, words, parts, counts, offsets)
    type(domain_t), intent(in) :: domain
    integer, intent(in) :: words
    type(md_part_t), intent(in) :: parts(:)
    integer, intent(out) :: counts(:), offsets(:)
    integer :: part, at
    at = 0
    do part = 1, size(parts)
      counts(part) = words*parts(part)%points + merge(1, 0, domain%sealed)
      if (parts(part)%peer == domain%rank) counts(part) = 0
      offsets(part) = at
      at = at + counts(part)
    end do
  end subroutine lay_out

  !> One MPI_Alltoallv, which needs numbers of all ranks.
  subroutine exchange_all(plan, domain, sending, leaving, leaving_at, receiving, coming, coming_at)
    type(regrid_t), intent(inout) :: plan
    type(domain_t), intent(inout) :: domain
    type(md_part_t), intent(in) :: sending(:), receiving(:)
    integer, intent(in), dimension(:) :: leaving, leaving_at, coming, coming_at
    integer, allocatable, dimension(:) :: sent, sent_at, received, received_at
    allocate (sent(0:domain%ranks - 1), source=0)
    sent_at = sent
    received = sent
    received_at = sent
    sent(sending%peer) = leaving
    sent_at(sending%peer) = leaving_at
    received(receiving%peer) = coming
    received_at(receiving%peer) = coming_at
    call MPI_Alltoallv(plan%outgoing, sent, sent_at, MPI_DOUBLE_PRECISION, plan%incoming, &
                       received, received_at, MPI_DOUBLE_PRECISION, domain%comm)
    call count_messages(domain, domain%ranks - 1, 8*sum(leaving))
  end subroutine exchange_all

  !> A message to each rank that has a part, and one from each.
  subroutine send_parts(plan, domain, sending, leaving, leaving_at, receiving, coming, coming_at)
    type(regrid_t), intent(inout), asynchronous :: plan
    type(domain_t), intent(inout) :: domain
    type(md_part_t), intent(in) :: sending(:), receiving(:)
    integer, intent(in), dimension(:) :: leaving, leaving_at, coming, coming_at
    type(MPI_Request) :: requests(size(leaving) + size(coming))
    integer, parameter :: tag = 3 !< beside the sides of md_domain
    integer :: part, n
    n = 0
    do part = 1, size(coming)
      if (coming(part) == 0) cycle
      n = n + 1
      call MPI_Irecv(plan%incoming(coming_at(part) + 1:), coming(part), MPI_DOUBLE_PRECISION, &
                     receiving(part)%peer, tag, domain%comm, requests(n))
    end do
    do part = 1, size(leaving)
      if (leaving(part) == 0) cycle
      n = n + 1
      call MPI_Isend(plan%outgoing(leaving_at(part) + 1:), leaving(part), MPI_DOUBLE_PRECISION, &
                     sending(part)%peer, tag, domain%comm, requests(n))
    end do
    call MPI_Waitall(n, requests, MPI_STATUSES_IGNORE)
    call count_messages(domain, count(leaving > 0), 8*sum(leaving))
  end subroutine send_parts

  !> Writes the pieces of a part to a buffer, (words, points).
  subroutine pack_part(part, words, from, buffer)
    type(md_part_t), intent(in) :: part
    integer, intent(in) :: words
    real(dp), intent(in) :: from(:, :, :, :)
    real(dp), intent(inout) :: buffer(:)
    integer :: n, y, z, at, begin, row, layer
    begin = 0
    do n = 1, size(part%pieces)
      associate (low => part%pieces(n)%low, high => part%pieces(n)%high)
        row = words*(high(1) - low(1) + 1)
        layer = row*(high(2) - low(2) + 1)
        !$omp parallel do private(y, at) schedule(static)
        do z = low(3), high(3)
          at = begin + (z - low(3))*layer
          do y = low(2), high(2)
            buffer(at + 1:at + row) = reshape(from(:words, low(1):high(1), y, z), [row])
            at = at + row
          end do
        end do
        !$omp end parallel do
        begin = begin + (high(3) - low(3) + 1)*layer
      end associate
    end do
  end subroutine pack_part

  !> Adds the pieces of a part that stand in a buffer, (words, points).
  subroutine add_part(part, words, buffer, to)
    type(md_part_t), intent(in) :: part
    integer, intent(in) :: words
    real(dp), intent(in) :: buffer(:)
    real(dp), intent(inout) :: to(:, :, :, :)
    integer :: n, x, y, z, at, begin, layer
    begin = 0
    do n = 1, size(part%pieces)
      associate (low => part%pieces(n)%low, high => part%pieces(n)%high)
        layer = words*product(high(1:2) - low(1:2) + 1)
        !$omp parallel do private(x, y, at) schedule(static)
        do z = low(3), high(3)
          at = begin + (z - low(3))*layer
          do y = low(2), high(2)
            do x = low(1), high(1)
              to(:words, x, y, z) = to(:words, x, y, z) + buffer(at + 1:at + words)
              at = at + words
            end do
          end do
        end do
        !$omp end parallel do
        begin = begin + (high(3) - low(3) + 1)*layer
      end associate
    end do
  end subroutine add_part

  !> Enlarges a buffer to at least `count` reals; what it has is lost.
  subroutine reserve(buffer, count)
    real(dp), allocatable, intent(inout) :: buffer(:)
    integer, intent(in) :: count
    if (size(buffer) >= count) return
    deallocate (buffer)
    allocate (buffer(count), source=0.0_dp)
  end subroutine reserve

end module md_regrid
