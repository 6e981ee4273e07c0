/* One-sided block Jacobi on a ring of ranks, after R. J. Littlefield and K. J. Maschhoff
 * (Theor. Chim. Acta 84, 1993) and the BFG code of HPCxTR0417 (2004), section 5.2.
 *
 * Columns of V and of W = A V lie in blocks, two in each of the pairs of a rank.  For a pair, the
 * small matrix V'W is diagonalised, and both blocks of V and W are turned by its vectors.  All
 * blocks stand in a row, and those of a pair change places.  Next, pairs are of the neighbours that
 * were of different pairs: the odd-even ordering (F. T. Luk and H. Park, SIAM J. Sci. Stat. Comput.
 * 10, 1989).  A sweep of as many rounds as blocks brings each pair together once, and reverses the
 * row. Each rank sends one block a round, to a neighbour on the ring: first to the left, then back.
 *
 * Memory: V and W, 2 n^2/ranks numbers, and little else, known beforehand.  W takes the place of
 * the matrix, unless there is a guess of V: then the matrix is needed until W is computed. */
#include "charge.h"
#include "libraries.h"
#include "solver.h"

#include <string.h>

/* Rounds of a hollow run, which has one sweep: each is as long as the others. */
enum { HOLLOW_ROUNDS = 4 };
enum { LARGEST_BLOCK = 192, SMALLEST_BLOCK = 32, ROWS = 128, PIECE = 1 << 16, MOST_SWEEPS = 40 };

/* Widest block, so that the small matrices are within a few percent of V and W. */
static int widest(int n, int ranks)
{
    int width = (int)(0.06 * n / sqrt(ranks));
    return width < SMALLEST_BLOCK ? SMALLEST_BLOCK : width > LARGEST_BLOCK ? LARGEST_BLOCK : width;
}

/* Pairs of blocks of each rank. */
static int pairs_of(int n, int ranks)
{
    int pairs = (n + 2 * ranks * widest(n, ranks) - 1) / (2 * ranks * widest(n, ranks));
    return pairs < 1 ? 1 : pairs;
}

static int first_of_block(int n, int blocks, int block)
{
    return (int)((int64_t)n * block / blocks);
}

/* The first column of a rank's part of the matrix. */
static int first_column(int n, int ranks, int rank)
{
    int pairs = pairs_of(n, ranks);
    return first_of_block(n, 2 * pairs * ranks, 2 * pairs * rank);
}

typedef struct {
    int n, parts, pairs, blocks, width; /* width: of the widest block */
    size_t stride;                      /* doubles of a block */
    int rank, ranks;
    MPI_Comm ring;
    double *v, *w, *own_w; /* [2 pairs][stride] */
    double *records;       /* [2 pairs][width + 2] eigenvalues, number of the block, known? */
    int *row;              /* [2 pairs] places of this rank's blocks, in their order */
    double *small;         /* [2 width][2 width] parts */
    double *rotated;       /* [2 width][ROWS] parts */
    double *values, *panel;
    bx_lapack lapack;  /* of the small matrix */
    double limit;      /* what is zero */
    int64_t rotations; /* of pairs, in this sweep */
} jacobi;

static double *record_of(const jacobi *s, int place)
{
    return s->records + (size_t)place * ((size_t)s->width + 2);
}

static int number_of(const jacobi *s, int place) { return (int)record_of(s, place)[s->width]; }

static int width_of(const jacobi *s, int place)
{
    int g = number_of(s, place);
    return first_of_block(s->n, s->blocks, g + 1) - first_of_block(s->n, s->blocks, g);
}

static void multiply(const jacobi *s, const char *transposed, int m, int n, int k, const double *a,
                     int lda, const double *b, int ldb, double factor, double *c, int ldc)
{
    double one[2] = {1, 0}, beta[2] = {factor, 0};
    if (m == 0 || n == 0) return;
    if (s->parts == 2)
        zgemm_(*transposed == 'T' ? "C" : "N", "N", &m, &n, &k, one, a, &lda, b, &ldb, beta, c,
               &ldc, 1, 1);
    else
        dgemm_(transposed, "N", &m, &n, &k, one, a, &lda, b, &ldb, beta, c, &ldc, 1, 1);
}

