! The part of Ewald's sum in reciprocal space, by the smooth particle mesh (U. Essmann, L. Perera,
! M. L. Berkowitz, T. Darden, H. Lee and L. G. Pedersen, J. Chem. Phys. 103, 8577 (1995)).
!
! Charges are spread over a grid by B-splines, on each rank over a patch of its own that reaches
! beyond its domain.  The FFT's method may have the points elsewhere: md_regrid takes them there.
module md_mesh
  use, intrinsic :: iso_c_binding, only: dp => c_double
  use bx_charges, only: bx_charge, bx_is_hollow, bx_pairs, by_all_threads
  use omp_lib, only: omp_get_num_threads, omp_get_thread_num
  use md_atoms, only: atoms_t, box_t
  use md_domain, only: domain_t
  use md_fft, only: fft_t, make_fft_transpose, reals_of
  use md_fft_columns, only: make_fft_columns
  use md_potential, only: coulomb, potential_t
  use md_regrid, only: make_regrid, move, patch_t, patches_t, regrid_t, set_limits
  implicit none (type, external)
  private
  public :: fit_mesh, forget_mesh, grid_of, spread_charges, solve, gather_forces

  integer, parameter, public :: by_columns = 1, by_transpose = 2 !< methods of the FFT

  integer, parameter :: order = 8 !< of the splines: points that an ion spreads to per direction
  real(dp), parameter :: pi = acos(-1.0_dp)
  !> Flop per ion, about: to spread it, to find its force.
  real(dp), parameter :: of_spread = 2*order**3 + 150, of_gather = 6*order**3 + 300

  !> A method's FFT, the way to its points, and the potential of a unit charge by frequency.
  type :: solver_t
    class(fft_t), allocatable :: fft
    type(regrid_t) :: regrid
    real(dp), allocatable :: influence(:, :, :) !< of the spectrum's shape: eV per squared charge
    real(dp) :: margin = -1 !< A, of the regrid
  end type solver_t

  type, public :: mesh_t
    integer :: grid(3) = 0
    real(dp) :: margin = -1 !< A: how far ions may be outside their domain
    type(patches_t) :: patches !< points that ions spread to
    integer :: low(3) = 0 !< of this rank's
    !> (points, threads): charge (e), then of the first thread the potential (eV/e).
    real(dp), allocatable :: field(:, :, :, :)
    type(solver_t) :: solvers(2)
    !> A spline's value and slope at the points that it covers, by powers of the place between two.
    real(dp) :: value(order, 0:order - 1) = 0, slope(order, 0:order - 2) = 0
    real(dp) :: virial(3, 3) = 0 !< eV, of this rank's frequencies in the latest solution
  end type mesh_t

