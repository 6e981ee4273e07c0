#include "noise.h"

#include <string.h>

/* What is where nothing has arrived. */
enum { CLEAR = 0xa5 };
static const uint64_t CLEAR_WORD = UINT64_C(0x0101010101010101) * CLEAR;

/* Word w of part t in copy `generation`; only the first and the last word differ between copies,
 * which is cheap to renew. */
static uint64_t content(const bx_noise_memory *m, int t, size_t w)
{
    uint64_t word = bx_random_hash(m->seed + (uint64_t)t, w);
    return w == 0 || w + 1 == m->words ? word ^ m->generation : word;
}

void bx_noise_fill(bx_noise_memory *m)
{
#pragma omp parallel for num_threads(m->threads) schedule(static, 1)
    for (int t = 0; t < m->threads; t++) {
        size_t at = (size_t)t * m->words;
        for (size_t w = 0; w < m->words; w++) m->from[at + w] = content(m, t, w);
        memset(&m->to[at], CLEAR, m->words * sizeof *m->to);
    }
}

void bx_noise_renew(bx_noise_memory *m)
{
    m->generation++;
    for (int t = 0; t < m->threads; t++) {
        uint64_t *from = &m->from[(size_t)t * m->words];
        m->copied_by[t] = -1;
        from[0] = content(m, t, 0);
        from[m->words - 1] = content(m, t, m->words - 1);
    }
#pragma omp parallel for num_threads(m->threads) schedule(static, 1)
    for (int t = 0; t < m->threads; t++)
        memset(&m->to[(size_t)t * m->words], CLEAR, m->words * sizeof *m->to);
}

void bx_noise_copy(bx_noise_memory *m, int threads)
{
    if (threads == 0) return; /* num_threads(0) would be all */
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int t = 0; t < threads; t++) {
        size_t at = (size_t)t * m->words;
        memcpy(&m->to[at], &m->from[at], m->words * sizeof *m->to);
        m->copied_by[t] = bx_noise_thread();
    }
}

double bx_noise_wrong_bytes(const bx_noise_memory *m, int threads)
{
    double wrong = 0;
#pragma omp parallel for num_threads(m->threads) schedule(static, 1) reduction(+ : wrong)
    for (int t = 0; t < m->threads; t++) {
        const uint64_t *to = &m->to[(size_t)t * m->words];
        for (size_t w = 0; w < m->words; w++)
            wrong +=
                bx_verification_wrong_bytes(to[w], t < threads ? content(m, t, w) : CLEAR_WORD);
    }
    return wrong;
}