static double *small_at(const jacobi *s, int i, int j)
{
    return s->small + ((size_t)j * 2 * (size_t)s->width + (size_t)i) * (size_t)s->parts;
}

/* Writes the diagonal block of V'W for a block to the small matrix at `first`: eigenvalues alone
 * where they are known. */
static void put_diagonal(const jacobi *s, int place, int first)
{
    int width = width_of(s, place);
    size_t at = (size_t)place * s->stride;
    if (record_of(s, place)[s->width + 1] > 0)
        for (int j = 0; j < width; j++) {
            memset(small_at(s, first, first + j), 0, (size_t)(width * s->parts) * sizeof *s->small);
            *small_at(s, first + j, first + j) = record_of(s, place)[j];
        }
    else
        multiply(s, "T", width, width, s->n, s->v + at, s->n, s->w + at, s->n, 0,
                 small_at(s, first, first), 2 * s->width);
}

/* The norm of what is off the diagonal in the upper triangle of the small matrix. */
static double off_diagonal(const jacobi *s, int size)
{
    double sum = 0;
    for (int j = 0; j < size; j++)
        for (int i = 0; i < j * s->parts; i++) sum += pow(small_at(s, 0, j)[i], 2);
    return sqrt(sum);
}

/* Multiplies two blocks of V or W by the vectors in `small`. */
static void rotate(const jacobi *s, double *field, int one, int two)
{
    int widths[2] = {width_of(s, one), width_of(s, two)}, size = widths[0] + widths[1];
    double *blocks[2] = {field + (size_t)one * s->stride, field + (size_t)two * s->stride};
    for (int row = 0; row < s->n; row += ROWS) {
        int rows = s->n - row < ROWS ? s->n - row : ROWS;
        size_t shift = (size_t)row * (size_t)s->parts;
        multiply(s, "N", rows, size, widths[0], blocks[0] + shift, s->n, small_at(s, 0, 0),
                 2 * s->width, 0, s->rotated, ROWS);
        multiply(s, "N", rows, size, widths[1], blocks[1] + shift, s->n, small_at(s, widths[0], 0),
                 2 * s->width, 1, s->rotated, ROWS);
        for (int j = 0; j < size; j++) {
            int side = j >= widths[0], column = j - side * widths[0];
            memcpy(blocks[side] + shift + (size_t)column * (size_t)(s->n * s->parts),
                   s->rotated + (size_t)j * ROWS * (size_t)s->parts,
                   (size_t)(rows * s->parts) * sizeof *field);
        }
    }
}

/* Makes two blocks diagonal together, smaller eigenvalues in the block of the smaller number.
 * Returns INFO. */
static int diagonalise_pair(jacobi *s, int one, int two)
{
    if (number_of(s, one) > number_of(s, two)) return diagonalise_pair(s, two, one);
    int widths[2] = {width_of(s, one), width_of(s, two)}, size = widths[0] + widths[1], info = 0;
    int leading = 2 * s->width;
    if (size == 0) return 0;
    put_diagonal(s, one, 0);
    put_diagonal(s, two, widths[0]);
    multiply(s, "T", widths[0], widths[1], s->n, s->v + (size_t)one * s->stride, s->n,
             s->w + (size_t)two * s->stride, s->n, 0, small_at(s, 0, widths[0]), leading);
    if (bx_charge_is_hollow() || off_diagonal(s, size) > s->limit) {
        info = bx_lapack_solve(&s->lapack, "V", size, s->small, leading, s->values);
        rotate(s, s->v, one, two);
        rotate(s, s->w, one, two);
        s->rotations++;
    } else {
        for (int j = 0; j < size; j++) s->values[j] = *small_at(s, j, j);
    }
    memcpy(record_of(s, one), s->values, (size_t)widths[0] * sizeof *s->values);
    memcpy(record_of(s, two), s->values + widths[0], (size_t)widths[1] * sizeof *s->values);
    record_of(s, one)[s->width + 1] = record_of(s, two)[s->width + 1] = 1;
    return info;
}

