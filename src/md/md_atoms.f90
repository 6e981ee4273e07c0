! The periodic box, any three vectors that span a volume; and the atoms of a rank: its own, then
! copies of its neighbours' (ghosts).
module md_atoms
  use, intrinsic :: iso_c_binding, only: c_int64_t, dp => c_double
  implicit none (type, external)
  private
  public :: atoms_t, box_t, copy_own, cross, make_box, reserve

  !> Atoms by columns; capacity is what fits.
  type :: atoms_t
    integer :: own = 0, all = 0 !< atoms 1..own are this rank's, own+1..all ghosts
    real(dp), allocatable :: x(:, :) !< (4, capacity): A; the fourth is 0 and makes loads whole
    real(dp), allocatable :: v(:, :) !< (3, capacity): A/ps; of own atoms
    real(dp), allocatable :: f(:, :) !< (4, capacity): eV/A
    real(dp), allocatable :: listed(:, :) !< (3, capacity): A; positions when the list was made
    integer, allocatable :: species(:) !< from 1, of the potential
    integer(c_int64_t), allocatable :: id(:) !< from 1
    integer, allocatable :: image(:, :) !< (3, capacity): times an own atom has left the box
  end type atoms_t

  type :: box_t
    real(dp) :: edge(3, 3) = 0    !< vectors in columns: A
    real(dp) :: inverse(3, 3) = 0 !< 1/A
    real(dp) :: height(3) = 0     !< distance between opposite faces: A
    real(dp) :: volume = 0        !< A^3
  contains
    procedure :: fractions
  end type box_t

contains

  !> Makes room for `count` atoms; keeps those that are there.
  subroutine reserve(atoms, count)
    type(atoms_t), intent(inout) :: atoms
    integer, intent(in) :: count
    integer :: room
    if (allocated(atoms%x)) then
      if (count <= size(atoms%id)) return
    else
      allocate (atoms%x(4, 0), atoms%v(3, 0), atoms%f(4, 0), atoms%listed(3, 0))
      allocate (atoms%species(0), atoms%id(0), atoms%image(3, 0))
    end if
    room = count + count/16 + 64
    call grow(atoms%x, room)
    call grow(atoms%v, room)
    call grow(atoms%f, room)
    call grow(atoms%listed, room)
    block
      integer, allocatable :: species(:), image(:, :)
      integer(c_int64_t), allocatable :: id(:)
      integer :: old
      old = size(atoms%id)
      allocate (species(room), source=0)
      allocate (id(room), source=0_c_int64_t)
      allocate (image(3, room), source=0)
      species(:old) = atoms%species
      id(:old) = atoms%id
      image(:, :old) = atoms%image
      call move_alloc(species, atoms%species)
      call move_alloc(id, atoms%id)
      call move_alloc(image, atoms%image)
    end block
  end subroutine reserve

  !> Copies the own atoms of `atoms`, without forces, to `copy`, whose arrays keep their place.
  subroutine copy_own(atoms, copy)
    type(atoms_t), intent(in) :: atoms
    type(atoms_t), intent(inout) :: copy
    call reserve(copy, atoms%own)
    associate (n => atoms%own)
      copy%own = n
      copy%all = n
      copy%x(:, :n) = atoms%x(:, :n)
      copy%v(:, :n) = atoms%v(:, :n)
      copy%listed(:, :n) = atoms%listed(:, :n)
      copy%species(:n) = atoms%species(:n)
      copy%id(:n) = atoms%id(:n)
      copy%image(:, :n) = atoms%image(:, :n)
    end associate
  end subroutine copy_own

  !> Enlarges an array to `room` columns; new ones are 0.  A page lies in the memory of the thread
  !> that writes it first: the loops over atoms have the same shares.
  subroutine grow(array, room)
    real(dp), allocatable, intent(inout) :: array(:, :)
    integer, intent(in) :: room
    real(dp), allocatable :: larger(:, :)
    integer, parameter :: few = 1000 !< atoms that are not worth waking threads for
    integer :: i, old
    old = size(array, 2)
    allocate (larger(size(array, 1), room))
    !$omp parallel do schedule(static) if (room > few)
    do i = 1, room
      if (i <= old) then
        larger(:, i) = array(:, i)
      else
        larger(:, i) = 0
      end if
    end do
    call move_alloc(larger, array)
  end subroutine grow

  !> The box of three edges; its volume is 0 where they span none.
  pure type(box_t) function make_box(edge) result(box)
    real(dp), intent(in) :: edge(3, 3) !< vectors in columns: A
    real(dp) :: normal(3, 3)
    integer :: d
    box%edge = edge
    do d = 1, 3
      normal(:, d) = cross(edge(:, mod(d, 3) + 1), edge(:, mod(d + 1, 3) + 1))
    end do
    box%volume = dot_product(edge(:, 1), normal(:, 1))
    if (.not. abs(box%volume) > 0) return
    do d = 1, 3
      box%inverse(d, :) = normal(:, d)/box%volume
      box%height(d) = abs(box%volume)/norm2(normal(:, d))
    end do
    box%volume = abs(box%volume)
  end function make_box

  !> Coordinates of a point (A) along the edges: 0 to 1 within the box.
  pure function fractions(self, x) result(s)
    class(box_t), intent(in) :: self
    real(dp), intent(in) :: x(3)
    real(dp) :: s(3)
    s = self%inverse(:, 1)*x(1) + self%inverse(:, 2)*x(2) + self%inverse(:, 3)*x(3)
  end function fractions

  !> The vector product a x b.
  pure function cross(a, b) result(c)
    real(dp), intent(in) :: a(3), b(3)
    real(dp) :: c(3)
    c = [a(2)*b(3) - a(3)*b(2), a(3)*b(1) - a(1)*b(3), a(1)*b(2) - a(2)*b(1)]
  end function cross

end module md_atoms
