! Units, and the potentials and their parameters.
!
! Units: angstrom, electronvolt, picosecond, atomic mass unit, kelvin (LAMMPS' "metal", whose
! constants these are, so that trajectories can be compared digit by digit).
!
! Tersoff: J. Tersoff, Phys. Rev. B 39, 5566 (1989).  Gupta: F. Cleri and V. Rosato, Phys. Rev. B
! 48, 22 (1993).  Finnis-Sinclair: M. W. Finnis and J. E. Sinclair, Phil. Mag. A 50, 45 (1984), with
! the parameters of the erratum, 53, 161 (1986).  Extended Finnis-Sinclair: X. D. Dai, Y. Kong,
! J. H. Li and B. X. Liu, J. Phys.: Condens. Matter 18, 4527 (2006).  Rock salt: M. P. Tosi and F.
! G. Fumi, J. Phys. Chem. Solids 25, 45 (1964).  Water: H. J. C. Berendsen, J. R. Grigera and T. P.
! Straatsma, J. Phys. Chem. 91, 6269 (1987).
module md_potential
  use, intrinsic :: iso_c_binding, only: dp => c_double
  implicit none (type, external)
  private
  public :: potential_t, find_potential, is_rigid, species_list, set_tersoff_pairs, water_sites

  integer, parameter, public :: tersoff_kind = 1, gupta_kind = 2, finnis_sinclair_kind = 3, &
    ionic_kind = 4
  integer, parameter, public :: most_species = 2

  integer, parameter, public :: most_molecule = 3 !< sites of a rigid molecule

  !> A potential of up to two species.  A pair of species a and b is of kind a + b - 2: 0, 1 or 2.
  type :: potential_t
    integer :: kind = 0
    integer :: species = 0
    character(2) :: name(most_species) = ""
    real(dp) :: mass(most_species) = 0 !< u
    real(dp) :: cutoff = 0             !< the longest: A
    real(dp) :: skin = 0.5_dp          !< the fastest at room temperature: A
    !> Time step (fs) and temperature (K) beyond which steps do not keep the energy, or atoms come
    !> closer than the potential goes: of 1,500 steps from 300 to 10,000 K.
    real(dp) :: longest = 8, hottest = huge(1.0_dp)
    real(dp) :: reach(most_species, most_species) = 0 !< cutoff of a pair: A

    !> Gupta, by kind of pair: repulsion exp(log_a - b r), density exp(log_c - e r): eV, eV^2, A.
    real(dp) :: log_a(0:2) = 0, b(0:2) = 0, log_c(0:2) = 0, e(0:2) = 0

    !> Finnis-Sinclair: V = (r-c)^2 (c0 + c1 r + ... + c4 r^4), density (r-d)^2 + beta (r-d)^3 / d +
    !> b4 (r-d)^4, embedding -scale sqrt(density).
    real(dp) :: c = 0, coefficient(0:4) = 0, d = 0, beta = 0, b4 = 0
    real(dp) :: scale = 1 !< eV/A; 1 eV for Gupta, whose density carries it
    !> Below this distance a pair's density is negative: A.
    real(dp) :: closest = 0

    !> Ions: charges (e); by kind of pair, repulsion log_a and b as of Gupta, dispersion
    !> -c6/r^6 - d8/r^8 (eV, A); of Ewald's sum, the splitting parameter (1/A) and the largest
    !> spacing of the mesh (A).
    real(dp) :: charge(most_species) = 0, c6(0:2) = 0, d8(0:2) = 0, splitting = 0, spacing = 0

    !> Rigid molecules: sites of each, whose ids follow each other (1: atoms alone), and the
    !> distances between them (A).
    integer :: sites = 1
    real(dp) :: bond(most_molecule, most_molecule) = 0

    !> Tersoff: of the centre's species; of pairs.
    real(dp), dimension(most_species) :: beta_n = 0, n = 0, c2 = 0, d2 = 0, h = 0
    real(dp), dimension(most_species, most_species) :: repulsion = 0, attraction = 0, &
      lambda = 0, mu = 0, inner = 0, outer = 0
  end type potential_t

  type :: tersoff_species_t
    character(2) :: name
    real(dp) :: mass, a, b, lambda, mu, beta, n, c, d, h, r, s
  end type tersoff_species_t

  type(tersoff_species_t), parameter :: tersoff_species(*) = [ &
    tersoff_species_t("Si", 28.0855_dp, 1830.8_dp, 471.18_dp, 2.4799_dp, 1.7322_dp, 1.1e-6_dp, &
                      0.78734_dp, 1.0039e5_dp, 16.217_dp, -0.59825_dp, 2.7_dp, 3.0_dp), &
    tersoff_species_t("C ", 12.0107_dp, 1393.6_dp, 346.74_dp, 3.4879_dp, 2.2119_dp, 1.5724e-7_dp, &
                      0.72751_dp, 3.8049e4_dp, 4.3484_dp, -0.57058_dp, 1.8_dp, 2.1_dp)]
  real(dp), parameter :: chi_sic = 0.9776_dp

  !> Known sets, and the species of each in the order of its type numbers.
  character(*), parameter :: known(*) = [character(12) :: "Si,C", "Cu,Au", "Fe", "W", "Na,Cl"]

  real(dp), parameter, public :: mass_to_energy = 1.0364269e-4_dp !< u (A/ps)^2 in eV
  real(dp), parameter, public :: boltzmann = 8.617343e-5_dp       !< eV/K
  real(dp), parameter, public :: coulomb = 14.399645_dp           !< e^2/(4 pi epsilon0): eV A
  real(dp), parameter, public :: gigapascal = 160.21765_dp        !< in one eV/A^3