/* Sends doubles to the rank `to`, and takes over as many of the rank `from`. */
static void replace(const jacobi *s, double *field, size_t count, int to, int from)
{
    for (size_t at = 0; at < count; at += PIECE)
        MPI_Sendrecv_replace(field + at, (int)(count - at < PIECE ? count - at : PIECE), MPI_DOUBLE,
                             to, 0, from, 0, s->ring, MPI_STATUS_IGNORE);
}

/* Sends the block at a place to the rank `to`, and takes over that of the rank `from`.  Either may
 * have one more column than the narrowest block. */
static void exchange(jacobi *s, int place, int to, int from)
{
    size_t length = (size_t)(s->n * s->parts), common = (size_t)(s->n / s->blocks) * length;
    bool more = width_of(s, place) > s->n / s->blocks;
    replace(s, record_of(s, place), (size_t)s->width + 2, to, from);
    bool more_comes = width_of(s, place) > s->n / s->blocks;
    double *fields[2] = {s->v + (size_t)place * s->stride, s->w + (size_t)place * s->stride};
    for (int field = 0; field < 2; field++) {
        replace(s, fields[field], common, to, from);
        if (more || more_comes)
            replace(s, fields[field] + common, length, more ? to : MPI_PROC_NULL,
                    more_comes ? from : MPI_PROC_NULL);
    }
}

/* Moves this rank's part of the row by a block: its first one goes to the left neighbour, the right
 * neighbour's comes last; or all the way back.  The ends are neighbours. */
static void shift(jacobi *s, bool left)
{
    int size = 2 * s->pairs, before = (s->rank + s->ranks - 1) % s->ranks;
    int after = (s->rank + 1) % s->ranks, moved = left ? s->row[0] : s->row[size - 1];
    if (s->ranks > 1) exchange(s, moved, left ? before : after, left ? after : before);
    memmove(s->row + !left, s->row + left, (size_t)(size - 1) * sizeof *s->row);
    s->row[left ? size - 1 : 0] = moved;
}

/* Turns the pairs of a round, whose blocks change places in the row; in rounds of odd numbers the
 * row is shifted by a block, and its last pair is of its two ends, which is none.  Returns INFO. */
static int turn_pairs(jacobi *s, int round)
{
    int info = 0;
    for (int pair = 0; pair < s->pairs; pair++) {
        int *one = s->row + 2 * pair, first = one[0];
        if (round % 2 == 1 && s->rank == s->ranks - 1 && pair == s->pairs - 1) break;
        int failed = diagonalise_pair(s, one[0], one[1]);
        if (failed) info = failed;
        one[0] = one[1];
        one[1] = first;
    }
    return info;
}

/* Number of this rank's blocks that are not where an even number of rounds moves them, of a sweep
 * that began with the row in its order, or reversed.  Blocks of even places go to the right, the
 * others to the left; at an end a block rests for a round, and turns back. */
static int count_misplaced(const jacobi *s, int rounds, bool reversed)
{
    int wrong = 0;
    for (int i = 0; i < 2 * s->pairs; i++) {
        int at = 2 * s->pairs * s->rank + i, path = 2 * s->blocks; /* along the row and back */
        int from = ((at % 2 == 0 ? at : path - 1 - at) + path - rounds) % path;
        if (from >= s->blocks) from = path - 1 - from;
        wrong += number_of(s, s->row[i]) != (reversed ? s->blocks - 1 - from : from);
    }
    return wrong;
}

