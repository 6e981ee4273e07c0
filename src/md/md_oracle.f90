! Stored numbers that do not come from the kernel's own tables: the energies of small crystals, to
! judge the potentials' parameters by, and masses and units, to judge the steps by.
!
! The energies are from tests/oracle/md/reference.f90, a program in 113 bits with parameters of its
! own.  Its crystals have displaced atoms, at three lattice constants, so that distances reach into
! every part of a potential, and every parameter matters.
module md_oracle
  use, intrinsic :: iso_c_binding, only: c_int64_t, dp => c_double
  use bx_harness, only: bx_largest
  use md_lattice, only: md_crystal_t, crystals, find_crystal, most_sites, sites_of
  use md_potential, only: most_species, potential_t
  use md_reference, only: reference_energy
  implicit none (type, external)
  private
  public :: charge_of, mass_of, parameters_error, site_energies, site_neighbours

  !> u (A/ps)^2 in eV, as in LAMMPS' metal units.
  real(dp), parameter, public :: oracle_mass_to_energy = 1.0364269e-4_dp

  !> e^2/(4 pi epsilon0) in eV A, likewise.
  real(dp), parameter, public :: oracle_coulomb = 14.399645_dp
  !> eV/K, likewise.
  real(dp), parameter, public :: oracle_boltzmann = 8.617343e-5_dp
  !> Madelung's constant of rock salt, by the distance of neighbours (Y. Sakamoto, J. Chem. Phys.
  !> 28, 164 (1958)).
  real(dp), parameter :: madelung = 1.747564594633182_dp

  type :: element_t
    character(2) :: name = ""
    real(dp) :: mass = 0   !< u
    real(dp) :: charge = 0 !< e, of its ion
  end type element_t

  !> M. E. Wieser and M. Berglund, Atomic weights of the elements 2007, Pure Appl. Chem. 81, 2131
  !> (2009).
  type(element_t), parameter :: elements(*) = [ &
    element_t("C ", 12.0107_dp), element_t("Na", 22.98976928_dp, 1.0_dp), &
    element_t("Si", 28.0855_dp), element_t("Cl", 35.453_dp, -1.0_dp), element_t("Fe", 55.845_dp), &
    element_t("Cu", 63.546_dp), element_t("W ", 183.84_dp), element_t("Au", 196.966569_dp), &
    element_t("O ", 15.9994_dp, -0.8476_dp), element_t("H ", 1.00794_dp, 0.4238_dp)] ! of SPC/E

  !> Distances in SPC/E's water, O, H, H: 1 A, and sqrt(8/3) A between hydrogen atoms.
  real(dp), parameter, public :: oracle_bonds(3, 3) = reshape([0.0_dp, 1.0_dp, 1.0_dp, 1.0_dp, &
    0.0_dp, 1.632993161855452_dp, 1.0_dp, 1.632993161855452_dp, 0.0_dp], [3, 3])

  integer, parameter :: lattices = 3

  !> Energies (eV) of a crystal of `cells` cells along each edge, by its lattice constant (A).
  type :: stored_t
    character(16) :: crystal
    integer :: cells
    real(dp) :: edge(lattices), energy(lattices)
  end type stored_t
  type(stored_t), parameter :: stored(*) = [ &
    stored_t("sic", 3, [2.94_dp, 4.32_dp, 5.4_dp], &
             [1.0168950247099721e4_dp, -1.2352258386769740e3_dp, -5.5182010350170174e2_dp]), &
    stored_t("cu3au", 5, [3.6_dp, 3.74_dp, 3.9_dp], &
             [-1.7329730123462382e3_dp, -1.7999639035723080e3_dp, -1.7689047095405467e3_dp]), &
    stored_t("fe", 6, [2.75_dp, 2.8665_dp, 3.0_dp], &
             [-1.7851940276024234e3_dp, -1.8307259235811923e3_dp, -1.7841031468946555e3_dp]), &
    stored_t("w", 6, [3.05_dp, 3.1652_dp, 3.3_dp], &
             [-3.7421624611378270e3_dp, -3.8182009376088258e3_dp, -3.7312927689362559e3_dp]), &
    stored_t("nacl", 5, [5.2_dp, 5.64_dp, 6.2_dp], & ! without charges
             [9.6565817799470381e2_dp, 4.4699499123147945e2_dp, 1.6213393389683569e2_dp]), &
    stored_t("gramicidin", 3, [6.1_dp, 6.3524_dp, 6.7_dp], & ! likewise
             [7.9820083100513585e1_dp, 4.2731173227454022e1_dp, 1.5704213792958447e1_dp])]

