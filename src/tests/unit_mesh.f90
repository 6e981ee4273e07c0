! The smooth particle mesh, on any number of ranks: its FFTs against sums by definition, forces and
! energies of an input's ions against a direct Ewald sum that stands here, and against one rank's.
program unit_mesh
  use, intrinsic :: iso_c_binding, only: c_int64_t, dp => c_double
  use mpi_f08, only: MPI_Allreduce, MPI_Comm, MPI_COMM_SELF, MPI_COMM_WORLD, MPI_Comm_rank, &
    MPI_DOUBLE_PRECISION, MPI_Finalize, MPI_IN_PLACE, MPI_Init, MPI_SUM
  use md_atoms, only: box_t, make_box
  use md_domain, only: make_domain
  use md_fft, only: fft_t, make_fft_transpose, reals_of
  use md_fft_columns, only: make_fft_columns
  use md_forces, only: find_forces
  use md_judge, only: displace
  use md_lattice, only: crystal_box, md_crystal_t, crystals, fill_crystal, find_crystal
  use md_mesh, only: by_columns, by_transpose
  use md_potential, only: find_potential
  use md_system, only: style_t, system_t, use_style
  use md_verlet, only: make_lists, observation_t, observe
  use unit_check, only: check, end_checks
  implicit none (type, external)

  real(dp), parameter :: pi = acos(-1.0_dp), coulomb = 14.399645_dp
  type(style_t), parameter :: styles(*) = [style_t(fft=by_transpose), style_t(fft=by_columns), &
                                           style_t(dlpoly3=.true., fft=by_columns), &
                                           style_t(replicated=.true.)]
  real(dp), allocatable :: alone(:, :) !< forces and energies by one rank
  integer :: rank, s

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call test_transforms([12, 9, 8])
  call test_transforms([5, 16, 3])
  call test_transforms([1, 2, 27])
  call test_madelung()
  call find_alone()
  do s = 1, size(styles)
    call test_every_layout(styles(s))
  end do
  call test_direct_sum()
  call test_pressure()
  call MPI_Finalize()
  call end_checks("unit_mesh", rank == 0)

