#include "verify.h"

#include <stdlib.h>
#include <string.h>

enum { TAG = 7 };

static uint64_t bits_of(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* ---- fields ---- */

typedef enum { WRITE, COMPARE, ADD } visit;

typedef struct {
    const bx_halo *halo;
    double *fields;
    double complex *amplitude; /* [fields][width] of the solution; NULL: not needed */
    visit act;
    double error;
    uint64_t sum;
} context;

/* Writes the solution to a cell, compares the cell with it, or adds the cell to a sum, in which the
 * order of cells does not matter. */
static void treat_cell(void *me, int64_t cell, int64_t at)
{
    context *c = me;
    const bx_mesh *mesh = c->halo->mesh;
    int64_t place[3];
    bx_mesh_at(mesh, cell, place);
    for (int f = 0; f < mesh->fields; f++) {
        double *numbers = &c->fields[f * mesh->stride + at * mesh->width];
        double complex space = c->act == ADD ? 0 : bx_wave_space(&mesh->waves[f], place);
        for (int l = 0; l < mesh->width; l++) {
            uint64_t name =
                ((uint64_t)cell * (uint64_t)mesh->fields + (uint64_t)f) * (uint64_t)mesh->width +
                (uint64_t)l;
            if (c->act == ADD) {
                c->sum += bx_random_hash(bits_of(numbers[l]), name);
                continue;
            }
            double exact = creal(c->amplitude[f * mesh->width + l] * space);
            if (c->act == WRITE)
                numbers[l] = exact;
            else
                c->error = bx_verification_worse(c->error, fabs(numbers[l] - exact));
        }
    }
}

/* Visits all own cells of a copy, at a step of the solution. */
static context visit_cells(const bx_halo *halo, int copy, visit act, int64_t step, bool exact)
{
    const bx_mesh *mesh = halo->mesh;
    context c = {.halo = halo, .fields = halo->fields[copy], .act = act};
    if (act != ADD) BX_ALLOC((size_t)(mesh->fields * mesh->width), c.amplitude);
    for (int f = 0; f < mesh->fields && act != ADD; f++)
        bx_wave_at(&mesh->waves[f], step, exact, &c.amplitude[f * mesh->width]);
    mesh->kind->visit(mesh, treat_cell, &c);
    free(c.amplitude);
    return c;
}

void bx_verify_fill(const bx_halo *halo)
{
    const bx_mesh *mesh = halo->mesh;
    for (int copy = 0; copy < 2; copy++) {
        for (int f = 0; f < mesh->fields; f++) {
            double *field = &halo->fields[copy][f * mesh->stride];
#pragma omp parallel for schedule(static)
            for (int64_t i = 0; i < mesh->stride; i++) field[i] = NAN;
        }
        if (copy == 0 || mesh->continues) visit_cells(halo, copy, WRITE, -copy, false);
        if (mesh->kind->mask) mesh->kind->mask(mesh, halo->fields[copy]);
    }
}

double bx_verify_error(const bx_halo *halo, int copy, int64_t step, bool exact)
{
    return visit_cells(halo, copy, COMPARE, step, exact).error;
}

uint64_t bx_verify_checksum(const bx_halo *halo, int copy)
{
    uint64_t sum = visit_cells(halo, copy, ADD, 0, false).sum;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, halo->comm);
    return sum;
}

/* ---- the exchange ---- */

static double mark_of(const bx_halo *halo, int64_t cell, int f, int level)
{
    uint64_t seed = (uint64_t)(f * halo->mesh->width + level);
    return bx_random_uniform(bx_random_hash(bx_run_seed(halo->mesh->run), seed), (uint64_t)cell);
}

typedef enum { MARK, CLEAR, COUNT_WRONG, HASH } action;

/* Does something to all numbers of a peer; returns the wrong bytes, or a hash. */
static uint64_t treat(const bx_halo *halo, const bx_peer *peer, int copy, action act)
{
    const bx_mesh *mesh = halo->mesh;
    uint64_t result = 0;
    for (int64_t i = 0; i < peer->count; i++)
        for (int f = 0; f < mesh->fields; f++)
            for (int l = 0; l < mesh->width; l++) {
                double *number =
                    &halo->fields[copy][f * mesh->stride + peer->places[i] * mesh->width + l];
                double mark = act == HASH ? 0 : mark_of(halo, peer->cells[i], f, l);
                if (act == MARK) *number = mark;
                if (act == CLEAR) *number = NAN;
                if (act == COUNT_WRONG)
                    result +=
                        (uint64_t)bx_verification_wrong_bytes(bits_of(*number), bits_of(mark));
                if (act == HASH) result = bx_random_hash(result, bits_of(*number));
            }
    return result;
}

void bx_verify_mark(const bx_halo *halo, int copy)
{
    for (int i = 0; i < halo->receive_count; i++) treat(halo, &halo->receives[i], copy, CLEAR);
    treat(halo, &halo->own_receives, copy, CLEAR);
    for (int i = 0; i < halo->send_count; i++) treat(halo, &halo->sends[i], copy, MARK);
    treat(halo, &halo->own_sends, copy, MARK);
}

double bx_verify_wrong_bytes(const bx_halo *halo, int copy)
{
    uint64_t wrong = treat(halo, &halo->own_receives, copy, COUNT_WRONG);
    for (int i = 0; i < halo->receive_count; i++)
        wrong += treat(halo, &halo->receives[i], copy, COUNT_WRONG);
    return (double)wrong;
}

double bx_verify_unequal(const bx_halo *halo, int copy)
{
    int sends = halo->send_count, receives = halo->receive_count;
    uint64_t *hashes = bx_memory_alloc((size_t)(sends + receives), sizeof *hashes);
    MPI_Request *requests = bx_memory_alloc((size_t)(sends + receives), sizeof *requests);
    for (int i = 0; i < receives; i++)
        MPI_Irecv(&hashes[i], 1, MPI_UINT64_T, halo->receives[i].rank, TAG, halo->comm,
                  &requests[i]);
    for (int i = 0; i < sends; i++) {
        hashes[receives + i] = treat(halo, &halo->sends[i], copy, HASH);
        MPI_Isend(&hashes[receives + i], 1, MPI_UINT64_T, halo->sends[i].rank, TAG, halo->comm,
                  &requests[receives + i]);
    }
    MPI_Waitall(sends + receives, requests, MPI_STATUSES_IGNORE);
    double unequal =
        treat(halo, &halo->own_sends, copy, HASH) != treat(halo, &halo->own_receives, copy, HASH);
    for (int i = 0; i < receives; i++)
        unequal += treat(halo, &halo->receives[i], copy, HASH) != hashes[i];
    BX_FREE(hashes, requests);
    return unequal;
}
