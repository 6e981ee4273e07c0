/* What runs on a device, compiled there by CUDA's or HIP's compiler: see bx_device.move.  Tests
 * compile it for the host. */
/* clang-format off */
BX_DEVICE_SOURCE(
    typedef struct { unsigned long long a, b; } __attribute__((aligned(16))) bx_item;

    BX_DEVICE_FUNCTION void bx_move(bx_item *to, const int *to_index, const bx_item *from,
                                    const int *from_index, unsigned long long count)
    {
        unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
        unsigned long long at = i, from_at = i;
        if (i >= count) return;
        if (to_index) at = (unsigned long long)to_index[i];
        if (from_index) from_at = (unsigned long long)from_index[i];
        to[at] = from[from_at];
    })
/* clang-format on */
