! Crystals, and velocities to start with.
module md_lattice
  use, intrinsic :: iso_c_binding, only: c_int64_t, dp => c_double
  use mpi_f08, only: MPI_Allreduce, MPI_Comm, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, MPI_SUM
  use bx_harness, only: bx_uniform
  use md_atoms, only: atoms_t, box_t, make_box, reserve
  use md_domain, only: domain_t, home_of
  use md_potential, only: boltzmann, mass_to_energy, potential_t, water_sites
  implicit none (type, external)
  private
  public :: md_crystal_t, crystals, find_crystal, crystal_box, crystal_atoms, fill_crystal, &
    sites_of, warm_up

  integer, parameter, public :: most_sites = 24

  !> A crystal of cubic cells: relaxed edge (A), sites of a cell, cells along each edge of the box.
  type :: md_crystal_t
    character(16) :: name = ""
    character(60) :: summary = ""
    character(2) :: species = "" !< one of the potential's
    real(dp) :: edge = 0
    integer :: sites = 0, cells = 0
    integer :: structure = 0
    integer :: occupant(2) = 1 !< of the first sublattice and of the second
  end type md_crystal_t

  integer, parameter :: zincblende = 1, fcc = 2, bcc = 3, rock_salt = 4, ice = 5

  !> Tests 10, 20 and 30 of DL_POLY 3, smaller ones of their kind, and their elements.
  type(md_crystal_t), parameter :: crystals(*) = [ &
    md_crystal_t("sic", "74088 atoms of SiC, Tersoff", "Si", 4.32106_dp, 8, 21, zincblende, &
              [1, 2]), &
    md_crystal_t("cu3au", "32000 atoms of Cu3Au, Gupta", "Cu", 3.74422_dp, 4, 20, fcc, [2, 1]), &
    md_crystal_t("fe", "31250 atoms of iron, Finnis-Sinclair", "Fe", 2.86650_dp, 2, 25, bcc), &
    md_crystal_t("test10", "343000 atoms of SiC: DL_POLY's test 10", "Si", 4.32106_dp, 8, 35, &
              zincblende, [1, 2]), &
    md_crystal_t("test20", "256000 atoms of Cu3Au: DL_POLY's test 20", "Cu", 3.74422_dp, 4, 40, &
              fcc, [2, 1]), &
    md_crystal_t("test30", "250000 atoms of iron: DL_POLY's test 30", "Fe", 2.86650_dp, 2, 50, &
              bcc), &
    md_crystal_t("w", "31250 atoms of W, extended Finnis-Sinclair", "W ", 3.16_dp, 2, 25, bcc), &
    md_crystal_t("si", "silicon, Tersoff", "Si", 5.43201_dp, 8, 12, zincblende, [1, 1]), &
    md_crystal_t("cu", "copper, Gupta", "Cu", 3.61468_dp, 4, 16, fcc, [1, 1]), &
    md_crystal_t("au", "gold, Gupta", "Cu", 4.0786_dp, 4, 16, fcc, [2, 2]), &
    md_crystal_t("nacl", "27000 ions of NaCl, particle mesh Ewald", "Na", 5.64_dp, 8, 15, &
              rock_salt, [1, 2]), &
    md_crystal_t("nacl-mini", "1728 ions of NaCl", "Na", 5.64_dp, 8, 6, rock_salt, [1, 2]), &
    md_crystal_t("nacl-216k", "216000 ions of NaCl, as on HPCx", "Na", 5.64_dp, 8, 30, rock_salt, &
              [1, 2]), &
    md_crystal_t("gramicidin", "98304 atoms of rigid water, SHAKE", "O", 6.3524_dp, 24, 16, ice, &
              [1, 2]), &
    md_crystal_t("gramicidin-mini", "1536 atoms of rigid water, SHAKE", "O", 6.3524_dp, 24, 4, &
              ice, [1, 2])]

