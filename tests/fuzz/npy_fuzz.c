/* npy_fuzz.c -- any bytes at all as a .npy file: a header, or a clear error. */
#include <stdlib.h>
#include <string.h>
#include "train/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zi_train_diag diag = {""};
    zi_npy_header h;

    zico_status st = zi_npy_parse(data, size, size, &diag, &h);
    if (st < 0) {
        if (!diag.text[0]) abort(); /* every refusal says why */
        return 0;
    }
    /* what passed describes data that is there */
    if (h.data_off + h.n_elems * h.elem_bytes != size) abort();
    for (uint64_t i = 0; i < h.n_elems && i < 64; i++) {
        uint8_t one[8] = {0};
        memcpy(one, data + h.data_off + i * h.elem_bytes, h.elem_bytes);
        (void)zi_npy_f64(h.type, one);
        if (h.type > ZI_NPY_F64) (void)zi_npy_i64(h.type, one);
    }
    return 0;
}
