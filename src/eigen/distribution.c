#include "distribution.h"

#include "bx.h"
#include "libraries.h"

int bx_distribution_grid_rows(int ranks)
{
    int rows = (int)sqrt(ranks);
    while (ranks % rows != 0) rows--;
    return rows;
}

int bx_distribution_block(int n, int places, int largest)
{
    int block = n / places < largest ? n / places : largest;
    return block > 0 ? block : 1;
}

int bx_distribution_deal(int n, int block, int place, int places, int *row)
{
    int count = 0;
    for (int first = place * block; first < n; first += places * block)
        for (int i = first; i < n && i < first + block; i++) row[count++] = i;
    return count;
}

static bx_distribution *create(MPI_Comm team, int n)
{
    bx_distribution *d = bx_memory_alloc(1, sizeof *d);
    d->team = team;
    MPI_Comm_size(team, &d->ranks);
    MPI_Comm_rank(team, &d->rank);
    d->n = n;
    BX_ALLOC((size_t)n, d->row, d->column);
    d->context = -1;
    return d;
}

#ifdef BX_HAVE_SCALAPACK
static void enter_grid(bx_distribution *d, bool row_by_row)
{
    int info, zero = 0, leading = d->rows > 0 ? d->rows : 1;
    d->handle = d->context = Csys2blacs_handle(d->team);
    Cblacs_gridinit(&d->context, row_by_row ? "R" : "C", d->grid_rows, d->grid_columns);
    descinit_(d->descriptor, &d->n, &d->n, &d->block, &d->block, &zero, &zero, &d->context,
              &leading, &info);
}

static void leave_grid(bx_distribution *d)
{
    if (d->context < 0) return;
    Cblacs_gridexit(d->context);
    Cfree_blacs_system_handle(d->handle);
}
#else
static void enter_grid(bx_distribution *d, bool row_by_row) {}
static void leave_grid(bx_distribution *d) {}
#endif

bx_distribution *bx_distribution_create_blocks(MPI_Comm team, int n, int block, int grid_rows,
                                               bool row_by_row)
{
    bx_distribution *d = create(team, n);
    d->block = block;
    d->grid_rows = grid_rows;
    d->grid_columns = d->ranks / grid_rows;
    d->grid_row = row_by_row ? d->rank / d->grid_columns : d->rank % grid_rows;
    d->grid_column = row_by_row ? d->rank % d->grid_columns : d->rank / grid_rows;
    d->rows = bx_distribution_deal(n, block, d->grid_row, d->grid_rows, d->row);
    d->columns = bx_distribution_deal(n, block, d->grid_column, d->grid_columns, d->column);
    enter_grid(d, row_by_row);
    MPI_Comm_split(team, d->grid_column, d->grid_row, &d->sharing);
    return d;
}

bx_distribution *bx_distribution_create_panels(MPI_Comm team, int n,
                                               int (*first_column)(int n, int ranks, int rank))
{
    bx_distribution *d = create(team, n);
    d->block = n;
    d->grid_rows = 1;
    d->grid_columns = d->ranks;
    d->grid_column = d->rank;
    d->rows = bx_distribution_deal(n, n, 0, 1, d->row);
    int first = first_column(n, d->ranks, d->rank);
    d->columns = first_column(n, d->ranks, d->rank + 1) - first;
    for (int j = 0; j < d->columns; j++) d->column[j] = first + j;
    MPI_Comm_split(team, d->rank, 0, &d->sharing);
    return d;
}

void bx_distribution_free(bx_distribution *d)
{
    if (!d) return;
    leave_grid(d);
    MPI_Comm_free(&d->sharing);
    BX_FREE(d->row, d->column, d);
}
