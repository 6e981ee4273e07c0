#include "noise.h"

#include "host.h"

enum { TURNS = 8192 }; /* of a chain: about 50 us at 2.6 GHz, short beside what interrupts a core */

void bx_noise_measure_quanta(bx_noise_quanta *quanta, int threads, int64_t count)
{
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int t = 0; t < threads; t++) {
        bx_noise_quanta sums = quanta[t];
        for (int64_t i = 0; i < count; i++) {
            bool right;
            double seconds = bx_host_run_chain(TURNS, &right);
            if (sums.count == 0 || seconds < sums.least) sums.least = seconds;
            if (seconds > sums.most) sums.most = seconds;
            sums.sum += seconds;
            sums.count++;
            sums.wrong += !right;
        }
        sums.thread = bx_noise_thread();
        quanta[t] = sums;
    }
}