/* W = A V, where V is a guess: the ranks' parts of the matrix go round in panels. */
static void apply_matrix(jacobi *s, const bx_problem *p)
{
    int columns = 2 * s->pairs;
    memset(s->w, 0, (size_t)columns * s->stride * sizeof *s->w);
    for (int owner = 0; owner < s->ranks; owner++) {
        int first = first_column(s->n, s->ranks, owner);
        int last = first_column(s->n, s->ranks, owner + 1);
        for (int column = first; column < last; column += s->width) {
            int width = last - column < s->width ? last - column : s->width;
            double *panel = s->panel;
            size_t count = (size_t)s->n * (size_t)(width * s->parts);
            if (owner == s->rank)
                memcpy(panel, p->a + (size_t)(column - first) * (size_t)(s->n * s->parts),
                       count * sizeof *panel);
            MPI_Bcast(panel, (int)count, MPI_DOUBLE, owner, s->ring);
            for (int place = 0; place < columns; place++)
                multiply(s, "N", s->n, width_of(s, place), width, panel, s->n,
                         s->v + (size_t)place * s->stride + (size_t)(column * s->parts), s->n, 1,
                         s->w + (size_t)place * s->stride, s->n);
        }
    }
}

/* Spreads columns that lie one after the other, or an identity, over the blocks; from the last. */
static void spread(const jacobi *s, double *field, bool identity)
{
    if (bx_charge_is_hollow()) return;
    size_t length = (size_t)(s->n * s->parts);
    int first = first_column(s->n, s->ranks, s->rank);
    for (int place = 2 * s->pairs - 1; place >= 0; place--) {
        int from = first_of_block(s->n, s->blocks, number_of(s, place));
        double *block = field + (size_t)place * s->stride;
        if (identity) {
            memset(block, 0, s->stride * sizeof *block);
            for (int j = 0; j < width_of(s, place); j++)
                block[(size_t)j * length + (size_t)((from + j) * s->parts)] = 1;
        } else {
            memmove(block, field + (size_t)(from - first) * length,
                    (size_t)width_of(s, place) * length * sizeof *block);
        }
    }
}

/* Puts the columns one after the other, with the norm that many turns have changed; eigenvalues are
 * Rayleigh's quotients. */
static void gather(const jacobi *s, bx_problem *p)
{
    if (bx_charge_is_hollow()) return;
    size_t length = (size_t)(s->n * s->parts), columns = 0;
    memset(p->w, 0, (size_t)s->n * sizeof *p->w);
    for (int place = 0; place < 2 * s->pairs; place++) {
        int first = first_of_block(s->n, s->blocks, number_of(s, place));
        for (int j = 0; j < width_of(s, place); j++) {
            const double *v = s->v + (size_t)place * s->stride + (size_t)j * length;
            const double *w = s->w + (size_t)place * s->stride + (size_t)j * length;
            double product = 0, square = 0, *column = p->v + columns * length;
            for (size_t i = 0; i < length; i++) {
                product += v[i] * w[i];
                square += v[i] * v[i];
            }
            p->w[first + j] = product / square;
            p->number[columns++] = first + j;
            for (size_t i = 0; i < length; i++) column[i] = v[i] / sqrt(square);
        }
    }
    MPI_Allreduce(MPI_IN_PLACE, p->w, s->n, MPI_DOUBLE, MPI_SUM, s->ring);
}

/* The limit below which the off-diagonal part of a pair is rounding: that of a block's products. */
static double zero_limit(const jacobi *s, const bx_problem *p)
{
    double squares = 0;
    size_t count = (size_t)p->distribution->columns * (size_t)(s->n * s->parts);
    for (size_t i = 0; i < count; i++) squares += p->a[i] * p->a[i];
    MPI_Allreduce(MPI_IN_PLACE, &squares, 1, MPI_DOUBLE, MPI_SUM, s->ring);
    return (4 + s->width / 4.0) * 0x1p-53 * sqrt(squares);
}

