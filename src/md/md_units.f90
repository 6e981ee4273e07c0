! Units: angstrom, electronvolt, picosecond, atomic mass unit, kelvin (LAMMPS' "metal", whose
! constants these are, so that trajectories can be compared digit by digit).
module md_units
  use, intrinsic :: iso_c_binding, only: dp => c_double
  implicit none (type, external)
  private

  real(dp), parameter, public :: mass_to_energy = 1.0364269e-4_dp !< u (A/ps)^2 in eV
  real(dp), parameter, public :: boltzmann = 8.617343e-5_dp       !< eV/K
  real(dp), parameter, public :: coulomb = 14.399645_dp           !< e^2/(4 pi epsilon0): eV A
  real(dp), parameter, public :: gigapascal = 160.21765_dp        !< in one eV/A^3

end module md_units
