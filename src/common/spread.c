#include "json.h"

#include "bx.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bx_statistics_quantile(double *values, size_t count, double q)
{
    if (count == 0) return NAN;
    qsort(values, count, sizeof *values, ascending);
    double at = q * (double)(count - 1);
    size_t below = (size_t)at;
    if (below + 1 >= count) return values[count - 1];
    return values[below] + (at - (double)below) * (values[below + 1] - values[below]);
}

void bx_series_add(bx_series *s, double value)
{
    s->values = bx_memory_grow(s->values, s->count + 1, sizeof *s->values);
    s->values[s->count++] = value;
}

double bx_series_quantile(const bx_series *s, double q)
{
    return bx_statistics_quantile(s->values, s->count, q);
}

void bx_spread_reduce(MPI_Comm comm, size_t count, const double *values, bx_spread *spreads)
{
    struct of_rank {
        double value;
        int rank;
    } *mine, *least, *most;
    int rank, size;
    double *sums;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &size);
    BX_ALLOC(count, mine, least, most, sums);
    for (size_t i = 0; i < count; i++) mine[i] = (struct of_rank){values[i], rank};
    PMPI_Reduce(mine, least, (int)count, MPI_DOUBLE_INT, MPI_MINLOC, 0, comm);
    PMPI_Reduce(mine, most, (int)count, MPI_DOUBLE_INT, MPI_MAXLOC, 0, comm);
    PMPI_Reduce(values, sums, (int)count, MPI_DOUBLE, MPI_SUM, 0, comm);
    for (size_t i = 0; rank == 0 && i < count; i++)
        spreads[i] =
            (bx_spread){least[i].value, sums[i] / size, most[i].value, least[i].rank, most[i].rank};
    BX_FREE(mine, least, most, sums);
}

void bx_spread_add(bx_json *parent, const char *name, const bx_spread *spread)
{
    bx_json *json = bx_json_object(parent, name);
    BX_NUMBERS(json, {"min", spread->min}, {"mean", spread->mean}, {"max", spread->max},
               {"min_rank", spread->min_rank}, {"max_rank", spread->max_rank});
}

void bx_rank_series_add(bx_rank_series *series, MPI_Comm comm, double value)
{
    int rank;
    bx_spread spreads[2] = {{0}};
    series->sum += value;
    PMPI_Comm_rank(comm, &rank);
    bx_spread_reduce(comm, 2, (double[]){value, series->sum}, spreads);
    if (rank != 0) return;
    bx_series_add(&series->most, spreads[0].max);
    bx_series_add(&series->imbalance, spreads[0].max / spreads[0].mean);
    series->sums = spreads[1];
}

void bx_rank_series_free(const bx_rank_series *series)
{
    BX_FREE(series->most.values, series->imbalance.values);
}