contains

  !> The mass of an element (u); 0 if it is not in the table.
  pure real(dp) function mass_of(name) result(mass)
    character(*), intent(in) :: name
    type(element_t) :: element
    element = element_of(name)
    mass = element%mass
  end function mass_of

  !> The charge of an element's ion (e); 0 of others.
  pure real(dp) function charge_of(name) result(charge)
    character(*), intent(in) :: name
    type(element_t) :: element
    element = element_of(name)
    charge = element%charge
  end function charge_of

  !> The element of a name; one without mass and charge if it is not in the table.
  pure type(element_t) function element_of(name) result(element)
    character(*), intent(in) :: name
    integer :: i
    do i = 1, size(elements)
      if (elements(i)%name == name) element = elements(i)
    end do
  end function element_of

  !> The largest relative error of a potential's energies against the stored ones; huge if none are
  !> stored.
  real(dp) function parameters_error(potential) result(worst)
    type(potential_t), intent(in) :: potential
    type(md_crystal_t) :: crystal
    integer :: i, l
    worst = huge(worst)
    do i = 1, size(stored)
      crystal = crystals(find_crystal(stored(i)%crystal))
      if (all(potential%name /= crystal%species)) cycle
      worst = 0
      do l = 1, lattices
        associate (energy => stored(i)%energy(l))
          worst = max(worst, bx_largest([energy_of_displaced(potential, crystal, &
                                         stored(i)%cells, stored(i)%edge(l)) - energy])/abs(energy))
        end associate
      end do
    end do
  end function parameters_error

  !> Energy (eV) of a crystal whose coordinate c of atom i is displaced by 0.2 (m/2^31 - 1/2) A,
  !> m = (1103515245 (3i + c) + 12345) mod 2^31.  The cutoff is below half the crystal's edge.
  real(dp) function energy_of_displaced(potential, crystal, cells, edge) result(energy)
    type(potential_t), intent(in) :: potential
    type(md_crystal_t), intent(in) :: crystal
    integer, intent(in) :: cells
    real(dp), intent(in) :: edge
    real(dp) :: at(3, most_sites), x(4, crystal%sites*cells**3), near(4, crystal%sites*cells**3)
    real(dp) :: d(3), whole
    integer :: sublattice(most_sites), cell(3), a, b, c, s, i, j, n
    integer(c_int64_t) :: m
    call sites_of(crystal, at, sublattice)
    i = 0
    do a = 0, cells - 1
      do b = 0, cells - 1
        do c = 0, cells - 1
          cell = [a, b, c]
          do s = 1, crystal%sites
            i = i + 1
            do j = 1, 3
              m = mod(1103515245_c_int64_t*(3*i + j) + 12345_c_int64_t, 2147483648_c_int64_t)
              x(j, i) = (cell(j) + at(j, s))*edge + 0.2_dp*(real(m, dp)/2147483648.0_dp - 0.5_dp)
            end do
            x(4, i) = crystal%occupant(sublattice(s))
          end do
        end do
      end do
    end do
    whole = cells*edge
    energy = 0
    do i = 1, size(x, 2)
      n = 0
      do j = 1, size(x, 2)
        if (j == i) cycle
        d = x(1:3, j) - x(1:3, i)
        d = d - whole*anint(d/whole)
        if (sum(d*d) > potential%cutoff**2) cycle
        n = n + 1
        near(:, n) = [d, x(4, j)]
      end do
      energy = energy + reference_energy(potential, nint(x(4, i)), near(:, :n))
    end do
  end function energy_of_displaced

  !> Energies (eV) of the atoms of a perfect crystal, by species: (most_species).  All sites of a
  !> species are equivalent; ions are of rock salt.
  function site_energies(potential, crystal) result(energies)
    type(potential_t), intent(in) :: potential
    type(md_crystal_t), intent(in) :: crystal
    real(dp) :: energies(most_species)
    real(dp), allocatable :: near(:, :)
    integer :: centre, species
    energies = 0
    do centre = 1, crystal%sites
      call find_near(potential, crystal, centre, species, near)
      energies(species) = reference_energy(potential, species, near) &
        - madelung*oracle_coulomb*charge_of(potential%name(species))**2/crystal%edge
    end do
  end function site_energies

  !> Neighbours of the sites of a crystal's cell, within the cutoffs of their pairs.
  integer function site_neighbours(potential, crystal) result(count)
    type(potential_t), intent(in) :: potential
    type(md_crystal_t), intent(in) :: crystal
    real(dp), allocatable :: near(:, :)
    integer :: centre, species, n
    count = 0
    do centre = 1, crystal%sites
      call find_near(potential, crystal, centre, species, near)
      do n = 1, size(near, 2)
        if (norm2(near(1:3, n)) < potential%reach(nint(near(4, n)), species)) count = count + 1
      end do
    end do
  end function site_neighbours

  !> The species of a crystal's site, and the atoms within the cutoff: vectors (A) and species.
  subroutine find_near(potential, crystal, centre, species, near)
    type(potential_t), intent(in) :: potential
    type(md_crystal_t), intent(in) :: crystal
    integer, intent(in) :: centre
    integer, intent(out) :: species
    real(dp), allocatable, intent(out) :: near(:, :)
    real(dp) :: at(3, most_sites), d(3)
    integer :: sublattice(most_sites), cells, a, b, c, s, n
    call sites_of(crystal, at, sublattice)
    species = crystal%occupant(sublattice(centre))
    cells = ceiling(potential%cutoff/crystal%edge) + 1
    allocate (near(4, crystal%sites*(2*cells + 1)**3))
    n = 0
    do a = -cells, cells
      do b = -cells, cells
        do c = -cells, cells
          do s = 1, crystal%sites
            d = ([a, b, c] + at(:, s) - at(:, centre))*crystal%edge
            if (norm2(d) > potential%cutoff .or. (s == centre .and. all([a, b, c] == 0))) cycle
            n = n + 1
            near(:, n) = [d, real(crystal%occupant(sublattice(s)), dp)]
          end do
        end do
      end do
    end do
    near = near(:, :n)
  end subroutine find_near

end module md_oracle
