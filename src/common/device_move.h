/* What runs on a device, compiled there by CUDA's or HIP's compiler: see bx_device.move.  Tests
 * compile it for the host. */
/* clang-format off */
BX_DEVICE_SOURCE(
    BX_DEVICE_FUNCTION void bx_move(unsigned long long *to, const int *to_index,
                                    const unsigned long long *from, const int *from_index,
                                    unsigned long long count, unsigned long long words)
    {
        unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
        unsigned long long word = i % words, at = i / words, from_at = at;
        if (at >= count) return;
        if (from_index) from_at = (unsigned long long)from_index[at];
        if (to_index) at = (unsigned long long)to_index[at];
        to[at * words + word] = from[from_at * words + word];
    })
/* clang-format on */
