! The atoms of a rank: its own, then copies of its neighbours' (ghosts).
module md_atoms
  use, intrinsic :: iso_c_binding, only: dp => c_double, c_int64_t
  implicit none (type, external)
  private
  public :: atoms_t, copy_own, reserve

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

  !> Enlarges an array to `room` columns; new ones are 0.
  subroutine grow(array, room)
    real(dp), allocatable, intent(inout) :: array(:, :)
    integer, intent(in) :: room
    real(dp), allocatable :: larger(:, :)
    allocate (larger(size(array, 1), room), source=0.0_dp)
    larger(:, :size(array, 2)) = array
    call move_alloc(larger, array)
  end subroutine grow

end module md_atoms
