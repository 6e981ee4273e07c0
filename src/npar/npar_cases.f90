! The cases, sized as the benchmarks of Catlow et al. (2010), and a small sibling of each; the first
! stage of Bethune's GWW calculations (2010); CASTEP's of Ashworth et al. (2004); and the grids and
! boxes that options ask for.
module npar_cases
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use npar_model, only: crystal_t
  implicit none (type, external)
  private
  public :: case_t, cases, find_case, nice_size, number, read_box

  type :: case_t
    character(12) :: name
    character(80) :: summary
    type(crystal_t) :: crystal
  end type case_t

  ! The published inputs give atoms, k-points and functional; bands, plane waves and grids are those
  ! of such systems at usual cutoffs.  Titanium has 18 projectors: two for each of s, p and d.
  ! Oxygen, nitrogen and aluminium have 8.
  type(case_t), parameter :: cases(*) = [ &
    case_t("mini1", "bench1 made small: 16 atoms, 64 bands, gamma point", &
      crystal_t(bands=64, atoms=16, grid=44, box=12.0_dp, cutoff=13.75_dp)), &
    case_t("mini2", "bench2 made small: 2 atoms, 16 bands, hybrid functional", &
      crystal_t(bands=16, atoms=2, grid=28, box=8.0_dp, cutoff=11.2_dp, hybrid=.true.)), &
    case_t("mini3", "bench3 made small: 4 atoms, 24 bands, 10 k-points", &
      crystal_t(bands=24, atoms=4, kpoints=10, grid=28, box=8.0_dp, cutoff=15.2_dp, &
                gamma=.false.)), &
    case_t("mini4", "bench4 made small: 1 atom, 8 bands, 108 k-points", &
      crystal_t(bands=8, atoms=1, kpoints=108, grid=28, box=8.0_dp, cutoff=15.2_dp, &
                gamma=.false.)), &
    case_t("mini5", "bench5 made small: 30 atoms, 96 bands, flat box, gamma point", &
      crystal_t(bands=96, atoms=30, grid=[54, 54, 36], box=[17.0_dp, 17.0_dp, 11.0_dp], &
                cutoff=10.8_dp, channels=[18, 8], formula=3)), &
    case_t("bench1", "64 atoms, 320 bands, 13.8 thousand plane waves, gamma point", &
      crystal_t(bands=320, atoms=64, grid=64, box=21.7_dp, cutoff=14.73_dp)), &
    case_t("bench2", "as bench1, with exact exchange (hybrid functional)", &
      crystal_t(bands=320, atoms=64, grid=64, box=21.7_dp, cutoff=14.73_dp, hybrid=.true.)), &
    case_t("bench3", "32 atoms, 192 bands, 4.2 thousand plane waves, 10 k-points", &
      crystal_t(bands=192, atoms=32, kpoints=10, grid=40, box=14.0_dp, cutoff=10.1_dp, &
                gamma=.false.)), &
    case_t("bench4", "as bench3, with 108 k-points", &
      crystal_t(bands=192, atoms=32, kpoints=108, grid=40, box=14.0_dp, cutoff=10.1_dp, &
                gamma=.false.)), &
    case_t("bench5", "750 atoms, 2400 bands, 142 thousand plane waves, gamma point", &
      crystal_t(bands=2400, atoms=750, grid=[150, 150, 98], box=[43.4_dp, 43.4_dp, 28.0_dp], &
                cutoff=23.3_dp, channels=[18, 8], formula=3)), &
    ! Grids, atoms and edges are Bethune's (sections 1.4, 4, 5.1).  Bands: one for each two of four
    ! valence electrons an atom.  Cutoff: the grid holds the products of waves.  All ranks share a
    ! transform.
    case_t("cnt40-scf", "GWW's exc_scf for a nanotube of 16 atoms: 30^3 points, one team", &
      crystal_t(bands=32, atoms=16, grid=30, box=16.06_dp, cutoff=3.75_dp, npar=1)), &
    case_t("silicon-scf", "GWW's exc_scf for silicon, 64 atoms: 90^3 points, one team", &
      crystal_t(bands=128, atoms=64, grid=90, box=38.74_dp, cutoff=6.37_dp, npar=1)), &
    case_t("cnt80-scf", "GWW's exc_scf for a nanotube of 96 atoms: 81^3 points, one team", &
      crystal_t(bands=192, atoms=96, grid=81, box=45.92_dp, cutoff=3.75_dp, npar=1)), &
    ! A sample of its pairs of bands: all take the same time.
    case_t("cnt80-nscf2", "GWW's exc_nscf2: exact exchange for the nanotube of cnt80-scf", &
      crystal_t(bands=14, atoms=1, grid=81, box=45.92_dp, cutoff=3.75_dp, npar=1, hybrid=.true., &
                exchange_alone=.true.)), &
    case_t("cnt40-nscf2", "the same exchange for the nanotube of cnt40-scf: small", &
      crystal_t(bands=14, atoms=1, grid=30, box=16.06_dp, cutoff=3.75_dp, npar=1, hybrid=.true., &
                exchange_alone=.true.)), &
    ! Atoms, k-points and grids are Ashworth et al.'s (2004, section 3.2), edges those of sapphire
    ! and of a slab of titanium nitride.  TiN-8k had one k-point on each eighth of the processors.
    case_t("al2o3-g", "CASTEP's Al2O3-G: 120 atoms, 60 x 60 x 160 points, 5 k-points, one team", &
      crystal_t(bands=288, atoms=120, kpoints=5, grid=[60, 60, 160], &
                box=[18.0_dp, 18.0_dp, 48.0_dp], cutoff=11.9_dp, gamma=.false., npar=1, &
                channels=[8, 8])), &
    case_t("tin-8k", "a k-point of CASTEP's TiN-8k: 33 atoms, 108 x 36 x 36 points, one team", &
      crystal_t(bands=88, atoms=33, grid=[108, 36, 36], box=[34.0_dp, 11.33_dp, 11.33_dp], &
                cutoff=9.8_dp, gamma=.false., npar=1, channels=[18, 8], formula=2))]

