! Coulomb forces and energies of single ions, as references for md_ionic, md_mesh, md_regrid and the
! FFTs: the sums that define the smooth particle mesh, with splines by their explicit form and
! Fourier sums term by term (U. Essmann et al., J. Chem. Phys. 103, 8577 (1995), equations 2.1 and
! 4.1 to 4.7).
!
! Frequencies come in planes of one frequency along the first direction.  All ranks add their ions
! to a plane, and share out the planes.  The sums are real, so that half of the planes will do.
module md_spme
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use mpi_f08, only: MPI_Allreduce, MPI_DOUBLE_PRECISION, MPI_IN_PLACE, MPI_SUM
  use md_oracle, only: charge_of, oracle_coulomb
  use md_reference, only: gather_near, sample_t
  use md_system, only: system_t
  implicit none (type, external)
  private
  public :: spme_sum

  real(dp), parameter :: pi = acos(-1.0_dp)
  integer, parameter :: order = 8 !< of the splines
  real(dp), parameter :: tiny_step = 1e-40_dp !< of a complex step, whose derivative loses no digits

  !> An ion's charge (e), and the points that it spreads to: first(d) .. first(d) + order - 1, from
  !> 0, with the splines there.
  type :: ion_t
    real(dp) :: charge = 0
    integer :: first(3) = 0
    real(dp) :: beyond(3) = 0       !< from the last of these points: points
    real(dp) :: value(order, 3) = 0
  end type ion_t

  !> What the frequencies of a direction have: exp(-2 pi i k x/points), |b|^2 (equation 4.4).
  type :: direction_t
    integer :: points = 0
    complex(dp), allocatable :: wave(:, :) !< (0:points-1, 0:points-1): (k, x)
    real(dp), allocatable :: damping(:)    !< (0:points-1)
  end type direction_t

  !> Fourier sums of a sample's splines along a direction: plain, and with one slope.
  type :: md_line_t
    complex(dp), allocatable :: value(:, :), slope(:, :) !< (0:points-1, samples)
  end type md_line_t