contains

  !> The sets of species that have a potential, for messages.
  pure function species_list() result(text)
    character(:), allocatable :: text
    integer :: i
    text = trim(known(1))
    do i = 2, size(known)
      text = text//"; "//trim(known(i))
    end do
  end function species_list

  !> The potential that has this species; its kind is 0 if none has.
  pure type(potential_t) function find_potential(species) result(potential)
    character(*), intent(in) :: species
    select case (species)
    case ("Si", "C")
      potential = tersoff_sic()
    case ("Cu", "Au")
      potential = gupta_cuau()
    case ("Fe") ! the erratum's
      potential = finnis_sinclair("Fe", 55.845_dp, 1.828905_dp, 3.569745_dp, 1.8_dp, 0.0_dp, &
                                  3.40_dp, [1.2371147_dp, -0.3592185_dp, -0.0385607_dp, 0.0_dp, &
                                            0.0_dp])
    case ("W") ! of the extended form
      potential = finnis_sinclair("W ", 183.84_dp, 1.885948_dp, 4.41_dp, 0.0_dp, 0.0_dp, 3.25_dp, &
                                  [48.52796_dp, -33.79621_dp, 5.854334_dp, -0.0098221_dp, &
                                   0.033338_dp])
    case ("Na", "Cl")
      potential = tosi_fumi_nacl()
    case ("O", "H")
      potential = water()
    case default
      continue
    end select
  end function find_potential

  !> Silicon and carbon (Tersoff 1989, table I).
  pure type(potential_t) function tersoff_sic() result(p)
    p%kind = tersoff_kind
    p%skin = 0.7_dp
    p%longest = 1
    p%species = size(tersoff_species)
    p%name = tersoff_species%name
    p%mass = tersoff_species%mass
    p%beta_n = tersoff_species%beta
    p%n = tersoff_species%n
    p%c2 = tersoff_species%c**2
    p%d2 = tersoff_species%d**2
    p%h = tersoff_species%h
    call set_tersoff_pairs(p, reshape([1.0_dp, chi_sic, chi_sic, 1.0_dp], [2, 2]))
  end function tersoff_sic

  !> Sets the parameters of pairs: exponents mix arithmetically, the others geometrically, and the
  !> attraction has the factor chi(a, b) of the pair (Tersoff 1989, equation 2).
  pure subroutine set_tersoff_pairs(p, chi)
    type(potential_t), intent(inout) :: p
    real(dp), intent(in) :: chi(:, :)
    type(tersoff_species_t) :: a, b
    integer :: i, j
    do j = 1, p%species
      do i = 1, p%species
        a = tersoff_species(i)
        b = tersoff_species(j)
        p%repulsion(i, j) = sqrt(a%a*b%a)
        p%attraction(i, j) = chi(i, j)*sqrt(a%b*b%b)
        p%lambda(i, j) = 0.5_dp*(a%lambda + b%lambda)
        p%mu(i, j) = 0.5_dp*(a%mu + b%mu)
        p%inner(i, j) = sqrt(a%r*b%r)
        p%outer(i, j) = sqrt(a%s*b%s)
      end do
    end do
    p%reach = p%outer
    p%cutoff = maxval(p%outer)
  end subroutine set_tersoff_pairs

  !> Copper and gold (Cleri and Rosato 1993), cut sharply between the fifth and the sixth
  !> shell of an fcc crystal.
  pure type(potential_t) function gupta_cuau() result(p)
    real(dp), parameter :: &
      a(0:2) = [0.0855_dp, 0.1539_dp, 0.2061_dp], xi(0:2) = [1.224_dp, 1.5605_dp, 1.790_dp], &
      p_(0:2) = [10.960_dp, 11.05_dp, 10.229_dp], q(0:2) = [2.278_dp, 3.0475_dp, 4.036_dp], &
      r0(0:2) = [2.556_dp, 2.65_dp, 2.884_dp]
    p%kind = gupta_kind
    p%species = 2
    p%name = [character(2) :: "Cu", "Au"]
    p%mass = [63.546_dp, 196.966569_dp]
    p%cutoff = 6.2_dp
    p%reach = p%cutoff
    p%log_a = log(2*a) + p_
    p%b = p_/r0
    p%log_c = 2*(log(xi) + q)
    p%e = 2*q/r0
  end function gupta_cuau

  !> One metal: mass (u), scale (eV/A), ranges d and c (A), density beta and b, V's coefficients.
  pure function finnis_sinclair(name, mass, scale, d, beta, b, c, coefficient) result(p)
    character(2), intent(in) :: name
    real(dp), intent(in) :: mass, scale, d, beta, b, c, coefficient(0:4)
    type(potential_t) :: p
    p%kind = finnis_sinclair_kind
    p%species = 1
    p%name(1) = name
    p%mass(1) = mass
    p%scale = scale
    p%d = d
    p%beta = beta
    p%b4 = b**2
    p%c = c
    p%coefficient = coefficient
    p%cutoff = max(c, d)
    p%reach = p%cutoff
    p%skin = 0.3_dp
    if (beta > 0) then
      p%closest = d*(beta - 1)/beta
      p%hottest = 3000
    end if
  end function finnis_sinclair

  !> Sodium chloride: charges, and the rigid ions of Tosi and Fumi (1964), whose repulsion is
  !> b (1 + z/8 + z'/8) exp((s + s' - r)/rho), z the charges, both ions with eight outer electrons.
  !> Short-range terms are cut sharply at the cutoff of Ewald's sum in real space.
  pure type(potential_t) function tosi_fumi_nacl() result(p)
    real(dp), parameter :: joule = 1/1.602176634e-19_dp !< eV
    real(dp), parameter :: b = 0.338e-19_dp*joule, rho = 0.317_dp !< eV, A
    real(dp), parameter :: pauling(0:2) = [1.25_dp, 1.0_dp, 0.75_dp]
    real(dp), parameter :: radii(0:2) = [2.340_dp, 2.755_dp, 3.170_dp] !< A
    p%kind = ionic_kind
    p%species = 2
    p%name = [character(2) :: "Na", "Cl"]
    p%mass = [22.98976928_dp, 35.453_dp]
    p%charge = [1.0_dp, -1.0_dp]
    p%cutoff = 10.9_dp
    p%reach = p%cutoff
    p%splitting = 3.5_dp/p%cutoff
    p%spacing = 1.5_dp
    p%log_a = log(b*pauling) + radii/rho
    p%b = 1/rho
    p%c6 = [1.68e-19_dp, 11.2e-19_dp, 116e-19_dp]*joule ! 1e-79 J m^6 is 1e-19 J A^6
    p%d8 = [0.8e-19_dp, 13.9e-19_dp, 233e-19_dp]*joule
  end function tosi_fumi_nacl

  !> Whether atoms are in rigid molecules.
  pure logical function is_rigid(potential)
    type(potential_t), intent(in) :: potential
    is_rigid = potential%sites > 1
  end function is_rigid

  !> Rigid water: charges and shape of SPC/E (Berendsen et al. 1987).  Its 12-6 potential between
  !> oxygen atoms is an exp-6 potential here, of the same well and distance, so that one loop over
  !> pairs serves all ions: u(r) = e/(s - 6) (6 exp(s (1 - r/d)) - s (d/r)^6).
  pure type(potential_t) function water() result(p)
    real(dp), parameter :: well = 0.650_dp/96.48533212_dp      !< eV: kJ/mol over Faraday's constant
    real(dp), parameter :: distance = 3.166_dp*2**(1/6.0_dp)   !< A
    real(dp), parameter :: steepness = 16
    real(dp), parameter :: vanishing = -500 !< log(eV), of pairs with hydrogen
    real(dp) :: at(3, most_molecule)
    integer :: i, j
    p%kind = ionic_kind
    p%species = 2
    p%name = [character(2) :: "O", "H"]
    p%mass = [15.9994_dp, 1.00794_dp]
    p%charge = [-0.8476_dp, 0.4238_dp]
    p%cutoff = 9
    p%reach = p%cutoff
    p%splitting = 3.5_dp/p%cutoff
    p%spacing = 1
    p%longest = 4
    p%log_a = vanishing
    p%log_a(0) = log(6*well/(steepness - 6)) + steepness
    p%b = steepness/distance
    p%c6(0) = steepness*well/(steepness - 6)*distance**6
    p%sites = 3
    at = water_sites([1.0_dp, 0.0_dp, 0.0_dp], [0.0_dp, 1.0_dp, 0.0_dp])
    do j = 1, p%sites
      do i = 1, p%sites
        p%bond(i, j) = norm2(at(:, i) - at(:, j))
      end do
    end do
  end function water

  !> The places (A) of a water molecule's atoms from its oxygen: O, H, H.  Bonds of 1 A, at the
  !> angle of a tetrahedron.
  pure function water_sites(axis, across) result(at)
    real(dp), intent(in) :: axis(3)   !< of symmetry: a unit vector
    real(dp), intent(in) :: across(3) !< in the plane of the atoms, normal to the axis: likewise
    real(dp) :: at(3, most_molecule)
    real(dp), parameter :: half_angle = 0.5_dp*acos(-1/3.0_dp), bond = 1 !< A
    at(:, 1) = 0
    at(:, 2) = bond*(cos(half_angle)*axis + sin(half_angle)*across)
    at(:, 3) = bond*(cos(half_angle)*axis - sin(half_angle)*across)
  end function water_sites

end module md_potential