static int solve(void *self, bx_problem *p)
{
    jacobi *s = self;
    int info = 0;
    int64_t rotations = 1;
    s->v = p->v;
    s->w = s->own_w ? s->own_w : p->a;
    for (int place = 0; place < 2 * s->pairs; place++) {
        record_of(s, place)[s->width] = 2 * s->pairs * s->rank + place;
        record_of(s, place)[s->width + 1] = bx_charge_is_hollow(); /* as in later rounds */
        s->row[place] = place;
    }
    s->limit = zero_limit(s, p);
    spread(s, s->v, p->guess_error < 0);
    if (s->own_w)
        apply_matrix(s, p);
    else
        spread(s, s->w, false);
    for (p->sweeps = 0; rotations > 0 && p->sweeps < MOST_SWEEPS; p->sweeps++) {
        bx_run_progress(p->run, p->sweeps + 1);
        s->rotations = 0;
        int rounds = s->blocks;
        if (bx_charge_is_hollow() && rounds > HOLLOW_ROUNDS) rounds = HOLLOW_ROUNDS;
        bx_charge_pay();
        double since = MPI_Wtime();
        for (int round = 0; round < rounds; round++) {
            int failed = turn_pairs(s, round);
            if (failed) info = failed;
            bx_run_lap(p->run, BX_SOLVE);
            shift(s, round % 2 == 0);
            bx_run_lap(p->run, BX_RING);
        }
        int misplaced = count_misplaced(s, rounds, p->sweeps % 2 == 1);
        if (misplaced > 0) info = misplaced;
        if (rounds < s->blocks) bx_charge_repeat(s->ring, since, (double)s->blocks / rounds - 1);
        if (bx_charge_is_hollow()) s->rotations = 0; /* the last sweep */
        MPI_Allreduce(&s->rotations, &rotations, 1, MPI_INT64_T, MPI_SUM, s->ring);
    }
    int mirror = s->ranks - 1 - s->rank;
    if (p->sweeps % 2 == 1 && mirror != s->rank && !bx_charge_is_hollow()) /* back to their ranks */
        for (int i = 0; i < 2 * s->pairs; i++) exchange(s, s->row[i], mirror, mirror);
    gather(s, p);
    return info ? info : rotations > 0 ? MOST_SWEEPS : 0;
}

static size_t doubles_of_blocks(const bx_problem *p, int *pairs, int *width)
{
    const bx_distribution *d = p->distribution;
    *pairs = pairs_of(d->n, d->ranks);
    *width = (d->n + 2 * *pairs * d->ranks - 1) / (2 * *pairs * d->ranks);
    return (size_t)d->n * (size_t)(*width * p->parts);
}

static size_t capacity(const bx_problem *p)
{
    int pairs, width;
    size_t stride = doubles_of_blocks(p, &pairs, &width);
    return 2 * (size_t)pairs * stride;
}

static void *create(const bx_problem *p)
{
    const bx_distribution *d = p->distribution;
    jacobi *s = bx_memory_alloc(1, sizeof *s);
    s->n = d->n;
    s->parts = p->parts;
    s->rank = d->rank;
    s->ranks = d->ranks;
    s->ring = d->team;
    s->stride = doubles_of_blocks(p, &s->pairs, &s->width);
    s->blocks = 2 * s->pairs * s->ranks;
    int size = 2 * s->width;
    size_t parts = (size_t)s->parts, places = 2 * (size_t)s->pairs;
    bool guessed = p->guess_error >= 0;
    size_t counts[] = {guessed ? places * s->stride : 0, guessed ? s->stride : 0,
                       places * ((size_t)s->width + 2),  (size_t)size * (size_t)size * parts,
                       (size_t)size * ROWS * parts,      (size_t)size};
    double **fields[] = {&s->own_w, &s->panel, &s->records, &s->small, &s->rotated, &s->values};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        *fields[i] = counts[i] > 0 ? bx_solver_workspace(p, counts[i]) : NULL;
    s->lapack = bx_lapack_create(p, size);
    BX_ALLOC(places, s->row);
    return s;
}

static void destroy(void *self)
{
    jacobi *s = self;
    bx_lapack_free(&s->lapack);
    BX_FREE(s->own_w, s->panel, s->records, s->small, s->rotated, s->values, s->row, s);
}

const bx_solver bx_solver_jacobi = {
    .about = {.name = "jacobi",
              .summary = "one-sided block Jacobi on a ring, memory 2 n^2/ranks",
              .wins = "a good guess of the vectors (--guess-error); little memory",
              .family = "solver",
              .calls = "Sendrecv_replace Bcast Allreduce"},
    .cost = 25,
    .orthogonality = 10,
    .first_column = first_column,
    .capacity = capacity,
    .create = create,
    .solve = solve,
    .destroy = destroy,
};