contains

  !> Forces (eV/A) and energies (eV) of the samples by the ions within the cutoff, screened by
  !> Gaussians, less the energy of each with its own: sums(4, samples), on every rank.  Collective.
  subroutine near_sum(system, samples, sums)
    type(system_t), intent(in) :: system
    type(sample_t), intent(in) :: samples(:)
    real(dp), intent(out) :: sums(4, size(samples))
    real(dp), allocatable :: near(:, :) !< their ions: x(3) - x of the sample (A), species
    real(dp) :: q, pair, r
    integer :: s, k, root
    sums = 0
    do s = 1, size(samples)
      root = mod(s, system%domain%world_size)
      call gather_near(system, samples(s)%x, system%potential%cutoff, root, near)
      if (root /= system%domain%world_rank) cycle
      q = charge_of(system%potential%name(samples(s)%species))
      associate (split => system%potential%splitting)
        do k = 1, size(near, 2)
          r = norm2(near(1:3, k))
          pair = oracle_coulomb*q*charge_of(system%potential%name(nint(near(4, k))))
          sums(:3, s) = sums(:3, s) - pair*near(1:3, k)/r**3 &
                        *(erfc(split*r) + 2*split*r/sqrt(pi)*exp(-(split*r)**2))
          sums(4, s) = sums(4, s) + 0.5_dp*pair*erfc(split*r)/r
        end do
        sums(4, s) = sums(4, s) - oracle_coulomb*q**2*split/sqrt(pi)
      end associate
    end do
    call MPI_Allreduce(MPI_IN_PLACE, sums, size(sums), MPI_DOUBLE_PRECISION, MPI_SUM, &
                       system%domain%world)
  end subroutine near_sum

  !> Forces (eV/A, (3, samples)), but for a vector that all ions share, and energies (eV) of the
  !> samples by the charges of all other ions; `virial` (eV) is the sum of x f over all ions by the
  !> mesh alone, as the mesh's energy has it when all lengths grow.  On every rank.  Collective.
  subroutine spme_sum(system, samples, force, energy, virial)
    type(system_t), intent(in) :: system
    type(sample_t), intent(in) :: samples(:)
    real(dp), intent(out) :: force(3, size(samples)), energy(size(samples)), virial
    type(direction_t) :: along(3)
    type(ion_t) :: ion
    type(md_line_t) :: lines(3)
    real(dp) :: slope(order), near(4, size(samples)), felt(0:3, size(samples))
    integer :: d, s, k
    do d = 1, 3
      along(d) = direction_of(system%mesh%grid(d))
      allocate (lines(d)%value(0:along(d)%points - 1, size(samples)))
      allocate (lines(d)%slope(0:along(d)%points - 1, size(samples)))
    end do
    do s = 1, size(samples)
      ion = ion_at(system, samples(s)%species, samples(s)%x)
      do d = 1, 3
        slope = [(spline(order - 1, ion%beyond(d) + order - k) &
                  - spline(order - 1, ion%beyond(d) + order - k - 1), k=1, order)]
        lines(d)%value(:, s) = line_of(along(d), ion%first(d), ion%value(:, d))
        lines(d)%slope(:, s) = line_of(along(d), ion%first(d), slope)
      end do
    end do
    call sum_waves(system, along, lines, felt, virial)
    call near_sum(system, samples, near)
    do s = 1, size(samples)
      associate (q => charge_of(system%potential%name(samples(s)%species)))
        force(:, s) = near(:3, s) - q*matmul(felt(1:, s)*system%mesh%grid, system%box%inverse)
        energy(s) = near(4, s) + 0.5_dp*q*felt(0, s)
      end associate
    end do
  end subroutine spme_sum

  !> The tables of a direction with so many points.
  type(direction_t) function direction_of(points) result(along)
    integer, intent(in) :: points
    real(dp) :: turns
    integer :: k, x
    along%points = points
    allocate (along%wave(0:points - 1, 0:points - 1), along%damping(0:points - 1))
    do x = 0, points - 1
      do k = 0, points - 1
        turns = modulo(k*x, points)/real(points, dp)
        along%wave(k, x) = cmplx(cos(2*pi*turns), -sin(2*pi*turns), dp)
      end do
    end do
    do k = 0, points - 1 ! of the splines at whole numbers
      along%damping(k) = 1/abs(sum([(spline(order, real(x, dp))*along%wave(k, modulo(x, points)), &
                                     x=1, order - 1)]))**2
    end do
  end function direction_of

  !> The cardinal B-spline of an order at u, by its explicit form (equation 4.1), from the nearer
  !> end, where it loses no digits.
  pure real(dp) function spline(of_order, u) result(height)
    integer, intent(in) :: of_order
    real(dp), intent(in) :: u
    real(dp) :: from_end, term
    integer :: k
    from_end = min(u, of_order - u)
    height = 0
    term = 1/gamma(real(of_order, dp))
    do k = 0, int(max(-1.0_dp, from_end))
      height = height + term*(from_end - k)**(of_order - 1)
      term = -term*(of_order - k)/(k + 1)
    end do
    if (from_end <= 0) height = 0
  end function spline

  !> An ion at x (A).
  pure type(ion_t) function ion_at(system, species, x) result(ion)
    type(system_t), intent(in) :: system
    integer, intent(in) :: species
    real(dp), intent(in) :: x(3)
    real(dp) :: u(3)
    integer :: d, k
    u = system%mesh%grid*system%box%fractions(x)
    ion%charge = charge_of(system%potential%name(species))
    ion%first = modulo(floor(u) - order + 1, system%mesh%grid)
    ion%beyond = u - floor(u)
    do d = 1, 3
      ion%value(:, d) = [(spline(order, ion%beyond(d) + order - k), k=1, order)]
    end do
  end function ion_at

  !> The Fourier sum of weights at the points from `first` on: (0:points-1).
  pure function line_of(along, first, weights) result(line)
    type(direction_t), intent(in) :: along
    integer, intent(in) :: first
    real(dp), intent(in) :: weights(order)
    complex(dp) :: line(0:along%points - 1)
    integer :: k
    line = 0
    do k = 1, order
      line = line + weights(k)*along%wave(:, modulo(first + k - 1, along%points))
    end do
  end function line_of

  !> The potential (eV/e) at the samples and its slopes along the grid's directions, per point:
  !> felt(0:3, samples).  On every rank.  Collective.
  subroutine sum_waves(system, along, lines, felt, virial)
    type(system_t), intent(in) :: system
    type(direction_t), intent(in) :: along(3)
    type(md_line_t), intent(in) :: lines(3)
    real(dp), intent(out) :: felt(0:, :), virial
    type(ion_t), allocatable :: ions(:) !< this rank's: of atoms that several have, a share
    complex(dp), allocatable :: planes(:, :, :) !< as many as threads
    real(dp) :: sums(0:size(felt))
    integer :: first, n, k, threads
    threads = size(system%list%work)
    associate (domain => system%domain, atoms => system%atoms, last => along(1)%points/2)
      ions = [(ion_at(system, atoms%species(k), atoms%x(1:3, k)), &
               k=1 + domain%copy, atoms%own, domain%copies)]
      allocate (planes(0:along(2)%points - 1, 0:along(3)%points - 1, threads))
      sums = 0
      do first = 0, last, threads
        !$omp parallel do num_threads(threads) schedule(static, 1)
        do n = 1, threads
          call add_charges(ions, along, first + n - 1, planes(:, :, n))
        end do
        !$omp end parallel do
        call MPI_Allreduce(MPI_IN_PLACE, planes, 2*size(planes), MPI_DOUBLE_PRECISION, MPI_SUM, &
                           domain%world)
        if (mod(first/threads, domain%world_size) /= domain%world_rank) cycle
        !$omp parallel do num_threads(threads) schedule(static, 1) reduction(+:sums)
        do n = 1, min(threads, last - first + 1)
          call add_plane(system, along, lines, first + n - 1, planes(:, :, n), sums)
        end do
        !$omp end parallel do
      end do
      call MPI_Allreduce(MPI_IN_PLACE, sums, size(sums), MPI_DOUBLE_PRECISION, MPI_SUM, &
                         domain%world)
    end associate
    virial = sums(0)
    felt = reshape(sums(1:), shape(felt))
  end subroutine sum_waves

  !> Charges of ions on the grid, as waves of frequency a along the first direction: (points,
  !> points) of the other two.
  pure subroutine add_charges(ions, along, a, plane)
    type(ion_t), intent(in) :: ions(:)
    type(direction_t), intent(in) :: along(3)
    integer, intent(in) :: a
    complex(dp), intent(out) :: plane(0:, 0:)
    !> Beyond the end, points that are the first ones again.
    complex(dp) :: wave(0:along(1)%points + order - 2)
    complex(dp), allocatable :: beyond(:, :)
    complex(dp) :: height
    integer :: k, x, z
    wave = [(along(1)%wave(mod(a, along(1)%points), mod(x, along(1)%points)), &
             x=0, ubound(wave, 1))]
    allocate (beyond(0:along(2)%points + order - 2, 0:along(3)%points + order - 2), &
              source=(0.0_dp, 0.0_dp))
    do k = 1, size(ions)
      associate (first => ions(k)%first, value => ions(k)%value)
        height = ions(k)%charge*sum(value(:, 1)*wave(first(1):first(1) + order - 1))
        do z = 1, order
          beyond(first(2):first(2) + order - 1, first(3) + z - 1) = &
            beyond(first(2):first(2) + order - 1, first(3) + z - 1) + height*value(z, 3)*value(:, 2)
        end do
      end associate
    end do
    associate (y => along(2)%points, z => along(3)%points)
      beyond(:order - 2, :) = beyond(:order - 2, :) + beyond(y:, :)
      beyond(:, :order - 2) = beyond(:, :order - 2) + beyond(:, z:)
      plane = beyond(:y - 1, :z - 1)
    end associate
  end subroutine add_charges

  !> Adds a plane of frequencies, of frequency a along the first direction, to sums: the virial
  !> (eV), then the potential (eV/e) and its slopes, per point, of each sample.
  pure subroutine add_plane(system, along, lines, a, plane, sums)
    type(system_t), intent(in) :: system
    type(direction_t), intent(in) :: along(3)
    type(md_line_t), intent(in) :: lines(3)
    integer, intent(in) :: a
    complex(dp), intent(in) :: plane(0:, 0:)
    real(dp), intent(inout) :: sums(0:)
    complex(dp), allocatable :: waves(:, :), over_y(:, :), slope_y(:, :)
    complex(dp) :: influence, growing
    integer :: b, c, s
    waves = matmul(matmul(along(2)%wave, plane), along(3)%wave)
    growing = cmplx(1.0_dp, tiny_step, dp)
    do c = 0, ubound(plane, 2)
      do b = 0, ubound(plane, 1)
        associate (wave => waves(b + 1, c + 1))
          ! with that of the opposite frequency, which is the same but for half the grid's
          influence = influence_of(system, along, [a, b, c], growing) &
                      + influence_of(system, along, [-a, -b, -c], growing)
          if (a == 0 .or. 2*a == along(1)%points) influence = influence/2 ! its opposite is here
          sums(0) = sums(0) - 0.5_dp*aimag(influence)/tiny_step*abs(wave)**2
          wave = real(influence, dp)*wave
        end associate
      end do
    end do
    over_y = matmul(transpose(conjg(lines(2)%value)), waves)
    slope_y = matmul(transpose(conjg(lines(2)%slope)), waves)
    do s = 1, size(over_y, 1)
      associate (x => conjg(lines(1)%value(a, s)), slope_x => conjg(lines(1)%slope(a, s)), &
                 z => conjg(lines(3)%value(:, s)), slope_z => conjg(lines(3)%slope(:, s)))
        sums(4*s - 3:4*s) = sums(4*s - 3:4*s) + real([x*sum(over_y(s, :)*z), &
          slope_x*sum(over_y(s, :)*z), x*sum(slope_y(s, :)*z), x*sum(over_y(s, :)*slope_z)], dp)
      end associate
    end do
  end subroutine add_plane

  !> The potential of a unit charge at a frequency, where all lengths of the box are `scale` times
  !> as long: coulomb/(pi V) exp(-(pi m/b)^2)/m^2 |b1 b2 b3|^2, in eV per squared charge; 0 of the
  !> mean.
  pure complex(dp) function influence_of(system, along, frequency, scale) result(influence)
    type(system_t), intent(in) :: system
    type(direction_t), intent(in) :: along(3)
    integer, intent(in) :: frequency(3)
    complex(dp), intent(in) :: scale
    complex(dp) :: m2
    integer :: k(3), d
    k = modulo(frequency, along%points)
    influence = 0
    if (all(k == 0)) return
    influence = oracle_coulomb/(pi*system%box%volume*scale**3)
    do d = 1, 3
      influence = influence*along(d)%damping(k(d))
    end do
    where (2*k > along%points) k = k - along%points
    m2 = sum(matmul(k, system%box%inverse)**2)/scale**2
    influence = influence*exp(-(pi/system%potential%splitting)**2*m2)/m2
  end function influence_of

end module md_spme