contains

  !> A number of a place, from -1 to 1.
  pure real(dp) function noise(x, y, z)
    integer, intent(in) :: x, y, z
    noise = modulo(sin(12.9898_dp*x + 78.233_dp*y + 37.719_dp*z)*43758.5453_dp, 2.0_dp) - 1
  end function noise

  !> Both methods, forward against the definition and back, on ranks of a cubic box.
  subroutine test_transforms(grid)
    integer, intent(in) :: grid(3)
    type(system_t) :: system
    class(fft_t), allocatable, target :: fft
    complex(dp) :: wanted
    real(dp), pointer :: space(:, :, :, :)
    real(dp) :: worst, back
    integer :: method, x, y, z, k(3), n(3)
    system%box = make_box(reshape([9.0_dp, 0.0_dp, 0.0_dp, 0.0_dp, 9.0_dp, 0.0_dp, 0.0_dp, &
                                   0.0_dp, 9.0_dp], [3, 3]))
    call make_domain(MPI_COMM_WORLD, system%box, 1.0_dp, system%domain)
    do method = 1, 2
      if (method == by_columns) then
        call make_fft_columns(system%domain, grid, fft)
      else
        call make_fft_transpose(system%domain, grid, fft)
      end if
      associate (mine => fft%patches%of_rank(rank))
        n = mine%extent()
        fft%space = 0
        space => reals_of(fft%space, fft%words)
        do z = 1, n(3)
          do y = 1, n(2)
            do x = 1, n(1)
              space(1, x, y, z) = noise(mine%low(1) + x, mine%low(2) + y, mine%low(3) + z)
            end do
          end do
        end do
        call fft%forward(system%domain)
        worst = 0
        do z = 1, size(fft%spectrum, 3)
          do y = 1, size(fft%spectrum, 2)
            do x = 1, size(fft%spectrum, 1)
              k = [fft%frequency(1)%at(x), fft%frequency(2)%at(y), fft%frequency(3)%at(z)]
              wanted = by_definition(grid, k)
              worst = max(worst, abs(fft%spectrum(x, y, z) - wanted))
            end do
          end do
        end do
        call fft%backward(system%domain)
        back = 0
        space => reals_of(fft%space, fft%words)
        do z = 1, n(3)
          do y = 1, n(2)
            do x = 1, n(1)
              back = max(back, abs(space(1, x, y, z)/product(grid) &
                                   - noise(mine%low(1) + x, mine%low(2) + y, mine%low(3) + z)))
            end do
          end do
        end do
      end associate
      call check(worst < 1e-10_dp, "a transform is the sum that it stands for", worst)
      call check(back < 1e-13_dp, "a transform and back", back)
    end do
  end subroutine test_transforms

  complex(dp) function by_definition(grid, k)
    integer, intent(in) :: grid(3), k(3)
    real(dp) :: turns
    integer :: x, y, z
    by_definition = 0
    do z = 0, grid(3) - 1
      do y = 0, grid(2) - 1
        do x = 0, grid(1) - 1
          turns = real(k(1)*x, dp)/grid(1) + real(k(2)*y, dp)/grid(2) + real(k(3)*z, dp)/grid(3)
          by_definition = by_definition + noise(x + 1, y + 1, z + 1) &
                          *cmplx(cos(2*pi*turns), -sin(2*pi*turns), dp)
        end do
      end do
    end do
  end function by_definition

  !> Ions of rock salt, each `moved` (A) off its site; on the ranks of comm.
  subroutine make(comm, cells, moved, style, system)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(in) :: cells
    real(dp), intent(in) :: moved
    type(style_t), intent(in) :: style
    type(system_t), intent(out) :: system
    type(md_crystal_t) :: crystal
    crystal = crystals(find_crystal("nacl"))
    system%potential = find_potential("Na")
    system%box = crystal_box(crystal, cells)
    system%skin = system%potential%skin
    system%total = crystal%sites*int(cells, c_int64_t)**3
    call make_domain(comm, system%box, system%potential%cutoff + system%skin, system%domain)
    allocate (system%list%work(1))
    call use_style(system, style)
    call fill_crystal(crystal, cells, system%box, system%domain, system%atoms)
    call displace(system, moved, 1_c_int64_t)
    system%atoms%v(:, :system%atoms%own) = 0
  end subroutine make

  !> Takes the short-range terms away.
  subroutine leave_charges(system)
    type(system_t), intent(inout) :: system
    system%potential%log_a = -500
    system%potential%c6 = 0
    system%potential%d8 = 0
  end subroutine leave_charges

  !> Forces and energies of all ions by id, (4, ions): on every rank.
  function forces_by_id(system) result(table)
    type(system_t), intent(inout) :: system
    real(dp), allocatable :: table(:, :), energies(:)
    integer :: k
    call make_lists(system)
    allocate (energies(system%atoms%own))
    call find_forces(system, energies)
    allocate (table(4, system%total), source=0.0_dp)
    do k = 1, system%atoms%own
      table(:, system%atoms%id(k)) = [system%atoms%f(1:3, k), energies(k)]
    end do
    call MPI_Allreduce(MPI_IN_PLACE, table, size(table), MPI_DOUBLE_PRECISION, MPI_SUM, &
                       system%domain%comm)
  end function forces_by_id

  !> Charges alone have rock salt's Madelung constant.
  subroutine test_madelung()
    type(system_t) :: system
    type(observation_t) :: seen
    real(dp) :: constant
    call make(MPI_COMM_WORLD, 9, 0.0_dp, styles(1), system)
    call leave_charges(system)
    call make_lists(system)
    seen = observe(system)
    constant = -seen%potential/real(system%total, dp)*system%box%edge(1, 1)/9/coulomb
    call check(abs(constant/1.747564594633182_dp - 1) < 1e-6_dp, "Madelung's constant", constant)
    ! the pressure of charges alone is a third of their energy's density
    call check(abs((seen%stress(1, 1) + seen%stress(2, 2) + seen%stress(3, 3)) &
                   *system%box%volume/seen%potential - 1) < 1e-4_dp, "their virial", &
               seen%stress(1, 1))
  end subroutine test_madelung

  !> One rank's forces, on every rank.
  subroutine find_alone()
    type(system_t) :: system
    if (rank == 0) then
      call make(MPI_COMM_SELF, 9, 0.3_dp, styles(1), system)
      alone = forces_by_id(system)
    else
      allocate (alone(4, 8*9**3), source=0.0_dp)
    end if
    call MPI_Allreduce(MPI_IN_PLACE, alone, size(alone), MPI_DOUBLE_PRECISION, MPI_SUM, &
                       MPI_COMM_WORLD)
  end subroutine find_alone

  !> The ranks' forces are those of one rank, by both methods, and so is the sum of them: none.
  subroutine test_every_layout(style)
    type(style_t), intent(in) :: style
    type(system_t) :: shared
    real(dp), allocatable :: all(:, :)
    real(dp) :: largest
    call make(MPI_COMM_WORLD, 9, 0.3_dp, style, shared)
    all = forces_by_id(shared)
    largest = maxval(abs(alone(:3, :)))
    call check(maxval(abs(all - alone)) < 1e-12_dp*largest, "forces of one rank", &
               maxval(abs(all - alone))/largest)
    call check(maxval(abs(sum(all(:3, :), dim=2))) < 1e-10_dp, "the sum of forces", &
               maxval(abs(sum(all(:3, :), dim=2))))
  end subroutine test_every_layout

  !> Forces of 64 ions and their images are those of a direct sum, the finer the mesh the nearer.
  subroutine test_direct_sum()
    type(system_t) :: system
    real(dp), allocatable :: mesh(:, :), x(:, :)
    integer, allocatable :: species(:)
    real(dp) :: error(2), f(3), energy, worst
    integer :: n, k
    if (rank > 0) return
    do n = 1, 2
      call make(MPI_COMM_SELF, 2, 0.3_dp, styles(1), system)
      if (n == 2) then ! one mesh finer, the real-space sum further out
        system%potential%splitting = 4.6_dp/system%potential%cutoff
        system%potential%spacing = 0.6_dp
      end if
      mesh = forces_by_id(system)
      x = system%atoms%x(1:3, :system%atoms%own)
      species = system%atoms%species(:system%atoms%own)
      worst = 0
      do k = 1, system%atoms%own
        call direct(system, x, species, k, f, energy)
        worst = max(worst, maxval(abs(mesh(:3, system%atoms%id(k)) - f)), &
                    abs(mesh(4, system%atoms%id(k)) - energy))
      end do
      error(n) = worst/maxval(abs(mesh(:3, :)))
    end do
    call check(error(1) < 1e-4_dp, "forces of a direct sum", error(1))
    call check(error(2) < 1e-6_dp, "forces of a direct sum, by a fine mesh", error(2))
  end subroutine test_direct_sum

  !> Force and energy of ion k by all pairs and images, with Gaussians of another width than the
  !> mesh's: sums over so many boxes and waves that what is left out is below 1e-12.
  subroutine direct(system, x, species, k, f, energy)
    type(system_t), intent(in) :: system
    real(dp), intent(in) :: x(:, :)
    integer, intent(in) :: species(:), k
    real(dp), intent(out) :: f(3), energy
    real(dp) :: edge, split, d(3), r, q, phi, pull, wave(3), k2, weight
    complex(dp) :: factor
    integer :: j, a, b, c, pair
    edge = system%box%edge(1, 1)
    split = 5.6_dp/(1.5_dp*edge)
    f = 0
    energy = -coulomb*split/sqrt(pi)
    do j = 1, size(species)
      q = coulomb*merge(1.0_dp, -1.0_dp, species(j) == species(k))
      pair = species(j) + species(k) - 2
      do c = -2, 2
        do b = -2, 2
          do a = -2, 2
            d = x(:, k) - x(:, j) - edge*[a, b, c]
            r = norm2(d)
            if (r < 1e-9_dp) cycle
            phi = q*erfc(split*r)/r
            pull = q*(erfc(split*r)/r + 2*split/sqrt(pi)*exp(-(split*r)**2))/r**2
            if (r < system%potential%cutoff) then
              associate (p => system%potential)
                phi = phi + exp(p%log_a(pair) - p%b(pair)*r) - p%c6(pair)/r**6 - p%d8(pair)/r**8
                pull = pull + p%b(pair)*exp(p%log_a(pair) - p%b(pair)*r)/r &
                       - 6*p%c6(pair)/r**8 - 8*p%d8(pair)/r**10
              end associate
            end if
            f = f + pull*d
            energy = energy + 0.5_dp*phi
          end do
        end do
      end do
    end do
    do c = -14, 14
      do b = -14, 14
        do a = 0, 14 ! a wave and its opposite are alike
          wave = 2*pi*[a, b, c]/edge
          k2 = sum(wave**2)
          if (k2 < 1e-9_dp .or. sqrt(k2)/(2*split) > 6) cycle
          weight = merge(1, 2, a == 0)*4*pi*coulomb/edge**3*exp(-k2/(4*split**2))/k2
          factor = 0
          do j = 1, size(species)
            r = dot_product(wave, x(:, k) - x(:, j))
            factor = factor + merge(1, -1, species(j) == species(k))*cmplx(cos(r), sin(r), dp)
          end do
          f = f + weight*wave*aimag(factor)
          energy = energy + 0.5_dp*weight*real(factor, dp)
        end do
      end do
    end do
  end subroutine direct

  !> The stress of charges is the derivative of their energy by a strain, along an edge and at a
  !> slant.  (Short-range terms are cut sharply: pairs that cross the cutoff change the energy.)
  subroutine test_pressure()
    real(dp), parameter :: h = 1e-4_dp
    type(system_t) :: system
    type(observation_t) :: seen
    real(dp) :: strain(3, 3), energy(2), slope
    integer :: n, k
    do n = 1, 2
      strain = 0
      strain(1, n) = h
      call make(MPI_COMM_WORLD, 9, 0.3_dp, styles(1), system)
      call leave_charges(system)
      call make_lists(system)
      seen = observe(system)
      do k = 1, 2
        energy(k) = strained((3 - 2*k)*strain)
      end do
      slope = (energy(1) - energy(2))/(2*h)/seen%potential
      slope = slope + seen%stress(1, n)*system%box%volume/seen%potential
      call check(abs(slope) < 5e-5_dp, "stress", slope)
    end do
  end subroutine test_pressure

  !> The potential energy of a strained crystal: eV.
  real(dp) function strained(strain)
    real(dp), intent(in) :: strain(3, 3)
    type(system_t) :: system
    type(observation_t) :: seen
    integer :: k
    call make(MPI_COMM_WORLD, 9, 0.3_dp, styles(1), system)
    system%box = make_box(system%box%edge + matmul(strain, system%box%edge))
    do k = 1, system%atoms%own
      system%atoms%x(1:3, k) = system%atoms%x(1:3, k) + matmul(strain, system%atoms%x(1:3, k))
    end do
    call leave_charges(system)
    call make_lists(system)
    seen = observe(system)
    strained = seen%potential
  end function strained

end program unit_mesh