contains

  !> The grid of a box: the least numbers of points, with factors 2 and 3 alone, no further apart
  !> than the potential's spacing.
  pure function grid_of(potential, box) result(grid)
    type(potential_t), intent(in) :: potential
    type(box_t), intent(in) :: box
    integer :: grid(3), d, left
    do d = 1, 3
      grid(d) = max(order, ceiling(norm2(box%edge(:, d))/potential%spacing))
      do
        left = grid(d)
        do while (mod(left, 2) == 0)
          left = left/2
        end do
        do while (mod(left, 3) == 0)
          left = left/3
        end do
        if (left == 1) exit
        grid(d) = grid(d) + 1
      end do
    end do
  end function grid_of

  !> Makes the mesh ready for a method of the FFT, for ions that are at most `margin` (A) outside
  !> their domain, and `threads`.  Local.
  subroutine fit_mesh(mesh, potential, box, domain, margin, threads, method)
    type(mesh_t), intent(inout) :: mesh
    type(potential_t), intent(in) :: potential
    type(box_t), intent(in) :: box
    type(domain_t), intent(in) :: domain
    real(dp), intent(in) :: margin
    integer, intent(in) :: threads, method
    type(patch_t) :: mine
    real(dp) :: reach
    integer :: n(3), d, k
    if (.not. mesh%margin >= margin .or. .not. allocated(mesh%field)) then
      mesh%grid = grid_of(potential, box)
      mesh%margin = margin
      call find_splines(mesh)
      do d = 1, 3
        reach = margin/box%height(d) + 1e-9_dp
        associate (dims => domain%dims(d), points => mesh%grid(d))
          call set_limits(mesh%patches, d, product(domain%dims(:d - 1)), &
                          reshape([(floor((real(k, dp)/dims - reach)*points) - order + 1, &
                                    floor((real(k + 1, dp)/dims + reach)*points), &
                                    k=0, dims - 1)], [2, dims]))
        end associate
      end do
      mine = mesh%patches%of_rank(domain%rank)
      mesh%low = mine%low
      n = mine%extent()
      if (allocated(mesh%field)) deallocate (mesh%field)
      allocate (mesh%field(n(1), n(2), n(3), threads))
    end if
    associate (solver => mesh%solvers(method))
      if (.not. allocated(solver%fft)) then
        if (method == by_columns) then
          call make_fft_columns(domain, mesh%grid, solver%fft)
        else
          call make_fft_transpose(domain, mesh%grid, solver%fft)
        end if
        call find_influence(solver, potential, box)
      end if
      if (solver%margin < mesh%margin) then
        call make_regrid(domain, mesh%grid, mesh%patches, solver%fft%patches, .false., &
                         solver%regrid)
        solver%margin = mesh%margin
      end if
    end associate
  end subroutine fit_mesh

  !> Frees all arrays of a mesh, before ranks share out the box in another way.  Local.
  subroutine forget_mesh(mesh)
    type(mesh_t), intent(out) :: mesh
    mesh%grid = 0
  end subroutine forget_mesh

  !> The pieces of the cardinal B-spline as polynomials of the place between two points (Essmann et
  !> al., equation 4.1), in the order of points: the first is order - 1 below the ion's.
  subroutine find_splines(mesh)
    type(mesh_t), intent(inout) :: mesh
    real(dp), dimension(0:order - 1, 0:order - 1) :: piece, lower !< (power, piece)
    integer :: n, j, k
    piece = 0
    piece(0, 0) = 1 ! of order 1
    do n = 2, order
      lower = piece
      piece = 0
      do j = 0, n - 1
        piece(:, j) = (j*lower(:, j) + raised(lower(:, j)))/(n - 1)
        if (j == 0) cycle
        piece(:, j) = piece(:, j) + ((n - j)*lower(:, j - 1) - raised(lower(:, j - 1)))/(n - 1)
      end do
    end do
    do j = 0, order - 1
      mesh%value(order - j, :) = piece(:, j)
      do k = 1, order - 1
        mesh%slope(order - j, k - 1) = k*piece(k, j)
      end do
    end do
  end subroutine find_splines

  !> A polynomial times its variable.
  pure function raised(powers) result(product)
    real(dp), intent(in) :: powers(0:)
    real(dp) :: product(0:size(powers) - 1)
    product = [0.0_dp, powers(:size(powers) - 2)]
  end function raised

  !> The potential of a unit charge, by frequency: coulomb/(pi V) exp(-(pi m/b)^2)/m^2 |b1 b2 b3|^2
  !> (equations 2.1 and 4.7); 0 of the mean.
  subroutine find_influence(solver, potential, box)
    type(solver_t), intent(inout) :: solver
    type(potential_t), intent(in) :: potential
    type(box_t), intent(in) :: box
    integer :: x, y, z
    associate (fft => solver%fft)
      allocate (solver%influence(size(fft%frequency(1)%at), size(fft%frequency(2)%at), &
                                 size(fft%frequency(3)%at)))
      do z = 1, size(solver%influence, 3)
        do y = 1, size(solver%influence, 2)
          do x = 1, size(solver%influence, 1)
            ! of half the grid's frequencies the opposite is the same, and has another wave
            solver%influence(x, y, z) = coulomb/(pi*box%volume) &
              *0.5_dp*(screened(potential, wave(fft, box, [x, y, z], 1)) &
                       + screened(potential, wave(fft, box, [x, y, z], -1))) &
              *damping(fft%grid(1), fft%frequency(1)%at(x)) &
              *damping(fft%grid(2), fft%frequency(2)%at(y)) &
              *damping(fft%grid(3), fft%frequency(3)%at(z))
          end do
        end do
      end do
    end associate
  end subroutine find_influence

  !> exp(-(pi m/b)^2)/m^2 of a wave vector m, over 2 pi (1/A); 0 of the mean.
  pure real(dp) function screened(potential, m)
    type(potential_t), intent(in) :: potential
    real(dp), intent(in) :: m(3)
    screened = 0
    if (any(abs(m) > 0)) screened = exp(-(pi/potential%splitting)**2*sum(m**2))/sum(m**2)
  end function screened

  !> The wave vector, over 2 pi, of a place in the spectrum (sign 1) or of its opposite (-1): 1/A.
  pure function wave(fft, box, at, sign) result(m)
    class(fft_t), intent(in) :: fft
    type(box_t), intent(in) :: box
    integer, intent(in) :: at(3), sign
    real(dp) :: m(3)
    integer :: d, k
    m = 0
    do d = 1, 3
      k = modulo(sign*fft%frequency(d)%at(at(d)), fft%grid(d))
      if (2*k > fft%grid(d)) k = k - fft%grid(d)
      m = m + k*box%inverse(d, :)
    end do
  end function wave

  !> |b|^2 of a frequency (equation 4.4).
  pure real(dp) function damping(points, frequency)
    integer, intent(in) :: points, frequency
    complex(dp) :: total
    real(dp) :: angle
    integer :: k
    total = 0
    do k = 0, order - 2
      angle = 2*pi*modulo(frequency*k, points)/points
      total = total + at_point(k + 1)*cmplx(cos(angle), sin(angle), dp)
    end do
    damping = 1/abs(total)**2
  end function damping

  !> The spline at a whole number, by its explicit form: sum_j (-1)^j C(n, j) (k - j)^(n-1)/(n-1)!.
  pure real(dp) function at_point(k) result(height)
    integer, intent(in) :: k
    real(dp) :: choose
    integer :: j
    height = 0
    choose = 1
    do j = 0, k - 1
      height = height + merge(-1, 1, mod(j, 2) == 1)*choose*real(k - j, dp)**(order - 1)
      choose = choose*(order - j)/(j + 1)
    end do
    do j = 2, order - 1
      height = height/j
    end do
  end function at_point

  !> Spreads the charges of own ions over this rank's patch.  Local.
  subroutine spread_charges(mesh, potential, box, atoms)
    type(mesh_t), intent(inout) :: mesh
    type(potential_t), intent(in) :: potential
    type(box_t), intent(in) :: box
    type(atoms_t), intent(in) :: atoms
    real(dp) :: value(order, 3), slope(order, 3)
    integer :: t, other, k, z, first(3)
    associate (low => mesh%low)
      !$omp parallel private(t, other, k, z, first, value, slope)
      t = omp_get_thread_num() + 1
      mesh%field(:, :, :, t) = 0
      !$omp do schedule(static)
      do k = 1, atoms%own
        call place(mesh, box, atoms%x(1:3, k), first, value, slope)
        call add_charge(potential%charge(atoms%species(k)), value, first - low, &
                        shape(mesh%field), mesh%field(:, :, :, t))
      end do
      !$omp end do
      !$omp do schedule(static)
      do z = 1, size(mesh%field, 3)
        do other = 2, omp_get_num_threads()
          mesh%field(:, :, z, 1) = mesh%field(:, :, z, 1) + mesh%field(:, :, z, other)
        end do
      end do
      !$omp end do
      !$omp end parallel
    end associate
    call bx_charge(bx_pairs, of_spread*atoms%own, by_all_threads)
  end subroutine spread_charges

  !> Where an ion at x (A) spreads to: its first point, and the splines' values and slopes there.
  pure subroutine place(mesh, box, x, first, value, slope)
    type(mesh_t), intent(in) :: mesh
    type(box_t), intent(in) :: box
    real(dp), intent(in) :: x(3)
    integer, intent(out) :: first(3)
    real(dp), intent(out) :: value(order, 3), slope(order, 3)
    real(dp) :: u(3), w
    integer :: d, k
    u = mesh%grid*box%fractions(x)
    first = floor(u)
    do d = 1, 3
      w = u(d) - first(d)
      value(:, d) = mesh%value(:, order - 1)
      do k = order - 2, 0, -1
        value(:, d) = value(:, d)*w + mesh%value(:, k)
      end do
      slope(:, d) = mesh%slope(:, order - 2)
      do k = order - 3, 0, -1
        slope(:, d) = slope(:, d)*w + mesh%slope(:, k)
      end do
    end do
    first = first - order + 1
  end subroutine place

  !> Adds a charge to the points of a patch from at + 1 on.
  pure subroutine add_charge(charge, value, at, n, field)
    real(dp), intent(in) :: charge, value(order, 3)
    integer, intent(in) :: at(3), n(4)
    real(dp), intent(inout) :: field(n(1), n(2), *)
    real(dp) :: height
    integer :: x, y, z
    do z = 1, order
      do y = 1, order
        height = charge*value(y, 2)*value(z, 3)
        !$omp simd
        do x = 1, order
          field(at(1) + x, at(2) + y, at(3) + z) = field(at(1) + x, at(2) + y, at(3) + z) &
                                                   + height*value(x, 1)
        end do
      end do
    end do
  end subroutine add_charge

  !> From the charges on the ranks' patches to their potential (eV/e), by a method of the FFT.
  !> Collective.
  subroutine solve(mesh, box, domain, potential, method, with_virial)
    type(mesh_t), intent(inout), target :: mesh
    type(box_t), intent(in) :: box
    type(domain_t), intent(inout) :: domain
    type(potential_t), intent(in) :: potential
    integer, intent(in) :: method
    logical, intent(in) :: with_virial
    real(dp), pointer, contiguous :: patch(:, :, :, :)
    integer :: z, n(4)
    n = shape(mesh%field)
    patch(1:1, 1:n(1), 1:n(2), 1:n(3)) => mesh%field(:, :, :, 1)
    associate (solver => mesh%solvers(method))
      call move(solver%regrid, domain, 1, .true., patch, &
                reals_of(solver%fft%space, solver%fft%words))
      call solver%fft%forward(domain)
      if (with_virial) call find_virial(solver, box, potential, mesh%virial)
      !$omp parallel do schedule(static)
      do z = 1, size(solver%influence, 3)
        solver%fft%spectrum(:, :, z) = solver%influence(:, :, z)*solver%fft%spectrum(:, :, z)
      end do
      !$omp end parallel do
      call solver%fft%backward(domain)
      call move(solver%regrid, domain, 1, .false., &
                reals_of(solver%fft%space, solver%fft%words), patch)
    end associate
    if (bx_is_hollow()) patch = 0 ! it was not transformed
  end subroutine solve

  !> The virial of this rank's frequencies: eV (equation 2.7).
  subroutine find_virial(solver, box, potential, virial)
    type(solver_t), intent(in) :: solver
    type(box_t), intent(in) :: box
    type(potential_t), intent(in) :: potential
    real(dp), intent(out) :: virial(3, 3)
    real(dp) :: m(3, 2), part(2), energy
    integer :: x, y, z, s, a, k
    virial = 0
    associate (fft => solver%fft)
      do z = 1, size(solver%influence, 3)
        do y = 1, size(solver%influence, 2)
          do x = 1, size(solver%influence, 1)
            do s = 1, 2
              m(:, s) = wave(fft, box, [x, y, z], 3 - 2*s)
              part(s) = screened(potential, m(:, s))
            end do
            if (.not. sum(part) > 0) cycle
            k = fft%frequency(1)%at(x)
            part = part/sum(part)*merge(2, 1, fft%words == 1 .and. k > 0 .and. 2*k < fft%grid(1))
            do s = 1, 2
              energy = 0.5_dp*part(s)*solver%influence(x, y, z)*abs(fft%spectrum(x, y, z))**2
              do a = 1, 3
                virial(a, a) = virial(a, a) + energy
                virial(:, a) = virial(:, a) - 2*energy*m(:, s)*m(a, s) &
                               *(1/sum(m(:, s)**2) + (pi/potential%splitting)**2)
              end do
            end do
          end do
        end do
      end do
    end associate
  end subroutine find_virial

  !> Adds to the forces (eV/A) of own ions first..last those of the potential on this rank's patch.
  !> Local.
  subroutine gather_forces(mesh, potential, box, first, last, atoms, energy, net, pair_energy)
    type(mesh_t), intent(in) :: mesh
    type(potential_t), intent(in) :: potential
    type(box_t), intent(in) :: box
    type(atoms_t), intent(inout) :: atoms
    integer, intent(in) :: first, last
    real(dp), intent(out) :: energy !< of these ions, less that of each with itself: eV
    real(dp), intent(out) :: net(3) !< the sum of the forces: eV/A
    real(dp), intent(inout), optional :: pair_energy(:) !< (own): the ions' energies are added: eV
    real(dp) :: value(order, 3), slope(order, 3), felt(0:3), force(3), mine, q
    integer :: k, d, at(3)
    energy = 0
    net = 0
    associate (low => mesh%low)
      !$omp parallel do private(value, slope, felt, force, mine, q, d, at) &
      !$omp& reduction(+:energy, net) schedule(static)
      do k = first, last
        q = potential%charge(atoms%species(k))
        call place(mesh, box, atoms%x(1:3, k), at, value, slope)
        felt = potential_at(value, slope, at - low, shape(mesh%field), mesh%field)
        force = 0
        do d = 1, 3
          force = force - q*felt(d)*mesh%grid(d)*box%inverse(d, :)
        end do
        atoms%f(1:3, k) = atoms%f(1:3, k) + force
        net = net + force
        mine = 0.5_dp*q*felt(0) - coulomb*q**2*potential%splitting/sqrt(pi)
        energy = energy + mine
        if (present(pair_energy)) pair_energy(k) = pair_energy(k) + mine
      end do
      !$omp end parallel do
    end associate
    call bx_charge(bx_pairs, of_gather*(last - first + 1), by_all_threads)
  end subroutine gather_forces

  !> The potential (eV/e) at an ion whose points begin at + 1 in a patch, and its slopes along the
  !> grid's directions, per point.
  pure function potential_at(value, slope, at, n, field) result(felt)
    real(dp), intent(in) :: value(order, 3), slope(order, 3)
    integer, intent(in) :: at(3), n(4)
    real(dp), intent(in) :: field(n(1), n(2), *)
    real(dp) :: felt(0:3)
    real(dp), dimension(order) :: row, row_slope, plain, along_y, along_z
    integer :: x, y, z
    plain = 0
    along_y = 0
    along_z = 0
    do z = 1, order
      row = 0
      row_slope = 0
      do y = 1, order
        !$omp simd
        do x = 1, order
          row(x) = row(x) + value(y, 2)*field(at(1) + x, at(2) + y, at(3) + z)
          row_slope(x) = row_slope(x) + slope(y, 2)*field(at(1) + x, at(2) + y, at(3) + z)
        end do
      end do
      plain = plain + value(z, 3)*row
      along_y = along_y + value(z, 3)*row_slope
      along_z = along_z + slope(z, 3)*row
    end do
    felt = [sum(value(:, 1)*plain), sum(slope(:, 1)*plain), sum(value(:, 1)*along_y), &
            sum(value(:, 1)*along_z)]
  end function potential_at

end module md_mesh