contains

  !> The crystal of a case; empty for an unknown name.
  pure type(crystal_t) function find_case(name) result(crystal)
    character(*), intent(in) :: name
    integer :: i
    do i = 1, size(cases)
      if (cases(i)%name == name) crystal = cases(i)%crystal
    end do
  end function find_case

  !> The smallest FFT size from n on that has no prime factor over 7.
  elemental function nice_size(n) result(size_)
    integer, intent(in) :: n
    integer :: size_, rest, i
    integer, parameter :: factors(4) = [2, 3, 5, 7]
    size_ = max(1, n)
    do
      rest = size_
      do i = 1, 4
        do while (mod(rest, factors(i)) == 0)
          rest = rest/factors(i)
        end do
      end do
      if (rest == 1) return
      size_ = size_ + 1
    end do
  end function nice_size

  !> "L" or "LX,LY,LZ" in bohr; zero if it is neither.
  function read_box(text) result(box)
    character(*), intent(in) :: text
    real(dp) :: box(3)
    integer :: commas, i, status
    commas = count([(text(i:i) == ",", i=1, len(text))])
    box = 0
    if (verify(text, "0123456789.,eE+-") > 0) return
    if (commas == 0) then
      read (text, *, iostat=status) box(1)
      box = box(1)
    else if (commas == 2) then
      read (text, *, iostat=status) box
    else
      return
    end if
    if (status /= 0 .or. .not. all(box > 0 .and. box < 1e4_dp)) box = 0
  end function read_box

  !> A number as a user writes it: 13.75, 0.5, 1E+06.
  pure function number(x) result(text)
    real(dp), intent(in) :: x
    character(:), allocatable :: text
    character(32) :: digits
    integer :: power
    power = 0
    if (abs(x) >= 1e6_dp .or. abs(x) < 1e-4_dp) power = floor(log10(max(abs(x), tiny(x))))
    if (.not. abs(x) > 0) power = 0
    write (digits, "(f0.6)") x/10.0_dp**power
    text = digits(:verify(trim(digits), "0", back=.true.))
    if (text(1:1) == ".") text = "0"//text
    if (text(len(text):) == ".") text = text(:len(text) - 1)
    if (power == 0) return
    write (digits, "(sp, i0.2)") power
    text = text//"E"//trim(digits)
  end function number

end module npar_cases