contains

  !> Place of a crystal in the table; 0 of an unknown name.
  pure integer function find_crystal(name) result(number)
    character(*), intent(in) :: name
    do number = size(crystals), 1, -1
      if (crystals(number)%name == name) return
    end do
  end function find_crystal

  !> The box of `cells` cells along each edge.
  pure type(box_t) function crystal_box(crystal, cells) result(box)
    type(md_crystal_t), intent(in) :: crystal
    integer, intent(in) :: cells
    real(dp) :: edge(3, 3)
    integer :: d
    edge = 0
    do d = 1, 3
      edge(d, d) = cells*crystal%edge
    end do
    box = make_box(edge)
  end function crystal_box

  !> Number of atoms of `cells` cells along each edge.
  pure integer(c_int64_t) function crystal_atoms(crystal, cells) result(count)
    type(md_crystal_t), intent(in) :: crystal
    integer, intent(in) :: cells
    count = crystal%sites*int(cells, c_int64_t)**3
  end function crystal_atoms

  !> Sites of the cubic cell, and the sublattice of each, 1 or 2.
  pure subroutine sites_of(crystal, at, sublattice)
    type(md_crystal_t), intent(in) :: crystal
    real(dp), intent(out) :: at(3, most_sites) !< in fractions of the cell
    integer, intent(out) :: sublattice(most_sites)
    at = 0
    sublattice = 2
    select case (crystal%structure)
    case (bcc)
      at(:, 2) = 0.5_dp
      sublattice(:2) = 1
    case (ice)
      call sites_of_ice(crystal%edge, at, sublattice)
    case default
      at(:, 2) = [0.0_dp, 0.5_dp, 0.5_dp]
      at(:, 3) = [0.5_dp, 0.0_dp, 0.5_dp]
      at(:, 4) = [0.5_dp, 0.5_dp, 0.0_dp]
      sublattice(1) = 1 ! the corner, of L1_2
      if (crystal%structure == zincblende .or. crystal%structure == rock_salt) then
        at(:, 5:8) = at(:, 1:4) + merge(0.25_dp, 0.5_dp, crystal%structure == zincblende)
        where (at >= 1) at = at - 1
        sublattice(:4) = 1
      end if
    end select
  end subroutine sites_of

  !> Cubic ice: oxygen as carbon in diamond, each with two hydrogen atoms on the lines to its four
  !> neighbours, one on a line (J. D. Bernal and R. H. Fowler, J. Chem. Phys. 1, 515 (1933)), so
  !> that the cell has no dipole.
  pure subroutine sites_of_ice(edge, at, sublattice)
    real(dp), intent(in) :: edge !< A
    real(dp), intent(out) :: at(3, most_sites) !< in fractions of the cell
    integer, intent(out) :: sublattice(most_sites)
    !> Of each two molecules: the axis of symmetry, and sqrt(2) of the direction from H to H.
    real(dp), parameter :: axis(3, 4) = reshape(real([0, 1, 0, 0, -1, 0, 0, 0, 1, 0, 0, -1], dp), &
                                                [3, 4])
    real(dp), parameter :: across(3, 4) = reshape(real([1, 0, 1, 1, 0, -1, 1, -1, 0, 1, 1, 0], &
                                                       dp), [3, 4])
    real(dp), parameter :: oxygen(3, 8) = 0.25_dp*reshape(real([0, 0, 0, 0, 2, 2, 2, 0, 2, &
      2, 2, 0, 1, 1, 1, 1, 3, 3, 3, 1, 3, 3, 3, 1], dp), [3, 8])
    integer :: m, pair
    do m = 1, 8
      pair = (m + 1)/2
      at(:, 3*m - 2:3*m) = water_sites(axis(:, pair), across(:, pair)/sqrt(2.0_dp))/edge &
                           + spread(oxygen(:, m), 2, 3)
    end do
    sublattice = 2
    sublattice(1::3) = 1
  end subroutine sites_of_ice

  !> This rank's atoms of `cells` cells along each edge, at rest.  Ids are in the order of cells (z
  !> fastest) and sites.
  subroutine fill_crystal(crystal, cells, box, domain, atoms)
    type(md_crystal_t), intent(in) :: crystal
    integer, intent(in) :: cells
    type(box_t), intent(in) :: box
    type(domain_t), intent(in) :: domain
    type(atoms_t), intent(inout) :: atoms
    real(dp) :: at(3, most_sites), s(3)
    integer :: sublattice(most_sites), x, y, z, k, low(3), high(3)
    integer(c_int64_t) :: id
    call sites_of(crystal, at, sublattice)
    low = max(0, floor(domain%low*cells) - 1)
    high = min(cells - 1, ceiling(domain%high*cells))
    atoms%own = 0
    call reserve(atoms, product(high - low + 1)*crystal%sites)
    do x = low(1), high(1)
      do y = low(2), high(2)
        do z = low(3), high(3)
          do k = 1, crystal%sites
            s = (real([x, y, z], dp) + at(:, k))/cells
            if (any(home_of(domain, s) /= domain%at)) cycle
            id = ((int(x, c_int64_t)*cells + y)*cells + z)*crystal%sites + k
            atoms%own = atoms%own + 1
            atoms%x(1:3, atoms%own) = matmul(box%edge, s)
            atoms%x(4, atoms%own) = 0
            atoms%id(atoms%own) = id
            atoms%image(:, atoms%own) = 0
            atoms%species(atoms%own) = crystal%occupant(sublattice(k))
          end do
        end do
      end do
    end do
    atoms%all = atoms%own
  end subroutine fill_crystal

  !> Gives the atoms velocities of exactly `temperature` (K), without total momentum.  An atom has
  !> the same velocity in every layout but for the last digits.  Collective.
  subroutine warm_up(comm, potential, seed, temperature, total, atoms)
    type(MPI_Comm), intent(in) :: comm
    type(potential_t), intent(in) :: potential
    integer(c_int64_t), intent(in) :: seed, total !< total: atoms of all ranks
    real(dp), intent(in) :: temperature
    type(atoms_t), intent(inout) :: atoms
    real(dp) :: sums(4), energy, m
    integer :: k, c
    sums = 0
    do k = 1, atoms%own
      m = potential%mass(atoms%species(k))
      do c = 1, 3
        atoms%v(c, k) = normal(seed, 3*atoms%id(k) + c)/sqrt(m)
      end do
      sums = sums + [m*atoms%v(:, k), m]
    end do
    call MPI_Allreduce(MPI_IN_PLACE, sums, 4, MPI_DOUBLE_PRECISION, MPI_SUM, comm)
    energy = 0
    do k = 1, atoms%own
      atoms%v(:, k) = atoms%v(:, k) - sums(1:3)/sums(4)
      energy = energy + potential%mass(atoms%species(k))*sum(atoms%v(:, k)**2)
    end do
    call MPI_Allreduce(MPI_IN_PLACE, energy, 1, MPI_DOUBLE_PRECISION, MPI_SUM, comm)
    energy = energy*mass_to_energy
    if (energy > 0) then
      atoms%v(:, :atoms%own) = atoms%v(:, :atoms%own) &
        *sqrt(3*real(total - 1, dp)*boltzmann*temperature/energy)
    end if
  end subroutine warm_up

  !> A nearly normal number of variance 1: a sum of twelve uniform ones.
  real(dp) function normal(seed, index)
    integer(c_int64_t), intent(in) :: seed, index
    integer :: i
    normal = 0
    do i = 1, 12
      normal = normal + 0.5_dp*bx_uniform(seed, 12*index + i)
    end do
  end function normal

end module md_lattice
