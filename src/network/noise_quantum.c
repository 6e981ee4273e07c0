#include "noise.h"

#include "host.h"

enum { TURNS = 8192 }; /* of a chain: about 50 us at 2.6 GHz, short beside what interrupts a core */

void bx_noise_measure_quanta(bx_noise_quanta *quanta, int threads, int64_t count)
{
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int t = 0; t < threads; t++) {
        bx_noise_quanta own = quanta[t];
        for (int64_t i = 0; i < count; i++) {
            bool right;
            double seconds = bx_host_run_chain(TURNS, &right);
            if (own.count == 0 || seconds < own.least) own.least = seconds;
            if (seconds > own.most) own.most = seconds;
            own.sum += seconds;
            own.count++;
            own.wrong += !right;
        }
        own.thread = bx_noise_thread();
        quanta[t] = own;
    }
}
